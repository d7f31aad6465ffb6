/** For controls that disappear when pressed: without a focused field, typing would trigger shortcuts. */
export function focusComposer(): void {
  // On touch devices, focusing would open the on-screen keyboard.
  if (matchMedia('(hover: hover)').matches) document.querySelector<HTMLElement>('.composer textarea')?.focus()
}
