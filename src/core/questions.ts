/** The question that a person answers before a tool runs: the whole call, as it would run. */
export interface Question {
  toolName: string
  /** As the model wrote them, whole and unredacted: only people who may approve can see them. */
  arguments: string
  /** The text that a rule for this call matches. */
  subject: string
  /** Null for tools that start no program. */
  confinement: Confinement | null
  /** The answers that a hosted agent offers, besides plain yes and no. */
  options?: readonly { id: string; name: string; kind: string }[]
  /** Digest of this question. An approval must name it, so that the call which was shown is the one that runs. */
  sha256: string
}

/** How a program would run. */
export interface Confinement {
  /** The sandbox's name; null when the program would run with the person's own rights. */
  sandbox: string | null
  network: boolean
  /** The model states that the program needs the network. */
  wantsNetwork: boolean
}

/** Rights that a person grants in addition to the call. */
export interface Grant {
  network: boolean
  /** Run without a sandbox. */
  outside: boolean
}

/** True if an option of a hosted agent allows the call; its kinds are ACP's. */
export function isAllowing(kind: string): boolean {
  return kind.startsWith('allow')
}

export const noGrant: Grant = { network: false, outside: false }

/** Longer calls can't be shown to a person in readable form. */
export const MAX_QUESTION_CHARACTERS = 100_000

/** Which calls a rule allows. */
export type RuleMatch =
  /** Calls with exactly this text. */
  | 'exact'
  /** Plain commands that begin with these words. */
  | 'prefix'
  /** Every call of the tool. */
  | 'tool'

/** Calls that are allowed from now on without asking, and how they run. */
export interface Rule {
  id: string
  workspaceId: string | null
  /** The only conversation it applies to; null for all of the workspace. */
  conversationId: string | null
  toolName: string
  match: RuleMatch
  /** The command, or all the arguments; the first words of the command for `prefix`; empty for `tool`. */
  subject: string
  grant: Grant
  /** The rule allows the call only in a sandbox. */
  isConfined: boolean
  by: string
  createdAt: string
}

/** What a person allows from now on: a wider rule than the call itself is made from the call, never from the client. */
export interface Always {
  match: RuleMatch
  /** In this conversation only, or in the whole workspace. */
  scope: 'conversation' | 'workspace'
}

export interface Rules {
  find(call: RuleQuery): Promise<Rule | null>
  list(tenant: string): Promise<Rule[]>
  /** False when there is no such rule. */
  remove(tenant: string, id: string, by: string): Promise<boolean>
}

export interface RuleQuery {
  tenant: string
  workspaceId: string | null
  conversationId: string
  toolName: string
  subject: string
}

/** True if a rule allows this call as it would run now. A rule for the sandbox doesn't apply without one. */
export function isAllowedBy(rule: Rule, { confinement }: Question): boolean {
  if (confinement === null) return true
  if (rule.isConfined && confinement.sandbox === null) return false
  // A rule for many calls never gives one of them the network that it asks for.
  const lacksNetwork = confinement.wantsNetwork && !confinement.network
  return rule.match === 'exact' || !lacksNetwork || rule.grant.network || rule.grant.outside
}

/** Programs that run other programs from their arguments: their first words say nothing about what runs. */
const RUNNERS =
  /^(?:.*\/)?(?:sh|bash|zsh|dash|fish|ksh|env|sudo|doas|su|xargs|eval|exec|command|nohup|time|timeout|nice|find|ssh|watch|parallel|awk|sed|perl|ruby|php|lua|node|deno|bun|npx|bunx|uvx|pipx|python[\d.]*)$/
/** One plain command: nothing that the shell could take for another command, a substitution or a redirection. */
const PLAIN = /^[\w./:=@%+,\-^~*?[\] '"]+$/
const WORD = /^[\w./:@%+,-]+$/
/** Programs that do one thing, whatever their arguments are. */
const ONE =
  /^(?:ls|cat|echo|head|tail|wc|grep|rg|diff|stat|file|tree|pwd|date|which|tsc|eslint|oxlint|prettier|biome|ruff|mypy|pytest|jest|vitest|mocha)$/
/** Programs whose first argument says what they do. */
const MANY =
  /^(?:.*\/)?(?:git|npm|pnpm|yarn|cargo|go|docker|podman|kubectl|make|just|pip[\d.]*|uv|gh|dotnet|mvn|gradle)$/

/**
 * The first words of a plain command, which a `prefix` rule allows with any further arguments: the program and, if there is
 * one, its subcommand. Null if the command is not plain or the program runs others.
 */
export function commandPrefix(command: string): string | null {
  if (!PLAIN.test(command)) return null
  const words = command.trim().split(/ +/)
  const [program = '', ...rest] = words
  if (!WORD.test(program) || RUNNERS.test(program)) return null
  const [next] = rest
  if (ONE.test(program)) return program
  if (next !== undefined && /^[a-z][\w:-]*$/.test(next)) return `${program} ${next}`
  // Without its subcommand, such a program could do anything.
  return MANY.test(program) ? null : program
}

/** The texts by which rules for a call can be found. */
export function ruleSubjects(subject: string): { match: RuleMatch; subject: string }[] {
  const prefix = commandPrefix(subject)
  return [
    { match: 'exact', subject },
    ...(prefix === null ? [] : [{ match: 'prefix' as const, subject: prefix }]),
    { match: 'tool', subject: '' },
  ]
}

/** How much the agent may do without asking. */
export type Mode = 'ask' | 'edit' | 'read_only'
