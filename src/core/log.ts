/** Where the server writes what operators need to know. */
export interface Log {
  error(details: object, message: string): void
  info(details: object, message: string): void
}
