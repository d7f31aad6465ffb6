import { afterAll, describe, expect, it } from 'vitest'
import { say, transcriptText, withBrowser } from '../support/browser.ts'
import { item, type ModelServer, response, startModelServer } from '../support/model-server.ts'

const SAID = 'Here is **what** I found:\n\n- the first thing\n- `the second` thi'

describe('an answer paused in the middle of a word', () => {
  let model: ModelServer | undefined
  const { open, start } = withBrowser(async () => {
    const message = { id: 'msg_1', type: 'message', role: 'assistant' }
    const deltas = SAID.split(/(?= )/).map((delta) => ({
      type: 'response.output_text.delta',
      content_index: 0,
      delta,
    }))
    const events = response(item(0, message, deltas)).slice(0, -2)
    model = await startModelServer([{ events, hangs: true }])
    return { baseUrl: model.url, apiKey: 'none', model: 'held' }
  })
  afterAll(() => model?.close())

  it('[P1] [L7] shows the same text before and after a reload, and on another page', async () => {
    const { id, page } = await start('Held')
    await say(page, 'what did you find?')
    await page.getByText('the second thi', { exact: true }).waitFor()
    const text = await transcriptText(page)
    expect(text).toContain('Here is what I found:')
    expect(text).toContain('Running …')

    const other = await open(`/c/${id}`)
    await other.getByText('the second thi', { exact: true }).waitFor()
    expect(await transcriptText(other)).toBe(text)

    await page.reload()
    await page.getByText('the second thi', { exact: true }).waitFor()
    expect(await transcriptText(page)).toBe(text)

    await page.getByRole('button', { name: 'Stop', exact: true }).click()
    await other.getByText('Stopped.').waitFor()
    await page.getByText('Stopped.').waitFor()
    expect(await transcriptText(other)).toBe(await transcriptText(page))
  })
})
