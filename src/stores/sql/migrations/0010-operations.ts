/** What people have changed, to undo and redo it. */
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
]
