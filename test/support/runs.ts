import { createParser } from 'eventsource-parser'
import { expect } from 'vitest'
import type { Client } from '../../src/client/index.ts'
import type { AnswerApproval, SendMessage } from '../../src/protocol/api/runs.ts'
import type { FrameKind } from '../../src/protocol/frame-kinds.ts'
import type { AnyFrame, Frame } from '../../src/protocol/frames.ts'
import { applyFrames } from '../../src/replay/reduce.ts'
import {
  emptyTranscript,
  type RunEntry,
  type ToolItem,
  type Transcript,
} from '../../src/replay/transcript.ts'
import { parsed, readAll } from './frames.ts'
import { jsonBody, type TestServer } from './server.ts'

/** Sends a message and returns its run's frames once the run has ended. */
export async function ask(
  server: TestServer,
  id: string,
  content: string,
  along: Omit<SendMessage, 'content'> = {},
): Promise<AnyFrame[]> {
  const { headers, ...init } = jsonBody({ content, ...along })
  const response = await server.call(`/conversations/${id}/messages`, {
    ...init,
    headers: { ...headers, Accept: 'text/event-stream' },
  })
  expect(response.status).toBe(200)
  return framesIn(await response.text())
}

export function framesIn(eventStream: string): AnyFrame[] {
  const frames: AnyFrame[] = []
  const parser = createParser({
    onEvent(event) {
      if (event.event === undefined) frames.push(JSON.parse(event.data) as AnyFrame)
    },
  })
  parser.feed(eventStream)
  return frames
}

export function ofKind<K extends FrameKind>(frames: readonly AnyFrame[], kind: K): Frame<K>[] {
  return frames.filter((frame) => frame.kind === kind) as Frame<K>[]
}

export function finalOf(frames: readonly AnyFrame[]): Frame<'final'>['final'] {
  const last = frames.at(-1) as Frame<'final'>
  expect(last.kind, JSON.stringify(last)).toBe('final')
  return last.final
}

export function transcriptOf(frames: readonly AnyFrame[]): Transcript {
  return applyFrames(emptyTranscript(), frames)
}

export function runsOf(transcript: Transcript): RunEntry[] {
  return transcript.entries.filter((entry) => entry.type === 'run')
}

export function toolsOf(run: RunEntry | undefined): ToolItem[] {
  return (run?.items ?? []).filter((item) => item.type === 'tool')
}

export async function allFrames(server: TestServer, id: string): Promise<AnyFrame[]> {
  return parsed(await readAll(server.ledger, id as never))
}

/** Waits until the conversation has a matching frame and returns it. */
export async function frameWhen<K extends FrameKind>(
  server: TestServer,
  id: string,
  kind: K,
  test: (frame: Frame<K>) => boolean = () => true,
): Promise<Frame<K>> {
  let found: Frame<K> | undefined
  await expect
    .poll(async () => (found = ofKind(await allFrames(server, id), kind).find(test)), {
      timeout: 20_000,
      interval: 10,
    })
    .toBeDefined()
  return found as Frame<K>
}

/** Every frame of a conversation, as a client reads them. */
export async function framesOf(client: Client, id: string): Promise<AnyFrame[]> {
  const frames: AnyFrame[] = []
  for await (const items of client.stream(id, { follow: false })) {
    for (const item of items) if (item.type === 'frame') frames.push(item.frame)
  }
  return frames
}

/** Approves a call as a person does: reads the question first. */
export async function approve(
  client: Client,
  id: string,
  runId: string,
  toolCallId: string,
  more: Pick<AnswerApproval, 'grant' | 'always'> = {},
): Promise<void> {
  const { question_sha256 } = await client.question(id, runId, toolCallId)
  await client.answerApproval(id, runId, {
    tool_call_id: toolCallId,
    approved: true,
    question_sha256,
    ...more,
  })
}
