import type { Conversation } from '../../src/protocol/api/conversations.ts'

/** A listed conversation, and its fork depth below a listed ancestor. */
export interface Listed {
  conversation: Conversation
  depth: number
}

/** Sorts forks below their parents, and families by their most recent change. */
export function inFamilyOrder(conversations: readonly Conversation[]): Listed[] {
  const here = new Map(conversations.map((conversation) => [conversation.id, conversation]))
  const children = new Map<string, Conversation[]>()
  const roots: Conversation[] = []
  for (const conversation of conversations) {
    const parent = here.get(conversation.parent?.conversation_id ?? '')
    if (parent) children.set(parent.id, [...(children.get(parent.id) ?? []), conversation])
    else roots.push(conversation)
  }
  const listed: Listed[] = []
  function add(conversation: Conversation, depth: number): void {
    listed.push({ conversation, depth })
    for (const child of children.get(conversation.id) ?? []) add(child, depth + 1)
  }
  const newest = (conversation: Conversation): string =>
    [conversation.updated_at, ...(children.get(conversation.id) ?? []).map(newest)].toSorted().at(-1) ?? ''
  const order = new Map(roots.map((root) => [root.id, newest(root)]))
  for (const root of roots.toSorted((a, b) => ((order.get(a.id) ?? '') < (order.get(b.id) ?? '') ? 1 : -1))) {
    add(root, 0)
  }
  return listed
}
