import type { Context, Hono } from 'hono'
import { html } from 'hono/html'
import type { Token } from '../core/tokens.ts'
import type { AppDependencies, AppEnv } from './app-dependencies.ts'
import { findCaller, openBrowserSession } from './auth.ts'
import { readAtMost } from './body.ts'
import { signInScript } from './sign-in-script.ts'
import { addWebFiles } from './web-files.ts'

const MAX_FORM_BYTES = 4096

/** What a browser sees: the page, and how it signs in. Answers what to say where there is nothing. */
export function addPages(
  app: Hono<AppEnv>,
  deps: AppDependencies,
): (c: Context) => Response | Promise<Response> {
  const { web } = deps
  const page = pageWith(web?.styleSheet ?? null)

  /** Hands the session to the browser: its script keeps the secret and goes on. */
  async function signIn(c: Context, parent: Token, next = '/') {
    const secret = await openBrowserSession(deps, parent)
    const body = html`<meta name="waymark-session" content="${secret}" />
      <meta name="waymark-next" content="${next}" />
      <p><a href="${next}">Continue</a></p>`
    return c.html(page('Signed in', body))
  }

  function askForToken(
    c: Context,
    title: string,
    options: { status?: 200 | 401; next?: string; isUsedUp?: boolean } = {},
  ) {
    const { status = 200, next = '/', isUsedUp = false } = options
    const form = html`<p>Each link signs in one browser, once; <code>waymark serve</code> prints a new one when it starts, and says
        where the server's token is.</p>
      <form method="post" action="/login">
        <input type="hidden" name="next" value="${next}" />
        <label>Token <input name="token" type="password" autocomplete="current-password" required autofocus /></label>
        <button>Sign in</button>
      </form>
      ${isUsedUp ? html`<meta name="waymark-try" content="1" />` : ''}`
    return c.html(page(title, form), status)
  }

  if (web) addWebFiles(app, web)
  else {
    app.get('/', (c) =>
      c.html(
        page(
          'Waymark is running',
          html`<p>The page has not been built: <code>npm run build</code>. The API is described at
            <a href="/openapi.json">/openapi.json</a>.</p>`,
        ),
      ),
    )
  }
  app.use('/login', async (c, next) => {
    c.header('Cache-Control', 'no-store')
    await next()
  })
  app.get('/sign-in.js', (c) =>
    c.body(signInScript, 200, {
      'Content-Type': 'text/javascript; charset=utf-8',
      'Cache-Control': 'no-cache',
    }),
  )
  app.get('/login', async (c) => {
    const code = c.req.query('code')
    // Link previews and scanners ask with HEAD; that must not use the link up.
    const next = pathIn(c.req.query('next'))
    if (code === undefined || c.req.method === 'HEAD') return askForToken(c, 'Sign in', { next })
    // Deleting is the test: of two requests with one code, one gets the session.
    const parent = deps.loginCodes.delete(code) ? await findCaller(deps, deps.localToken) : null
    // A browser that is signed in already goes on by itself.
    if (!parent) return askForToken(c, 'This link is used up', { status: 401, isUsedUp: true })
    return await signIn(c, parent)
  })
  app.post('/login', async (c) => {
    const form = new URLSearchParams(Buffer.from(await readAtMost(c.req.raw, MAX_FORM_BYTES)).toString())
    const next = pathIn(form.get('next') ?? undefined)
    const caller = await findCaller(deps, form.get('token')?.trim() ?? '')
    // A session opens no other: it would never end.
    if (!caller || caller.parentId !== null)
      return askForToken(c, 'That token is not known', { status: 401, next })
    return await signIn(c, caller, next)
  })
  return (c) => c.html(page('Nothing is here', html`<p><a href="/">To the conversations</a></p>`), 404)
}

/** A place in the page, and nowhere else. */
function pathIn(wanted: string | undefined): string {
  return wanted !== undefined && /^\/c\/[\w-]+(\/[a-z]+)?(\?[\w=&-]*)?$/.test(wanted) ? wanted : '/'
}

function pageWith(styleSheet: string | null) {
  const style = styleSheet === null ? '' : html`<link rel="stylesheet" href="${styleSheet}" />`
  return (title: string, body: ReturnType<typeof html>) => html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width" />
        <title>${title} · Waymark</title>
        <link rel="icon" href="/icon.svg" type="image/svg+xml" />
        ${style}
        <script src="/sign-in.js" type="module"></script>
      </head>
      <body>
        <main class="sign-in">
          <h1>${title}</h1>
          ${body}
        </main>
      </body>
    </html>`
}
