import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type AnyFrame, parseFrame } from '../../src/protocol/frames.ts'
import type { RunEntry, ToolItem } from '../../src/replay/transcript.ts'
import { readAll } from '../support/frames.ts'
import { type ModelEvent, startModelServer } from '../support/model-server.ts'
import { approve, runsOf, toolsOf, transcriptOf } from '../support/runs.ts'
import { startTestServer } from '../support/server.ts'
import { streams } from './streams.ts'

/** Extra recorded streams: a folder of files with one JSON event per line. */
const folder = process.env.WAYMARK_RECORDINGS
const recorded = folder
  ? readdirSync(folder)
      .filter((name) => name.endsWith('.chunks.txt'))
      .map((name) => [name, eventsIn(readFileSync(join(folder, name), 'utf8'))] as const)
  : []

describe.each([...Object.entries(streams), ...recorded])('%s', (_name, events) => {
  it('[L3] [L4] [L6] [L10] replays byte for byte what was streamed live, and shows the outcome of each call', async () => {
    const model = await startModelServer(responsesIn(events).map((part) => ({ events: part })))
    const server = await startTestServer({ baseUrl: model.url })
    const { id } = await server.client.createConversation()
    // Approve the provider's request to run a tool of its own.
    const allow = async (callId: string) => await approve(server.client, id, await sent, callId)
    const seen = watch(server.client.stream(id), allow)
    const sent = server.client.sendMessage(id, { content: 'go' }).then(({ run_id }) => run_id)
    await expect.poll(() => seen.isOver(), { timeout: 20_000 }).toBe(true)
    await seen.stop()

    const replayed = await readAll(server.ledger, id as never)
    expect(seen.texts).toEqual(replayed)
    const frames = replayed.map((text) => parseFrame(JSON.parse(text)))
    const live = transcriptOf(seen.texts.map((text) => JSON.parse(text)))
    expect(live).toEqual(transcriptOf(frames))

    const [run] = runsOf(live)
    expect(run?.endedAt).not.toBeNull()
    checkCalls(run, events)
    checkText(run, events)
    // The value of a secret key is redacted everywhere.
    expect(replayed.join('')).not.toContain('sk-hidden')
    await server.close()
    await model.close()
  })
})

/** Checks that each provider call is one card, keyed by call id, with the outcome from the stream or from a tool. */
function checkCalls(run: RunEntry | undefined, events: readonly ModelEvent[]): void {
  const tools = toolsOf(run)
  for (const raw of doneItems(events)) {
    if (!raw.type.endsWith('_call')) continue
    const cards = tools.filter((tool) => tool.toolCallId === (raw.call_id ?? idAtFirst(events, raw)))
    expect(cards, JSON.stringify(raw)).toHaveLength(1)
    const [card] = cards as [ToolItem]
    expect(card.status).toBe('completed')
    const hasOutput =
      raw.outputs ??
      raw.output ??
      raw.results ??
      raw.action?.sources ??
      outcomeOf(events, raw.call_id) ??
      isOurs(raw)
    if (hasOutput) expect(card.output, `${raw.type} has an output`).toBeDefined()
    if (raw.result) expect(card.chunks.result).toMatchObject({ data: raw.result, done: true })
    if (raw.code) expect(card.code).toBe(raw.code)
  }
}

function checkText(run: RunEntry | undefined, events: readonly ModelEvent[]): void {
  const said = doneItems(events).flatMap((raw) =>
    raw.type === 'message' ? (raw.content ?? []).map((part) => part.text ?? part.refusal ?? '') : [],
  )
  const shown = (run?.items ?? []).flatMap((item) =>
    item.type === 'text' ? item.parts.map((part) => part.text + (part.refusal ?? '')) : [],
  )
  expect(shown.slice(0, said.length)).toEqual(said)
}

interface RawItem {
  type: string
  id: string
  call_id?: string
  outputs?: unknown
  output?: unknown
  results?: unknown
  result?: string
  code?: string
  action?: { sources?: unknown }
  content?: { text?: string; refusal?: string }[]
}

function doneItems(events: readonly ModelEvent[]): RawItem[] {
  return events.flatMap((event) =>
    event.type === 'response.output_item.done' ? [event.item as RawItem] : [],
  )
}

/** The server answers function and custom tool calls itself. */
function isOurs(raw: RawItem): true | undefined {
  return raw.type === 'function_call' || raw.type === 'custom_tool_call' || undefined
}

function outcomeOf(events: readonly ModelEvent[], callId: string | undefined): unknown {
  return doneItems(events).find((raw) => raw.type.endsWith('_call_output') && raw.call_id === callId)
}

/** The id with which `output_item.added` announced an item that has no call id. */
function idAtFirst(events: readonly ModelEvent[], raw: RawItem): string {
  const done = events.findIndex((event) => event.type === 'response.output_item.done' && event.item === raw)
  const added = events
    .slice(0, done)
    .findLast(
      (event) =>
        event.type === 'response.output_item.added' && event.output_index === events[done]?.output_index,
    )
  return (added?.item as RawItem | undefined)?.id ?? raw.id
}

/** A file may hold several responses: each answers one request. */
function responsesIn(events: readonly ModelEvent[]): ModelEvent[][] {
  const responses: ModelEvent[][] = []
  for (const event of events) {
    if (event.type === 'response.created' || responses.length === 0) responses.push([])
    responses.at(-1)?.push(event)
  }
  return responses
}

function eventsIn(text: string): ModelEvent[] {
  return text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => JSON.parse(line) as ModelEvent)
}

function watch(
  stream: AsyncGenerator<{ type: string; text?: string }[]>,
  allow: (callId: string) => Promise<void>,
) {
  const texts: string[] = []
  const done = (async () => {
    for await (const items of stream) {
      for (const { text } of items) {
        if (!text) continue
        texts.push(text)
        const frame = JSON.parse(text) as AnyFrame & { status?: string; tool_call_id?: string }
        if (frame.kind === 'tool.approval' && frame.status === 'requested') {
          await allow(frame.tool_call_id ?? '')
        }
      }
    }
  })()
  return {
    texts,
    isOver: () => /"kind":"(final|error)"/.test(texts.at(-1) ?? ''),
    async stop() {
      void stream.return(undefined)
      await Promise.race([done, new Promise((resolve) => setTimeout(resolve, 50))])
    },
  }
}
