import type { Embedder } from '../core/retrieval.ts'
import { createBoundedFetch } from '../outbound/bounded-fetch.ts'
import { startWorkerThread, type WorkerThread } from '../worker-thread/worker-thread.ts'
import type { EmbedRequest } from './embed-thread.ts'

interface Job {
  texts: readonly string[]
  resolve(vectors: Float32Array[]): void
  reject(error: Error): void
}

/** The bundled model, in a thread that starts on first use. Questions take precedence over files. */
export function createLocalEmbedder(): Embedder {
  let thread: WorkerThread<EmbedRequest, Float32Array[]> | null = null
  let isBusy = false
  let isClosed = false
  const waiting: Record<'now' | 'later', Job[]> = { now: [], later: [] }

  function threadNow(): WorkerThread<EmbedRequest, Float32Array[]> {
    if (!thread || thread.hasEnded()) {
      thread = startWorkerThread({ module: './embed-thread', from: import.meta.url, isBackground: true })
    }
    return thread
  }

  /** Sends one text at a time, so that a question waits for at most one. */
  function next(): void {
    if (isBusy) return
    const job = waiting.now.shift() ?? waiting.later.shift()
    if (!job) return
    if (isClosed) {
      job.reject(new Error('the embedder is closed'))
      return next()
    }
    isBusy = true
    void threadNow()
      .call({ texts: job.texts })
      .then(job.resolve, job.reject)
      .finally(() => {
        isBusy = false
        next()
      })
  }

  const one = (text: string, urgency: 'now' | 'later') =>
    new Promise<Float32Array[]>((resolve, reject) => {
      waiting[urgency].push({ texts: [text], resolve, reject })
      next()
    })

  return {
    name: 'minilm-l6-v2+path',
    embed: async (texts, urgency) => (await Promise.all(texts.map((text) => one(text, urgency)))).flat(),
    async close() {
      isClosed = true
      await thread?.terminate()
      next()
    },
  }
}

const LIMITS = { silenceMs: 60_000, totalMs: 120_000, totalBytes: 64 * 1024 * 1024 }
const OPENAI_MODEL = 'text-embedding-3-small'

/** Uses any server that has OpenAI's `/embeddings`. */
export function createOpenAiEmbedder(options: { baseUrl: string | null; apiKey: string | null }): Embedder {
  const load = async () => {
    const { default: Client } = await import('openai')
    return new Client({
      apiKey: options.apiKey ?? 'none',
      ...(options.baseUrl === null ? {} : { baseURL: options.baseUrl }),
      fetch: createBoundedFetch({ limits: LIMITS }),
      logLevel: 'off',
    })
  }
  let client: ReturnType<typeof load> | null = null
  return {
    name: `${OPENAI_MODEL}+path`,
    async embed(texts) {
      client ??= load()
      const { data } = await (await client).embeddings.create({
        model: OPENAI_MODEL,
        input: [...texts],
        encoding_format: 'float',
      })
      return data.map((one) => Float32Array.from(one.embedding))
    },
    close: async () => {},
  }
}
