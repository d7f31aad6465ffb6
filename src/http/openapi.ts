import { z } from '@hono/zod-openapi'
import { problemSchema } from '../protocol/api/service.ts'
import { WaymarkError } from '../protocol/errors.ts'
import { type ConversationId, isId } from '../protocol/ids.ts'

/** What the routes' descriptions share. */

export const conversationParam = z.object({
  id: z.string().meta({ param: { name: 'id', in: 'path' }, example: 'conv_01m7ge5wdas4rvsp14pjg3nkaf' }),
})

/** Null bytes and whatever else is no id never reach a store. */
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
  400: problem('The request is not well-formed'),
  401: problem('No valid token'),
  403: problem('The token lacks a scope, or the request comes from another site'),
  404: problem('There is no such thing, or not for this token'),
  413: problem('The body is too large'),
  422: problem('The Idempotency-Key belongs to another request'),
  503: problem('The store could not take the write'),
} as const
