import { lstatSync } from 'node:fs'
import { fromShown } from './byte-path.ts'

/** When the system last noted a change of each entry: its content, its permissions or its name. */
export function changeTimesOf(root: string, paths: readonly string[]): (number | null)[] {
  return paths.map((path) => {
    const place = Buffer.concat([Buffer.from(`${root}/`), Buffer.from(fromShown(path), 'latin1')])
    return lstatSync(place, { throwIfNoEntry: false })?.ctimeMs ?? null
  })
}
