// The demo model in a process of its own, as a provider is. Started by `startModelProcess`.
import { startDemoModel } from '../../src/demo-model/server.ts'

const { url } = await startDemoModel()
process.on('message', () => {})
process.send?.(url)
