import { isKnownKind } from '../protocol/frame-kinds.ts'
import type { AnyFrame, Frame } from '../protocol/frames.ts'
import { cutTranscript } from './cut.ts'
import { addMarkToRun, applyToRun, editOf, endRun, newRun, type OwnRun } from './run.ts'
import type { Entry, Mark, Transcript } from './transcript.ts'

/**
 * Reduces frames to a transcript; the only place that interprets frames. Pure: the given transcript is not mutated, and
 * unchanged parts are shared with it. Frames it already contains are skipped.
 */
export function applyFrames(transcript: Transcript, frames: Iterable<AnyFrame>): Transcript {
  const draft = new TranscriptDraft(transcript)
  for (const frame of frames) draft.apply(frame)
  return draft.finish()
}

/** Copies what it changes once: a batch of a thousand frames costs one copy of the entries, not a thousand. */
class TranscriptDraft {
  #state: Transcript
  #entries: Entry[]
  /** Entries created or copied by this draft, which may be mutated. */
  readonly #own = new WeakSet<object>()

  constructor(transcript: Transcript) {
    this.#state = { ...transcript }
    this.#entries = [...transcript.entries]
  }

  finish(): Transcript {
    return { ...this.#state, entries: this.#entries }
  }

  apply(frame: AnyFrame): void {
    if (isKnownFrame(frame) && frame.kind === 'conversation.truncated') this.#cutFor(frame)
    if (frame.event_id <= this.#state.head) return
    this.#state.head = frame.event_id
    this.#state.conversationId = frame.conversation_id
    if (!isKnownFrame(frame)) return this.#applyUnknown(frame)
    if (frame.stream_id !== null && frame.kind !== 'message.user') return this.#applyRunFrame(frame)
    this.#applyOwnFrame(frame)
  }

  #cutFor(frame: Frame<'conversation.truncated'>): void {
    const known = this.#entries.some(
      (entry) => entry.at === frame.event_id && entry.type === 'mark' && entry.mark.kind === 'cut',
    )
    if (known || frame.cut_after >= this.#state.head) return
    const cut = cutTranscript(this.finish(), frame.cut_after)
    this.#state = { ...cut }
    this.#entries = [...cut.entries]
  }

  #applyUnknown(frame: AnyFrame): void {
    const mark: Mark = { kind: 'unknown', frameKind: frame.kind }
    if (frame.stream_id === null) return this.#addMark(frame, mark)
    addMarkToRun(this.#ownRun(frame), frame, mark)
  }

  #applyRunFrame(frame: Frame): void {
    const run = this.#ownRun(frame)
    if (frame.kind === 'conversation.retitled') this.#setTitle(frame)
    const mark = markOf(frame)
    if (mark) addMarkToRun(run, frame, mark)
    else applyToRun(run, frame)
  }

  #applyOwnFrame(frame: Frame): void {
    if (frame.kind === 'message.user') {
      this.#add({
        type: 'message',
        at: frame.event_id,
        upTo: frame.event_id,
        messageId: frame.message_id,
        content: frame.content,
        checkpointId: frame.checkpoint_id ?? null,
        workSession: frame.work_session ?? null,
        activeFiles: frame.active_files ?? [],
        attachments: frame.attachments ?? [],
        timestamp: frame.server_timestamp,
      })
      return
    }
    if (frame.kind === 'conversation.created' || frame.kind === 'conversation.retitled') this.#setTitle(frame)
    if (frame.kind === 'conversation.forked' || frame.kind === 'conversation.truncated') {
      this.#interruptOpenRun(frame)
    }
    const mark = markOf(frame)
    if (mark) this.#addMark(frame, mark)
  }

  #setTitle(frame: Frame<'conversation.created' | 'conversation.retitled'>): void {
    if (frame.title === undefined) return
    this.#state.title = frame.title
    // An entry of its own, so that a cut also reverts the title.
    this.#addMark(frame, { kind: 'title', title: frame.title })
  }

  #addMark(frame: AnyFrame, mark: Mark): void {
    const { event_id, server_timestamp: timestamp } = frame
    this.#add({ type: 'mark', at: event_id, upTo: event_id, mark, timestamp })
  }

  #add(entry: Entry): void {
    this.#own.add(entry)
    this.#entries.push(entry)
  }

  /** The frame's run, as an entry that may be mutated. */
  #ownRun(frame: AnyFrame): OwnRun {
    const runId = frame.stream_id ?? ''
    const index = this.#entries.findLastIndex((entry) => entry.type === 'run' && entry.runId === runId)
    if (index < 0) {
      this.#interruptOpenRun(frame)
      const run = newRun(runId, frame)
      this.#add(run)
      return run
    }
    return this.#ownRunAt(index, frame)
  }

  #ownRunAt(index: number, frame: AnyFrame): OwnRun {
    let run = this.#entries[index] as OwnRun
    if (!this.#own.has(run)) {
      run = { ...run, items: [...run.items] }
      this.#own.add(run)
      this.#entries[index] = run
    }
    run.upTo = frame.event_id
    return run
  }

  /** Ends a run that the line leaves before its terminal frame, because of a fork or cut in the middle of it. */
  #interruptOpenRun(frame: AnyFrame): void {
    const index = this.#entries.findLastIndex((entry) => entry.type === 'run')
    const open = this.#entries[index]
    if (open?.type !== 'run' || open.endedAt !== null || open.runId === frame.stream_id) return
    const run = this.#ownRunAt(index, frame)
    endRun(run, 'incomplete', frame.server_timestamp)
  }
}

/** The mark that shows a frame; null when the frame belongs to another entry, or is not shown. */
function markOf(frame: Frame): Mark | null {
  switch (frame.kind) {
    case 'workspace.checkpoint':
      return { kind: 'checkpoint', frame }
    case 'file.edit':
      return frame.tool_call_id === undefined ? { kind: 'edit', edit: editOf(frame) } : null
    case 'workspace.restored':
      return { kind: 'restored', frame }
    case 'session.approved':
      return { kind: 'approved', frame }
    case 'session.reset':
      return { kind: 'reset', frame }
    case 'memory.checkpoint':
      return { kind: 'memory', frame }
    case 'import.session':
      return { kind: 'imported', frame }
    case 'agent.updated':
      // A list of commands is for the composer.
      if (frame.commands && frame.mode === undefined && frame.model === undefined) return null
      return { kind: 'agent', from: frame.from_agent ?? null, to: agentText(frame) }
    case 'conversation.forked':
      return {
        kind: 'forked',
        parentConversationId: frame.parent_conversation_id,
        fromEventNumber: frame.from_event_number,
      }
    case 'conversation.truncated':
      return { kind: 'cut', after: frame.cut_after, messageId: frame.message_id, by: frame.by }
    default:
      return null
  }
}

function isKnownFrame(frame: AnyFrame): frame is Frame {
  return isKnownKind(frame.kind)
}

function agentText({ to_agent, mode, model }: Frame<'agent.updated'>): string {
  const details = [...(mode === undefined ? [] : [mode]), ...(model === undefined ? [] : [model])]
  return details.length === 0 ? to_agent : `${to_agent} (${details.join(', ')})`
}
