/** For what goes away when it is pressed: the focus would fall out of the page, and what is typed then would be shortcuts. */
export function focusComposer(): void {
  // Where there is no keyboard, one would come up.
  if (matchMedia('(hover: hover)').matches) document.querySelector<HTMLElement>('.composer textarea')?.focus()
}
