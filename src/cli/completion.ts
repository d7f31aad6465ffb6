import { Argument, Command } from 'commander'

const shells = ['bash', 'zsh', 'fish'] as const
type Shell = (typeof shells)[number]

/** `program` makes the whole program: the scripts are made from its commands and options. */
export function completionCommand(program: () => Promise<Command>): Command {
  return new Command('completion')
    .description('Print a script that completes commands and options in your shell')
    .addArgument(new Argument('<shell>', 'your shell').choices(shells))
    .addHelpText(
      'after',
      `
Examples:
  source <(waymark completion bash)                                   in ~/.bashrc
  source <(waymark completion zsh)                                    in ~/.zshrc, after compinit
  waymark completion fish > ~/.config/fish/completions/waymark.fish`,
    )
    .action(async (shell: Shell) => {
      process.stdout.write(scripts[shell](wordsOf(await program())))
    })
}

interface Word {
  /** The command's words, such as `token create`. */
  path: string
  about: string
  /** Its subcommands and options. */
  next: { word: string; about: string }[]
}

function wordsOf(command: Command, path = ''): Word[] {
  const children = command.commands.map((one) => ({ word: one.name(), about: one.description() }))
  const options = command.options.flatMap((one) =>
    one.long ? { word: one.long, about: one.description } : [],
  )
  const own = {
    path,
    about: command.description(),
    next: [...children, ...options, { word: '--help', about: 'show help' }],
  }
  return [
    own,
    ...command.commands.flatMap((one) => wordsOf(one, path === '' ? one.name() : `${path} ${one.name()}`)),
  ]
}

const scripts: Record<Shell, (words: Word[]) => string> = { bash, zsh, fish }

/** The longest path of commands that has been typed decides what can follow. */
function bash(words: Word[]): string {
  const cases = words
    .filter(({ path }) => path !== '')
    .map(
      ({ path, next }) => `    ${quoted(path)}) words=${quoted(next.map(({ word }) => word).join(' '))} ;;`,
    )
  const top = words[0]?.next.map(({ word }) => word).join(' ') ?? ''
  return `_waymark() {
  local word path='' words
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$word" in -*) ;; *) [ \${#path} -lt 40 ] && path="\${path:+$path }$word" ;; esac
  done
  while :; do
    case "$path" in
    '') words=${quoted(top)} ;;
${cases.join('\n')}
    *' '*) path="\${path% *}"; continue ;;
    *) words='' ;;
    esac
    break
  done
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}")
}
complete -o default -F _waymark waymark
`
}

function zsh(words: Word[]): string {
  const described = ({ word, about }: Word['next'][number]) =>
    quoted(`${word.replaceAll(':', '\\:')}:${plain(about)}`)
  const cases = words.map(
    ({ path, next }) => `    ${quoted(path)}) words_here=(${next.map(described).join(' ')}) ;;`,
  )
  return `#compdef waymark
_waymark() {
  local -a typed words_here
  typed=(\${\${words[2,CURRENT-1]}:#-*})
  while true; do
    case "\${(j: :)typed}" in
${cases.join('\n')}
    *) typed=(\${typed[1,-2]}); continue ;;
    esac
    break
  done
  _describe 'waymark' words_here
  _files
}
compdef _waymark waymark
`
}

function fish(words: Word[]): string {
  return words
    .flatMap(({ path, next }) =>
      next.map(({ word, about }) => {
        const names = path.split(' ').filter(Boolean)
        const seen = names.map((name) => `__fish_seen_subcommand_from ${name}`)
        const condition = names.length === 0 ? '__fish_use_subcommand' : seen.join('; and ')
        const what = word.startsWith('--') ? `-l ${word.slice(2)}` : `-f -a ${word}`
        return `complete -c waymark -n ${quoted(condition)} ${what} -d ${quoted(plain(about))}\n`
      }),
    )
    .join('')
}

function plain(text: string): string {
  return text.replaceAll(/\s+/g, ' ').slice(0, 120)
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
