/** A history is stored once, however long it becomes: older entries in chunks, requests in blocks that they share. */
export const growthTables = [
  `create table entry_chunks (
    id {text} primary key,
    parent {text},
    bytes {bytes} not null
  )`,
  `create table request_blocks (
    hash {text} primary key,
    bytes {bytes} not null,
    uses {int} not null
  )`,
  // JSON: the hashes of the blocks that the request is made of; null when it is in the row or in a blob.
  'alter table responses add column request_blocks {text}',
  'create index responses_by_segment on responses (segment, id)',
  'create index checkpoints_by_session on checkpoints (conversation_id, work_session, number)',
]
