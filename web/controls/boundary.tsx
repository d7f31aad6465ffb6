import { Component, type ReactNode } from 'react'
import { text } from '../text.ts'

/** What can't be drawn says so, and everything else stays. */
export class Boundary extends Component<{ children: ReactNode }, { problem: string | null }> {
  override state: { problem: string | null } = { problem: null }

  static getDerivedStateFromError(error: unknown): { problem: string } {
    return { problem: error instanceof Error ? error.message : String(error) }
  }

  override render(): ReactNode {
    if (this.state.problem === null) return this.props.children
    return (
      <p className="failure" role="alert">
        {text.problems.notDrawn} <span className="quiet">{this.state.problem}</span>
      </p>
    )
  }
}
