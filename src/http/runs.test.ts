import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { calls, startModelServer } from '../../test/support/model-server.ts'
import {
  allFrames,
  approve,
  ask,
  finalOf,
  framesIn,
  frameWhen,
  ofKind,
  runsOf,
  toolsOf,
  transcriptOf,
} from '../../test/support/runs.ts'
import { jsonBody, startTestServer, type TestServer } from '../../test/support/server.ts'
import { newId } from '../protocol/ids.ts'

describe('messages and runs', () => {
  let server: TestServer

  beforeAll(async () => {
    server = await startTestServer({
      tools: { run_command: 'allow', delete_file: 'deny', list_files: 'ask' },
    })
  })
  afterAll(() => server.close())

  const newConversation = async () => (await server.client.createConversation()).id
  const send = (id: string, content: string) => server.client.sendMessage(id, { content })
  const ended = async (id: string, runId: string) =>
    (await frameWhen(server, id, 'final', (frame) => frame.stream_id === runId)).final

  it('answers from earlier messages', async () => {
    const id = await newConversation()
    await ask(server, id, 'I am devansh')
    const frames = await ask(server, id, 'what is my name')
    expect(finalOf(frames)).toMatchObject({
      status: 'completed',
      response_text: 'Your name is devansh.',
      usage: { requests: 1 },
    })
    expect(frames.map((frame) => frame.sequence_number)).toEqual(frames.map((_, index) => index + 1))
    expect(frames[0]).toMatchObject({ kind: 'message.user', content: 'what is my name' })
    const { items } = await server.client.messages(id)
    expect(items.map(({ role, content }) => `${role}: ${content}`).slice(2)).toEqual([
      'user: what is my name',
      'assistant: Your name is devansh.',
    ])
  })

  it('answers from the inherited history in a fork, and from the remaining history after a cut', async () => {
    const id = await newConversation()
    const first = await ask(server, id, 'I am devansh')
    await ask(server, id, 'my name is someone else')
    const newConversationId = newId('conv')
    const fork = {
      tenant: 'default',
      conversationId: id as never,
      newConversationId,
      newSegmentId: newId('seg'),
    }
    await server.ledger.fork({ ...fork, at: { after: first.at(-1)?.event_id ?? 0 } })
    expect(finalOf(await ask(server, newConversationId, 'what is my name')).response_text).toBe(
      'Your name is devansh.',
    )
    await server.ledger.deleteMessages({
      tenant: 'default',
      conversationId: id as never,
      at: { after: first.at(-1)?.event_id ?? 0 },
      newSegmentId: newId('seg'),
      by: 'me',
    })
    expect(finalOf(await ask(server, id, 'what is my name')).response_text).toBe('Your name is devansh.')
  })

  it('still sends the model a run that a fork cuts in the middle', async () => {
    const id = await newConversation()
    const first = await ask(server, id, 'I am devansh')
    const newConversationId = newId('conv')
    await server.ledger.fork({
      tenant: 'default',
      conversationId: id as never,
      newConversationId,
      newSegmentId: newId('seg'),
      at: { after: (first[0]?.event_id ?? 0) + 4 },
    })
    expect(finalOf(await ask(server, newConversationId, 'what is my name')).response_text).toBe(
      'Your name is devansh.',
    )
  })

  it('[R1] queues a message that arrives while a run is active', async () => {
    const id = await newConversation()
    const first = await send(id, '!wait 20\n!say 20')
    const second = await send(id, 'second')
    const third = await send(id, 'third')
    expect([first, second, third].map((one) => one.queue_position)).toEqual([0, 1, 2])
    await frameWhen(server, id, 'message.delta')
    const queue = await server.client.queue(id)
    expect(queue).toMatchObject({
      active: { run_id: first.run_id, message_id: first.message_id },
      items: [
        { run_id: second.run_id, content: 'second', position: 1 },
        { run_id: third.run_id, content: 'third', position: 2 },
      ],
      max_depth: 10,
    })
    await ended(id, third.run_id)
    const frames = await allFrames(server, id)
    const streams = frames.flatMap((frame) => frame.stream_id ?? [])
    // No run starts before the previous one has ended.
    expect(streams.filter((stream, index) => stream !== streams[index - 1])).toEqual([
      first.run_id,
      second.run_id,
      third.run_id,
    ])
  })

  it('[R1] refuses the eleventh waiting message with 429 and stores nothing of it', async () => {
    const id = await newConversation()
    await send(id, '!wait 50\n!say 2000')
    for (let count = 0; count < 10; count++) await send(id, `waiting ${count}`)
    const refused = await server.call(`/conversations/${id}/messages`, jsonBody({ content: 'too many' }))
    expect(refused.status).toBe(429)
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(await refused.json()).toMatchObject({ code: 'queue_full' })
    const { items } = await server.client.queue(id)
    expect(items).toHaveLength(10)
    for (const { run_id } of items) await server.client.removeQueued(id, run_id)
    await server.client.stop(id)
  })

  it('[R2] stop cancels the run, even inside a tool, and the next one starts', async () => {
    const id = await newConversation()
    const first = await send(id, '!run_command {"command":"echo begun; sleep 60; echo over"}')
    const second = await send(id, 'hello')
    await frameWhen(server, id, 'tool.output', (frame) => frame.partial === true)
    expect(await server.client.stop(id)).toEqual({ run_id: first.run_id })
    expect(await ended(id, first.run_id)).toMatchObject({ status: 'cancelled' })
    expect(await ended(id, second.run_id)).toMatchObject({ status: 'completed' })
    const [run] = runsOf(transcriptOf(await allFrames(server, id)))
    expect(run).toMatchObject({ status: 'cancelled', reason: 'stopped by local' })
    expect(toolsOf(run)[0]).toMatchObject({ toolStatus: 'failed', output: 'Stopped.' })
  })

  it('[R2] stop keeps a half answer, and the next run sees it', async () => {
    const id = await newConversation()
    const { run_id } = await send(id, 'I am devansh\n!wait 10\n!say 1000')
    await frameWhen(server, id, 'message.delta')
    await server.client.stop(id)
    const final = await ended(id, run_id)
    expect(final).toMatchObject({ status: 'cancelled' })
    expect(final.response_text).toMatch(/^the ledger|^the /)
    const frames = await ask(server, id, 'what is my name')
    expect(finalOf(frames).response_text).toBe('Your name is devansh.')
    expect(await server.client.stop(id)).toEqual({ run_id: null })
  })

  it('[R2] closing the connection never stops a run', async () => {
    const id = await newConversation()
    const leave = new AbortController()
    const { headers, ...init } = jsonBody({ content: '!wait 10\n!say 30' })
    const response = await server.call(`/conversations/${id}/messages`, {
      ...init,
      headers: { ...headers, Accept: 'text/event-stream' },
      signal: leave.signal,
    })
    await response.body?.getReader().read()
    leave.abort()
    expect((await frameWhen(server, id, 'final')).final.response_text?.split(' ')).toHaveLength(30)
  })

  it('[R6] runs a message once when it is sent again with the same key', async () => {
    const id = await newConversation()
    const options = { idempotencyKey: newId('msg') }
    const sent = [
      await server.client.sendMessage(id, { content: 'once' }, options),
      await server.client.sendMessage(id, { content: 'once' }, options),
    ]
    expect(sent[1]).toEqual(sent[0])
    await ended(id, sent[0]?.run_id ?? '')
    expect(ofKind(await allFrames(server, id), 'message.user')).toHaveLength(1)
    // A repeated request for a stream gets the frames of the finished run.
    const { headers, ...init } = jsonBody({ content: 'once' })
    const again = await server.call(`/conversations/${id}/messages`, {
      ...init,
      headers: { ...headers, Accept: 'text/event-stream', 'Idempotency-Key': options.idempotencyKey },
    })
    expect(finalOf(framesIn(await again.text())).status).toBe('completed')
  })

  it('removes a waiting message and ends the streams of its run', async () => {
    const id = await newConversation()
    const first = await send(id, '!wait 20\n!say 2000')
    const { headers, ...init } = jsonBody({ content: 'never' })
    const streaming = server.call(`/conversations/${id}/messages`, {
      ...init,
      headers: { ...headers, Accept: 'text/event-stream' },
    })
    await expect
      .poll(() => server.client.queue(id))
      .toMatchObject({ active: { run_id: first.run_id }, items: [{ content: 'never' }] })
    const [waiting] = (await server.client.queue(id)).items
    await server.client.removeQueued(id, waiting?.run_id ?? '')
    expect(await (await streaming).text()).toContain('event: removed')
    await expect(server.client.removeQueued(id, waiting?.run_id ?? '')).rejects.toMatchObject({
      code: 'run_not_found',
    })
    await server.client.cancelRun(id, first.run_id)
    expect(await ended(id, first.run_id)).toMatchObject({ status: 'cancelled' })
    expect(ofKind(await allFrames(server, id), 'message.user')).toHaveLength(1)
  })

  it('sends queue changes on the live stream, without an id', async () => {
    const id = await newConversation()
    const seen: string[] = []
    const stop = new AbortController()
    const streaming = (async () => {
      for await (const _ of server.client.stream(id, {
        signal: stop.signal,
        onQueue: ({ active, items }) => seen.push(`${active ? 1 : 0} ${items.length}`),
      }));
    })()
    await expect.poll(() => seen).toEqual(['0 0'])
    await send(id, '!wait 20\n!say 10')
    await send(id, 'second')
    await expect.poll(() => seen).toContain('1 1')
    await expect.poll(() => seen.at(-1)).toBe('0 0')
    stop.abort()
    await streaming
  })

  it('asks a person when the policy requires it, and continues with the answer', async () => {
    const id = await newConversation()
    const { run_id } = await send(id, '!list_files {}')
    const asked = await frameWhen(server, id, 'tool.approval')
    expect(asked).toMatchObject({ status: 'requested', tool_name: 'list_files' })
    const { tool_call_id } = asked
    await expect(
      server.client.answerApproval(id, run_id, {
        tool_call_id: 'call_other',
        approved: true,
        question_sha256: 'x',
      }),
    ).rejects.toMatchObject({ code: 'approval_not_pending' })
    await expect(
      server.client.answerApproval(id, run_id, { tool_call_id, approved: true }),
    ).rejects.toMatchObject({ code: 'invalid_request' })
    await approve(server.client, id, run_id, tool_call_id)
    await ended(id, run_id)
    const [tool] = toolsOf(runsOf(transcriptOf(await allFrames(server, id)))[0])
    expect(tool).toMatchObject({ toolStatus: 'completed', approval: { status: 'approved', by: 'local' } })
  })

  it('sends the model a denial with its reason', async () => {
    const id = await newConversation()
    const { run_id } = await send(id, '!list_files {}')
    const { tool_call_id } = await frameWhen(server, id, 'tool.approval')
    await server.client.answerApproval(id, run_id, { tool_call_id, approved: false, reason: 'not now' })
    expect((await ended(id, run_id)).response_text).toContain('Denied: not now')
  })

  it('stops a run that waits for an approval', async () => {
    const id = await newConversation()
    const { run_id } = await send(id, '!list_files {}')
    await frameWhen(server, id, 'tool.approval')
    await server.client.stop(id)
    expect(await ended(id, run_id)).toMatchObject({ status: 'cancelled' })
  })

  it('never runs a denied tool', async () => {
    const id = await newConversation()
    await ask(
      server,
      id,
      '!write_to_file {"path":"kept.txt","content":"x"}\n!delete_file {"path":"kept.txt"}',
    )
    expect(await readFile(join(server.config.project, 'kept.txt'), 'utf8')).toBe('x')
    const [, tool] = toolsOf(runsOf(transcriptOf(await allFrames(server, id)))[0])
    expect(tool).toMatchObject({ toolStatus: 'failed', output: 'The tool delete_file is not allowed here.' })
  })

  it('[R1] edits and reorders waiting messages', async () => {
    const { id } = await server.client.createConversation()
    await server.client.sendMessage(id, { content: '!wait 1000\n!say 300' })
    const queued: string[] = []
    for (const content of ['one', 'two', 'three']) {
      queued.push((await server.client.sendMessage(id, { content })).run_id)
    }
    const [one = '', two = '', three = ''] = queued
    const words = async () => (await server.client.queue(id)).items.map((item) => item.content)
    await server.client.editQueued(id, two, { content: 'two, reworded' })
    expect(await words()).toEqual(['one', 'two, reworded', 'three'])
    const moved = await server.client.editQueued(id, three, { position: 1 })
    expect(moved.items.map((item) => item.run_id)).toEqual([three, one, two])
    await server.client.editQueued(id, three, { position: 99, content: 'the last' })
    expect(await words()).toEqual(['one', 'two, reworded', 'the last'])
    await expect(
      server.client.editQueued(id, 'run_00000000000000000000000000', { position: 1 }),
    ).rejects.toMatchObject({
      code: 'run_not_found',
    })
    for (const run of queued) await server.client.removeQueued(id, run)
    await server.client.stop(id)
  })

  it('counts runs, model calls, tokens, checkpoints and the queue', async () => {
    const { id } = await server.client.createConversation()
    const figures = async () => {
      const text = await (await server.call('/metrics')).text()
      const figure = (name: string) => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1] ?? 0)
      return {
        runs: figure('waymark_runs_ended_total\\{status="completed"\\}'),
        calls: figure('waymark_model_calls_total'),
        tokens: figure('waymark_model_tokens_total\\{direction="output"\\}'),
        checkpoints: figure('waymark_checkpoints_total'),
        waiting: figure('waymark_queue_messages\\{state="waiting"\\}'),
      }
    }
    const before = await figures()
    finalOf(await ask(server, id, 'hello'))
    const after = await figures()
    expect(after.runs - before.runs).toBe(1)
    expect(after.calls - before.calls).toBe(1)
    expect(after.tokens).toBeGreaterThan(before.tokens)
    expect(after.checkpoints).toBeGreaterThan(before.checkpoints)
    expect(after.waiting).toBe(0)
  })

  it('shows edits as diffs on the card of the call that made them', async () => {
    const id = await newConversation()
    const frames = await ask(
      server,
      id,
      '!write_to_file {"path":"d/e.txt","content":"one\\ntwo\\n"}\n!replace_in_file {"path":"d/e.txt","search":"two","replace":"three"}\n!set_title {"title":"Edits"}',
    )
    const [, replaced] = toolsOf(runsOf(transcriptOf(frames))[0])
    expect(replaced?.edits).toEqual([
      {
        path: 'd/e.txt',
        previousCheckpoint: null,
        change: 'modified',
        additions: 1,
        deletions: 1,
        diff: '--- a/d/e.txt\n+++ b/d/e.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n',
      },
    ])
    expect((await server.client.conversation(id)).title).toBe('Edits')
  })

  it('answers the third identical call without running it', async () => {
    const id = await newConversation()
    const line = '!run_command {"command":"echo x >> count.txt"}\n'
    await ask(server, id, line.repeat(4))
    expect(await readFile(join(server.config.project, 'count.txt'), 'utf8')).toBe('x\nx\n')
    const tools = toolsOf(runsOf(transcriptOf(await allFrames(server, id)))[0])
    expect(tools.map((tool) => tool.toolStatus)).toEqual(['completed', 'completed', 'failed', 'failed'])
  })

  it('[R5] ends a run with an error frame when the model fails, and answers the next message', async () => {
    const id = await newConversation()
    const frames = await ask(server, id, '!fail 400')
    expect(frames.at(-1)).toMatchObject({
      kind: 'error',
      error: { code: 'demo_failure', source: 'provider', is_retryable: false },
    })
    expect(finalOf(await ask(server, id, 'hello')).status).toBe('completed')
  })

  it('truncates a long output in its frame with a notice, and returns the rest through get_tool_result', async () => {
    const id = await newConversation()
    const frames = await ask(server, id, '!run_command {"command":"seq 1 20000"}')
    const output = ofKind(frames, 'tool.output').find((frame) => !frame.partial)
    expect(String(output?.output)).toHaveLength(8000)
    expect(output?.notices).toMatchObject([{ type: 'truncated', path: 'output' }])
    const again = await ask(
      server,
      id,
      `!get_tool_result {"tool_call_id":"${output?.tool_call_id}","offset":108888}`,
    )
    const [piece] = ofKind(again, 'tool.output')
    expect(piece?.output).toBe('20000\n[Exit code 0.]\n[characters 108888 to 108908 of 108908]')
  })

  it('refuses invalid messages', async () => {
    const id = await newConversation()
    for (const body of [
      {},
      { content: '' },
      { content: '  ' },
      { content: 'x', more: 1 },
      { content: 'a\u0000b' },
    ]) {
      const response = await server.call(`/conversations/${id}/messages`, jsonBody(body))
      expect(response.status).toBe(400)
    }
    expect(await server.client.queue(id)).toMatchObject({ active: null, items: [] })
    const missing = await server.call(`/conversations/${newId('conv')}/messages`, jsonBody({ content: 'x' }))
    expect(missing.status).toBe(404)
  })

  it('[L11] enforces scopes and tenants on every call', async () => {
    const id = await newConversation()
    const reader = await server.tokenFor('default', ['conversations:read', 'conversations:write'])
    const stranger = await server.tokenFor('other', [
      'conversations:read',
      'conversations:write',
      'workspace:write',
    ])
    const as = (token: string, path: string, init = {}) =>
      server.call(path, {
        ...init,
        headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${token}` },
      })
    const approval = { method: 'POST', body: JSON.stringify({ tool_call_id: 'x', approved: false }) }
    const run = newId('run')
    expect((await as(reader, `/conversations/${id}/runs/${run}/approvals`, approval)).status).toBe(403)
    for (const [path, init] of [
      [`/conversations/${id}/messages`, { method: 'POST', body: '{"content":"x"}' }],
      [`/conversations/${id}/queue`, {}],
      [`/conversations/${id}/queue/${run}`, { method: 'DELETE' }],
      [`/conversations/${id}/stop`, { method: 'POST' }],
      [`/conversations/${id}/runs/${run}/cancel`, { method: 'POST' }],
      [`/conversations/${id}/runs/${run}/approvals`, approval],
    ] as const) {
      expect((await as(stranger, path, init)).status, path).toBe(404)
    }
  })

  it('ends the active run of a deleted conversation', async () => {
    const id = await newConversation()
    await send(id, '!wait 10\n!say 5000')
    await frameWhen(server, id, 'message.delta')
    await server.client.deleteConversation(id)
    const other = await newConversation()
    expect(finalOf(await ask(server, other, 'hello')).status).toBe('completed')
  })
})

describe('a run that would never end', () => {
  it('ends as incomplete after the maximum number of model calls', async () => {
    const model = await startModelServer(
      Array.from({ length: 20 }, (_, index) => ({
        events: calls('read_file', { path: `missing-${index}.txt` }),
      })),
    )
    const server = await startTestServer({ baseUrl: model.url, maxModelCalls: 5 })
    const { id } = await server.client.createConversation()
    const frames = await ask(server, id, 'go on for ever')
    expect(finalOf(frames)).toMatchObject({ status: 'incomplete', usage: { requests: 5 } })
    expect(ofKind(frames, 'lifecycle').at(-1)?.reason).toContain('5 model calls')
    expect(model.requests).toHaveLength(5)
    await server.close()
    await model.close()
  })
})

describe('an approval across a restart', () => {
  it('is asked once before the restart and can be answered after it', async () => {
    const project = await mkdtemp(join(tmpdir(), 'waymark-project-'))
    const first = await startTestServer({ project })
    const { id } = await first.client.createConversation()
    const { run_id } = await first.client.sendMessage(id, {
      content: '!run_command {"command":"echo ran >> log.txt"}',
    })
    const { tool_call_id } = await frameWhen(first, id, 'tool.approval')
    await first.close()

    const second = await startTestServer({ project })
    await frameWhen(second, id, 'lifecycle', (frame) => frame.reason?.includes('interruption') ?? false)
    await approve(second.client, id, run_id, tool_call_id)
    await frameWhen(second, id, 'final')
    const frames = await allFrames(second, id)
    expect(ofKind(frames, 'tool.approval').map((frame) => frame.status)).toEqual(['requested', 'approved'])
    expect(ofKind(frames, 'message.user')).toHaveLength(1)
    expect(await readFile(join(project, 'log.txt'), 'utf8')).toBe('ran\n')
    await second.close()
    await rm(project, { recursive: true })
  })

  it('keeps an answer that was given while no worker held the run', async () => {
    const project = await mkdtemp(join(tmpdir(), 'waymark-project-'))
    const first = await startTestServer({ project })
    const { id } = await first.client.createConversation()
    const { run_id } = await first.client.sendMessage(id, { content: '!run_command {"command":"true"}' })
    const { tool_call_id } = await frameWhen(first, id, 'tool.approval')
    await first.client.answerApproval(id, run_id, { tool_call_id, approved: false })
    await first.close()
    const second = await startTestServer({ project })
    await frameWhen(second, id, 'final')
    const statuses = ofKind(await allFrames(second, id), 'tool.approval').map((frame) => frame.status)
    expect(statuses).toEqual(['requested', 'denied'])
    await second.close()
    await rm(project, { recursive: true })
  })
})
