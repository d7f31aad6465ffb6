import { cutText } from '../core/limits.ts'
import { MAX_WAITING, type QueueState } from '../core/queue.ts'
import type { QueueView } from '../protocol/api/runs.ts'

/** The queue as the API returns it. */
export function queueView({ active, waiting }: QueueState): QueueView {
  return {
    active: active
      ? { run_id: active.runId, message_id: active.messageId, started_at: active.startedAt }
      : null,
    items: waiting.map(({ runId, messageId, content, extras }, index) => ({
      run_id: runId,
      message_id: messageId,
      content,
      content_length: content.length,
      active_files: extras.activeFiles?.map(({ path }) => path) ?? [],
      attachments: extras.attachments ?? [],
      position: index + (active ? 1 : 0),
    })),
    max_depth: MAX_WAITING,
  }
}

const NOTICE_CHARACTERS = 300
const NOTICE_FILES = 20

/** The queue as stream events carry it. Every reader receives one for each change, so it must stay small. */
export function queueNotice(state: QueueState): QueueView {
  const view = queueView(state)
  const items = view.items.map((item) => ({
    ...item,
    content: cutText(item.content, NOTICE_CHARACTERS),
    active_files: item.active_files.slice(0, NOTICE_FILES).map((path) => cutText(path, NOTICE_CHARACTERS)),
  }))
  return { ...view, items }
}
