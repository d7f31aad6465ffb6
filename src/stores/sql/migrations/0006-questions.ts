/** The whole of what people are asked, what they grant, and the rules that they make of it. */
export const questionTables = [
  'alter table asks add column question {text}',
  'alter table asks add column grants {text}',
  `create table rules (
    id {text} primary key,
    tenant_id {text} not null,
    workspace_id {text} not null,
    tool_name {text} not null,
    subject {text} not null,
    subject_sha256 {text} not null,
    grants {text} not null,
    made_by {text} not null,
    created_at {text} not null
  )`,
  'create unique index rules_by_subject on rules (tenant_id, workspace_id, tool_name, subject_sha256)',
]
