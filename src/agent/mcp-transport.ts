import type { ChildProcessWithoutNullStreams } from 'node:child_process'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js'
import { signalGroup } from '../sandbox/start.ts'

/** Limits for one message, and for unsolicited output between two of our requests. */
const MAX_LINE_BYTES = 8 * 1024 * 1024
const MAX_UNASKED = 2000
const MAX_UNASKED_BYTES = 32 * 1024 * 1024
const MAX_UNREAD_BYTES = 16 * 1024 * 1024
const GRACE_MS = 500

/**
 * Exchanges messages with a program, one per line. The transport kills a program that sends an endless line or floods it
 * with unsolicited messages.
 */
export function createProgramTransport(start: () => ChildProcessWithoutNullStreams): Transport {
  let child: ChildProcessWithoutNullStreams | null = null
  let pieces: Buffer[] = []
  let length = 0
  let unasked = 0
  let unaskedBytes = 0
  let isClosed = false

  const transport: Transport = {
    start() {
      child = start()
      const started = child
      // Processes that remain in the program's group must not keep this process from ending.
      started.stderr.resume()
      started.stdin.on('error', () => {})
      started.stdout.on('data', take)
      started.once('exit', () => end())
      return new Promise((resolve, reject) => {
        started.once('spawn', resolve)
        started.once('error', (error) => {
          reject(error)
          end()
        })
      })
    },
    async send(message) {
      // Only our own requests reset the counts: a server could send us requests forever.
      if ('method' in message && 'id' in message) {
        unasked = 0
        unaskedBytes = 0
      }
      if (!child || isClosed) throw new Error('the tool server has ended')
      child.stdin.write(`${JSON.stringify(message)}\n`)
      if (child.stdin.writableLength > MAX_UNREAD_BYTES) refuse('the tool server does not read its messages')
    },
    async close() {
      const ending = child
      end()
      if (!ending || ending.exitCode !== null) return
      ending.stdin.end()
      signalGroup(ending, 'SIGTERM')
      setTimeout(() => signalGroup(ending, 'SIGKILL'), GRACE_MS).unref()
    },
  }

  function end(): void {
    if (isClosed) return
    isClosed = true
    pieces = []
    transport.onclose?.()
  }

  function refuse(why: string): void {
    transport.onerror?.(new Error(why))
    if (child) signalGroup(child, 'SIGKILL')
    end()
  }

  function take(chunk: Buffer): void {
    unaskedBytes += chunk.length
    if (unaskedBytes > MAX_UNASKED_BYTES) return refuse('the tool server sent too much unsolicited output')
    let from = 0
    for (let at = chunk.indexOf(10); at >= 0 && !isClosed; at = chunk.indexOf(10, from)) {
      pieces.push(chunk.subarray(from, at))
      from = at + 1
      const line = Buffer.concat(pieces).toString()
      pieces = []
      length = 0
      if (++unasked > MAX_UNASKED) return refuse('the tool server sent too many unsolicited messages')
      hand(line)
    }
    if (isClosed) return
    pieces.push(chunk.subarray(from))
    length += chunk.length - from
    if (length > MAX_LINE_BYTES) refuse('the tool server sent a message that is too long')
  }

  function hand(line: string): void {
    if (line.trim() === '') return
    let message: unknown
    try {
      message = JSON.parse(line)
    } catch {
      // Programs also print text that isn't a message.
      return
    }
    if (isMessage(message)) transport.onmessage?.(message)
  }

  return transport
}

function isMessage(value: unknown): value is JSONRPCMessage {
  return typeof value === 'object' && value !== null && (value as { jsonrpc?: unknown }).jsonrpc === '2.0'
}
