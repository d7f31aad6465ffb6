/** The words of messages, calls, outputs and edits, with an index that triggers keep up to date. */
export const searchTables = [
  `create table searched (
    segment {int} not null,
    seq {int} not null,
    conversation_id {text} not null,
    kind {text} not null,
    tool {text},
    path {text},
    created_at {text} not null,
    words {text} not null,
    primary key (segment, seq)
  )`,
  'create index searched_by_time on searched (created_at, segment, seq)',
  {
    sqlite: `create virtual table searched_words using fts5(
      words, content='', detail=none, tokenize="ascii tokenchars '_-'"
    )`,
    postgres: `alter table searched add column vector tsvector
      generated always as (array_to_tsvector(string_to_array(words, ' '))) stored`,
  },
  {
    sqlite: `create trigger searched_added after insert on searched begin
      insert into searched_words (rowid, words) values (new.segment * 4294967296 + new.seq, new.words);
    end`,
    postgres: 'create index searched_by_word on searched using gin (vector) with (fastupdate = off)',
  },
  {
    sqlite: `create trigger searched_removed after delete on searched begin
      insert into searched_words (searched_words, rowid, words)
        values ('delete', old.segment * 4294967296 + old.seq, old.words);
    end`,
    postgres: null,
  },
  // Otherwise the words of removed rows stay in the file until a merge (D3).
  {
    sqlite: "insert into searched_words (searched_words, rank) values ('secure-delete', 1)",
    postgres: null,
  },
  // All projections are built again at the next start, because the events of earlier versions have no words yet.
  'delete from messages',
  'delete from titles',
  'delete from branches',
  'delete from agent_checkpoints',
  'delete from tool_outputs',
  'delete from checkpoints',
  'delete from session_closings',
  'delete from file_edits',
  'delete from memories',
  'delete from attachments',
  'delete from unprojected',
  'insert into unprojected (segment, projected_seq) select no, cut from segments',
]
