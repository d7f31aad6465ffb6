/** Lines that conversations have left, what was collected of them, and the record of who deleted what. */
export const lineTables = [
  `create table left_lines (
    no {serial},
    conversation_id {text} not null,
    segment {int} not null,
    seq {int} not null,
    message_id {text},
    cut_after {int},
    checkpoint_id {text},
    left_at {text} not null,
    is_expired {int} not null
  )`,
  'create index left_lines_by_conversation on left_lines (conversation_id)',
  'create index left_lines_unexpired on left_lines (left_at) where is_expired = 0',
  `create table audit (
    no {serial},
    at {text} not null,
    tenant_id {text},
    by_whom {text} not null,
    action {text} not null,
    conversation_id {text},
    details {text} not null
  )`,
  'create index audit_by_tenant on audit (tenant_id, no)',
  `create table counters (
    name {text} primary key,
    value {int} not null
  )`,
  'alter table conversations add column is_expired {int} not null default 0',
  'create index conversations_by_parent on conversations (parent_conversation_id)',
  // The last event that the segment had before the collector took those that no line reaches; null while it has all.
  'alter table segments add column collected_to {int}',
  'alter table tool_outputs add column output_ref {text}',
  'create index tool_outputs_by_ref on tool_outputs (output_ref) where output_ref is not null',
  'create index agent_checkpoints_by_id on agent_checkpoints (checkpoint_id)',
  'create index checkpoints_by_id on checkpoints (checkpoint_id)',
  // What was stored before is projected anew, when the server has started.
  'delete from messages',
  'delete from titles',
  'delete from branches',
  'delete from agent_checkpoints',
  'delete from tool_outputs',
  'delete from checkpoints',
  'delete from session_closings',
  'delete from file_edits',
  'delete from unprojected',
  'insert into unprojected (segment, projected_seq) select no, cut from segments',
]
