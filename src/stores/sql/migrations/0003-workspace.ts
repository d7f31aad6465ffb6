/** Checkpoints, work sessions and file edits, and what is being changed in a workspace. */
export const workspaceTables = [
  `create table workspaces (
    id {text} primary key,
    change_id {text},
    change_details {text}
  )`,
  `create table checkpoints (
    segment {int} not null,
    seq {int} not null,
    conversation_id {text} not null,
    run_id {text},
    checkpoint_id {text} not null,
    work_session {text} not null,
    label {text} not null,
    files {int} not null,
    changed {int} not null,
    excluded {int} not null,
    number {int} not null,
    created_at {text} not null,
    unique (segment, seq)
  )`,
  'create index checkpoints_by_conversation on checkpoints (conversation_id, created_at)',
  `create table session_closings (
    segment {int} not null,
    seq {int} not null,
    conversation_id {text} not null,
    work_session {text} not null,
    status {text} not null,
    checkpoint_id {text} not null,
    next_session {text} not null,
    created_at {text} not null,
    unique (segment, seq)
  )`,
  'create index session_closings_by_conversation on session_closings (conversation_id, created_at)',
  `create table file_edits (
    segment {int} not null,
    seq {int} not null,
    conversation_id {text} not null,
    run_id {text},
    tool_call_id {text},
    path {text} not null,
    change {text} not null,
    additions {int} not null,
    deletions {int} not null,
    diff {bytes},
    created_at {text} not null,
    unique (segment, seq)
  )`,
  'create index file_edits_by_conversation on file_edits (conversation_id, created_at)',
  'create index messages_by_run on messages (run_id)',
  // What was stored before these tables came is projected anew, when the server has started.
  'delete from messages',
  'delete from titles',
  'delete from branches',
  'delete from agent_checkpoints',
  'delete from tool_outputs',
  'delete from unprojected',
  'insert into unprojected (segment, projected_seq) select no, cut from segments',
]
