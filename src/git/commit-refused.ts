/** A commit was refused; the message says why. */
export class CommitRefused extends Error {}
