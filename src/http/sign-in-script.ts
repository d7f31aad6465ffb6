/**
 * The script of the sign-in pages. It moves the session's secret from the page into localStorage, which is scoped to
 * scheme, host and port. A cookie would also be sent to servers on other ports of the same host.
 */
export const signInScript = `
const field = (name) => document.querySelector('meta[name="' + name + '"]')?.content
const next = field('waymark-next') ?? '/'
const given = field('waymark-session')
if (given) {
  localStorage.setItem('waymark_session', given)
  location.replace(next)
} else if (field('waymark-try')) {
  const kept = localStorage.getItem('waymark_session')
  if (kept) {
    fetch('/api/v1/about', { headers: { Authorization: 'Bearer ' + kept } }).then((answer) => {
      if (answer.ok) location.replace(next)
    })
  }
}
`.trimStart()
