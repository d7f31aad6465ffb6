import { createWriteStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi'
import { importReportSchema } from '../../protocol/api/transfer.ts'
import { WaymarkError } from '../../protocol/errors.ts'
import type { AppDependencies, AppEnv } from '../app-dependencies.ts'
import { requireScope } from '../auth.ts'
import { conversationId, conversationParam, json, problem, problems } from '../openapi.ts'

const TAR = 'application/x-tar'
const BROKEN_OFF = new Set(['ERR_STREAM_PREMATURE_CLOSE', 'ABORT_ERR', 'ECONNRESET'])
const archive = z.string().meta({ format: 'binary' })

const exportFamily = createRoute({
  method: 'get',
  path: '/conversations/{id}/export',
  summary: 'One portable file with the whole family: events, requests, agent states, blobs and checkpoints',
  description:
    'Messages that were deleted are not in it. An archive that breaks off has no end and is refused by `POST /import`.',
  middleware: [requireScope('admin')] as const,
  request: { params: conversationParam },
  responses: {
    200: { description: 'A tar archive', content: { [TAR]: { schema: archive } } },
    ...problems,
    409: problem('A collection or a backup is under way'),
  },
})

const importFamily = createRoute({
  method: 'post',
  path: '/import',
  summary: 'Take in a file that export wrote; conversations that are here already are left as they are',
  middleware: [requireScope('admin')] as const,
  request: { body: { required: true, content: { [TAR]: { schema: archive } } } },
  responses: {
    200: json(importReportSchema, 'What was imported'),
    ...problems,
    409: problem('A conversation is here with another history, or a collection is under way'),
    415: problem('Not a tar archive'),
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

  // Not by `openapi`: the validator would read the whole body into memory.
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
        throw new WaymarkError('invalid_request', 'The upload broke off.', { cause: error })
      })
      return c.json(await deps.imports.run({ tenant, by, file }), 200)
    } finally {
      await rm(file, { force: true })
    }
  })
}
