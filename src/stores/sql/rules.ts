import { hash } from 'node:crypto'
import type { Grant, Rule, RuleQuery } from '../../core/questions.ts'
import type { Dialect } from './dialect.ts'
import type { Schema } from './schema.ts'
import { all, first, type Script } from './script.ts'

/** Calls that are allowed without asking. One of a conversation without files has the workspace ''. */
export function* findRule({ db }: Dialect, query: RuleQuery): Script<Rule | null> {
  const row = yield* first(
    db
      .selectFrom('rules')
      .selectAll()
      .where('tenant_id', '=', query.tenant)
      .where('workspace_id', '=', query.workspaceId ?? '')
      .where('tool_name', '=', query.toolName)
      .where('subject_sha256', '=', hash('sha256', query.subject)),
  )
  return row && row.subject === query.subject ? asRule(row) : null
}

export function* listRules({ db }: Dialect, tenant: string): Script<Rule[]> {
  const rows = yield* all(
    db
      .selectFrom('rules')
      .selectAll()
      .where('tenant_id', '=', tenant)
      .orderBy('created_at', 'desc')
      .orderBy('id'),
  )
  return rows.map(asRule)
}

export interface NewRule extends RuleQuery {
  id: string
  grant: Grant
  isConfined: boolean
  by: string
  createdAt: string
}

export function* putRule({ db }: Dialect, rule: NewRule): Script<void> {
  const grants = JSON.stringify({ ...rule.grant, is_confined: rule.isConfined })
  yield* all(
    db
      .insertInto('rules')
      .values({
        id: rule.id,
        tenant_id: rule.tenant,
        workspace_id: rule.workspaceId ?? '',
        tool_name: rule.toolName,
        subject: rule.subject,
        subject_sha256: hash('sha256', rule.subject),
        grants,
        made_by: rule.by,
        created_at: rule.createdAt,
      })
      .onConflict((conflict) =>
        conflict
          .columns(['tenant_id', 'workspace_id', 'tool_name', 'subject_sha256'])
          .doUpdateSet({ grants, made_by: rule.by }),
      ),
  )
}

export function* removeRule(
  { db }: Dialect,
  { tenant, id }: { tenant: string; id: string },
): Script<{ isRemoved: boolean }> {
  const rows = yield* all(
    db.deleteFrom('rules').where('tenant_id', '=', tenant).where('id', '=', id).returning('id'),
  )
  return { isRemoved: rows.length > 0 }
}

function asRule(row: Schema['rules']): Rule {
  const { is_confined: isConfined, ...grant } = JSON.parse(row.grants) as Grant & { is_confined: boolean }
  return {
    id: row.id,
    workspaceId: row.workspace_id || null,
    toolName: row.tool_name,
    subject: row.subject,
    grant,
    isConfined,
    by: row.made_by,
    createdAt: row.created_at,
  }
}
