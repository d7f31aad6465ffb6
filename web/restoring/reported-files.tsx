import { text } from '../text.ts'

export interface FilesReport {
  restored: readonly string[]
  deleted: readonly string[]
  skipped: readonly { path: string; reason: string }[]
  rescued: readonly { path: string; file: string }[]
}

const SHOWN = 100

/** Lists the files to restore, to delete and to skip. */
export function ReportedFiles({ report }: { report: FilesReport }) {
  const { restored, deleted, skipped } = report
  if (restored.length + deleted.length + skipped.length === 0) return <p>{text.work.nothingToDo}</p>
  return (
    <div className="files-report">
      <Paths name={text.work.willRestore(restored.length)} paths={restored} />
      <Paths name={text.work.willDelete(deleted.length)} paths={deleted} />
      <Paths
        name={text.work.willSkip(skipped.length)}
        paths={skipped.map(({ path, reason }) => text.work.skipped(path, reason))}
      />
    </div>
  )
}

function Paths({ name, paths }: { name: string; paths: readonly string[] }) {
  if (paths.length === 0) return null
  return (
    <>
      <h3>{name}</h3>
      <ul>
        {paths.slice(0, SHOWN).map((path) => (
          <li key={path}>
            <code>{path}</code>
          </li>
        ))}
        {paths.length > SHOWN && <li>{text.andMore(paths.length - SHOWN)}</li>}
      </ul>
    </>
  )
}
