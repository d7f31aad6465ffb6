import { type ReactNode, useState } from 'react'
import { IconButton } from '../controls/button.tsx'
import { text } from '../text.ts'

/** The actions of a row: shown on hover and focus; on touch screens, a button opens them as a menu. */
export function RowActions({ name, children }: { name: string; children: ReactNode }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <>
      <IconButton
        className="more-actions"
        icon={isOpen ? 'close' : 'more'}
        name={isOpen ? text.close : name}
        aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
      />
      <div
        className={isOpen ? 'row-actions open' : 'row-actions'}
        role="group"
        aria-label={name}
        onClick={() => setOpen(false)}
      >
        {children}
      </div>
    </>
  )
}
