/** The server's log for operators. */
export interface Log {
  error(details: object, message: string): void
  info(details: object, message: string): void
}
