import { type ReactNode, useId } from 'react'
import { Icon } from './icon.tsx'

/** A heading that expands and collapses its content. */
export function Foldable({
  isOpen,
  onToggle,
  heading,
  className = '',
  children,
}: {
  isOpen: boolean
  onToggle(): void
  heading: ReactNode
  className?: string
  children: ReactNode
}) {
  const body = useId()
  return (
    <div className={`foldable ${className}`}>
      <button
        type="button"
        className="fold"
        aria-expanded={isOpen}
        {...(isOpen ? { 'aria-controls': body } : {})}
        onClick={onToggle}
      >
        <span className={isOpen ? 'turned' : ''}>
          <Icon name="chevron" />
        </span>
        {heading}
      </button>
      {isOpen && <div id={body}>{children}</div>}
    </div>
  )
}
