/**
 * What the sign-in pages run. The session's secret goes from the page into the browser's storage, which belongs to this
 * scheme, host and port alone. A cookie would also be sent to whatever listens on other ports of the same host.
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
