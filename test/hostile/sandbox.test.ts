import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createMcpTools } from '../../src/agent/mcp.ts'
import { runCommandTool } from '../../src/agent/tools/run-command.ts'
import type { Place, Sandbox } from '../../src/sandbox/confined-place.ts'
import { findSandbox } from '../../src/sandbox/sandbox.ts'
import { profileOf } from '../../src/sandbox/seatbelt.ts'
import { tryOut } from '../../src/sandbox/start.ts'
import { toolchainsIn } from '../../src/sandbox/toolchains.ts'
import { allFrames, approve, frameWhen, ofKind } from '../support/runs.ts'
import { startTestServer, type TestServer } from '../support/server.ts'
import { startServerProcess } from '../support/server-process.ts'

const isAlive = (pattern: string) => {
  try {
    return execFileSync('pgrep', ['-f', pattern]).length > 0
  } catch {
    return false
  }
}

const call = {
  tenant: 'default',
  conversationId: 'conv_x' as const,
  show() {},
  async confirm() {},
  grant: { network: false, outside: false },
}

describe.skipIf(process.platform !== 'linux')('commands in the sandbox', () => {
  let folder: string
  let workspace: string
  let place: Place & { home: string }
  let sandbox: Sandbox

  beforeAll(async () => {
    folder = realpathSync(mkdtempSync(join(tmpdir(), 'waymark-sandbox-')))
    workspace = join(folder, 'project')
    const home = join(folder, 'home')
    for (const path of [
      '.ssh',
      '.aws',
      '.config/waymark',
      '.local/state/waymark',
      '.toolchain/bin',
      '.cargo/bin',
    ]) {
      mkdirSync(join(home, path), { recursive: true })
    }
    mkdirSync(workspace)
    writeFileSync(join(home, '.ssh/id_ed25519'), 'PLANTED-SECRET')
    writeFileSync(join(home, '.aws/credentials'), 'PLANTED-SECRET')
    writeFileSync(join(home, '.cargo/credentials.toml'), 'PLANTED-SECRET')
    writeFileSync(join(home, '.local/state/waymark/token'), 'PLANTED-SECRET')
    writeFileSync(join(home, '.toolchain/bin/tool'), '#!/bin/sh\necho the tool\n', { mode: 0o755 })
    mkdirSync(join(workspace, '.waymark'))
    writeFileSync(join(workspace, '.waymark/token'), 'PLANTED-SECRET')
    execFileSync('git', ['init', '-q'], { cwd: workspace })
    const path = `${join(home, '.toolchain/bin')}:${process.env.PATH}`
    place = {
      workspace,
      home,
      privateHome: join(folder, 'private'),
      hidden: [join(workspace, '.waymark'), join(home, '.local/state/waymark')],
      path,
    }
    const found = await findSandbox({ path: process.env.PATH ?? '', tryOut })
    if (!found.sandbox) throw new Error(found.why)
    sandbox = found.sandbox
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  function run(
    command: string,
    options: { signal?: AbortSignal; network?: boolean; outside?: boolean; seconds?: number } = {},
  ) {
    const { signal = new AbortController().signal, network = false, outside = false, seconds = 60 } = options
    const tool = runCommandTool({
      root: workspace,
      environment: { PATH: place.path, HOME: place.home },
      sandbox: { sandbox, place },
      network: false,
    })
    return tool.run({ command, timeout_seconds: seconds }, { ...call, signal, grant: { network, outside } })
  }
  const output = async (...args: Parameters<typeof run>) => String((await run(...args)).output)

  it('[T13] can’t read planted secrets, tokens or keys', async () => {
    const seen = await output(
      `cat ${place.home}/.ssh/* ${place.home}/.aws/* ${place.home}/.cargo/credentials.toml ` +
        `${place.home}/.local/state/waymark/* .waymark/* ~/.ssh/* ~root/.ssh/* /home/*/.ssh/*; ` +
        `grep -r PLANTED-SECRET ${folder} /tmp /root /home /run 2>/dev/null; ls -A ~ .waymark`,
    )
    expect(seen).not.toContain('PLANTED-SECRET')
    const outside = await output(`cat ${place.home}/.ssh/*`, { outside: true })
    expect(outside).toContain('PLANTED-SECRET')
  })

  it("[T13] see only their own processes and none of the server's environment", async () => {
    process.env.WAYMARK_TEST_SECRET = 'PLANTED-SECRET'
    const other = spawn('sleep', ['64'], { stdio: 'ignore' })
    const child = String(other.pid)
    const seen = await output(
      `cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr '\\0' '\\n'; ls /proc/${child}`,
    )
    other.kill()
    delete process.env.WAYMARK_TEST_SECRET
    expect(seen).not.toContain('PLANTED-SECRET')
    expect(seen).not.toContain('vitest')
    expect(seen).toContain(`cannot access '/proc/${child}'`)
  })

  it('[T13] write only to the workspace and a private home folder', async () => {
    const seen = await output(
      `for file in /etc/x /usr/x /var/x /opt/x ${place.home}/.toolchain/bin/x ${place.home}/.cargo/bin/x; do ` +
        `echo x > $file && echo WROTE $file; done; echo y > ~/.cache/kept; echo n > ~/new; echo z > here; echo t > /tmp/t; echo x > ${folder}/x; cat here`,
    )
    expect(seen).not.toContain('WROTE /')
    expect(seen).toContain('z\n')
    expect(existsSync(join(place.home, '.cache/kept'))).toBe(false)
    expect(await output('cat ~/.cache/kept ~/new /tmp/t')).toMatch(/^y\n(.*No such file[^\n]*\n){2}/)
    expect(existsSync(join(folder, 'x'))).toBe(false)
  })

  it('[T13] can’t change anything that git executes', async () => {
    const config = readFileSync(join(workspace, '.git/config'), 'utf8')
    const seen = await output(
      'echo evil >> .git/config; echo evil > .git/hooks/pre-commit; mv .git .moved; rm -rf .git/hooks .git/config; ' +
        'git config core.pager evil; echo ../evil > .git/commondir; echo a > a.txt; ' +
        'git -c user.name=a -c user.email=b add a.txt; git -c user.name=a -c user.email=b commit -qm ok && echo COMMITTED',
    )
    expect(readFileSync(join(workspace, '.git/config'), 'utf8')).toBe(config)
    expect(existsSync(join(workspace, '.git/hooks/pre-commit'))).toBe(false)
    expect(existsSync(join(workspace, '.git/hooks'))).toBe(true)
    expect(existsSync(join(workspace, '.git/commondir'))).toBe(false)
    expect(seen).toContain('Removed .git/commondir')
    expect(
      await output(
        'echo b > b; git add b; git -c user.name=a -c user.email=b commit -qm ok && echo COMMITTED',
      ),
    ).toContain('COMMITTED')
  })

  it('[T13] have no network unless it is granted', async () => {
    const listener = createServer((socket) => socket.end('HELLO')).listen(0, '127.0.0.1')
    await once(listener, 'listening')
    const { port } = listener.address() as AddressInfo
    const command = `${process.execPath} -e "require('net').connect(${port}, '127.0.0.1').on('data', (d) => console.log(String(d))).on('error', (e) => console.log(e.code))"`
    expect(await output(command)).toContain('ECONNREFUSED')
    expect(await output(command, { network: true })).toContain('HELLO')
    expect(await output('ls -A /run /var/run', {})).not.toMatch(/sock|docker/)
    listener.close()
  })

  it('[T13] leave no process after Stop, including `setsid` and double forks', async () => {
    const stop = new AbortController()
    const mark = `sleep 65.${process.pid}`
    const running = run(`setsid ${mark} & (setsid sh -c '${mark}; true' & ) & trap '' TERM; ${mark}`, {
      signal: stop.signal,
    })
    await expect.poll(() => isAlive(mark)).toBe(true)
    stop.abort(new Error('stopped'))
    await expect(running).rejects.toThrow('stopped')
    await expect.poll(() => isAlive(mark)).toBe(false)
  })

  it('[T13] leave no process when they exit or time out', async () => {
    const mark = `sleep 66.${process.pid}`
    expect(await output(`setsid ${mark} >/dev/null 2>&1 & echo done`)).toContain('done')
    await expect.poll(() => isAlive(mark)).toBe(false)
    expect(await output(`setsid ${mark} & sleep 30`, { seconds: 1 })).toContain('took longer than 1 s')
    await expect.poll(() => isAlive(mark)).toBe(false)
  })

  it('[T13] can build and test a Node project', async () => {
    writeFileSync(
      join(workspace, 'package.json'),
      '{"name": "x", "type": "module", "scripts": {"build": "node build.js", "test": "node --test"}}',
    )
    writeFileSync(
      join(workspace, 'build.js'),
      "import { writeFileSync } from 'node:fs'\nwriteFileSync('built.txt', 'built')\n",
    )
    writeFileSync(
      join(workspace, 'x.test.js'),
      "import { test } from 'node:test'\nimport { readFileSync } from 'node:fs'\ntest('built', () => { if (readFileSync('built.txt', 'utf8') !== 'built') throw new Error() })\n",
    )
    const seen = await output('npm run build && npm test && tool')
    expect(seen).toMatch(/pass 1/)
    expect(seen).toContain('the tool')
    expect(seen).toContain('[Exit code 0.]')
  })

  it('[T13] include MCP servers, which end with their process group', async () => {
    const mark = `sleep 67.${process.pid}`
    writeFileSync(
      join(workspace, 'mcp.mjs'),
      `import { spawn } from 'node:child_process'
      import { readFileSync, existsSync } from 'node:fs'
      spawn('setsid', ['sh', '-c', ${JSON.stringify(mark)}], { stdio: 'ignore', detached: true }).unref()
      const say = (id, result) => console.log(JSON.stringify({ jsonrpc: '2.0', id, result }))
      process.stdin.on('data', (chunk) => { for (const line of String(chunk).split('\\n').filter(Boolean)) {
        const { id, method } = JSON.parse(line)
        if (method === 'initialize') say(id, { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 'x', version: '1' } })
        if (method === 'tools/list') say(id, { tools: [{ name: 'look', inputSchema: { type: 'object' } }] })
        if (method === 'tools/call') say(id, { content: [{ type: 'text', text: existsSync(${JSON.stringify(join(place.home, '.ssh/id_ed25519'))}) ? 'SEEN' : 'nothing' }] })
      } })`,
    )
    const mcp = createMcpTools({
      servers: { x: { command: process.execPath, args: [join(workspace, 'mcp.mjs')] } },
      root: workspace,
      environment: { PATH: place.path, HOME: place.home },
      sandbox: { sandbox, place },
      log: { error: () => {} },
    })
    const [tool] = await mcp.tools()
    expect(await tool?.run({}, { ...call, signal: new AbortController().signal })).toMatchObject({
      output: 'nothing',
    })
    await expect.poll(() => isAlive(mark)).toBe(true)
    await mcp.close()
    await expect.poll(() => isAlive(mark)).toBe(false)
  })

  it('[T13] show their confinement in the question, and run with what a grant or a rule allows', async () => {
    const server = await startTestServer({ home: place.home })
    const { id } = await server.client.createConversation()
    const listener = createServer((socket) => socket.end('HELLO')).listen(0, '127.0.0.1')
    await once(listener, 'listening')
    const { port } = listener.address() as AddressInfo
    const command = `node -e "require('net').connect(${port}, '127.0.0.1').on('data', (d) => console.log(String(d))).on('error', (e) => console.log(e.code))"`
    const message = { content: `!run_command ${JSON.stringify({ command, needs_network: true })}` }
    const outputs = async () =>
      ofKind(await allFrames(server, id), 'tool.output').filter((frame) => !frame.partial)
    const first = await server.client.sendMessage(id, message)
    const asked = await frameWhen(server, id, 'tool.approval')
    expect(asked).toMatchObject({
      confinement: { sandbox: 'bubblewrap', network: false, wants_network: true },
    })
    await approve(server.client, id, first.run_id, asked.tool_call_id, {
      grant: { network: true },
      always: true,
    })
    await frameWhen(server, id, 'final')
    expect((await outputs())[0]?.output).toContain('HELLO')
    const [rule] = (await server.client.rules()).items
    expect(rule).toMatchObject({ subject: command, grant: { network: true, outside: false } })
    // The rule runs the same command without asking, with the network.
    await server.client.sendMessage(id, message)
    await expect.poll(async () => (await outputs()).length, { timeout: 15_000 }).toBe(2)
    expect((await outputs())[1]?.output).toContain('HELLO')
    const approvals = ofKind(await allFrames(server, id), 'tool.approval')
    expect(approvals.at(-1)).toMatchObject({ status: 'approved', rule_id: rule?.rule_id })
    await server.client.removeRule(rule?.rule_id ?? '')
    expect((await server.client.rules()).items).toEqual([])
    await server.close()
    listener.close()
  })

  it('[T13] keep their grant when the server is killed and restarted', async () => {
    const project = mkdtempSync(join(tmpdir(), 'waymark-grant-'))
    const config = { home: place.home }
    const first = await startServerProcess(project, { config })
    const { id } = await first.client.createConversation()
    const { run_id } = await first.client.sendMessage(id, {
      content: `!run_command ${JSON.stringify({ command: `cat ${place.home}/.ssh/id_ed25519 > out.txt` })}`,
    })
    let callId = ''
    await expect
      .poll(
        async () => {
          const { items } = await first.client.events(id)
          const frame = items.find((one) => one.kind === 'tool.approval') as
            | { tool_call_id?: string }
            | undefined
          callId = frame?.tool_call_id ?? ''
          return callId
        },
        { timeout: 15_000 },
      )
      .not.toBe('')
    await approve(first.client, id, run_id, callId, { grant: { outside: true } })
    await first.kill()
    const second = await startServerProcess(project, { config })
    await expect.poll(async () => (await second.client.queue(id)).active, { timeout: 20_000 }).toBeNull()
    const said = existsSync(join(project, 'out.txt')) ? readFileSync(join(project, 'out.txt'), 'utf8') : ''
    // If the kill came before or during the command, its outcome may be unknown, but it never ran with another grant.
    expect(['PLANTED-SECRET', '']).toContain(said)
    await second.kill()
    rmSync(project, { recursive: true, force: true })
  })

  describe('regressions: attacks that once worked', () => {
    let number = 0
    /** A new workspace below the home folder. */
    function newPlace(): Place & { home: string } {
      const own = join(place.home, 'code', `p${++number}`)
      mkdirSync(own, { recursive: true })
      return { ...place, workspace: own }
    }
    async function runIn(at: Place, command: string): Promise<string> {
      const tool = runCommandTool({
        root: at.workspace,
        environment: { PATH: at.path, HOME: place.home },
        sandbox: { sandbox, place: at },
        network: false,
      })
      const signal = new AbortController().signal
      const outcome = await tool
        .run({ command, timeout_seconds: 20 }, { ...call, signal })
        .catch((error: unknown) => ({ output: (error as Error).message }))
      return String(outcome.output)
    }
    const mark = () => join(folder, `pwned-${number}`)
    /** Runs `git status` as the person would afterwards. */
    function gitStatus(at: Place): void {
      try {
        execFileSync('git', ['status'], { cwd: at.workspace, stdio: 'ignore', timeout: 10_000 })
      } catch {
        // Only the programs it runs matter, not its result.
      }
    }
    const evil = () => `[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = touch ${mark()}; false\\n`

    it.each(['../..', '../../.ssh', '../../../../..'])(
      '[T13] a .git link to %s exposes nothing',
      async (target) => {
        const at = newPlace()
        symlinkSync(target, join(at.workspace, '.git'))
        const seen = await runIn(
          at,
          `cat ~/.ssh/id_ed25519 ${place.home}/.ssh/id_ed25519 .git/id_ed25519; ls /srv /home`,
        )
        expect(seen).toContain('.git is a symbolic link')
        expect(seen).not.toContain('PLANTED-SECRET')
      },
    )

    it('[T13] a .git link made by one command exposes nothing to the next', async () => {
      const at = newPlace()
      await runIn(at, 'mkdir ~/.ssh; ln -s ../../.ssh .git')
      expect(await runIn(at, 'cat ~/.ssh/id_ed25519 .git/*')).not.toContain('PLANTED-SECRET')
    })

    it('[T13] links in the home folder can’t redirect the mounts of the next command', async () => {
      const at = newPlace()
      execFileSync('git', ['init', '-q'], { cwd: at.workspace })
      const name = `p${number}`
      await runIn(
        at,
        `mkdir d1; ln -s ../.. d1/${name}; cd ~; mv code old; mkdir -p q/d1; ln -s q/d1 code; ln -s .. q/d1/${name}`,
      )
      await runIn(
        at,
        `for f in ~/q/.git/config .git/config; do printf '${evil()}' >> $f; done; echo x > ~/q/.git/hooks/pre-commit`,
      )
      gitStatus(at)
      expect(existsSync(mark())).toBe(false)
      expect(existsSync(join(at.workspace, '.git/hooks/pre-commit'))).toBe(false)
    })

    it.each(['mkdir .git/commondir', 'ln -s ../later .git/commondir', 'echo ../evil > .git/commondir'])(
      '[T13] `%s` is undone, and later commands still run',
      async (command) => {
        const at = newPlace()
        execFileSync('git', ['init', '-q'], { cwd: at.workspace })
        const prepare = `cp -r .git evil; printf '${evil()}' > evil/config; `
        expect(await runIn(at, prepare + command)).toContain('Removed .git/commondir')
        writeFileSync(join(at.workspace, 'later'), '../evil\n')
        gitStatus(at)
        expect(existsSync(mark())).toBe(false)
        expect(await runIn(at, 'echo fine')).toContain('fine')
      },
    )

    it('[T13] a removed .git/HEAD is restored', async () => {
      const at = newPlace()
      execFileSync('git', ['init', '-q'], { cwd: at.workspace })
      const bare = `cp -r .git/HEAD .git/objects .git/refs .; printf '${evil()}' > config; rm .git/HEAD`
      expect(await runIn(at, bare)).toContain('Restored .git/HEAD')
      gitStatus(at)
      expect(existsSync(mark())).toBe(false)
    })

    it('[T13] a git directory outside .git is protected as well', async () => {
      const at = newPlace()
      execFileSync('git', ['init', '-q', '--separate-git-dir', join(at.workspace, '.bare')], {
        cwd: at.workspace,
      })
      writeFileSync(join(at.workspace, '.git'), 'gitdir: ./.bare\n')
      await runIn(at, `printf '${evil()}' >> .bare/config; mv .bare .moved`)
      gitStatus(at)
      expect(existsSync(mark())).toBe(false)
    })

    it('[T13] a new repository is reported in the output', async () => {
      expect(await runIn(newPlace(), 'git init -q')).toContain('It created a Git repository')
    })

    it('[T9] [T13] a named pipe as .git/config blocks nothing', async () => {
      const at = newPlace()
      mkdirSync(join(at.workspace, '.git/hooks'), { recursive: true })
      execFileSync('mkfifo', [join(at.workspace, '.git/config')])
      expect(await runIn(at, 'echo fine')).toContain('fine')
    })

    it('[T13] settings next to programs on PATH are hidden', async () => {
      const at = newPlace()
      mkdirSync(join(place.home, '.fly/bin'), { recursive: true })
      writeFileSync(join(place.home, '.fly/config.yml'), 'PLANTED-SECRET')
      const path = `${join(place.home, '.fly/bin')}:${at.path}`
      expect(await runIn({ ...at, path }, 'cat ~/.fly/config.yml; ls ~/.fly')).not.toContain('PLANTED-SECRET')
    })

    it('[T13] a data folder deep in the project stays hidden when its parents are renamed', async () => {
      const at = newPlace()
      mkdirSync(join(at.workspace, 'var/deep/data'), { recursive: true })
      writeFileSync(join(at.workspace, 'var/deep/data/waymark.db'), 'PLANTED-SECRET')
      const hidden = { ...at, hidden: [join(at.workspace, 'var/deep/data')] }
      await runIn(hidden, 'mv var var2; mv var/deep var/deep2')
      expect(await runIn(hidden, 'cat var*/deep*/data/*; grep -r PLANTED .')).not.toContain('PLANTED-SECRET')
    })

    it("[T13] the person's other projects are hidden, wherever they are", async () => {
      const other = fileURLToPath(new URL('../../package.json', import.meta.url))
      expect(await runIn(newPlace(), `cat ${other}`)).toContain('No such file')
    })

    it('[T13] running out of descriptors fails the call, not the server', async () => {
      const script = `import { closeSync, openSync } from 'node:fs'
        import { runCommandTool } from ${JSON.stringify(fileURLToPath(new URL('../../src/agent/tools/run-command.ts', import.meta.url)))}
        const tool = runCommandTool({ root: '/tmp', environment: { PATH: '/usr/bin:/bin' }, sandbox: null, network: false })
        const call = { signal: new AbortController().signal, show() {}, grant: { network: false, outside: false } }
        await tool.run({ command: 'true' }, call)
        const held = []
        try { for (;;) held.push(openSync('/dev/null', 'r')) } catch {}
        const outcome = await tool.run({ command: 'true' }, call).then(() => 'ran', () => 'refused')
        for (const fd of held) closeSync(fd)
        await new Promise((resolve) => setTimeout(resolve, 200))
        console.log(outcome)`
      const seen = execFileSync(
        'sh',
        ['-c', `ulimit -n 200; exec "$0" --input-type=module-typescript -e "$1"`, process.execPath, script],
        { encoding: 'utf8' },
      )
      expect(seen.trim()).toBe('refused')
    })
  })

  it('[T13] run when the server has no home folder', async () => {
    const tool = runCommandTool({
      root: workspace,
      environment: { PATH: place.path },
      sandbox: { sandbox, place: { ...place, home: null } },
      network: false,
    })
    const signal = new AbortController().signal
    const { output: seen } = await tool.run(
      { command: 'echo x > ~/x && cat ~/x; ls /root /home' },
      { ...call, signal },
    )
    expect(seen).toMatch(/^x\n/)
    expect(seen).not.toContain('.ssh')
  })

  describe('after the sandbox was switched off', () => {
    /** Runs a server on a new project with the sandbox, then another without it. */
    async function twoServers(
      use: (first: TestServer) => Promise<string>,
      then: (second: TestServer, id: string) => Promise<void>,
    ) {
      const project = mkdtempSync(join(tmpdir(), 'waymark-gone-'))
      const first = await startTestServer({ project, home: place.home })
      const id = await use(first)
      await first.close()
      const second = await startTestServer({ project, home: place.home, sandbox: 'off' })
      await then(second, id)
      await second.close()
      rmSync(project, { recursive: true, force: true })
    }
    const content = '!run_command {"command":"echo ran >> out.txt"}'

    it('[T5] [T13] ask again instead of applying a rule made for the sandbox', async () => {
      await twoServers(
        async (first) => {
          const { id } = await first.client.createConversation()
          const { run_id } = await first.client.sendMessage(id, { content })
          const { tool_call_id } = await frameWhen(first, id, 'tool.approval')
          await approve(first.client, id, run_id, tool_call_id, { always: true })
          await frameWhen(first, id, 'final')
          return id
        },
        async (second, id) => {
          await second.client.sendMessage(id, { content })
          const asked = await frameWhen(
            second,
            id,
            'tool.approval',
            (frame) => frame.confinement?.sandbox === null,
          )
          expect(asked.status).toBe('requested')
          await second.client.stop(id)
        },
      )
    })

    it('[T5] [T13] replace a pending question by one for the current confinement', async () => {
      await twoServers(
        async (first) => {
          const { id } = await first.client.createConversation()
          await first.client.sendMessage(id, { content })
          await frameWhen(first, id, 'tool.approval')
          return id
        },
        async (second, id) => {
          const again = await frameWhen(
            second,
            id,
            'tool.approval',
            (frame) => frame.confinement?.sandbox === null,
          )
          const question = await second.client.question(id, again.stream_id ?? '', again.tool_call_id)
          expect(question).toMatchObject({
            confinement: { sandbox: null },
            question_sha256: again.question_sha256,
          })
          const approvals = ofKind(await allFrames(second, id), 'tool.approval')
          const old = {
            tool_call_id: again.tool_call_id,
            approved: true,
            question_sha256: approvals[0]?.question_sha256,
          }
          await expect(second.client.answerApproval(id, again.stream_id ?? '', old)).rejects.toMatchObject({
            code: 'approval_not_pending',
          })
          await second.client.stop(id)
        },
      )
    })
  })

  it('[T13] are unconfined, and say so, when the workspace contains the home folder', async () => {
    const server = await startTestServer({
      home: homedir(),
      project: homedir(),
      dataDir: join(folder, 'data'),
      privateDir: join(folder, 'data'),
      watch: false,
      exclude: ['**'],
    })
    const { id } = await server.client.createConversation()
    await server.client.sendMessage(id, { content: '!run_command {"command":"true"}' })
    expect(await frameWhen(server, id, 'tool.approval')).toMatchObject({ confinement: { sandbox: null } })
    await server.client.stop(id)
    await server.close()
  })
})

describe('home folder in the sandbox', () => {
  it('[T13] exposes toolchains, never settings or keys', () => {
    const shown = toolchainsIn(
      '/home/u',
      '/home/u/.nvm/versions/node/v22/bin:/home/u/.local/bin:/home/u/bin:/home/u/.cargo/bin:/usr/bin',
    )
    expect(shown).toEqual(
      expect.arrayContaining([
        '/home/u/.nvm/versions/node/v22/lib',
        '/home/u/.local/bin',
        '/home/u/bin',
        '/home/u/.cargo/bin',
      ]),
    )
    for (const path of [
      '/home/u',
      '/home/u/.local',
      '/home/u/.config',
      '/home/u/.cargo',
      '/home/u/.ssh',
      '/usr/bin',
    ]) {
      expect(shown).not.toContain(path)
    }
  })

  it('[T13] is denied by the macOS profile, along with other writes and the network', () => {
    const profile = profileOf(
      {
        workspace: '/Users/u/p',
        home: '/Users/u',
        privateHome: '/Users/u/state/home',
        hidden: ['/Users/u/state'],
        path: '',
      },
      false,
    )
    expect(profile).toContain('(deny file-read* (subpath "/Users") (subpath "/Users/u"))')
    expect(profile).toContain('(deny file-write*)')
    expect(profile).toContain('(deny network*)')
    expect(profile.indexOf('"/Users/u/p/.git/hooks"')).toBeGreaterThan(
      profile.indexOf('(allow file-read* file-write* (subpath "/Users/u/p")'),
    )
  })
})
