import { Worker } from 'node:worker_threads'
import type { Embedder } from '../core/retrieval.ts'
import { createBoundedFetch } from '../outbound/bounded-fetch.ts'
import type { EmbedReply, EmbedRequest } from './embed-thread.ts'

interface Job {
  texts: readonly string[]
  resolve(vectors: Float32Array[]): void
  reject(error: Error): void
}

/** The model that comes with us, in a thread that starts when it is first needed. Questions overtake files. */
export function createLocalEmbedder(): Embedder {
  let worker: Worker | null = null
  let current: Job | null = null
  const waiting: Record<'now' | 'later', Job[]> = { now: [], later: [] }
  let lastId = 0

  function start(): Worker {
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    const thread = new Worker(new URL(`./embed-thread.${extension}`, import.meta.url))
    thread.unref()
    thread.on('message', (reply: EmbedReply) => {
      const job = current
      current = null
      if ('error' in reply) job?.reject(new Error(reply.error))
      else job?.resolve(reply.vectors)
      next()
    })
    thread.on('error', (error) => end(error as Error))
    thread.on('exit', () => end(new Error('the embedder has ended')))
    return thread
  }

  function end(error: Error): void {
    worker = null
    const lost = [...(current ? [current] : []), ...waiting.now, ...waiting.later]
    current = null
    waiting.now = []
    waiting.later = []
    for (const job of lost) job.reject(error)
  }

  /** One text at a time of what can wait, so that a question need not wait for long. */
  function next(): void {
    if (current) return
    const job = waiting.now.shift() ?? waiting.later.shift()
    if (!job) return
    current = job
    worker ??= start()
    worker.postMessage({ id: ++lastId, texts: job.texts } satisfies EmbedRequest)
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
      const closing = worker
      end(new Error('the embedder is closed'))
      await closing?.terminate()
    },
  }
}

const LIMITS = { silenceMs: 60_000, totalMs: 120_000, totalBytes: 64 * 1024 * 1024 }
const OPENAI_MODEL = 'text-embedding-3-small'

/** Any server with OpenAI's `/embeddings`. */
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
