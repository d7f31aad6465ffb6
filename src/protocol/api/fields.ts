import * as z from 'zod'

/** Fields shared by many bodies and queries. */

export const DEFAULT_EVENTS_LIMIT = 500
export const MAX_EVENTS_LIMIT = 1000
export const MAX_LIST_LIMIT = 200
export const MAX_BODY_BYTES = 8 * 1024 * 1024

export const limit = (fallback: number, most: number) =>
  z.coerce.number().int().min(1).max(most).default(fallback)

export const text = (most: number) =>
  z
    .string()
    .max(most)
    .refine((value) => !value.includes('\u0000'), 'must not contain NUL')
export const title = text(500)
export const workspaceId = text(200).regex(
  /^[A-Za-z0-9][A-Za-z0-9._-]*$/,
  'must be letters, digits, dots, - and _',
)
export const name = text(200)

export const pagedQuery = z.object({ limit: limit(50, MAX_LIST_LIMIT), cursor: z.string().optional() })

export const eventNumber = z.coerce.number().int().positive().optional()
