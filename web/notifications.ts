import { useEffect, useRef, useState } from 'react'

/** Desktop notifications, which the user turns on in the browser. Shown only while the page is hidden. */
export function useNotifications() {
  const isOffered = typeof Notification !== 'undefined' && Notification.permission !== 'denied'
  const [isOn, setOn] = useState(isOffered && Notification.permission === 'granted')
  async function turnOn(): Promise<void> {
    setOn((await Notification.requestPermission()) === 'granted')
  }
  return { isOffered, isOn, turnOn }
}

/** Notifies when `reason` changes to a text. */
export function useNotice(title: string, reason: string | null): void {
  const before = useRef(reason)
  useEffect(() => {
    const isNew = reason !== null && reason !== before.current
    before.current = reason
    if (!isNew || !document.hidden) return
    if (typeof Notification === 'undefined' || Notification.permission !== 'granted') return
    const shown = new Notification(title, { body: reason, tag: title })
    shown.addEventListener('click', () => {
      window.focus()
      shown.close()
    })
  }, [title, reason])
}
