import { focusComposer } from '../composer/focus.ts'
import { go } from '../location.tsx'
import { server } from '../server.ts'

const BEGUN = 'waymark.begun'
/** A second press within this time counts as a double press. */
const PRESSED_TWICE_MS = 400
let starting: Promise<string> | null = null

/** Opens the composer for a new conversation. It exists once its first message is sent. */
export function startConversation(): void {
  go({})
  // Wait until the composer is rendered.
  setTimeout(focusComposer)
}

/** The id of an empty conversation. A double press creates only one. */
export function emptyConversation(): Promise<string> {
  starting ??= begin().finally(() => setTimeout(() => (starting = null), PRESSED_TWICE_MS))
  return starting
}

/** Reuses the conversation that this tab created last, if it is still empty. */
async function begin(): Promise<string> {
  const { items } = await server.listConversations({ limit: 20 })
  const begun = items.find((conversation) => conversation.id === sessionStorage.getItem(BEGUN))
  const isEmpty =
    begun?.title === null && begun.head_event_number <= 2 && !begun.is_running && begun.queued === 0
  const { id } = begun && isEmpty ? begun : await server.createConversation()
  sessionStorage.setItem(BEGUN, id)
  return id
}
