import { mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { WaymarkError } from '../../protocol/errors.ts'
import type { Engine, Outcome } from '../engine.ts'
import { isSlow, type ReadResult } from '../sql/operations.ts'
import { backupSqlite } from './backup.ts'
import type { ThreadData, ThreadReply, Work } from './thread.ts'
import { packAppends, unpackOutcomes } from './transport.ts'

export async function openSqlite(path: string): Promise<Engine> {
  await mkdir(dirname(path), { recursive: true })
  const reader = startThread({ path, role: 'reader' })
  const writer = startThread({ path, role: 'writer' })
  // Ends with the writer when that fails; nothing waits for it then.
  reader.ready.catch(() => {})
  try {
    await writer.ready
    reader.open()
    await reader.ready
  } catch (error) {
    await Promise.all([reader.terminate(), writer.terminate()])
    throw new WaymarkError('storage_failed', `${path} can not be opened: ${(error as Error).message}`, {
      cause: error,
    })
  }
  let slow: Thread | null = null
  /** A second reader for what may take long; most servers never need it. */
  function slowReader(): Thread {
    if (slow) return slow
    slow = startThread({ path, role: 'reader' })
    // `send` reports the failure.
    slow.ready.catch(() => {})
    slow.open()
    return slow
  }
  return {
    async read(name, argument) {
      const call = { name, argument }
      const [outcome] = await (isSlow(call) ? slowReader() : reader).send({ read: call })
      if (!outcome || 'error' in outcome) throw outcome?.error ?? new Error('the read has no outcome')
      return outcome.result as ReadResult<typeof name>
    },
    write(group) {
      const append = packAppends(group)
      return writer.send(append ? { append } : { write: group })
    },
    // While the thread commits one group, the next is on its way to it.
    isSingleProcess: true,
    groupsInFlight: 2,
    // One process serves a SQLite file: everybody else talks to it.
    onForeignChange() {},
    backup: (folder) => backupSqlite(path, folder),
    restore: () => Promise.reject(new Error('a SQLite backup is restored before the file is opened')),
    async close() {
      await slow?.close()
      await reader.close()
      await writer.close()
    },
  }
}

interface Thread {
  ready: Promise<unknown>
  open(): void
  send(work: Work): Promise<Outcome[]>
  terminate(): Promise<unknown>
  close(): Promise<void>
}

interface Waiter {
  resolve(outcomes: Outcome[]): void
  reject(error: Error): void
}

function startThread(data: ThreadData): Thread {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
  const worker = new Worker(new URL(`./thread.${extension}`, import.meta.url), {
    workerData: data,
    // A replay discards a page of strings every few milliseconds; collected early, they cost no memory.
    ...(data.role === 'reader' ? { resourceLimits: { maxYoungGenerationSizeMb: 8 } } : {}),
  })
  const waiters = new Map<number, Waiter>()
  const exited = new Promise<void>((resolve) => worker.once('exit', () => resolve()))
  let failure: Error | null = null
  let lastId = 0

  function fail(error: Error): void {
    failure ??= error
    for (const waiter of waiters.values()) waiter.reject(failure)
    waiters.clear()
  }

  function answerTo(id: number): Promise<Outcome[]> {
    return new Promise((resolve, reject) => {
      if (failure) return reject(failure)
      waiters.set(id, { resolve, reject })
    })
  }

  worker.on('message', (reply: ThreadReply) => {
    const waiter = waiters.get(reply.id)
    waiters.delete(reply.id)
    waiter?.resolve('appended' in reply ? unpackOutcomes(reply.appended) : reply.outcomes)
  })
  worker.on('error', (error) => fail(error as Error))
  worker.on('exit', () => fail(new Error('the SQLite thread has ended')))

  return {
    // Its own word, under an id that no request has.
    ready: answerTo(0),
    open: () => worker.postMessage('open'),
    terminate: () => worker.terminate(),
    send(work) {
      const id = ++lastId
      const answer = answerTo(id)
      if (!failure) worker.postMessage({ id, ...work })
      return answer
    },
    async close() {
      worker.postMessage('close')
      await exited
    },
  }
}
