import { focusComposer } from '../composer/focus.ts'
import { text } from '../text.ts'
import { Button } from './button.tsx'

/** Expands truncated content; the button disappears when pressed. */
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
