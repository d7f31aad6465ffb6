import { Worker, type WorkerOptions } from 'node:worker_threads'

/** Calls into a worker thread: the one place that starts threads and matches replies to requests. */
export interface WorkerThread<Request extends object, Result> {
  /**
   * Rejects when the thread reports an error or ends. Functions can't cross threads, so a thread that needs the caller's
   * consent asks for it; when `confirm` rejects, the call rejects with its error.
   */
  call(request: Request, confirm?: Confirm | null): Promise<Result>
  /** Sends a last request and waits until the thread has ended by itself; the process stays alive until then. */
  end(request: Request): Promise<void>
  /** Sends a message that has no reply. */
  post(message: object): void
  hasEnded(): boolean
  /** Waits until the thread has ended by itself. */
  exited: Promise<void>
  terminate(): Promise<void>
}

/** What the thread sends back for a request; anything without an id is a notice. */
export type ThreadReply<Result> =
  | { id: number; result: Result }
  | { id: number; error: { message: string; name: string; code?: string | undefined } }

/** The thread asks the caller of a request for consent, and gets the answer. */
export type ThreadQuestion = { confirm: number; with: unknown }
export type ThreadAnswer = { confirmed: number; error: string | null }
type Confirm = (given: unknown) => Promise<void>

export interface WorkerThreadOptions<Notice> {
  /** Where the thread's module is, without its extension: sources run as .ts, builds as .js. */
  module: string
  /** `import.meta.url` of the caller. */
  from: string
  worker?: WorkerOptions
  /** True lets the process end while the thread is idle. */
  isBackground?: boolean
  /** Called with messages that answer no request. */
  onNotice?(notice: Notice): void
  /** Makes the error that calls reject with when the thread reports one. */
  asError?(reported: { message: string; name: string; code?: string | undefined }): Error
  /** Makes the error that calls reject with when the thread fails or ends. */
  asEnd?(why: string, cause?: Error): Error
}

export function startWorkerThread<Request extends object, Result, Notice = never>(
  options: WorkerThreadOptions<Notice>,
): WorkerThread<Request, Result> {
  const {
    asError = ({ message }) => new Error(message),
    asEnd = (why, cause) => new Error(cause ? `${why}: ${cause.message}` : why),
  } = options
  const extension = options.from.endsWith('.ts') ? 'ts' : 'js'
  const worker = new Worker(new URL(`${options.module}.${extension}`, options.from), options.worker)
  if (options.isBackground) worker.unref()
  const waiting = new Map<number, Waiter<Result>>()
  let lastId = 0
  let ended: Error | null = null

  function end(error: Error): void {
    ended ??= error
    for (const { reject } of waiting.values()) reject(ended)
    waiting.clear()
  }

  async function confirm({ confirm: id, with: given }: ThreadQuestion): Promise<void> {
    const waiter = waiting.get(id)
    const error = await Promise.resolve(waiter?.confirm?.(given)).then(
      () => null,
      (why: unknown) => why as Error,
    )
    if (waiter && error) waiter.refusal = error
    worker.postMessage({ confirmed: id, error: error?.message ?? null } satisfies ThreadAnswer)
  }

  worker.on('message', (message: ThreadReply<Result> | ThreadQuestion | Notice) => {
    if (isQuestion(message)) return void confirm(message)
    if (!isReply<Result>(message)) return options.onNotice?.(message)
    const waiter = waiting.get(message.id)
    waiting.delete(message.id)
    if ('error' in message) waiter?.reject(waiter.refusal ?? asError(message.error))
    else waiter?.resolve(message.result)
  })
  worker.on('error', (error) => end(asEnd('the thread failed', error as Error)))
  const exited = new Promise<void>((resolve) => {
    worker.once('exit', () => {
      end(asEnd('the thread has ended'))
      resolve()
    })
  })

  function call(request: Request, confirming: Confirm | null = null): Promise<Result> {
    return new Promise((resolve, reject) => {
      if (ended) return reject(ended)
      const id = ++lastId
      waiting.set(id, { resolve, reject, confirm: confirming })
      worker.postMessage({ ...request, id })
    })
  }

  return {
    call,
    async end(request) {
      if (ended) return
      worker.ref()
      await call(request)
      await exited
    },
    post: (message) => worker.postMessage(message),
    hasEnded: () => ended !== null,
    exited,
    async terminate() {
      await worker.terminate()
    },
  }
}

interface Waiter<Result> {
  resolve(result: Result): void
  reject(error: Error): void
  confirm: Confirm | null
  /** The error of a `confirm` that rejected. */
  refusal?: Error
}

function isQuestion(message: unknown): message is ThreadQuestion {
  return typeof message === 'object' && message !== null && 'confirm' in message
}

function isReply<Result>(message: unknown): message is ThreadReply<Result> {
  return typeof message === 'object' && message !== null && 'id' in message && typeof message.id === 'number'
}
