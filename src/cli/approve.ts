import type { Command } from 'commander'
import type { Committed } from '../protocol/api/work.ts'
import { SHORT_ID } from './arguments.ts'
import { isConfirmed } from './confirm.ts'
import { connect, conversationId } from './connect.ts'
import { commandWith } from './options.ts'
import { bold, CommandError, count, dim, printable, printJson } from './output.ts'

interface ApproveFlags extends Record<string, unknown> {
  message?: string
  commit?: boolean
  branch?: string
  dryRun?: boolean
  runHooks?: boolean
  yes?: boolean
  json?: boolean
}

export function approveCommand(): Command {
  return commandWith('approve', ['project', 'dataDir', 'url'])
    .description('Approve the current files and open the next work session')
    .argument('[conversation]', 'conversation id (default: the most recently changed)')
    .option('-m, --message <text>', 'a message for this approval')
    .option('--commit', 'then commit the approved files to your git branch')
    .option('--branch <name>', 'with --commit: to this new branch instead, without switching to it')
    .option('--dry-run', 'with --commit: show what would be committed; approve and commit nothing')
    .option(
      '--run-hooks',
      "with --commit: also run commit hooks, such as pre-commit, under the same limits as the agent's commands",
    )
    .option('--yes', 'with --commit: do not ask for confirmation in a terminal')
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      `
--commit commits every file approved since Waymark's last commit to the current branch, including your own edits
to it. The author comes from your git configuration. In a terminal, it shows the commit first, and asks. Later changes and other files, staged
or not, stay as they are. Hooks run only with --run-hooks; --dry-run lists them. No filter or other program of
the repository runs.

Examples:
  waymark diff --stat                 review first
  waymark approve -m "the login works"
  waymark approve --commit            approve, and commit with a proposed message
  waymark approve --commit --branch login --dry-run`,
    )
    .action(async (conversation: string | undefined, flags: ApproveFlags) => {
      const client = await connect(flags)
      if (conversation !== undefined && !conversation.startsWith('conv_')) {
        throw new CommandError(`${conversation} is not a conversation id; to add a message, use -m`)
      }
      const id = await conversationId(client, conversation)
      if (!flags.commit && (flags.branch !== undefined || flags.dryRun || flags.runHooks || flags.yes))
        throw new CommandError('--branch, --dry-run, --run-hooks and --yes need --commit')
      const wanted = {
        ...(flags.message === undefined ? {} : { message: flags.message }),
        ...(flags.branch === undefined ? {} : { branch: flags.branch }),
        ...(flags.runHooks ? { run_hooks: true } : {}),
      }
      if (flags.commit) {
        // Before the approval, so that nothing is approved when the commit is not possible.
        const preview = await client.commit(id, { ...wanted, dry_run: true, with_current: true })
        if (flags.dryRun) return printCommit(preview, flags)
        if (process.stdin.isTTY && !flags.yes && !flags.json) {
          printCommit(preview, flags)
          if (!(await isConfirmed('Approve and commit?')))
            return console.log('Nothing was approved or committed.')
        }
      }
      const done = await client.approve(id, flags.message === undefined ? {} : { message: flags.message })
      if (flags.json && !flags.commit) return printJson(done)
      const commit = done.approved_commit.slice(0, SHORT_ID)
      const what =
        done.commits_approved === 0
          ? 'No new checkpoints; approved'
          : `Approved ${count(done.commits_approved, 'checkpoint')}`
      if (!flags.json) console.log(`${what} as ${commit}; ${id} is now in ${done.new_session}.`)
      if (!flags.commit) return
      const committed = await client.commit(id, wanted)
      if (flags.json) return printJson({ ...done, committed })
      printCommit(committed, flags)
    })
}

function printCommit(done: Committed, { json, runHooks }: ApproveFlags): void {
  if (json) return printJson(done)
  const { commit, branch, author, message, files, skipped, hooks } = done
  for (const { path, change } of files) console.log(`${change.padEnd(9)} ${printable(path)}`)
  for (const { path, reason } of skipped) console.log(`skipped   ${printable(path)}: ${printable(reason)}`)
  for (const { path, has_run } of hooks)
    console.log(
      `hook      ${printable(path)}: ${outcomeOf({ isDryRun: commit === null, isWanted: runHooks === true, has_run })}`,
    )
  console.log(dim(printable(`${author}\n\n${message}`.replaceAll('\n', '\n  ').replace(/^/, '  '))))
  const what = count(files.length, 'file')
  if (commit === null) console.log(bold(`${what} would be committed to ${printable(branch)}.`))
  else console.log(bold(`${what} committed to ${printable(branch)} as ${commit.slice(0, SHORT_ID)}.`))
}

function outcomeOf(hook: { isDryRun: boolean; isWanted: boolean; has_run: boolean }): string {
  if (hook.isDryRun) return hook.isWanted ? 'would run' : 'would not run without --run-hooks'
  if (hook.has_run) return 'ran'
  return hook.isWanted ? 'did not run' : 'did not run; use --run-hooks to run it'
}
