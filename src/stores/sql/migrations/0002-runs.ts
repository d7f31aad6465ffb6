/** The queue of messages, what the agent asks people, and what its graph remembers. */
export const runTables = [
  `create table queue (
    place {serial},
    run_id {text} not null unique,
    conversation_id {text} not null,
    tenant_id {text} not null,
    workspace_id {text},
    message_id {text} not null,
    content {text} not null,
    may_change_files {int} not null,
    state {text} not null,
    worker {text},
    lease_until {int},
    cancelled_by {text},
    created_at {text} not null,
    started_at {text}
  )`,
  // Whatever goes wrong elsewhere, one conversation never has two active runs.
  "create unique index queue_active on queue (conversation_id) where state = 'active'",
  'create index queue_by_conversation on queue (conversation_id, place)',
  `create table asks (
    run_id {text} not null,
    tool_call_id {text} not null,
    approved {int},
    reason {text},
    answered_by {text},
    primary key (run_id, tool_call_id)
  )`,
  `create table agent_states (
    thread_id {text} not null,
    namespace {text} not null,
    id {text} not null,
    parent_id {text},
    value_places {text} not null,
    state_type {text} not null,
    state {bytes} not null,
    metadata_type {text} not null,
    metadata {bytes} not null,
    primary key (thread_id, namespace, id)
  )`,
  'create index agent_states_by_id on agent_states (id)',
  `create table agent_values (
    thread_id {text} not null,
    namespace {text} not null,
    state_id {text} not null,
    channel {text} not null,
    value_type {text} not null,
    value {bytes} not null,
    primary key (thread_id, namespace, state_id, channel)
  )`,
  `create table agent_writes (
    thread_id {text} not null,
    namespace {text} not null,
    state_id {text} not null,
    task_id {text} not null,
    idx {int} not null,
    channel {text} not null,
    value_type {text} not null,
    value {bytes} not null,
    primary key (thread_id, namespace, state_id, task_id, idx)
  )`,
  `create table agent_checkpoints (
    segment {int} not null,
    seq {int} not null,
    checkpoint_id {text} not null,
    message_id {text} not null,
    unique (segment, seq)
  )`,
  `create table tool_outputs (
    segment {int} not null,
    seq {int} not null,
    tool_call_id {text} not null,
    unique (segment, seq)
  )`,
  'create index tool_outputs_by_call on tool_outputs (tool_call_id)',
]
