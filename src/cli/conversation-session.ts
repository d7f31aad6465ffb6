import type { Client } from '../client/index.ts'
import type { Conversation } from '../protocol/api/conversations.ts'
import type { AcceptedMessage, SendMessage } from '../protocol/api/runs.ts'
import type { Entry, RunEntry, ToolItem, Transcript } from '../replay/transcript.ts'
import { createTranscriptPrinter } from './print-transcript.ts'
import { sayWhenLost } from './say-when-lost.ts'

/** Follows a conversation on a terminal: prints new output, and reports approvals and the end of runs. */
export interface ConversationView {
  /** Sends a message. Without `isEchoed`, the view does not show it, because the user has just typed it. */
  send(
    content: string,
    onAccepted?: (runId: string) => void,
    along?: Omit<SendMessage, 'content'>,
  ): Promise<AcceptedMessage>
  /** Resolves when the run has ended; null if it was removed from the queue. */
  ended(runId: string): Promise<RunEntry | null>
  /** The active run. */
  active(): string | null
  close(): void
}

export interface ViewOptions {
  onAsk(ask: PendingAsk): void
  /** The approval was answered by any client, or its run has ended. */
  onAskOver?(toolCallId: string): void
  /** The stream reconnected after a lost connection. */
  onReconnected?(): void
  /** Default: standard output. */
  write?(text: string): void
  /** Shows the messages that this view sends. */
  isEchoed?: boolean
  /** Filters the entries. Default: all. */
  isShown?(entry: Entry): boolean
}

export interface PendingAsk {
  runId: string
  toolCallId: string
  name: string
  argumentsText: string
}

export async function openConversationView(
  client: Client,
  conversation: Conversation,
  options: ViewOptions,
): Promise<ConversationView> {
  const own = new Set<string>()
  const stop = new AbortController()
  const printer = createTranscriptPrinter(options.write ?? ((text) => process.stdout.write(text)), {
    isOwn: (messageId) => !options.isEchoed && own.has(messageId),
    details: true,
    ...(options.isShown ? { isShown: options.isShown } : {}),
  })
  const asked = new Map<string, 'pending' | 'over'>()
  const waiting = new Map<string, (run: RunEntry | null) => void>()
  const known = new Set<string>()
  let transcript: Transcript | null = null
  let active: string | null = null
  let sending = 0
  let isCaughtUp = false
  const seen = Promise.withResolvers<void>()

  function show(next: Transcript): void {
    transcript = next
    // The stream may deliver our own message before `sendMessage` returns its id.
    if (sending > 0) return
    if (!isCaughtUp) printer.skip(past(next))
    isCaughtUp = next.head >= conversation.head_event_number
    if (isCaughtUp) printer.show(next)
    // An approval in the replayed history may have been answered since.
    if (isCaughtUp) for (const entry of next.entries) if (entry.type === 'run') look(entry)
  }

  /** The entries that had ended when the view opened; an active run is shown from its start. */
  function past(next: Transcript): Transcript {
    const { head_event_number: head } = conversation
    return { ...next, entries: next.entries.filter((entry) => entry.upTo <= head && !isOpen(entry)) }
  }

  function look(run: RunEntry): void {
    for (const item of run.items) {
      if (item.type !== 'tool' || !item.toolCallId || !item.approval) continue
      const isPending = item.approval.status === 'requested' && run.endedAt === null
      if (isPending && !asked.has(item.toolCallId)) {
        asked.set(item.toolCallId, 'pending')
        options.onAsk(asAsk(run, item, item.toolCallId))
      } else if (!isPending && asked.get(item.toolCallId) === 'pending') {
        asked.set(item.toolCallId, 'over')
        options.onAskOver?.(item.toolCallId)
      }
    }
    if (run.endedAt !== null) finish(run.runId, run)
  }

  function finish(runId: string, run: RunEntry | null): void {
    waiting.get(runId)?.(run)
    waiting.delete(runId)
  }

  const following = (async () => {
    const lost = sayWhenLost(options.onReconnected)
    for await (const next of client.transcript(conversation.id, {
      signal: stop.signal,
      onState: lost,
      onQueue(queue) {
        active = queue.active?.run_id ?? null
        const present = new Set([active, ...queue.items.map((item) => item.run_id)])
        for (const runId of known) {
          if (present.has(runId)) continue
          known.delete(runId)
          // The run ended, and its frames will follow; or it was removed, and no frame reports that.
          if (!hasFrames(transcript, runId)) setTimeout(() => finishIfUnknown(runId), 1000)
        }
        for (const runId of present) if (runId) known.add(runId)
      },
    })) {
      show(next)
      if (next.head >= conversation.head_event_number) seen.resolve()
    }
  })()
  following.catch((error: unknown) => seen.reject(error))
  await seen.promise

  function finishIfUnknown(runId: string): void {
    if (!hasFrames(transcript, runId)) finish(runId, null)
  }

  return {
    async send(content, onAccepted, along = {}) {
      sending++
      try {
        const accepted = await client.sendMessage(conversation.id, { content, ...along })
        onAccepted?.(accepted.run_id)
        // A queued message is echoed when its run starts, because other output comes in between.
        if (accepted.queue_position === 0) own.add(accepted.message_id)
        return accepted
      } finally {
        sending--
        if (transcript) show(transcript)
      }
    },
    ended: (runId) =>
      new Promise((resolve, reject) => {
        const run = transcript?.entries.find((entry) => entry.type === 'run' && entry.runId === runId)
        if (run?.type === 'run' && run.endedAt !== null) return resolve(run)
        waiting.set(runId, resolve)
        following.catch(reject)
      }),
    active: () => active,
    close: () => stop.abort(),
  }
}

function isOpen(entry: Entry): boolean {
  return entry.type === 'run' && entry.endedAt === null
}

function hasFrames(transcript: Transcript | null, runId: string): boolean {
  return transcript?.entries.some((entry) => entry.type === 'run' && entry.runId === runId) ?? false
}

function asAsk(run: RunEntry, tool: ToolItem, toolCallId: string): PendingAsk {
  return { runId: run.runId, toolCallId, name: tool.name ?? tool.toolType, argumentsText: tool.argumentsText }
}
