import { z } from '@hono/zod-openapi'
import { problemSchema } from '../protocol/api/service.ts'
import { WaymarkError } from '../protocol/errors.ts'
import { type ConversationId, isId } from '../protocol/ids.ts'

/** Shared parts of the route descriptions. */

export const conversationParam = z.object({
  id: z.string().meta({ param: { name: 'id', in: 'path' }, example: 'conv_01m7ge5wdas4rvsp14pjg3nkaf' }),
})

/** Keeps null bytes and other malformed ids away from the stores. */
export function conversationId(text: string): ConversationId {
  if (!isId('conv', text)) throw new WaymarkError('conversation_not_found', 'There is no such conversation.')
  return text
}

export function json<T extends z.ZodType>(schema: T, description: string) {
  return { description, content: { 'application/json': { schema } } }
}

export const problem = (description: string) => ({
  description,
  content: { 'application/problem+json': { schema: problemSchema } },
})

export const problems = {
  400: problem('The request is malformed'),
  401: problem('The token is missing or invalid'),
  403: problem('The token lacks a scope, or the request comes from another site'),
  404: problem('The resource does not exist, or this token has no access to it'),
  413: problem('The body is too large'),
  422: problem('The Idempotency-Key was used for a different request'),
  503: problem('The store is unavailable'),
} as const
