import type { FrameDraft } from '../protocol/frames.ts'
import type { MadeCheckpoint } from './file-operations.ts'

export type CheckpointFrame = FrameDraft<'workspace.checkpoint'>

export function frameOf(
  { id: checkpoint_id, files, changed, excluded }: Omit<MadeCheckpoint, 'isSame'>,
  work_session: string,
  label: string,
  number: number,
): CheckpointFrame {
  return {
    kind: 'workspace.checkpoint',
    checkpoint_id,
    work_session,
    label,
    files,
    changed,
    excluded,
    number,
  }
}
