import { QueryClientProvider } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import { applyFrames } from '../../src/replay/reduce.ts'
import { emptyTranscript } from '../../src/replay/transcript.ts'
import type { SharedConversation } from '../../src/sharing/shared-file.ts'
import { Boundary } from '../controls/boundary.tsx'
import { ToastsProvider } from '../controls/toasts.tsx'
import { dateOf } from '../format.ts'
import { Detached } from '../location.tsx'
import { queries } from '../server.ts'
import { text } from '../text.ts'
import { OpenPartsProvider } from '../transcript/open-parts.tsx'
import { ReadOnly } from '../transcript/read-only.ts'
import { rowsOf } from '../transcript/rows.ts'
import { RowView } from '../transcript/transcript-view.tsx'

/** A shared conversation, read-only: its transcript at any event. */
export function SharedPage({ shared }: { shared: SharedConversation }) {
  const { frames, title, sharedAt, conversationId } = shared
  const [shown, setShown] = useState(frames.length)
  const transcript = useMemo(() => applyFrames(emptyTranscript(), frames.slice(0, shown)), [frames, shown])
  const rows = useMemo(() => rowsOf(transcript), [transcript])
  const last = frames[shown - 1]
  return (
    <QueryClientProvider client={queries}>
      <ToastsProvider>
        <Detached value={true}>
          <ReadOnly value={true}>
            <div className="shared">
              <header>
                <h1>{title ?? text.conversations.untitled}</h1>
                <p className="quiet">{text.shared.about(dateOf(sharedAt))}</p>
                <label className="shared-timeline">
                  <span className="hidden">{text.timeline.event}</span>
                  <input
                    type="range"
                    min={1}
                    max={frames.length}
                    value={shown}
                    onChange={(event) => setShown(event.target.valueAsNumber)}
                  />
                  {last && (
                    <span className="quiet">
                      {text.timeline.of(shown, frames.length)} · {dateOf(last.server_timestamp)}
                    </span>
                  )}
                </label>
              </header>
              <main aria-label={text.transcript.name}>
                <OpenPartsProvider>
                  <div className="rows">
                    {rows.map((row) => (
                      <div key={row.key} className={`row ${row.type}`}>
                        <Boundary>
                          <RowView
                            row={row}
                            conversationId={conversationId}
                            onAct={nothing}
                            onFork={nothing}
                            onAgain={nothing}
                          />
                        </Boundary>
                      </div>
                    ))}
                  </div>
                </OpenPartsProvider>
              </main>
            </div>
          </ReadOnly>
        </Detached>
      </ToastsProvider>
    </QueryClientProvider>
  )
}

const nothing = () => {}
