import { focusComposer } from '../composer/focus.ts'
import { text } from '../text.ts'
import { Button } from './button.tsx'

/** Goes away when it is pressed: what was folded for its length is there then. */
export function ShowAll({ onPress }: { onPress(): void }) {
  return (
    <Button
      look="quiet"
      onClick={() => {
        focusComposer()
        onPress()
      }}
    >
      {text.showAll}
    </Button>
  )
}
