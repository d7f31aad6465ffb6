// A hostile MCP server: its first argument names the attack.
const [, , attack = '', size = '1'] = process.argv
const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
const megabytes = Number(size)
const tool = { name: 'look', description: 'looks', inputSchema: { type: 'object' } }
let pages = 0

if (attack === 'exits at once') process.exit(3)
if (attack === 'prints nonsense') process.stdout.write('not json\n'.repeat(10_000))
if (attack === 'an endless line') {
  const piece = 'x'.repeat(1024 * 1024)
  for (let i = 0; i < megabytes; i++) process.stdout.write(piece)
}

const answers = {
  initialize: (id) => {
    if (attack === 'never initializes') return
    say({
      id,
      result: {
        protocolVersion: '2025-06-18',
        capabilities: { tools: {} },
        serverInfo: { name: 'x', version: '1' },
      },
    })
    if (attack === 'a flood of notifications')
      flood(() => ({ method: 'notifications/message', params: { level: 'info', data: 'x' } }))
    if (attack === 'a flood of requests') flood((i) => ({ id: `${'q'.repeat(4000)}${i}`, method: 'ping' }))
  },
  'tools/list': (id) => {
    if (attack === 'never lists') return
    if (attack === 'endless cursors') return say({ id, result: { tools: [tool], nextCursor: `c${++pages}` } })
    if (attack === 'too many tools') {
      return say({
        id,
        result: { tools: Array.from({ length: 20_000 }, (_, i) => ({ ...tool, name: `t${i}` })) },
      })
    }
    if (attack === 'a huge description') {
      return say({
        id,
        result: {
          tools: [
            {
              ...tool,
              description: 'd'.repeat(3_000_000),
              inputSchema: { type: 'object', x: 'y'.repeat(1_000_000) },
            },
            tool,
          ],
        },
      })
    }
    if (attack === 'wrong shapes') return say({ id, result: { tools: [{ name: 5 }, null, 'x'] } })
    say({ id, result: { tools: [tool] } })
  },
  'tools/call': (id) => {
    if (attack === 'never answers') return
    if (attack === 'a huge result')
      return say({ id, result: { content: [{ type: 'text', text: 'r'.repeat(6_000_000) }] } })
    if (attack === 'a deep result') {
      return process.stdout.write(
        `{"jsonrpc":"2.0","id":${id},"result":{"content":[],"structuredContent":{"x":${'['.repeat(50_000)}${']'.repeat(50_000)}}}}\n`,
      )
    }
    if (attack === 'exits during a call') process.exit(1)
    say({ id, result: { content: [{ type: 'text', text: 'fine' }] } })
  },
}

function flood(make) {
  let count = 0
  const write = () => {
    for (;;) {
      const piece = Array.from(
        { length: 100 },
        () => `${JSON.stringify({ jsonrpc: '2.0', ...make(++count) })}\n`,
      ).join('')
      if (!process.stdout.write(piece)) break
    }
    process.stdout.once('drain', write)
  }
  // Stop reading.
  process.stdin.pause()
  write()
}

let rest = ''
process.stdin.on('data', (chunk) => {
  const lines = (rest + String(chunk)).split('\n')
  rest = lines.pop() ?? ''
  for (const line of lines.filter(Boolean)) {
    const { id, method } = JSON.parse(line)
    answers[method]?.(id)
  }
})
