// The demo model in a separate process, like a real provider. Started by `startModelProcess`.
import { startDemoModel } from '../../src/demo-model/server.ts'

const { url } = await startDemoModel()
process.on('message', () => {})
process.send?.(url)
