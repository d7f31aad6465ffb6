import '../style/index.css'
import { createRoot } from 'react-dom/client'
import { SHARED_ELEMENT, type SharedConversation } from '../../src/sharing/shared-file.ts'
import { keys, queries } from '../server.ts'
import { SharedPage } from './shared-page.tsx'

const data = document.getElementById(SHARED_ELEMENT)?.textContent ?? '""'
const shared = JSON.parse(data) as SharedConversation | string
const page = document.querySelector('#page')
if (!page) throw new Error('the file has no #page element')
if (typeof shared !== 'string') {
  const { conversationId: id, title } = shared
  if (title !== null) document.title = title
  // There is no server: all that the transcript loads on demand is in the file.
  queries.setDefaultOptions({ queries: { staleTime: Number.POSITIVE_INFINITY, retry: false } })
  queries.setQueryData(keys.about, { scopes: [] })
  queries.setQueryData(keys.memory(id), shared.memory)
  for (const [call, output] of Object.entries(shared.outputs))
    queries.setQueryData(keys.output(id, call), { output })
  for (const [sha256, attachment] of Object.entries(shared.attachments))
    queries.setQueryData(keys.attachment(id, sha256), attachment)
  createRoot(page).render(<SharedPage shared={shared} />)
}
