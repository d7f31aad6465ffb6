import type { Context, Hono } from 'hono'
import { html } from 'hono/html'
import type { Token } from '../core/tokens.ts'
import type { AppDependencies, AppEnv } from './app-dependencies.ts'
import { findCaller, openBrowserSession } from './auth.ts'
import { readAtMost } from './body.ts'
import { signInScript } from './sign-in-script.ts'
import type { WebFile, WebFiles } from './web-files.ts'

const MAX_FORM_BYTES = 4096

/** Serves the page and the sign-in pages. Returns the handler for the 404 page. */
export function addPages(
  app: Hono<AppEnv>,
  deps: AppDependencies,
): (c: Context) => Response | Promise<Response> {
  const { web } = deps
  const page = pageWith(web?.styleSheet ?? null)

  /** Passes the session to the browser; the sign-in script stores the secret and redirects. */
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
    const form = html`<p>Each sign-in link works once, in one browser. <code>waymark serve</code> prints a new link
        when it starts, and the location of the server's token.</p>
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
          html`<p>The page is not built yet. Run <code>npm run build</code>. The API is described at
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
    // Link previews and scanners send HEAD, which must not consume the code.
    const next = pathIn(c.req.query('next'))
    if (code === undefined || c.req.method === 'HEAD') return askForToken(c, 'Sign in', { next })
    // `delete` is the atomic check: only one of two requests with the same code gets the session.
    const parent = deps.loginCodes.delete(code) ? await findCaller(deps, deps.localToken) : null
    // The script redirects a browser that is already signed in.
    if (!parent) return askForToken(c, 'This link has already been used', { status: 401, isUsedUp: true })
    return await signIn(c, parent)
  })
  app.post('/login', async (c) => {
    const form = new URLSearchParams(Buffer.from(await readAtMost(c.req.raw, MAX_FORM_BYTES)).toString())
    const next = pathIn(form.get('next') ?? undefined)
    const caller = await findCaller(deps, form.get('token')?.trim() ?? '')
    // A session can't open another session; otherwise it could renew itself forever.
    if (!caller || caller.parentId !== null) return askForToken(c, 'Unknown token', { status: 401, next })
    return await signIn(c, caller, next)
  })
  return (c) => c.html(page('Page not found', html`<p><a href="/">Go to conversations</a></p>`), 404)
}

/** Allows only addresses of the page, to prevent open redirects. */
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

/** Serves the page at all its addresses; the client reads the address itself. */
function addWebFiles(app: Hono<AppEnv>, { index, files }: WebFiles): void {
  for (const path of ['/', '/c/:id', '/c/:id/:view']) app.get(path, (c) => sendFile(c, index))
  for (const [path, file] of files) app.get(path, (c) => sendFile(c, file))
}

function sendFile(c: Context<AppEnv>, file: WebFile) {
  const takesGzip = /\bgzip\b/.test(c.req.header('accept-encoding') ?? '')
  c.header('Content-Type', file.type)
  c.header('Vary', 'Accept-Encoding')
  c.header('Cache-Control', file.isImmutable ? 'public, max-age=31536000, immutable' : 'no-cache')
  if (!file.gzip || !takesGzip) return c.body(file.bytes)
  c.header('Content-Encoding', 'gzip')
  return c.body(file.gzip)
}
