// A complete server with the demo model, for tests that kill or pause it. Runs in a separate process; arguments:
// <project> <port> <settings as JSON>
import '../../src/cli/small-heap.ts'
import { readConfig } from '../../src/config.ts'
import { startServer } from '../../src/server/server.ts'
import { stateIn } from '../support/state.ts'

const [project = '', port = '0', given = '{}'] = process.argv.slice(2)
const config = {
  ...readConfig({ project }, { PATH: process.env.PATH, ...stateIn(project) }),
  embedder: 'none',
  ...JSON.parse(given),
}
const server = await startServer({ ...config, port: Number(port), logLevel: 'error' })
process.on('message', () => {})
process.send?.({ url: server.url, token: server.token })
