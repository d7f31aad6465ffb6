import { MAX_WAITING, type QueueState } from '../core/queue.ts'
import type { QueueView } from '../protocol/api/runs.ts'

/** The queue as clients see it. */
export function queueView({ active, waiting }: QueueState): QueueView {
  return {
    active: active
      ? { run_id: active.runId, message_id: active.messageId, started_at: active.startedAt }
      : null,
    items: waiting.map(({ runId, messageId, content, extras }, index) => ({
      run_id: runId,
      message_id: messageId,
      content,
      active_files: extras.activeFiles?.map(({ path }) => path) ?? [],
      attachments: extras.attachments ?? [],
      position: index + (active ? 1 : 0),
    })),
    max_depth: MAX_WAITING,
  }
}
