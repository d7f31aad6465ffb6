/** Every error code that Waymark returns. Codes are part of the API: new ones are added, none are renamed. */
export const errorCodes = [
  'invalid_request',
  'invalid_json',
  'invalid_utf8',
  'bad_cursor',
  'body_too_large',
  'unsupported_media_type',
  'unauthorized',
  'missing_scope',
  'foreign_host',
  'foreign_origin',
  'not_found',
  'conversation_not_found',
  'event_not_found',
  'message_not_found',
  'message_not_deletable',
  'message_not_deleted',
  'response_not_found',
  'attachment_not_found',
  'output_not_found',
  'checkpoint_not_found',
  'idempotency_key_reused',
  'import_conflict',
  'commit_refused',
  'nothing_to_undo',
  'approval_not_pending',
  'queue_full',
  'conversation_busy',
  'workspace_busy',
  'workspace_not_here',
  'snapshot_failed',
  'disk_full',
  'frame_missing',
  'lease_lost',
  'run_ended',
  'run_not_found',
  'rule_not_found',
  'segment_cut',
  'storage_failed',
  'rebuilding',
  'too_slow',
  'internal',
] as const

export type ErrorCode = (typeof errorCodes)[number]

export interface ErrorDetail {
  path: string
  message: string
}

export class WaymarkError extends Error {
  readonly code: ErrorCode
  readonly details: ErrorDetail[]

  constructor(code: ErrorCode, message: string, options: { details?: ErrorDetail[]; cause?: unknown } = {}) {
    super(message, { cause: options.cause })
    this.name = 'WaymarkError'
    this.code = code
    this.details = options.details ?? []
  }
}
