/** What people have changed, to undo and redo it; and what runs did, for statistics, which the rebuild of 0009 fills. */
export const operationTables = [
  `create table operations (
    no {serial},
    tenant_id {text} not null,
    conversation_id {text} not null,
    at {text} not null,
    by_whom {text} not null,
    kind {text} not null,
    details {text} not null,
    is_undone {int} not null
  )`,
  'create index operations_by_conversation on operations (conversation_id, no)',
  `create table activity (
    segment {int} not null,
    seq {int} not null,
    conversation_id {text} not null,
    run_id {text},
    kind {text} not null,
    name {text} not null,
    detail {text},
    status {text} not null,
    input_tokens {int} not null,
    output_tokens {int} not null,
    cached_tokens {int} not null,
    created_at {text} not null,
    primary key (segment, seq)
  )`,
  'create index activity_by_time on activity (created_at)',
]
