import type { ButtonHTMLAttributes } from 'react'
import { Icon, type IconName } from './icon.tsx'

type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & {
  icon?: IconName
  look?: 'plain' | 'main' | 'danger' | 'quiet'
}

export function Button({ icon, look = 'plain', className = '', children, ...rest }: ButtonProps) {
  return (
    <button type="button" {...rest} className={`button ${look} ${className}`}>
      {icon && <Icon name={icon} />}
      {children}
    </button>
  )
}

/** A button with only an icon; its name is the label and the tooltip. */
export function IconButton({
  icon,
  name,
  className = '',
  ...rest
}: ButtonHTMLAttributes<HTMLButtonElement> & { icon: IconName; name: string }) {
  return (
    <button type="button" {...rest} className={`icon-button ${className}`} aria-label={name} title={name}>
      <Icon name={icon} />
    </button>
  )
}
