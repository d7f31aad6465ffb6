import { createContext, type ReactNode, use, useState } from 'react'
import { RestoreDialog } from './restore-dialog.tsx'

const AskContext = createContext<(checkpointId: string) => void>(() => {})

/** Opens the restore dialog, which previews the changes before it restores files. */
export function RestoreProvider({
  conversationId,
  isRunning,
  children,
}: {
  conversationId: string
  isRunning: boolean
  children: ReactNode
}) {
  const [asked, ask] = useState<string | null>(null)
  return (
    <AskContext value={ask}>
      {children}
      {asked !== null && (
        <RestoreDialog
          conversationId={conversationId}
          checkpointId={asked}
          isRunning={isRunning}
          onClose={() => ask(null)}
        />
      )}
    </AskContext>
  )
}

export function useAskRestore(): (checkpointId: string) => void {
  return use(AskContext)
}
