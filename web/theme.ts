import { useState } from 'react'

const themes = ['system', 'light', 'dark'] as const
type Theme = (typeof themes)[number]

const KEY = 'waymark.theme'

export function storedTheme(): Theme {
  return themes.find((theme) => theme === localStorage.getItem(KEY)) ?? 'system'
}

/** Sets `data-theme` on the root element; without it, the style sheet follows the system. */
export function applyTheme(theme: Theme): void {
  if (theme === 'system') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = theme
}

export function useTheme(): [Theme, () => void] {
  const [theme, setTheme] = useState(storedTheme)
  function next(): void {
    const following = themes[(themes.indexOf(theme) + 1) % themes.length] ?? 'system'
    localStorage.setItem(KEY, following)
    applyTheme(following)
    setTheme(following)
  }
  return [theme, next]
}
