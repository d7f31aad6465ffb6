import type {
  CreateTerminalRequest,
  CreateTerminalResponse,
  KillTerminalRequest,
  ReadTextFileRequest,
  ReadTextFileResponse,
  ReleaseTerminalRequest,
  RequestPermissionRequest,
  RequestPermissionResponse,
  TerminalOutputRequest,
  TerminalOutputResponse,
  WaitForTerminalExitRequest,
  WaitForTerminalExitResponse,
  WriteTextFileRequest,
  WriteTextFileResponse,
} from '@agentclientprotocol/sdk'

/** The calls that an agent makes while it answers a message. */
export interface ClientMethods {
  /** A promise holds up the agent's next message until it settles. */
  update(params: unknown): Promise<void> | undefined
  requestPermission(request: RequestPermissionRequest): Promise<RequestPermissionResponse>
  readTextFile(request: ReadTextFileRequest): Promise<ReadTextFileResponse>
  writeTextFile(request: WriteTextFileRequest): Promise<WriteTextFileResponse>
  createTerminal(request: CreateTerminalRequest): Promise<CreateTerminalResponse>
  terminalOutput(request: TerminalOutputRequest): Promise<TerminalOutputResponse>
  waitForTerminalExit(request: WaitForTerminalExitRequest): Promise<WaitForTerminalExitResponse>
  killTerminal(request: KillTerminalRequest): Promise<void>
  releaseTerminal(request: ReleaseTerminalRequest): Promise<void>
}
