import type OpenAI from 'openai'
import type { ModelServerAddress } from './protocol.ts'

export async function openOpenAi({ baseUrl, apiKey }: ModelServerAddress): Promise<OpenAI> {
  const { default: Client } = await import('openai')
  return new Client({
    // A local server needs no key, but the SDK requires one.
    apiKey: apiKey ?? 'none',
    ...(baseUrl === null ? {} : { baseURL: baseUrl }),
    // We retry ourselves, where people can see it.
    maxRetries: 0,
    // The bounded fetch has its own timeouts.
    timeout: 2 ** 31 - 1,
    logLevel: 'off',
  })
}
