import { createWriteStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi'
import {
  MAX_SESSION_LINE,
  type SessionEntry,
  sessionEntrySchema,
  sessionHeadSchema,
  sessionImportSchema,
} from '../../protocol/api/agent-sessions.ts'
import { type ImportProgress, importReportSchema } from '../../protocol/api/transfer.ts'
import { WaymarkError } from '../../protocol/errors.ts'
import type { AppDependencies, AppEnv } from '../app-dependencies.ts'
import { assertScope, requireScope } from '../auth.ts'
import { bodyLines, parsedLine } from '../body.ts'
import { conversationId, conversationParam, json, problem, problems } from '../openapi.ts'
import { problemOf } from '../problem.ts'
import { namedEvent, openEventStream, wantsStream } from '../sse.ts'

const TAR = 'application/x-tar'
const BROKEN_OFF = new Set(['ERR_STREAM_PREMATURE_CLOSE', 'ABORT_ERR', 'ECONNRESET'])
const archive = z.string().meta({ format: 'binary' })

const exportFamily = createRoute({
  method: 'get',
  path: '/conversations/{id}/export',
  summary: 'Export the whole family as one file: events, requests, agent states, blobs and checkpoints',
  description:
    'Deleted messages are not included. A truncated archive lacks its end marker, and `POST /import` rejects it.',
  middleware: [requireScope('admin')] as const,
  request: { params: conversationParam },
  responses: {
    200: { description: 'A tar archive', content: { [TAR]: { schema: archive } } },
    ...problems,
    409: problem('A collection or a backup is in progress'),
  },
})

const importFamily = createRoute({
  method: 'post',
  path: '/import',
  summary: 'Import an exported file; existing conversations are left unchanged',
  description:
    'With `Accept: text/event-stream` the response is a stream: `progress` events while the import runs, then one event ' +
    'named `imported` with the report, or one named `problem`.',
  middleware: [requireScope('admin')] as const,
  request: { body: { required: true, content: { [TAR]: { schema: archive } } } },
  responses: {
    200: json(importReportSchema, 'The import report'),
    ...problems,
    409: problem('A conversation exists with a different history, or a collection is in progress'),
    415: problem('Not a tar archive'),
  },
})

const NDJSON = 'application/x-ndjson'
const importSession = createRoute({
  method: 'post',
  path: '/sessions',
  summary: 'Import a session that another agent has stored; a repeated import adds the entries that are new',
  description: 'The first line of the body is the head of the session, and each further line is an entry.',
  middleware: [requireScope('conversations:write')] as const,
  request: { body: { required: true, content: { [NDJSON]: { schema: z.string() } } } },
  responses: {
    200: json(sessionImportSchema, 'The conversation, and what was added to it'),
    ...problems,
    409: problem('The conversation was changed meanwhile'),
    415: problem('Not JSON lines'),
  },
})

export function addTransferRoutes(app: OpenAPIHono<AppEnv>, deps: AppDependencies): void {
  app.openapi(exportFamily, async (c) => {
    const { tenant } = c.get('caller')
    const id = conversationId(c.req.valid('param').id)
    const stream = await deps.exports.open(tenant, id)
    return c.body(Readable.toWeb(stream) as ReadableStream, 200, {
      'Content-Type': TAR,
      'Content-Disposition': `attachment; filename="${id}.waymark.tar"`,
    }) as never
  })

  // Not `app.openapi`: its validator would read the whole body into memory.
  app.openAPIRegistry.registerPath(importSession)
  app.post('/sessions', requireScope('conversations:write'), async (c) => {
    if (!/^application\/(x-ndjson|jsonl)\s*(;|$)/i.test(c.req.header('content-type') ?? '')) {
      throw new WaymarkError('unsupported_media_type', `The body must be ${NDJSON}.`)
    }
    const lines = bodyLines(c.req.raw, MAX_SESSION_LINE)
    const first = await lines.next()
    const head = parsedLine(sessionHeadSchema, first.done ? 'null' : first.value, 1)
    // Its messages will work on the project's files.
    if (head.is_here) assertScope(c.get('caller'), 'workspace:write')
    const entries = sessionEntries(lines)
    const { tenant, name: by } = c.get('caller')
    return c.json(await deps.sessionImports.run({ tenant, by, head, entries }), 200)
  })

  app.openAPIRegistry.registerPath(importFamily)
  app.post('/import', requireScope('admin'), async (c) => {
    if (!/^application\/(x-tar|octet-stream)\s*(;|$)/i.test(c.req.header('content-type') ?? '')) {
      throw new WaymarkError('unsupported_media_type', `The body must be ${TAR}.`)
    }
    const { body } = c.req.raw
    if (!body) throw new WaymarkError('invalid_request', 'The body is empty.')
    const { tenant, name: by } = c.get('caller')
    const file = deps.scratchFile()
    try {
      await pipeline(
        Readable.fromWeb(body as never),
        createWriteStream(file, { flags: 'wx', mode: 0o600 }),
      ).catch((error: unknown) => {
        const { code } = error as NodeJS.ErrnoException
        if (code === 'ENOSPC') throw new WaymarkError('disk_full', 'The disk is full.', { cause: error })
        if (!BROKEN_OFF.has(code ?? '')) throw error
        throw new WaymarkError('invalid_request', 'The upload was interrupted; retry it.', { cause: error })
      })
      if (!wantsStream(c)) return c.json(await deps.imports.run({ tenant, by, file }), 200)
      await streamImport(c.env.outgoing, deps, { tenant, by, file })
      return RESPONSE_ALREADY_SENT
    } finally {
      await rm(file, { force: true })
    }
  })
}

async function* sessionEntries(lines: AsyncIterable<string>): AsyncGenerator<SessionEntry> {
  let number = 1
  for await (const line of lines) yield parsedLine(sessionEntrySchema, line, ++number)
}

/** Streams progress during a long import: clients time out if a response takes minutes to start. */
async function streamImport(
  response: ServerResponse,
  deps: AppDependencies,
  command: { tenant: string; by: string; file: string },
): Promise<void> {
  const out = openEventStream(response, deps.stopping)
  try {
    const onProgress = (progress: ImportProgress) => void out.write(namedEvent('progress', progress))
    await out.write(namedEvent('imported', await deps.imports.run({ ...command, onProgress })))
  } catch (error) {
    if (!(error instanceof WaymarkError)) deps.log.error({ err: error }, 'import failed')
    await out.write(namedEvent('problem', problemOf(error)))
  } finally {
    out.end()
  }
}
