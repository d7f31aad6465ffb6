import { memo, useState } from 'react'
import { IconButton } from '../controls/button.tsx'
import { text } from '../text.ts'
import { Highlighted } from './highlight.tsx'

export const CodeBlock = memo(function CodeBlock({
  code,
  language,
  name,
  isOpen = false,
}: {
  code: string
  language: string | undefined
  /** File name; without it, the language is shown. */
  name?: string
  /** True while the code is streaming; it is highlighted only afterwards. */
  isOpen?: boolean
}) {
  const known = /^[\w+#-]+/.exec(language ?? '')?.[0] ?? ''
  return (
    <figure className={name === undefined ? 'code-block' : 'code-block attachment'}>
      <figcaption>
        <span>{name ?? known}</span>
        <CopyButton content={code} />
      </figcaption>
      <pre tabIndex={0}>
        <code>{isOpen ? code : <Highlighted code={code} language={known} />}</code>
      </pre>
    </figure>
  )
})

export function CopyButton({ content }: { content: string }) {
  const [isCopied, setCopied] = useState(false)
  async function copy(): Promise<void> {
    await navigator.clipboard.writeText(content)
    setCopied(true)
    setTimeout(() => setCopied(false), 1500)
  }
  return (
    <IconButton
      icon={isCopied ? 'check' : 'copy'}
      name={isCopied ? text.copied : text.copy}
      onClick={() => void copy().catch(() => {})}
    />
  )
}
