// Runs the tests: `npm test`, with vitest arguments after `--`. An internal V8 check occasionally crashes a test process
// ("jit_page.has_value()", nodejs/node#64500), which is unrelated to the test, so only the crashed files are run once more.
import { spawn } from 'node:child_process'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { stripVTControlCharacters } from 'node:util'

const root = fileURLToPath(new URL('..', import.meta.url))
const args = process.argv.slice(2)
const first = await run(args)
const crashed = crashedFiles(first)
if (first.code === 0 || crashed === null) process.exit(first.code)
console.log(`\nV8 crashed the process of ${crashed.join(', ')}. Running it again.\n`)
process.exit((await run(crashed)).code)

/** The files whose process crashed; null if there were other failures, or more than three crashes. */
function crashedFiles({ output }) {
  const plain = stripVTControlCharacters(output)
  const hasFailures = /^\s*(Tests|Test Files)\s.*\bfailed\b/m.test(plain)
  const errors = [...plain.matchAll(/^(?:Caused by: )?Error: (.*)$/gm)].map(([, message]) => message)
  const files = errors.flatMap((message) => {
    const [, file] =
      /^Worker exited unexpectedly with signal SIG(?:TRAP|ABRT|ILL|SEGV) .* while running test file (.+)$/.exec(
        message,
      ) ?? []
    return file === undefined ? [] : [relative(root, file)]
  })
  const others = errors.filter(
    (message) => !/^(Worker exited unexpectedly|\[vitest-pool\]: Worker )/.test(message),
  )
  const isOnlyThat = files.length > 0 && files.length <= 3 && others.length === 0 && !hasFailures
  return isOnlyThat ? [...new Set(files)] : null
}

function run(more) {
  return new Promise((resolve) => {
    const env = { ...process.env, ...(process.stdout.isTTY ? { FORCE_COLOR: '1' } : {}) }
    const child = spawn('vitest', ['run', ...more], { cwd: root, env, stdio: ['inherit', 'pipe', 'pipe'] })
    let output = ''
    for (const [stream, to] of [
      [child.stdout, process.stdout],
      [child.stderr, process.stderr],
    ]) {
      stream.on('data', (bytes) => {
        output = (output + bytes).slice(-2_000_000)
        to.write(bytes)
      })
    }
    for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal))
    child.on('error', (error) => {
      console.error(error.message)
      resolve({ code: 1, output })
    })
    child.on('close', (code) => resolve({ code: code ?? 1, output }))
  })
}
