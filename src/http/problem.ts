import type { Context } from 'hono'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import type { Problem } from '../protocol/api/service.ts'
import { type ErrorCode, WaymarkError } from '../protocol/errors.ts'

/** The HTTP status of each error code. The record is total: a new code without a status does not compile. */
const statuses: Record<ErrorCode, ContentfulStatusCode> = {
  invalid_request: 400,
  invalid_json: 400,
  invalid_utf8: 400,
  bad_cursor: 400,
  body_too_large: 413,
  unsupported_media_type: 415,
  unauthorized: 401,
  missing_scope: 403,
  foreign_host: 403,
  foreign_origin: 403,
  not_found: 404,
  conversation_not_found: 404,
  event_not_found: 404,
  message_not_found: 404,
  message_not_deletable: 409,
  message_not_deleted: 409,
  response_not_found: 404,
  attachment_not_found: 404,
  output_not_found: 404,
  checkpoint_not_found: 404,
  idempotency_key_reused: 422,
  import_conflict: 409,
  commit_refused: 409,
  nothing_to_undo: 409,
  approval_not_pending: 409,
  queue_full: 429,
  conversation_busy: 409,
  workspace_busy: 409,
  workspace_not_here: 409,
  snapshot_failed: 500,
  disk_full: 507,
  frame_missing: 409,
  lease_lost: 409,
  run_ended: 409,
  run_not_found: 404,
  rule_not_found: 404,
  segment_cut: 409,
  storage_failed: 503,
  rebuilding: 503,
  too_slow: 503,
  internal: 500,
}

/** Long enough for a waiting message to have started. */
const RETRY_AFTER_SECONDS = 5

const titles: Partial<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  409: 'Conflict',
  413: 'Content Too Large',
  415: 'Unsupported Media Type',
  422: 'Unprocessable Content',
  429: 'Too Many Requests',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
  507: 'Insufficient Storage',
}

/** An RFC 9457 problem with an added stable `code`. */
export function problemOf(error: unknown): Problem {
  const known =
    error instanceof WaymarkError
      ? error
      : new WaymarkError('internal', 'Internal server error. See the server log for details.')
  const status = statuses[known.code]
  return {
    type: 'about:blank',
    title: titles[status] ?? 'Error',
    status,
    code: known.code,
    detail: known.message,
    ...(known.details.length > 0 ? { errors: known.details } : {}),
  }
}

export function answerProblem(c: Context, error: unknown): Response {
  const problem = problemOf(error)
  if (problem.code === 'queue_full') c.header('Retry-After', String(RETRY_AFTER_SECONDS))
  if (problem.status === 401) c.header('WWW-Authenticate', 'Bearer')
  return c.body(JSON.stringify(problem), problem.status as ContentfulStatusCode, {
    'Content-Type': 'application/problem+json',
  })
}
