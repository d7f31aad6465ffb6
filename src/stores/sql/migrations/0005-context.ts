/** What goes with messages, what the model was asked, and what came of it. */
export const contextTables: (string | { sqlite: string | null; postgres: string | null })[] = [
  // What was sent with a message besides its words, as JSON.
  'alter table queue add column extras {text}',
  `create table responses (
    id {text} primary key,
    conversation_id {text} not null,
    segment {int} not null,
    seq {int} not null,
    run_id {text} not null,
    created_at {text} not null,
    details {text} not null,
    request {text} not null,
    request_blob {text}
  )`,
  'create index responses_by_place on responses (segment, seq)',
  'create index responses_by_blob on responses (request_blob) where request_blob is not null',
  `create table response_ends (
    id {text} primary key,
    segment {int} not null,
    seq {int} not null,
    ended_at {text} not null,
    details {text} not null,
    response {text} not null,
    response_blob {text}
  )`,
  'create index response_ends_by_place on response_ends (segment, seq)',
  'create index response_ends_by_blob on response_ends (response_blob) where response_blob is not null',
  `create table memories (
    segment {int} not null,
    seq {int} not null,
    conversation_id {text} not null,
    summary_ref {text},
    details {text} not null,
    created_at {text} not null,
    unique (segment, seq)
  )`,
  'create index memories_by_ref on memories (summary_ref) where summary_ref is not null',
  `create table attachments (
    segment {int} not null,
    seq {int} not null,
    place {int} not null,
    name {text} not null,
    sha256 {text} not null,
    bytes {int} not null,
    unique (segment, seq, place)
  )`,
  'create index attachments_by_hash on attachments (sha256)',
  `create table index_files (
    scope {text} not null,
    path {text} not null,
    sha256 {text} not null,
    language {text},
    primary key (scope, path)
  )`,
  `create table index_chunks (
    no {serial},
    scope {text} not null,
    path {text} not null,
    id {text} not null,
    start_line {int} not null,
    end_line {int} not null,
    content {text} not null,
    embedder {text},
    vector {bytes}
  )`,
  'create index index_chunks_by_path on index_chunks (scope, path)',
  'create index index_chunks_by_embedder on index_chunks (embedder)',
  {
    sqlite:
      "create virtual table index_words using fts5(words, content='', contentless_delete=1, tokenize='unicode61')",
    postgres: 'create table index_words (rowid bigint primary key, words tsvector not null)',
  },
  { sqlite: null, postgres: 'create index index_words_by_word on index_words using gin (words)' },
]
