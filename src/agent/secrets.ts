import { secretForms } from '../protocol/secrets.ts'

/**
 * Files that are never sent to the model unless a person names them: hidden files, key material, and files that look like
 * credentials. Ignored files don't get this far, since git doesn't report them as changed.
 */

const KEY_FILES = /\.(pem|key|p12|pfx|p8|jks|keystore|kdbx|ppk|asc|gpg|age|ovpn|tfstate|tfvars)(\.\w+)?$/i
const KEY_NAMES =
  /^(id_(rsa|dsa|ecdsa|ed25519)|.*_(rsa|dsa|ecdsa|ed25519)|htpasswd|shadow|wallet\.dat)(\.\w+)?$/i
const CREDENTIAL_NAMES =
  /(^|[._-])(credentials?|secrets?|passwords?|passwd|api[._-]?keys?|service[._-]?account|env)(\.(json|ya?ml|toml|ini|txt|cfg|conf|properties|xml|csv|env|local))*$/i

/** Why a file is withheld because of its path, or null. */
export function withheldByName(path: string): string | null {
  const parts = path.split('/')
  if (parts.some((part) => part.startsWith('.'))) return 'hidden; name it to send it'
  const name = parts.at(-1) ?? ''
  if (KEY_FILES.test(name) || KEY_NAMES.test(name)) return 'may contain a key; name it to send it'
  if (CREDENTIAL_NAMES.test(name)) return 'may contain credentials; name it to send it'
  return null
}

const SECRETS: readonly RegExp[] = [
  ...secretForms.map(({ pattern }) => pattern),
  /\baws_secret_access_key\s{0,10}[=:]/i,
  /"private_key"\s{0,10}:\s{0,10}"-----BEGIN/,
]

/** A reason to withhold a file because of its text, or null. */
export function secretIn(text: string): string | null {
  return SECRETS.some((pattern) => pattern.test(text))
    ? 'seems to contain a secret; name it to send it'
    : null
}
