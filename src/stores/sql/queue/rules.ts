import { hash } from 'node:crypto'
import { type Grant, type Rule, type RuleQuery, ruleSubjects } from '../../../core/questions.ts'
import { audit } from '../conversations/audit.ts'
import type { Dialect } from '../dialect.ts'
import type { Schema } from '../schema.ts'
import { all, type Script } from '../script.ts'

/** Finds the narrowest rule that allows a call without asking. The workspace is '' for a conversation without files. */
export function* findRule({ db }: Dialect, query: RuleQuery): Script<Rule | null> {
  const { conversationId } = query
  const wanted = ruleSubjects(query.subject).flatMap((one) => [
    keyOf({ ...one, conversationId }),
    keyOf({ ...one, conversationId: null }),
  ])
  const rows = yield* all(
    db
      .selectFrom('rules')
      .selectAll()
      .where('tenant_id', '=', query.tenant)
      .where('workspace_id', '=', query.workspaceId ?? '')
      .where('tool_name', '=', query.toolName)
      .where('subject_sha256', 'in', wanted),
  )
  const [row] = rows.sort((a, b) => wanted.indexOf(a.subject_sha256) - wanted.indexOf(b.subject_sha256))
  return row ? asRule(row) : null
}

/** What makes a rule unique. Rules of earlier versions are exact ones for the whole workspace. */
function keyOf({
  match,
  subject,
  conversationId,
}: Pick<Rule, 'match' | 'subject' | 'conversationId'>): string {
  const isPlain = match === 'exact' && conversationId === null
  return hash('sha256', isPlain ? subject : JSON.stringify([match, subject, conversationId]))
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

export interface NewRule extends Rule {
  tenant: string
}

export function* putRule(dialect: Dialect, rule: NewRule): Script<void> {
  const { db } = dialect
  const { id: rule_id, toolName: tool_name, tenant, by } = rule
  const at = Date.parse(rule.createdAt)
  const made = { rule_id, tool_name, match: rule.match }
  const { conversationId } = rule
  yield* audit(dialect, { tenant, by, at, action: 'rule.created', conversationId, details: made })
  const { match, conversationId: conversation_id } = rule
  const grants = JSON.stringify({ ...rule.grant, is_confined: rule.isConfined, match, conversation_id })
  yield* all(
    db
      .insertInto('rules')
      .values({
        id: rule.id,
        tenant_id: rule.tenant,
        workspace_id: rule.workspaceId ?? '',
        tool_name: rule.toolName,
        subject: rule.subject,
        subject_sha256: keyOf(rule),
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
  dialect: Dialect,
  { tenant, id, by, now }: { tenant: string; id: string; by: string; now: number },
): Script<{ isRemoved: boolean }> {
  const [row] = yield* all(
    dialect.db.deleteFrom('rules').where('tenant_id', '=', tenant).where('id', '=', id).returningAll(),
  )
  if (!row) return { isRemoved: false }
  const { toolName, match, conversationId } = asRule(row)
  const details = { rule_id: id, tool_name: toolName, match }
  yield* audit(dialect, { tenant, by, at: now, action: 'rule.removed', conversationId, details })
  return { isRemoved: true }
}

interface StoredGrants extends Grant {
  is_confined: boolean
  /** Missing in rules of earlier versions. */
  match?: Rule['match']
  conversation_id?: string | null
}

function asRule(row: Schema['rules']): Rule {
  const { is_confined: isConfined, match = 'exact', ...others } = JSON.parse(row.grants) as StoredGrants
  const { conversation_id: conversationId = null, network, outside } = others
  return {
    id: row.id,
    workspaceId: row.workspace_id || null,
    conversationId,
    toolName: row.tool_name,
    match,
    subject: row.subject,
    grant: { network, outside },
    isConfined,
    by: row.made_by,
    createdAt: row.created_at,
  }
}
