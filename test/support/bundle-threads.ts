import { mkdir, rename } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { build } from 'rolldown'
import { bundleName } from './bundled-threads.mjs'

/** The modules of threads that most tests start. */
const threads = ['stores/sqlite/thread.ts', 'workspace/thread.ts']

/** Bundles the threads once, before the tests. */
export async function setup(): Promise<void> {
  const folder = fileURLToPath(new URL('../../node_modules/.cache/waymark-threads/', import.meta.url))
  await mkdir(folder, { recursive: true })
  await Promise.all(
    threads.map(async (module) => {
      const made = `${folder}${process.pid}-${bundleName(module)}`
      await build({
        input: fileURLToPath(new URL(`../../src/${module}`, import.meta.url)),
        platform: 'node',
        external: ['better-sqlite3', 'sqlite-vec', '@aws-sdk/client-s3'],
        output: { file: made, format: 'esm', codeSplitting: false },
        logLevel: 'silent',
      })
      // Other runs may use the one that is there.
      await rename(made, `${folder}${bundleName(module)}`)
    }),
  )
}
