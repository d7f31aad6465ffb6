import type { Entry, Item, Mark, RunEntry, ToolItem, Transcript } from '../replay/transcript.ts'
import { bold, count, dim, printable } from './output.ts'

interface Block {
  id: string
  text: string
}

/** Prints a transcript as it grows: each block once, and of one that grows its new part. */
export function createTranscriptPrinter(write: (text: string) => void) {
  let printed = new Map<string, string>()

  return {
    show(transcript: Transcript): void {
      const blocks = transcript.entries.flatMap(blocksOf)
      const present = new Set(blocks.map((block) => block.id))
      const kept = [...printed].filter(([id]) => present.has(id))
      if (kept.length < printed.size) write(dim('\n— the conversation was cut; from here it reads —\n\n'))
      printed = new Map(kept)
      for (const { id, text } of blocks) {
        const before = printed.get(id) ?? ''
        if (text.startsWith(before)) write(text.slice(before.length))
        printed.set(id, text)
      }
    },
  }
}

function blocksOf(entry: Entry): Block[] {
  const id = `${entry.type} ${entry.at}`
  switch (entry.type) {
    case 'message':
      return [{ id, text: `${bold('you')}  ${dim(entry.timestamp)}\n${printable(entry.content)}\n\n` }]
    case 'mark': {
      const text = markText(entry.mark)
      return text === null ? [] : [{ id, text: `${dim(`· ${text}`)}\n\n` }]
    }
    case 'run':
      return runBlocks(entry, id)
  }
}

function runBlocks(run: RunEntry, id: string): Block[] {
  const items = run.items.map((item) => ({ id: `${id} ${item.key}`, text: itemText(item) }))
  return [
    { id, text: `${bold('agent')}  ${dim(run.startedAt)}\n` },
    ...items.filter((block) => block.text !== ''),
    ...endOf(run).map((text) => ({ id: `${id} end`, text })),
  ]
}

function endOf(run: RunEntry): string[] {
  if (run.endedAt === null) return []
  if (run.error) return [`\n${bold('error')} ${printable(`${run.error.code}: ${run.error.message}`)}\n\n`]
  return [run.status === 'completed' ? '\n\n' : `\n${dim(`· ${run.status}`)}\n\n`]
}

function itemText(item: Item): string {
  switch (item.type) {
    case 'text':
      return item.parts.map((part) => printable(part.text + (part.refusal ?? ''))).join('\n')
    case 'reasoning':
      return dim(item.parts.map((part) => printable(part.text)).join('\n'))
    case 'tool':
      // A card changes while it grows; it is printed when it stands.
      return item.phase === 'arguments' || item.status === 'in_progress' ? '' : toolText(item)
    case 'other':
      return dim(`[${printable(item.itemType)}]\n`)
    case 'mark': {
      const text = markText(item.mark)
      return text === null ? '' : `${dim(`· ${text}`)}\n`
    }
  }
}

function toolText(tool: ToolItem): string {
  const name = tool.name ?? tool.toolType
  const edits = tool.edits.map((edit) =>
    dim(`  ${edit.change} ${printable(edit.path)} +${edit.additions} −${edit.deletions}\n`),
  )
  return `\n${dim('▸')} ${printable(name)} ${dim(printable(short(tool.argumentsText)))}\n${edits.join('')}`
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
      return `cut behind event ${mark.after}`
    case 'checkpoint':
      return `checkpoint ${mark.frame.checkpoint_id.slice(0, 8)} ${printable(mark.frame.label)}`
    case 'edit':
      return `${mark.edit.change} ${printable(mark.edit.path)} +${mark.edit.additions} −${mark.edit.deletions}`
    case 'restored':
      return `files restored to ${mark.frame.restored_to.slice(0, 8)}`
    case 'approved':
      return `${mark.frame.closed_session} approved, ${count(mark.frame.commits_approved, 'commit')}`
    case 'reset':
      return `${mark.frame.closed_session} reset to ${mark.frame.reset_to.slice(0, 8)}`
    case 'memory': {
      const { strategy, tokens_before, tokens_after } = mark.frame.checkpoint
      return `memory: ${strategy}, ${tokens_before} → ${tokens_after} tokens`
    }
    case 'agent':
      return `agent: ${printable(mark.to)}`
    case 'unknown':
      return printable(mark.frameKind)
  }
}
