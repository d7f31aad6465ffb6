import { describe, expect, it } from 'vitest'
import { findViolations } from '../scripts/boundaries.ts'

const violations = (sources: Record<string, string>) => findViolations(new Map(Object.entries(sources)))

describe('the boundary check', () => {
  it('accepts imports that the table allows', () => {
    const sources = {
      'src/core/line.ts':
        "import type { Frame } from '../protocol/frames.ts'\nimport { hash } from 'node:crypto'\n",
      'src/protocol/frames.ts': "import * as z from 'zod'\n",
    }
    expect(violations(sources)).toEqual([])
  })

  it('reports an import that the table does not allow', () => {
    expect(violations({ 'src/core/line.ts': "import { page } from '../stores/page.ts'\n" })).toEqual([
      'src/core/line.ts: core may not import stores',
    ])
    expect(violations({ 'src/mystery/x.ts': '' })).toEqual([
      'src/mystery/x.ts: mystery is not in the table of folders',
    ])
  })

  it('reports a cycle, also one of types, once', () => {
    const sources = {
      'src/core/a.ts': "import { b } from './b.ts'\n",
      'src/core/b.ts': "export type { C } from './c.ts'\n",
      'src/core/c.ts': "import type { A } from './a.ts'\n",
      'src/core/d.ts': "import { a } from './a.ts'\n",
    }
    expect(violations(sources)).toEqual([
      'import cycle: src/core/a.ts → src/core/b.ts → src/core/c.ts → src/core/a.ts',
    ])
  })

  it('reports SQL in core and in the workspace, as text or as a driver', () => {
    for (const text of [
      "const rows = db.all('select id from events')",
      'run(`insert into runs values (?)`)',
      "run('DELETE FROM queue')",
    ]) {
      expect(violations({ 'src/core/x.ts': text })).toEqual(['src/core/x.ts: core contains SQL'])
      expect(violations({ 'src/workspace/x.ts': text })).toEqual([
        'src/workspace/x.ts: workspace contains SQL',
      ])
    }
    expect(violations({ 'src/workspace/x.ts': "import Database from 'better-sqlite3'\n" })).toEqual([
      'src/workspace/x.ts: workspace may not import better-sqlite3',
    ])
  })

  it('reports a clock, and input or output, in core', () => {
    for (const text of ['const now = Date.now()', 'performance.now()', 'new Date()']) {
      expect(violations({ 'src/core/x.ts': text })).toEqual(['src/core/x.ts: core reads the clock'])
    }
    expect(violations({ 'src/core/x.ts': "import { readFile } from 'node:fs/promises'\n" })).toEqual([
      'src/core/x.ts: core may not import node:fs/promises',
    ])
  })

  it('reports a server import in the client package', () => {
    for (const folder of ['client', 'protocol', 'replay']) {
      expect(violations({ [`src/${folder}/x.ts`]: "import { Hono } from 'hono'\n" })).toEqual([
        `src/${folder}/x.ts: ${folder} is part of the client package and may not import hono`,
      ])
      expect(
        violations({ [`src/${folder}/x.ts`]: "const { a } = await import('../server/store.ts')\n" }),
      ).toEqual([`src/${folder}/x.ts: ${folder} may not import server`])
    }
    expect(violations({ 'src/client/x.ts': "import { join } from 'node:path'\n" })).toEqual([
      'src/client/x.ts: client runs in browsers and may not import node:path',
    ])
  })
})
