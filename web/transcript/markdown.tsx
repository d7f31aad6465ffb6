import { lexer, type Token, type Tokens } from 'marked'
import { Fragment, memo, type ReactNode, useMemo } from 'react'
import remend from 'remend'
import { CodeBlock } from './code-block.tsx'
import { decodeEntities } from './entities.ts'

/**
 * Renders Markdown as React elements. It never creates HTML: HTML in the source is shown as text, and links are limited to
 * safe protocols.
 */
export const Markdown = memo(function Markdown({ source, isOpen }: { source: string; isOpen: boolean }) {
  const blocks = useMemo(() => read(source, isOpen), [source, isOpen])
  if (!blocks) return <div className="markdown raw">{source}</div>
  // Link definitions may come after their use, so they are part of each block's memo key.
  const links = Object.keys(blocks.links).length === 0 ? '' : JSON.stringify(blocks.links)
  return (
    <div className="markdown">
      {blocks.map((block, index) => (
        <Block
          key={index}
          raw={block.raw}
          links={links}
          token={block}
          isLast={isOpen && index === blocks.length - 1}
        />
      ))}
    </div>
  )
})

/**
 * Parses Markdown. While a text streams, its last marker may be unclosed, so it is closed first. Returns null if the nesting
 * is too deep for the parser; the source is then shown as plain text.
 */
function read(source: string, isOpen: boolean) {
  try {
    return lexer(isOpen ? remend(source) : source)
  } catch {
    return null
  }
}

/** Re-renders only when its own text changes; most blocks of a long answer never do. */
const Block = memo(
  function Block({ token, isLast }: { raw: string; links: string; token: Token; isLast: boolean }) {
    return <>{block(token, isLast)}</>
  },
  (before, after) =>
    before.raw === after.raw && before.links === after.links && before.isLast === after.isLast,
)

function block(token: Token, isLast: boolean): ReactNode {
  switch (token.type) {
    case 'space':
    case 'def':
      return null
    case 'code':
      return <CodeBlock code={token.text as string} language={(token as Tokens.Code).lang} isOpen={isLast} />
    case 'heading':
      return heading(token as Tokens.Heading)
    case 'hr':
      return <hr />
    case 'blockquote':
      return <blockquote dir="auto">{blocksOf((token as Tokens.Blockquote).tokens, isLast)}</blockquote>
    case 'list':
      return list(token as Tokens.List, isLast)
    case 'table':
      return table(token as Tokens.Table)
    case 'paragraph':
      return <p dir="auto">{inlineOf(token.tokens)}</p>
    case 'html':
      return <p className="raw">{token.raw}</p>
    default:
      // Loose text in a list, or a token type of a later parser version.
      return inner(token) ? <Fragment>{inlineOf(inner(token))}</Fragment> : token.raw
  }
}

function blocksOf(tokens: readonly Token[], isLast: boolean): ReactNode {
  return tokens.map((token, index) => (
    <Fragment key={index}>{block(token, isLast && index === tokens.length - 1)}</Fragment>
  ))
}

/** Shifts headings down two levels, below the page's own headings. */
function heading({ depth, tokens }: Tokens.Heading): ReactNode {
  const Name = `h${Math.min(depth + 2, 6)}` as 'h3'
  return (
    <Name className={`depth-${depth}`} dir="auto">
      {inlineOf(tokens)}
    </Name>
  )
}

function list({ ordered, start, items }: Tokens.List, isLast: boolean): ReactNode {
  const Name = ordered ? 'ol' : 'ul'
  const first = ordered && typeof start === 'number' && start !== 1 ? { start } : {}
  return (
    <Name {...first}>
      {items.map((item, index) => (
        <li key={index} dir="auto" className={item.task ? 'task' : undefined}>
          {item.task && (
            <input type="checkbox" checked={item.checked ?? false} disabled aria-label={item.text} />
          )}
          {blocksOf(
            item.tokens.filter((token) => token.type !== 'checkbox'),
            isLast && index === items.length - 1,
          )}
        </li>
      ))}
    </Name>
  )
}

function table({ header, rows }: Tokens.Table): ReactNode {
  return (
    <div className="table" tabIndex={0} role="group">
      <table>
        <thead>
          <tr>{header.map((cell, index) => tableCell('th', cell, index))}</tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={index}>{row.map((cell, column) => tableCell('td', cell, column))}</tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function tableCell(Name: 'th' | 'td', { align, tokens }: Tokens.TableCell, key: number): ReactNode {
  return (
    <Name key={key} className={align ? `align-${align}` : undefined}>
      {inlineOf(tokens)}
    </Name>
  )
}

function inner(token: Token): Token[] | undefined {
  return 'tokens' in token ? token.tokens : undefined
}

function inlineOf(tokens: readonly Token[] = []): ReactNode {
  return tokens.map((token, index) => <Fragment key={index}>{inline(token)}</Fragment>)
}

function inline(token: Token): ReactNode {
  switch (token.type) {
    case 'strong':
      return <strong>{inlineOf(token.tokens)}</strong>
    case 'em':
      return <em>{inlineOf(token.tokens)}</em>
    case 'del':
      return <del>{inlineOf(token.tokens)}</del>
    case 'codespan':
      return <code>{token.text as string}</code>
    case 'br':
      return <br />
    case 'link':
      return <SafeLink href={token.href as string}>{inlineOf(token.tokens)}</SafeLink>
    case 'image':
      // Images are not loaded: the request would reveal to the host what is being read.
      return (
        <SafeLink href={token.href as string}>{(token.text as string) || (token.href as string)}</SafeLink>
      )
    case 'html':
      return token.raw
    case 'text':
    case 'escape':
      return inner(token) ? inlineOf(inner(token)) : decodeEntities(token.text as string)
    default:
      return token.raw
  }
}

/** Null for protocols that model output must not link to. */
export function safeAddress(href: string): string | null {
  const decoded = decodeEntities(href).trim()
  return /^(https?:\/\/|mailto:)/i.test(decoded) && URL.canParse(decoded) ? decoded : null
}

export function SafeLink({ href, children }: { href: string; children: ReactNode }) {
  const address = safeAddress(href)
  if (address === null) return <span title={href}>{children}</span>
  return (
    <a href={address} target="_blank" rel="noopener noreferrer">
      {children}
    </a>
  )
}
