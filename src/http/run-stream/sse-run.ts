import type { ServerResponse } from 'node:http'
import type { AcceptedMessage } from '../../protocol/api/runs.ts'
import type { AppDependencies } from '../app-dependencies.ts'
import { problemOf } from '../problem.ts'
import { namedEvent, openEventStream } from '../sse.ts'
import { type FollowedRun, followRun, type RunEvent } from './run-events.ts'

/** Streams a run as server-sent events up to its end. Closing the connection never stops the run (R2). */
export async function streamRun(
  response: ServerResponse,
  deps: AppDependencies,
  run: Omit<FollowedRun, 'runId'> & { accepted: AcceptedMessage },
): Promise<void> {
  const { accepted, ...place } = run
  const runId = accepted.run_id
  const out = openEventStream(response, deps.stopping)
  await out.write(namedEvent('accepted', accepted))
  void send()
    .catch(async (error: unknown) => {
      deps.log.error({ err: error, run: runId }, 'stream interrupted')
      await out.write(namedEvent('problem', problemOf(error)))
    })
    .finally(() => out.end())

  async function send(): Promise<void> {
    for await (const event of followRun(deps, { ...place, runId }, out.signal)) {
      await out.write(encode(event, runId))
    }
  }
}

function encode(event: RunEvent, runId: string): string {
  if (event.type !== 'frames') return namedEvent(event.type, { run_id: runId })
  return event.frames.map(({ cursor, frame }) => `id: ${cursor}\ndata: ${frame}\n\n`).join('')
}
