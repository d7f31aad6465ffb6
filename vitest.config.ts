import { defineConfig } from 'vitest/config'

/** What counts frames a second needs the machine for itself: it runs when all the others have finished. */
const timed = ['test/browser/long-conversation.test.ts']

export default defineConfig({
  test: {
    testTimeout: 60_000,
    hookTimeout: 60_000,
    maxWorkers: 2,
    // V8 may lose track of a page of code when threads come and go, and ends the process ("Check failed: jit_page.has_value()").
    execArgv: ['--no-memory-protection-keys'],
    expect: { poll: { timeout: 15_000 } },
    projects: [
      {
        extends: true,
        test: {
          name: 'tests',
          include: ['src/**/*.test.ts', 'web/**/*.test.ts', 'test/**/*.test.ts'],
          exclude: timed,
          globalSetup: ['test/support/postgres-server.ts', 'test/support/s3-server.ts'],
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: { name: 'timed', include: timed, sequence: { groupOrder: 1 } },
      },
    ],
  },
})
