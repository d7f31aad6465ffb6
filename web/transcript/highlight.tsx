import type { Root, RootContent } from 'hast'
import { Fragment, type ReactNode, useEffect, useMemo, useState } from 'react'

/** The highlighter is a separate chunk, loaded when code is first shown. */
type Highlight = (code: string, language: string) => Root | null

let loading: Promise<Highlight> | null = null
let loaded: Highlight | null = null

const MAX_CHARACTERS = 60_000

async function loadHighlight(): Promise<Highlight> {
  loaded = (await import('./highlighter.ts')).highlight
  return loaded
}

/** The highlighted code; null until the highlighter is loaded, and for code that is too long or in an unknown language. */
export function useHighlighted(code: string, language: string): Root | null {
  const [highlight, setHighlight] = useState<Highlight | null>(() => loaded)
  const isWorthIt = language !== '' && code.length <= MAX_CHARACTERS
  useEffect(() => {
    if (highlight || !isWorthIt) return
    loading ??= loadHighlight()
    let isGone = false
    loading.then(
      (found) => {
        if (!isGone) setHighlight(() => found)
      },
      () => {
        // Show plain code; the next code block retries.
        loading = null
      },
    )
    return () => {
      isGone = true
    }
  }, [highlight, isWorthIt])
  return useMemo(
    () => (highlight && isWorthIt ? highlight(code, language.toLowerCase()) : null),
    [highlight, isWorthIt, code, language],
  )
}

export function Highlighted({ code, language }: { code: string; language: string }) {
  const tree = useHighlighted(code, language)
  return <>{tree ? elements(tree.children) : code}</>
}

function elements(nodes: readonly RootContent[]): ReactNode {
  return nodes.map((node, index) => <Fragment key={index}>{element(node)}</Fragment>)
}

function element(node: RootContent): ReactNode {
  if (node.type === 'text') return node.value
  if (node.type !== 'element') return null
  const names = node.properties.className
  return <span className={Array.isArray(names) ? names.join(' ') : undefined}>{elements(node.children)}</span>
}

/** Guesses the language from the file extension. */
export function languageOf(path: string): string {
  const extension = path.slice(path.lastIndexOf('.') + 1).toLowerCase()
  return languages[extension] ?? extension
}

const languages: Readonly<Record<string, string>> = {
  mjs: 'javascript',
  cjs: 'javascript',
  jsx: 'javascript',
  tsx: 'typescript',
  mts: 'typescript',
  py: 'python',
  rb: 'ruby',
  rs: 'rust',
  kt: 'kotlin',
  sh: 'bash',
  yml: 'yaml',
  md: 'markdown',
  htm: 'xml',
  html: 'xml',
  svg: 'xml',
  h: 'c',
  hpp: 'cpp',
  cs: 'csharp',
}
