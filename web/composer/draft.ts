import { newId } from '../../src/protocol/ids.ts'
import type { Attached } from './attachments.ts'

/** A message that is being written. */
export interface Draft {
  content: string
  /** Files mentioned with @; their full text goes to the model. */
  files: readonly string[]
  /** Attached texts. */
  attached: readonly Attached[]
  /** Idempotency key: an unchanged draft is accepted once; every edit sets a new key. */
  key: string
}

export interface Drafts {
  draft: Draft
  /** Sent but not confirmed, in sending order. */
  unsent: readonly Draft[]
  /** Names of attachments that were lost when their tab was closed. */
  lost: readonly string[]
}

export function emptyDraft(): Draft {
  return { content: '', files: [], attached: [], key: newId('msg') }
}

/** Returns the draft with a new key, as a different message. */
export function renewed(draft: Draft): Draft {
  return { ...draft, key: newId('msg') }
}

export function isEmpty({ content, files, attached }: Draft): boolean {
  return content === '' && files.length === 0 && attached.length === 0
}
