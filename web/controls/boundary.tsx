import { Component, type ReactNode } from 'react'
import { text } from '../text.ts'

interface BoundaryState {
  problem: string | null
  /** The children that failed to render. */
  children: ReactNode
}

/** Shows an error for children that fail to render, and tries again when the children change. */
export class Boundary extends Component<{ children: ReactNode }, BoundaryState> {
  override state: BoundaryState = { problem: null, children: null }

  static getDerivedStateFromError(error: unknown): Pick<BoundaryState, 'problem'> {
    return { problem: error instanceof Error ? error.message : String(error) }
  }

  static getDerivedStateFromProps(
    { children }: { children: ReactNode },
    before: BoundaryState,
  ): BoundaryState | null {
    return children === before.children ? null : { problem: null, children }
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
