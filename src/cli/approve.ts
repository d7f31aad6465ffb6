import type { Command } from 'commander'
import type { Committed } from '../protocol/api/work.ts'
import { SHORT_ID } from './arguments.ts'
import { connect, conversationId } from './connect.ts'
import { commandWith } from './options.ts'
import { bold, CommandError, count, dim, printable, printJson } from './output.ts'

interface ApproveFlags extends Record<string, unknown> {
  message?: string
  commit?: boolean
  branch?: string
  dryRun?: boolean
  json?: boolean
}

export function approveCommand(): Command {
  return commandWith('approve', ['project', 'dataDir', 'url'])
    .description('Approve the current files and open the next work session')
    .argument('[conversation]', 'conversation id (default: the most recently changed)')
    .option('-m, --message <text>', 'a message for this approval')
    .option('--commit', 'then commit the approved files to your git branch')
    .option('--branch <name>', 'with --commit: to this new branch instead, without switching to it')
    .option(
      '--dry-run',
      'with --commit: show what the last approval would commit; approve and commit nothing',
    )
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      `
With --commit, exactly the files that the approval has changed are committed, with the author that git is configured with. Your
other changes, staged or not, stay as they are. No hooks, filters or other programs of the repository run.

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
      if (!flags.commit && (flags.branch !== undefined || flags.dryRun))
        throw new CommandError('--branch and --dry-run go with --commit')
      const wanted = {
        ...(flags.message === undefined ? {} : { message: flags.message }),
        ...(flags.branch === undefined ? {} : { branch: flags.branch }),
      }
      if (flags.dryRun) return printCommit(await client.commit(id, { ...wanted, dry_run: true }), flags)
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

function printCommit(done: Committed, { json }: ApproveFlags): void {
  if (json) return printJson(done)
  const { commit, branch, author, message, files, skipped } = done
  for (const { path, change } of files) console.log(`${change.padEnd(9)} ${printable(path)}`)
  for (const { path, reason } of skipped) console.log(`skipped   ${printable(path)}: ${printable(reason)}`)
  console.log(dim(printable(`${author}\n\n${message}`.replaceAll('\n', '\n  ').replace(/^/, '  '))))
  const what = count(files.length, 'file')
  if (commit === null) console.log(bold(`${what} would be committed to ${printable(branch)}.`))
  else console.log(bold(`${what} committed to ${printable(branch)} as ${commit.slice(0, SHORT_ID)}.`))
}
