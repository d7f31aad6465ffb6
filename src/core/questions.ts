/** What a person is asked before a tool runs: the whole call, as it would run. */
export interface Question {
  toolName: string
  /** As the model wrote them, whole and unredacted: only those who may approve get to see them. */
  arguments: string
  /** What a rule for this call goes by. */
  subject: string
  /** Null for tools that start no program. */
  confinement: Confinement | null
  /** Names this very question: an approval must name it too, so that what was shown is what runs. */
  sha256: string
}

/** How a program would run. */
export interface Confinement {
  /** The sandbox's name; null when it would run as the person would. */
  sandbox: string | null
  network: boolean
  /** The model says that it needs the network. */
  wantsNetwork: boolean
}

/** What a person allows besides the call itself. */
export interface Grant {
  network: boolean
  /** Without a sandbox. */
  outside: boolean
}

export const noGrant: Grant = { network: false, outside: false }

/** Longer calls can't be shown to a person in a way that they can read. */
export const MAX_QUESTION_CHARACTERS = 100_000

/** A call that is allowed from now on without asking, and how it runs. */
export interface Rule {
  id: string
  workspaceId: string | null
  toolName: string
  /** What the call must be, to the character: a command, or all the arguments. */
  subject: string
  grant: Grant
  /** It was allowed to run in a sandbox, and not without one. */
  isConfined: boolean
  by: string
  createdAt: string
}

export interface Rules {
  find(call: RuleQuery): Promise<Rule | null>
  list(tenant: string): Promise<Rule[]>
  remove(tenant: string, id: string): Promise<boolean>
}

export interface RuleQuery {
  tenant: string
  workspaceId: string | null
  toolName: string
  subject: string
}

/** Whether a rule allows this call as it would run now: one for the sandbox does not count where there is none. */
export function isAllowedBy(rule: Rule, { confinement }: Question): boolean {
  return !rule.isConfined || confinement === null || confinement.sandbox !== null
}
