import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

const bundledThreads = fileURLToPath(new URL('test/support/bundled-threads.mjs', import.meta.url))

export default defineConfig({
  test: {
    testTimeout: 60_000,
    hookTimeout: 60_000,
    maxWorkers: 2,
    // V8 may lose track of a page of code when threads come and go, and ends the process ("Check failed: jit_page.has_value()").
    execArgv: ['--no-memory-protection-keys', '--import', bundledThreads],
    // For the servers that tests start.
    env: { NODE_OPTIONS: `--import ${bundledThreads}` },
    expect: { poll: { timeout: 15_000 } },
    // Real agents are large: `npm run test:agents` installs and runs them.
    exclude: ['**/node_modules/**', ...(process.env.WAYMARK_TEST_AGENTS ? [] : ['test/agents/**'])],
    include: ['src/**/*.test.ts', 'web/**/*.test.ts', 'test/**/*.test.ts'],
    globalSetup: [
      'test/support/bundle-threads.ts',
      'test/support/postgres-server.ts',
      'test/support/s3-server.ts',
    ],
  },
})
