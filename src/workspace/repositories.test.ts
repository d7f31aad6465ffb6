import { afterEach, expect, it } from 'vitest'
import { openTestWorkspace, type TestWorkspace } from '../../test/support/workspace.ts'
import { WaymarkError } from '../protocol/errors.ts'
import { newId } from '../protocol/ids.ts'
import { followLedger, type RepositoriesDependencies } from './repositories.ts'
import { readBranches } from './repository.ts'

let one: TestWorkspace
afterEach(() => one.close())

it('[D3] still follows the other conversations when one is deleted meanwhile', async () => {
  one = openTestWorkspace()
  const tip = await one.checkpoint()
  const [deleted, kept] = [newId('conv'), newId('conv')]
  const rows = {
    workspaceId: 'w',
    tips: [{ workSession: 'main', checkpointId: tip, count: 1, number: 1, firstAt: '', firstId: tip }],
    closings: [],
    inherited: { tip: null, main: null },
  }
  const store = {
    conversations: async () => [deleted, kept].map((id) => ({ tenant: 't', id })),
    rows: async (_: string, id: string) => {
      if (id === deleted) throw new WaymarkError('conversation_not_found', 'It was deleted meanwhile.')
      return rows
    },
  } as unknown as RepositoriesDependencies['store']
  const workspace = one.workspace as RepositoriesDependencies['workspace']
  const changed = await followLedger({
    store,
    workspace,
    workspaceIds: () => ['w'],
    copyId: (id) => id,
    dataDir: one.dataDir,
  })
  expect(changed).toBe(1)
  expect(readBranches(one.dataDir, kept)?.heads.main).toBe(tip)
})
