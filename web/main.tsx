import './style/index.css'
import { createRoot } from 'react-dom/client'
import { App } from './app.tsx'
import { applyTheme, storedTheme } from './theme.ts'

applyTheme(storedTheme())
const page = document.querySelector('#page')
if (!page) throw new Error('index.html has no #page element')
createRoot(page).render(<App />)
