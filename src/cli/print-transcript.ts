import { APPROVED_AGAIN } from '../protocol/frame-kinds.ts'
import type {
  Entry,
  FileEdit,
  Item,
  Mark,
  MessageEntry,
  RunEntry,
  ToolItem,
  Transcript,
} from '../replay/transcript.ts'
import { SHORT_ID } from './arguments.ts'
import { createMarkdownStyler, type MarkdownStyler } from './markdown.ts'
import { added, bold, count, dim, localTime, printable, removed } from './output.ts'

/** A piece of output; when its text grows, only the new part is printed. */
interface Block {
  id: string
  text: string
  /** Applied to each part as it is printed. */
  style?: (text: string) => string
  isMarkdown?: boolean
}

export interface PrinterOptions {
  /** Messages typed on this terminal, which are not echoed. */
  isOwn?: (messageId: string) => boolean
  /** Show tool output and diffs. */
  details?: boolean
  /** Show message ids and event numbers, for fork and delete. */
  places?: boolean
  /** Filters the entries. Default: all. */
  isShown?: (entry: Entry) => boolean
}

/** Prints a transcript as it grows. */
export function createTranscriptPrinter(write: (text: string) => void, options: PrinterOptions = {}) {
  let printed = new Map<string, string>()
  let entries: readonly string[] = []
  /** The Markdown text that was printed last. */
  let markdown: { id: string; styler: MarkdownStyler } | null = null

  const blocksIn = (transcript: Transcript) =>
    transcript.entries
      .filter((entry) => options.isShown?.(entry) ?? true)
      .flatMap((entry) => blocksOf(entry, options))

  return {
    show(transcript: Transcript): void {
      const present = new Set(transcript.entries.map(idOf))
      if (entries.some((id) => !present.has(id))) {
        write(dim('\n— messages were deleted; the conversation continues here —\n\n'))
        printed = new Map([...printed].filter(([id]) => present.has(id.split(' ').slice(0, 2).join(' '))))
      }
      entries = [...present]
      for (const { id, text, style = plain, isMarkdown = false } of blocksIn(transcript)) {
        const before = printed.get(id) ?? ''
        if (text === before) continue
        const isGrown = text.startsWith(before)
        if (markdown && (markdown.id !== id || !isGrown)) {
          write(markdown.styler.end())
          markdown = null
        }
        if (isMarkdown && process.stdout.isTTY) markdown ??= { id, styler: createMarkdownStyler() }
        // Text that changed instead of growing is printed again on a new line.
        const part = isGrown ? text.slice(before.length) : `\n${text}`
        write(markdown ? markdown.styler.write(part) : style(part))
        printed.set(id, text)
      }
    },
    /** Marks the whole transcript as printed. */
    skip(transcript: Transcript): void {
      entries = transcript.entries.map(idOf)
      for (const { id, text } of blocksIn(transcript)) printed.set(id, text)
    },
  }
}

function idOf(entry: Entry): string {
  return `${entry.type} ${entry.at}`
}

function plain(text: string): string {
  return text
}

function blocksOf(entry: Entry, options: PrinterOptions): Block[] {
  const id = idOf(entry)
  switch (entry.type) {
    case 'message':
      if (options.isOwn?.(entry.messageId)) return []
      return [
        {
          id,
          text: `${head('you', entry.timestamp, `event ${entry.at}  ${entry.messageId}`, options)}${printable(entry.content)}\n${alongWith(entry)}\n`,
        },
      ]
    case 'mark': {
      const text = markText(entry.mark)
      return text === null ? [] : [{ id, text: `${dim(`· ${text}`)}\n\n` }]
    }
    case 'run':
      return runBlocks(entry, id, options)
  }
}

function alongWith({ activeFiles, attachments }: MessageEntry): string {
  const texts = attachments.map(({ name, bytes }) => `${name} (${count(bytes, 'byte')})`)
  const names = [...activeFiles, ...texts]
  return names.length === 0 ? '' : `${dim(`· with ${printable(names.join(', '))}`)}\n`
}

function head(who: string, when: string, place: string, { places = false }: PrinterOptions): string {
  const time = localTime(when)
  return `${bold(who)}  ${dim(places ? `${time}  ${place}` : time)}\n`
}

function runBlocks(run: RunEntry, id: string, options: PrinterOptions): Block[] {
  const items = run.items.flatMap((item) =>
    itemBlocks(item, options).map((block) => ({ ...block, id: `${id} ${item.key} ${block.id}` })),
  )
  return [
    // This text must not change during the run, or it would be printed again with each update.
    { id, text: head('agent', run.startedAt, `from event ${run.at}  ${run.runId}`, options) },
    ...items.filter((block) => block.text !== ''),
    ...reasonOf(run, id),
    ...endOf(run, options).map((text) => ({ id: `${id} end`, text })),
  ]
}

/** The reason for the run's state: a retry delay, an interruption, or who stopped it. */
function reasonOf(run: RunEntry, id: string): Block[] {
  if (run.reason === null) return []
  return [{ id: `${id} ${run.reason}`, text: `\n${dim(`· ${printable(run.reason)}`)}\n` }]
}

function endOf(run: RunEntry, { places = false }: PrinterOptions): string[] {
  if (run.endedAt === null) return []
  const upTo = places ? `\n${dim(`· to event ${run.upTo}`)}` : ''
  if (run.error) {
    return [`\n${bold('error')} ${printable(`${run.error.code}: ${run.error.message}`)}${upTo}\n\n`]
  }
  return [run.status === 'completed' ? `${upTo}\n\n` : `\n${dim(`· ${run.status}`)}${upTo}\n\n`]
}

function itemBlocks(item: Item, options: PrinterOptions): Block[] {
  switch (item.type) {
    case 'text':
      return [
        {
          id: '',
          text: item.parts.map((part) => printable(part.text + (part.refusal ?? ''))).join('\n'),
          isMarkdown: true,
        },
      ]
    case 'reasoning':
      return [
        { id: '', text: item.parts.map((part) => printable(part.text)).join('\n'), style: dim },
        { id: 'end', text: item.status === 'in_progress' || item.parts.length === 0 ? '' : '\n\n' },
      ]
    case 'tool':
      // Arguments change while they stream; print the call once they are complete.
      return item.phase === 'arguments' ? [] : toolBlocks(item, options)
    case 'other':
      return [{ id: '', text: dim(`[${printable(item.itemType)}]\n`) }]
    case 'mark': {
      const text = markText(item.mark)
      return [{ id: '', text: text === null ? '' : `${dim(`· ${text}`)}\n` }]
    }
  }
}

const EDIT_TOOLS = new Set(['write_to_file', 'replace_in_file', 'delete_file'])

function toolBlocks(tool: ToolItem, { details = false }: PrinterOptions): Block[] {
  const name = printable(tool.name ?? tool.toolType)
  const { title: own, kind } = (tool.details ?? {}) as { title?: unknown; kind?: unknown }
  const what = typeof own === 'string' && own !== '' ? own : tool.argumentsText
  const title = `\n${dim('▸')} ${name} ${dim(printable(short(what)))}\n${approvalText(tool)}`
  const edits = tool.edits.map((edit, index) => ({
    id: `edit ${index}`,
    text: dim(`  ${editLine(edit)}\n`) + (details ? diffText(edit) : ''),
  }))
  // An edit tool's diff says more than its output; a command's output has its exit code.
  const isEdit = edits.length > 0 && (EDIT_TOOLS.has(tool.name ?? '') || kind === 'edit')
  const output = details && !isEdit ? outputText(tool) : ''
  return [{ id: 'head', text: title }, ...edits, { id: 'output', text: output, style: dim }]
}

function editLine(edit: FileEdit): string {
  const kept = edit.previousCheckpoint
  const hint = kept === null ? '' : ` (previous version: waymark restore ${kept.slice(0, SHORT_ID)} --path …)`
  return `${edit.change} ${printable(edit.path)} +${edit.additions} −${edit.deletions}${hint}`
}

const MAX_DIFF_LINES = 60
const MAX_OUTPUT = 3000
const MAX_OUTPUT_END = 1000

function diffText({ diff }: FileEdit): string {
  const whole = (diff ?? '').trimEnd().split('\n')
  // The lines before the first hunk name the file.
  const lines = whole.slice(
    Math.max(
      0,
      whole.findIndex((line) => line.startsWith('@@')),
    ),
  )
  const shown = lines.slice(0, MAX_DIFF_LINES).map((line) => {
    const text = `    ${printable(line)}`
    return line.startsWith('+') ? added(text) : line.startsWith('-') ? removed(text) : dim(text)
  })
  const rest = lines.length - shown.length
  return [...shown, ...(rest > 0 ? [dim(`    … ${count(rest, 'line')} more`)] : [])]
    .map((l) => `${l}\n`)
    .join('')
}

/** Says who allowed or denied a call, and with which grant. */
function approvalText({ approval }: ToolItem): string {
  if (!approval || approval.status === 'requested') return ''
  const { status, by, ruleId, grant } = approval
  const who = `${status === 'approved' ? 'allowed' : 'denied'} by ${ruleId === null ? '' : 'a rule of '}${by ?? 'someone'}`
  const how = grant?.outside ? ', outside the sandbox' : grant?.network ? ', with network access' : ''
  return `  ${dim(printable(who + how))}\n`
}

/** The indented output. Until the call ends, the text only grows at its end, so that only the new part is printed. */
function outputText(tool: ToolItem): string {
  if (tool.output === undefined) return ''
  const whole = typeof tool.output === 'string' ? tool.output : JSON.stringify(tool.output)
  const isOver = tool.endedAt !== null
  const rest = whole.length - MAX_OUTPUT - MAX_OUTPUT_END
  const end = isOver ? `\n… ${count(rest, 'character')} …\n${whole.slice(-MAX_OUTPUT_END)}` : ''
  const cut = rest > 0 ? `${whole.slice(0, MAX_OUTPUT)}${end}` : whole
  const text = `    ${printable(cut).replaceAll('\n', '\n    ')}`
  return isOver ? `${text.trimEnd()}\n` : text
}

function short(text: string): string {
  const line = text.replaceAll('\n', ' ')
  return line.length > 100 ? `${line.slice(0, 99)}…` : line
}

function markText(mark: Mark): string | null {
  switch (mark.kind) {
    case 'title':
      return `title: ${printable(mark.title)}`
    case 'forked':
      return `forked from ${mark.parentConversationId} at event ${mark.fromEventNumber}`
    case 'cut':
      return `cut after event ${mark.after}`
    // Every message has a checkpoint; `waymark checkpoints` lists them.
    case 'checkpoint':
      return null
    case 'edit':
      return editLine(mark.edit)
    case 'restored':
      return mark.frame.adopted_from === undefined
        ? `files restored to ${mark.frame.restored_to.slice(0, 8)}`
        : `files adopted from ${mark.frame.adopted_from}`
    case 'approved':
      if (mark.frame.message === APPROVED_AGAIN) return 'undo or redo changed which files count as approved'
      return `${mark.frame.closed_session} approved, ${count(mark.frame.commits_approved, 'checkpoint')}`
    case 'reset':
      return `${mark.frame.closed_session} reset to ${mark.frame.reset_to.slice(0, 8)}`
    case 'memory': {
      const { strategy, tokens_before, tokens_after } = mark.frame.checkpoint
      return `memory: ${strategy}, ${tokens_before} → ${tokens_after} tokens`
    }
    case 'imported': {
      const { entries, agent } = mark.frame
      return `imported from ${printable(agent)}, ${entries.toLocaleString('en')} entries in all`
    }
    case 'agent':
      return `agent: ${printable(mark.to)}`
    case 'unknown':
      return printable(mark.frameKind)
  }
}
