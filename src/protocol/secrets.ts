/**
 * Texts that are secrets by their form. Each pattern is bounded, so that no text takes long to search. No word boundary
 * before a distinctive beginning: in JSON inside a string, the letter of an escape comes before it.
 */
export interface SecretForm {
  name: string
  pattern: RegExp
}

export const secretForms: readonly SecretForm[] = [
  {
    name: 'private key',
    // Without its end, for example in a cut output: the lines that look like its body, also in a diff.
    pattern:
      /-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?:[\s\S]{0,8000}?-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----|(?:(?:\r?\n|\\r|\\n){1,4}[+\- ]?[A-Za-z0-9+/=:,. -]{0,120}){0,200})/,
  },
  { name: 'AWS access key', pattern: /(?:AKIA|ASIA)[A-Z0-9]{16}\b/ },
  { name: 'GitHub token', pattern: /gh[pousr]_[A-Za-z0-9]{36,255}/ },
  { name: 'GitHub token', pattern: /github_pat_[A-Za-z0-9_]{50,255}/ },
  { name: 'GitLab token', pattern: /glpat-[A-Za-z0-9_-]{20,255}/ },
  { name: 'Slack token', pattern: /xox[abeoprs]-[A-Za-z0-9-]{10,255}/ },
  {
    name: 'API key',
    pattern:
      /(?:\b|(?<=\\[nrtbf]|%[0-9A-Fa-f]{2}|\[[\d;]{0,10}m))sk-(?:ant-|proj-|live-)?[A-Za-z0-9_-]{20,255}/,
  },
  { name: 'Stripe key', pattern: /[sr]k_(?:live|test)_[A-Za-z0-9]{16,255}/ },
  { name: 'Google API key', pattern: /AIza[A-Za-z0-9_-]{35}/ },
  { name: 'npm token', pattern: /npm_[A-Za-z0-9]{36}\b/ },
  {
    name: 'JSON Web Token',
    pattern: /eyJ[A-Za-z0-9_-]{10,200}\.eyJ[A-Za-z0-9_-]{10,2000}\.[A-Za-z0-9_-]{10,1000}/,
  },
]
