import { Dialog } from './controls/dialog.tsx'
import { text } from './text.ts'

/** The list of keyboard shortcuts. */
export function Help({ onClose }: { onClose(): void }) {
  return (
    <Dialog title={text.help.title} onClose={onClose}>
      {text.help.groups.map(({ name, keys }) => (
        <section key={name} className="help-group">
          <h3>{name}</h3>
          <dl>
            {keys.map(([key, means]) => (
              <div key={key}>
                <dt>
                  <kbd>{key}</kbd>
                </dt>
                <dd>{means}</dd>
              </div>
            ))}
          </dl>
        </section>
      ))}
    </Dialog>
  )
}
