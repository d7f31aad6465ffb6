import { mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { WaymarkError } from '../../protocol/errors.ts'
import { startWorkerThread } from '../../worker-thread/worker-thread.ts'
import type { Engine, Outcome } from '../engine.ts'
import { isSlow, type ReadResult } from '../sql/operations.ts'
import { backupSqlite } from './backup.ts'
import type { Answer, Command, ThreadData, Work } from './thread.ts'
import { packAppends, unpackOutcomes } from './transport.ts'

export async function openSqlite(path: string): Promise<Engine> {
  await mkdir(dirname(path), { recursive: true })
  const reader = startThread({ path, role: 'reader' })
  const writer = startThread({ path, role: 'writer' })
  // If the writer fails, the reader is terminated before anything awaits `ready`.
  reader.ready.catch(() => {})
  try {
    await writer.ready
    reader.open()
    await reader.ready
  } catch (error) {
    await Promise.all([reader.terminate(), writer.terminate()])
    throw new WaymarkError('storage_failed', `${path} can't be opened: ${(error as Error).message}`, {
      cause: error,
    })
  }
  let slow: Thread | null = null
  /** A second reader for slow queries, started on first use; most servers never need it. */
  function slowReader(): Thread {
    if (slow) return slow
    slow = startThread({ path, role: 'reader' })
    // `call` reports the failure.
    slow.ready.catch(() => {})
    slow.open()
    return slow
  }
  return {
    async read(name, argument) {
      const call = { name, argument }
      const [outcome] = outcomesIn(await (isSlow(call) ? slowReader() : reader).call({ read: call }))
      if (!outcome || 'error' in outcome) throw outcome?.error ?? new Error('the read has no outcome')
      return outcome.result as ReadResult<typeof name>
    },
    async write(group) {
      const append = packAppends(group)
      const write = () => group.map(({ name, argument }) => ({ name, argument }))
      return outcomesIn(await writer.call(append ? { append } : { write: write() }))
    },
    isSingleProcess: true,
    // The next group is sent while the thread commits the current one.
    groupsInFlight: 2,
    // A single process serves a SQLite file; all others connect to that process.
    onForeignChange() {},
    backup: (folder) => backupSqlite(path, folder),
    restore: () => Promise.reject(new Error('a SQLite backup must be restored before the file is opened')),
    async close() {
      await slow?.close()
      await reader.close()
      await writer.close()
    },
  }
}

interface Thread {
  ready: Promise<void>
  open(): void
  call(work: Work): Promise<Answer>
  terminate(): Promise<void>
  close(): Promise<void>
}

function startThread(data: ThreadData): Thread {
  const ready = Promise.withResolvers<void>()
  const thread = startWorkerThread<Work, Answer, 'ready'>({
    module: './thread',
    from: import.meta.url,
    worker: {
      workerData: data,
      // A replay discards a page of strings every few milliseconds; collected early, they cost no memory.
      ...(data.role === 'reader' ? { resourceLimits: { maxYoungGenerationSizeMb: 8 } } : {}),
    },
    onNotice: () => ready.resolve(),
    asEnd(why, cause) {
      const error = cause ?? new Error(`SQLite: ${why}`)
      ready.reject(error)
      return error
    },
  })
  return {
    ready: ready.promise,
    open: () => thread.post({ do: 'open' } satisfies Command),
    terminate: thread.terminate,
    call: thread.call,
    async close() {
      thread.post({ do: 'close' } satisfies Command)
      await thread.exited
    },
  }
}

function outcomesIn(answer: Answer): Outcome[] {
  return 'appended' in answer ? unpackOutcomes(answer.appended) : answer.outcomes
}
