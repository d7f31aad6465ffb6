/** The first tables. `{…}` stands for what the engines call differently; see migrate.ts. */
export const ledgerTables = [
  `create table conversations (
    id {text} primary key,
    tenant_id {text} not null,
    head_segment {int} not null,
    workspace_id {text},
    parent_conversation_id {text},
    parent_event_number {int},
    settings {text} not null,
    created_at {text} not null,
    updated_at {text} not null,
    deleted_at {text},
    deleted_by {text}
  )`,
  'create index conversations_by_change on conversations (tenant_id, updated_at, id)',
  `create table segments (
    no {serial},
    id {text} not null unique,
    conversation_id {text} not null,
    parent {int},
    cut {int} not null,
    created_at {text} not null
  )`,
  'create index segments_by_conversation on segments (conversation_id)',
  'create index segments_by_parent on segments (parent)',
  `create table unprojected (
    segment {int} primary key,
    projected_seq {int} not null
  )`,
  `create table events (
    segment {int} not null,
    seq {int} not null,
    bytes_before {int} not null,
    bytes {int} not null,
    frame {text} not null,
    blob {text},
    digest {bytes} not null,
    unique (segment, seq)
  )`,
  'create index events_by_blob on events (blob) where blob is not null',
  `create table runs (
    id {text} primary key,
    conversation_id {text} not null,
    segment {int} not null,
    epoch {int} not null,
    frames {int} not null,
    ended {int} not null
  )`,
  'create index runs_by_segment on runs (segment)',
  `create table messages (
    segment {int} not null,
    seq {int} not null,
    message_id {text} not null,
    role {text} not null,
    run_id {text},
    conversation_id {text} not null,
    checkpoint_id {text},
    created_at {text} not null,
    search_text {text} not null,
    unique (segment, seq)
  )`,
  'create index messages_by_id on messages (message_id)',
  `create table titles (
    segment {int} not null,
    seq {int} not null,
    title {text} not null,
    search_text {text} not null,
    unique (segment, seq)
  )`,
  `create table branches (
    segment {int} not null,
    seq {int} not null,
    conversation_id {text} not null,
    parent_conversation_id {text} not null,
    from_event_number {int} not null,
    created_at {text} not null,
    unique (segment, seq)
  )`,
  'create index branches_by_parent on branches (parent_conversation_id)',
  `create table tokens (
    hash {text} primary key,
    id {text} not null unique,
    tenant_id {text} not null,
    name {text} not null,
    scopes {text} not null,
    created_at {text} not null,
    expires_at {text},
    parent_id {text}
  )`,
  `create table idempotency (
    tenant_id {text} not null,
    key {text} not null,
    fingerprint {text} not null,
    response {text} not null,
    created_at {text} not null,
    primary key (tenant_id, key)
  )`,
]
