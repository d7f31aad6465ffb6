import type { Totals } from '../src/protocol/api/stats.ts'
import { APPROVED_AGAIN } from '../src/protocol/frame-kinds.ts'
import type { Approval } from '../src/replay/transcript.ts'

/** All user-visible text of the page. */

const n = (number: number) => number.toLocaleString('en')
const seconds = (time: number) =>
  time < 100
    ? `${time.toFixed(1)} s`
    : time < 6000
      ? `${Math.round(time / 60)} min`
      : `${(time / 3600).toFixed(1)} h`
const s = (count: number, noun: string, many = `${noun}s`) =>
  `${count.toLocaleString()} ${count === 1 ? noun : many}`

export const text = {
  name: 'Waymark',
  skip: 'Skip to the conversation',
  openList: 'Conversations',
  closeList: 'Close conversation list',
  projects: { choose: 'Project' },
  search: {
    title: 'Search',
    open: 'Search everything (Ctrl K)',
    words: 'Search messages, answers, calls, output and edits',
    filter: 'Filters',
    filters: {
      kind: 'Kind',
      author: 'Author',
      tool: 'Tool',
      path: 'File or folder',
      since: 'From',
      until: 'Before',
    },
    anything: 'Anything',
    kindNames: {
      message: 'Messages',
      answer: 'Answers',
      call: 'Calls',
      output: 'Output',
      edit: 'Edits',
    },
    anyone: 'Anyone',
    authors: { user: 'People', agent: 'Agents' },
    here: 'Only this conversation',
    conversation: 'Conversation',
    results: 'Results',
    none: (q: string) => `Nothing matches “${q}”.`,
    kinds: {
      message: () => 'You',
      answer: () => 'Agent',
      call: (tool: string) => `${tool} call`,
      output: () => 'Output',
      edit: (path: string) => `Edit to ${path}`,
    },
  },
  demoModel: 'Demo model: a script, not an AI',
  loading: 'Loading …',
  looking: 'Loading …',
  working: 'Working …',
  cancel: 'Cancel',
  showAll: 'Show all',
  close: 'Close',
  undo: 'Undo',
  redo: 'Redo',
  copy: 'Copy',
  copied: 'Copied',
  yes: 'yes',
  no: 'no',
  andMore: (count: number) => `… and ${count.toLocaleString()} more`,
  theme: {
    system: 'Theme: system',
    light: 'Theme: light',
    dark: 'Theme: dark',
  },

  home: {
    title: 'What should the agent do?',
    what: 'Your files are saved before each message, and you can undo every step.',
    recent: 'Recent conversations',
    demo: 'No API key is set, so the demo model answers: a script, not an AI. Try one of its commands:',
    demoExamples: [
      { label: 'Ask a question', content: 'I am Ada. What is my name?' },
      { label: 'Create a file', content: '!write_to_file {"path":"hello.txt","content":"Hello!\\n"}' },
      { label: 'Run a command', content: '!run_command {"command":"ls -l"}' },
      { label: 'Stream a long answer', content: '!wait 40\n!say 200' },
    ],
  },

  views: {
    name: 'Views of this conversation',
    transcript: 'Transcript',
    changes: 'Changes',
    timeline: 'Timeline',
    context: 'Context',
    branches: 'Forks',
  },

  connection: {
    lost: 'Connection lost. Reconnecting …',
    notReady: (reason: string) => `The server can’t save changes (${reason}). Retrying …`,
    running: 'Running',
    asking: 'Waiting for approval',
  },

  conversations: {
    name: 'Conversations',
    search: 'Search conversations',
    new: 'New conversation',
    none: 'No conversations yet.',
    notFound: (q: string) => `No conversations match “${q}”.`,
    untitled: 'Untitled',
    messages: 'Messages',
    more: 'Show more',
    running: 'running',
    asking: 'waiting for approval',
    renameThis: 'Rename this conversation',
    queued: (count: number) => `${count} queued`,
    rename: (title: string) => `Rename “${title}”`,
    delete: (title: string) => `Delete “${title}”`,
    title: 'Title',
    renameTitle: 'Rename the conversation',
    renameAction: 'Rename',
    deleteTitle: (title: string) => `Delete “${title}”?`,
    deleteMeans:
      'Removes the conversation from the list and stops its run. Forks keep the inherited history, and files are not changed. You can undo this for a while.',
    deleteAction: 'Delete',
    deleted: (title: string, until: string) => `“${title}” was deleted. You can undo this until ${until}.`,
  },

  transcript: {
    name: 'Transcript',
    you: 'You',
    agent: 'Agent',
    sentAlong: 'Attached',
    actions: 'Message actions',
    answerActions: 'Answer actions',
    restore: 'Restore files to this point',
    fork: 'Fork from here',
    editAndFork: 'Edit and fork',
    delete: 'Delete from here',
    forkAfter: 'Fork after this',
    whatItSaw: 'What the model saw',
    thinking: 'Thinking …',
    thought: 'Thought',
    atWork: 'Running …',
    elapsed: (seconds: number) =>
      seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`,
    retryIn: (seconds: number) => (seconds === 0 ? 'Retrying now.' : `Next try in ${seconds} s.`),
    cached: (tokens: string) => ` (${tokens} cached)`,
    cost: (cost: number) => `cost ${cost.toPrecision(2)}`,
    waitsForYou: 'Waiting for your approval.',
    brokenOff: 'Interrupted; retried.',
    sources: 'Sources',
    refused: 'Refused:',
    unknownItem: (type: string) => `Unknown item: ${type}`,
    took: (duration: string) => `Took ${duration}`,
    usage: (input: string, output: string) => `${input} tokens in, ${output} out`,
    earlier: 'Loading earlier messages …',
    toEnd: 'Jump to the end',
    emptyTitle: 'Send a message',
    empty: 'Mention files with @, drop files to attach them, and press ? for keyboard shortcuts.',
    failed: 'Failed.',
    sendAgain: 'Send again',
    ended: {
      failed: 'Failed.',
      incomplete: 'Not finished.',
      refused: 'The model refused.',
      cancelled: 'Stopped.',
    } as Readonly<Record<string, string>>,
    whatToDo(code: string, source: string, isRetryable: boolean): string {
      const known: Readonly<Record<string, string>> = {
        snapshot_failed:
          'The files could not be saved before the run, so nothing was changed. Fix the files listed above, then send the message again.',
        workspace_not_here:
          'This server does not have this conversation’s files. Start the server in the folder that contains them. A conversation without files, such as one imported from another folder, can be forked to work on this project’s.',
        storage_failed:
          'The server could not save data. Check its disk space and its log, then send the message again.',
        invalid_api_key: 'The provider rejected the API key. Set a valid key and restart the server.',
        agent_not_installed: 'Install the agent, or choose another one next to the composer.',
        insufficient_quota: 'Your provider account has exceeded its quota. Check its billing settings.',
        context_length_exceeded:
          'The request exceeded the model’s context limit. Run “waymark memory --strategy summarize”, then send the message again.',
      }
      if (known[code]) return known[code]
      if (isRetryable) return 'This may be temporary. Send the message again in a few minutes.'
      return source === 'provider'
        ? 'The provider rejected the request. See Context for what was sent.'
        : 'See the server’s log for details.'
    },
  },

  tools: {
    arguments: 'Arguments',
    code: 'Code',
    output: 'Output',
    outputSoFar: 'Output so far',
    image: 'Generated image',
    mayItRun: (name: string) => `Allow ${name}?`,
    ran: 'Ran',
    leftOut: (lines: number) => `… ${s(lines, 'line')} hidden …`,
    changed: { added: 'Created', modified: 'Edited', deleted: 'Deleted' },
    allow: 'Allow',
    deny: 'Deny',
    agentOptions: "The agent's own answers",
    reason: 'Reason (optional)',
    confinement(sandbox: string | null, network: boolean): string {
      if (sandbox === null) return 'Runs with your permissions, without a sandbox.'
      return `Runs in a sandbox (${sandbox}), ${network ? 'with' : 'without'} network access.`
    },
    wantsNetwork: 'The agent requests network access.',
    withNetwork: 'Allow network access, including services on this machine',
    allowWithoutNetwork: 'Allow without network',
    outside: 'Run outside the sandbox',
    how: 'How long to allow it',
    always: {
      once: 'Allow once',
      exact: 'exactly this call',
      prefix: (words: string) => `commands that begin with “${words}”`,
      tool: (name: string) => `every call of ${name}`,
      here: (calls: string) => `Always allow ${calls}, in this conversation`,
      everywhere: (calls: string) => `Always allow ${calls}, in this project`,
    },
    granted({ network, outside }: { network: boolean; outside: boolean }): string {
      return outside ? ', outside the sandbox' : network ? ', with network access' : ''
    },
    answered({ status, by, reason, ruleId }: Pick<Approval, 'status' | 'by' | 'reason' | 'ruleId'>): string {
      const who = by === null ? '' : ruleId === null ? ` by ${by}` : ` by a rule of ${by}`
      return `${status === 'approved' ? 'Allowed' : 'Denied'}${who}${reason === null ? '' : `: ${reason}`}`
    },
    states: {
      writing: 'writing',
      asking: 'waiting for approval',
      running: 'running',
      done: 'done',
      failed: 'failed',
      denied: 'denied',
      'not-run': 'not run',
      'broken-off': 'interrupted',
    },
  },

  diff: {
    same: 'No changes.',
    of: (path: string) => `Changes to ${path}`,
    none: 'No diff available.',
    binary: 'Binary file.',
    tooLarge: 'Too large to show.',
    showAll: (lines: number) => `Show all ${lines.toLocaleString()} lines`,
  },

  marks: {
    restored: (restored: number, deleted: number) =>
      `Files restored: ${restored} written, ${deleted} deleted`,
    adopted: (restored: number, deleted: number) =>
      `Files adopted from a fork: ${restored} written, ${deleted} deleted`,
    undoRestore: 'Undo this restore',
    approved: (session: string, message: string | null) =>
      message === APPROVED_AGAIN
        ? 'Undo or redo changed which files count as approved'
        : `${session} was approved${message === null ? '' : `: ${message}`}`,
    reset: (session: string) => `${session} was discarded; files reset to the last approval`,
    undoReset: 'Undo this reset',
    forked: 'Forked here',
    imported: (agent: string, entries: number) =>
      `Imported from ${agent} (${entries.toLocaleString('en')} entries)`,
    toParent: 'Open the parent',
    cut: (by: string) => `Later messages were deleted by ${by}`,
    undelete: 'Undo the deletion',
    title: (title: string) => `Renamed to “${title.length > 80 ? `${title.slice(0, 79)}…` : title}”`,
    agent: (from: string | null, to: string) =>
      from === null ? `Agent: ${to}` : `Agent changed from ${from} to ${to}`,
    unknown: (kind: string) => `Unknown event: ${kind}`,
  },

  memory: {
    shortened(strategy: string, before: string, after: string): string {
      const how: Readonly<Record<string, string>> = {
        trim: 'trimmed',
        summarize: 'summarized',
        compact: 'compacted',
      }
      return `The model’s memory was ${how[strategy] ?? strategy}: ${before} → ${after} tokens`
    },
    undone: 'The model sees the whole history again',
    undoneMeans: 'The next request sends the whole history again.',
    why: (reason: string) => `Why: ${reason}`,
    kept: 'Kept',
    keptFrom: (event: number, after: number, before: number) =>
      `everything from event ${event} (${after} of ${s(before, 'item')})`,
    look: 'Show',
    dropped: 'Dropped',
    nothing: 'nothing',
    range: (from: number, to: number) => `events ${from} to ${to}`,
    summary: 'Summary',
    peopleSeeAll: 'This changes what the model sees. You still see everything above.',
    undo: 'Undo: send the whole history again',
    isUndone: 'The next request sends the whole history again.',
  },

  rules: {
    title: 'Rules',
    none: 'No rules yet. Choose “Always allow” when a tool asks, and its rule appears here.',
    intro: 'Calls that run without asking. Remove a rule to be asked again.',
    match: {
      exact: 'Exactly this call',
      prefix: 'Commands that begin with',
      tool: 'Every call',
    },
    here: 'only in this conversation',
    elsewhere: 'only in another conversation',
    by: (name: string, when: string) => `By ${name}, ${when}`,
    remove: 'Remove',
  },

  notifications: {
    asking: 'Waiting for your approval',
    finished: 'The agent has finished',
  },

  composer: {
    name: 'Write a message',
    message: 'Message',
    placeholder: 'Ask a question or give a task. Type @ to mention a file.',
    send: 'Send',
    queue: 'Queue',
    stop: 'Stop',
    attach: 'Attach files',
    agent: 'Agent',
    ownAgent: 'Waymark’s agent',
    missingAgent: (title: string) => `${title} (not installed)`,
    model: 'Model',
    mode: 'What the agent may do without asking',
    modes: {
      ask: 'Ask before commands',
      edit: 'Edit freely',
      read_only: 'Read only (plan)',
    },
    rules: 'Rules',
    notify: 'Notify me',
    notified: 'Notifications on',
    defaultModel: (name: string) => (name === '' ? 'Default model' : `Default: ${name}`),
    along: 'Attachments',
    without: (name: string) => `Remove ${name}`,
    waiting: 'Queued messages',
    remove: (content: string) => `Remove “${content}” from the queue`,
    takenOut: (content: string) => `Removed from the queue: ${content}`,
    withMore: 'Has attachments',
    files: 'Files',
    noFile: 'No file matches.',
    unsent: 'Messages that may not have been sent',
    notSent: 'may not have been sent',
    sendAgain: 'Send again',
    takeBack: 'Move to composer',
    tooLarge: (name: string) => `${name} is larger than 4 MB and can’t be attached.`,
    noText: (name: string) =>
      `${name} is neither text nor an image (PNG, JPEG, GIF, WebP) and can’t be attached.`,
    isEmpty: (name: string) => `${name} is empty.`,
    notReadable: (name: string) => `${name} can’t be read; folders can’t be attached.`,
    tooMany: (most: number) => `You can attach at most ${most} files.`,
    lost: (names: string) => `No longer available: ${names}. Attach it again.`,
    dropElsewhere: 'To attach files, open a transcript and drop them there.',
    mayNotWrite: 'Your token allows reading only.',
    notKept: 'This draft is too long to survive a reload. Send it, or keep a copy.',
  },

  changes: {
    /** Labels hold the first 50 characters of a message. */
    checkpoint(label: string): string {
      const [, content] = /^Before user message: (.*)$/s.exec(label) ?? []
      if (content === undefined) return label.replace(/^(Restored to [0-9a-f]{8})[0-9a-f]{32,}$/, '$1')
      return `Before “${content}${content.length >= 50 ? '…' : ''}”`
    },
    title: (session: string) => `Changes in ${session}`,
    none: 'Nothing has changed since the last approval.',
    count: (files: number) => `${s(files, 'file')} changed since the last approval`,
    mayNot: 'Your token does not allow changing files.',
    busy: 'A run is active. Stop it, or wait until it ends.',
    words: { added: 'added', modified: 'modified', deleted: 'deleted' },
    leftOut: 'left out',
    whyLeftOut: (reason: string) => `No longer in checkpoints (${reason}). The file still exists.`,
    sessions: 'Work sessions',
    status: { active: 'active', merged: 'approved', abandoned: 'discarded' },
    checkpoints: (count: number) => s(count, 'checkpoint'),
    allCheckpoints: 'Checkpoints',
    files: (files: number, changed: number) => `${s(files, 'file')}, ${changed} changed`,
    failed: {
      restore: 'A restore failed and could not be rolled back.',
      reset: 'A reset failed and could not be rolled back.',
      approve: 'An approval failed and could not be rolled back.',
      adopt: 'An adoption failed and could not be rolled back.',
    },
    by: {
      none: 'changed outside Waymark',
      this: 'this conversation',
      untitled: 'an untitled conversation',
      other: 'another tenant’s conversation',
      tool: (name: string) => `edited by ${name}`,
      run: (name: string) => `changed during or after a run of ${name}`,
    },
    failedAction: 'Restore the previous files',
    rescued: 'Rescued files',
    rescuedMeans:
      'A program was still writing to these files when they were replaced. Their last state is in the data folder.',
    overwrote: 'This file had changed since the last checkpoint.',
    overwroteAction: 'Restore files to before this edit',
  },

  work: {
    nothingToDo: 'Files already match.',
    willRestore: (count: number) => `Files to restore (${count})`,
    willDelete: (count: number) => `Files to delete (${count})`,
    willSkip: (count: number) => `Skipped (${count})`,
    skipped: (path: string, reason: string) => `${path}: ${reason}`,
    rescued: (path: string, file: string) =>
      `${path}: a program was writing to it; its last state is in the data folder (${file})`,
    undone: (counts: string) => `Undone: ${counts}`,
    report: (restored: number, deleted: number, skipped: number) =>
      `${s(restored, 'file')} restored, ${deleted} deleted${skipped > 0 ? `, ${skipped} skipped` : ''}.`,
  },

  restore: {
    open: 'Restore',
    title: 'Restore files to this point?',
    means:
      'The current files are saved as a checkpoint first, so you can undo this. The conversation is not changed.',
    action: 'Restore files',
    leftOut: (count: number) => `${s(count, 'path')} not in this checkpoint; not changed`,
  },

  operations: {
    title: 'Operations in this conversation',
    undo: 'Undo',
    redo: 'Redo',
    done: (isRedone: boolean, summary: string) => `${isRedone ? 'Redone' : 'Undone'}: ${summary}`,
    skipped: (path: string, reason: string) => `${path} was skipped: ${reason}`,
    problem: (isUndone: boolean, why: string) => `can’t be ${isUndone ? 'redone' : 'undone'}: ${why}`,
  },

  blame: {
    open: 'Show authors',
    title: (path: string) => `Authors of ${path}`,
    outside: 'outside Waymark',
    unknown: 'unknown',
    author: (message: string | null, agent: string | null, tool: string | null) =>
      [agent ?? 'agent', tool, message === null ? null : `“${message.replaceAll(/\s+/g, ' ').slice(0, 40)}”`]
        .filter(Boolean)
        .join(' · '),
  },

  commit: {
    open: 'Commit …',
    title: 'Commit the approved files?',
    means:
      'Commits to your git repository the files approved since Waymark’s last commit, including your own edits to them. Later changes stay as they are.',
    where: (branch: string, author: string) => `To ${branch}, as ${author}`,
    message: 'Message',
    branch: 'New branch (default: the current one)',
    hooks: (paths: string) => `Run the repository’s hooks: ${paths}`,
    action: 'Commit',
    done: (files: number, branch: string, commit: string) =>
      `Committed ${s(files, 'file')} to ${branch} as ${commit.slice(0, 8)}.`,
  },

  insights: {
    open: 'Insights',
    title: 'Insights',
    period: 'Period',
    last: (days: number) => (days === 1 ? 'The last 24 hours' : `The last ${days} days`),
    none: 'Nothing happened in this period.',
    partial: 'Incomplete: too many events to count at once. Choose a shorter period.',
    byDay: 'Tokens by day',
    byModel: 'By model',
    byAgent: 'By agent',
    byConversation: 'By conversation',
    tools: 'Tools, most failures first',
    compactions: 'Shortened memory',
    totals: (sums: Totals): [string, string][] => [
      ['Answers', n(sums.runs)],
      ['Tokens in', n(sums.input_tokens)],
      ['… of them cached', n(sums.cached_tokens)],
      ['Tokens out', n(sums.output_tokens)],
      ['Model time', seconds(sums.model_seconds)],
      ['Tool time', seconds(sums.tool_seconds)],
      ['Calls', `${n(sums.calls)}, ${n(sums.failed_calls)} failed`],
      ['Edits', `${n(sums.edits)} in ${s(sums.files, 'file')}`],
    ],
    day: (day: Totals & { day: string }) =>
      `${day.day}: ${n(day.input_tokens)} tokens in, ${n(day.output_tokens)} out, ${s(day.runs, 'answer')}`,
    group: (tokens: string, sums: Totals) =>
      `${tokens} tokens · ${s(sums.runs, 'answer')} · ${s(sums.edits, 'edit')}`,
    calls: (calls: number, failed: number, time: number) =>
      `${s(calls, 'call')}, ${failed} failed, ${seconds(time)}`,
    compaction: (strategy: string, before: number, after: number) =>
      `${strategy}: ${n(before)} → ${n(after)} tokens`,
    dropped: (ranges: readonly (readonly [number, number])[]) =>
      ranges.length === 0
        ? 'nothing dropped'
        : `the model no longer sees events ${ranges.map(([from, to]) => `${from}–${to}`).join(', ')}`,
  },

  approve: {
    open: 'Approve …',
    title: 'Approve these changes?',
    means: 'The current files become the state that a reset returns to. No file is changed.',
    message: 'Comment (optional)',
    action: 'Approve',
    done: (checkpoints: number, session: string) =>
      `Approved ${s(checkpoints, 'checkpoint')}. Started ${session}. No file was changed.`,
  },

  reset: {
    open: 'Reset …',
    title: 'Discard these changes?',
    means:
      'The files return to the last approved state. The current files are saved as a checkpoint first, so you can undo this.',
    action: 'Reset files',
    others: 'Also discard changes that other conversations have made since the last approval',
  },

  fork: {
    title: 'Fork the conversation',
    editTitle: 'Edit the message and fork',
    action: 'Fork',
    editAction: 'Fork and send',
    noFiles: 'This conversation has no files in this project, because it was imported from another folder.',
    toContinue: 'Fork to continue here',
    meansBefore: 'Creates a new conversation with everything before this message. This one is not changed.',
    along: (names: string) => `Attached again: ${names}`,
    meansAfter: 'Creates a new conversation with everything up to this point. This one is not changed.',
    message: 'Message',
    name: 'Title (optional)',
    of: (title: string) => `${title} (fork)`,
    files: 'Files',
    ways: {
      keep: { name: 'Keep.', means: 'Both conversations work on the current files.' },
      restore: {
        name: 'Restore.',
        means: 'The files return to their state at that point; the current files are saved first.',
      },
      copy: {
        name: 'Copy.',
        means:
          'The fork gets its own copy of the files, as they were at that point. Both can run at the same time.',
      },
    },
  },

  adopt: {
    own: 'This fork has its own copy of the files.',
    into: (title: string | null) => `Adopt into ${title === null ? 'the parent' : `“${title}”`} …`,
    title: 'Adopt the files of this fork',
    means:
      'Merges the changes of this fork into the files of the conversation that it was forked from. Those files are saved first. The fork is not changed.',
    action: 'Adopt',
    prefer: 'On a conflict, take the fork’s version of the file',
  },

  deletion: {
    title: 'Delete from here?',
    action: 'Delete',
    leaves: (messages: number, answers: number) =>
      `${s(messages, 'message')} and ${s(answers, 'answer')} are removed from this conversation and from the model’s memory.`,
    stops: 'The active run is stopped first.',
    clears: (count: number) => `${s(count, 'queued message')} will be moved back to the composer.`,
    stays: 'Files are not changed, and forks keep the inherited history.',
    undoable: 'You can undo this for a while.',
    done: (messages: number, until: string) =>
      `${s(messages, 'message')} deleted; files were not changed. You can undo this until ${until}.`,
    cleared: (content: string) => `Moved from the queue to the composer: ${content}`,
    restoreFiles: 'Also restore files',
    saidSince: (count: number) =>
      `${s(count, 'message')} sent since. Undoing the deletion removes ${count === 1 ? 'it' : 'them'} from this conversation and stops the active run; you can undo that, too.`,
    allTheSame: 'Undo the deletion anyway',
    broughtBack: 'Deleted messages restored; newer messages removed.',
    asBefore: 'Redo the deletion',
  },

  share: {
    open: 'Share',
    title: 'Share this conversation',
    means:
      'Downloads a read-only HTML file with the transcript at any event, tool calls, diffs and attachments. It opens without a server. Read the file before you pass it on: only secrets of known forms are redacted.',
    also: 'Also redact these texts, one per line',
    redacted: (count: number) =>
      count === 0 ? 'No secrets of a known form were found.' : `Redacted: ${s(count, 'secret')}`,
    places: (count: number) => `in ${s(count, 'place')}`,
    action: 'Download',
    noTemplate: 'The server has no template for shared files. Build the page first.',
    exportMeans: 'To move the conversation to another server, with its forks, checkpoints and requests:',
    export: 'Export everything',
    import: 'Import a conversation',
    importing: 'Importing …',
    importProgress: (events: number, of: number) =>
      of > 0 ? `Importing … ${events.toLocaleString()} of ${of.toLocaleString()} events` : 'Importing …',
    imported: (imported: number, present: number) =>
      present > 0
        ? `${s(imported, 'conversation')} imported; ${present} already here.`
        : `${s(imported, 'conversation')} imported.`,
  },

  shared: {
    about: (when: string) =>
      `A read-only copy, shared from Waymark on ${when}. Secrets of known forms were redacted.`,
  },

  timeline: {
    name: 'Position in the conversation',
    transcript: 'Transcript at this event',
    files: 'Files at this event',
    filesThen: 'Files at this event',
    filesNow: 'Files now',
    play: 'Play',
    pause: 'Pause',
    previous: 'Previous message',
    next: 'Next message',
    speed: 'Speed',
    times: (speed: number) => `${speed}×`,
    event: 'Event',
    place: (at: number, head: number, kind: string) => `Event ${at} of ${head}, ${kind}`,
    of: (at: number, head: number) => `Event ${at.toLocaleString()} of ${head.toLocaleString()}`,
    now: 'Now',
    nothingYet: 'No messages yet.',
    filter: 'Find a file',
    counts: (total: number, changed: number) =>
      `${s(total, 'file')}, ${changed === 0 ? 'same as now' : `${changed} changed since`}`,
    unsure: (path: string, reason: string) => `${path} is shown as it was before its last edit: ${reason}.`,
    nowAsThen: 'No checkpoint since then; showing the current files.',
    commandRunning: 'A command is running. Its effect on files appears when it ends.',
    since: { added: 'added later', modified: 'changed later', deleted: 'deleted later' },
    leftOutSince: 'left out later',
    howToShow: 'Version',
    asThen: 'At this event',
    toNow: 'Changes until now',
    same: 'Not changed since.',
    notThere: 'The file did not exist.',
  },

  context: {
    none: 'No model requests yet.',
    responses: 'Requests to the model',
    request: (event: number) => `Request after event ${event}`,
    status: {
      in_progress: 'running',
      completed: 'answered',
      incomplete: 'not finished',
      failed: 'failed',
      cancelled: 'stopped',
    },
    tokens: (count: string) => `${count} tokens`,
    title: 'What the model was sent',
    model: 'Model',
    providerId: 'Provider ID',
    usage: 'Counted by the provider',
    estimate: 'Estimated by Waymark',
    estimated: (tokens: string) => `${tokens} tokens in.`,
    estimateMeans:
      'The estimate counts the text of the parts below. The provider also counts its own formatting and images, with its own tokenizer.',
    seeBody: 'Not listed separately in the request. See the full request below.',
    notInBody: 'Not part of this request.',
    total: (usage: string) => `Total: ${usage}`,
    error: 'Error',
    chain: {
      first: 'First request: everything was sent.',
      follow_up: 'Follow-up: the provider had the rest, so only new parts were sent.',
      expired: 'The last response had expired at the provider, so the whole history was sent again.',
      refused: 'The provider no longer had the last response, so the whole history was sent again.',
      changed: 'The model or its settings had changed, so the whole history was sent again.',
      memory: 'The memory was shortened, so the remaining history was sent again.',
      not_kept: 'The provider does not store responses, so the whole history is sent each time.',
    },
    sent: 'Sent',
    notSent: 'Not sent: held by the provider, unchanged or too large',
    share: (origin: string, tokens: string) => `${origin}: ${tokens} tokens`,
    groupOf: (count: number, tokens: string) => `${count} × · ${tokens} tokens`,
    parts: 'All parts',
    origin: 'Part',
    tokensHead: 'Tokens',
    isSent: 'Sent',
    why: 'Why',
    isHeld: (parts: number) => `${s(parts, 'part')} from earlier requests, held by the provider`,
    requestBody: 'Full request',
    responseBody: 'Full answer',
    raw: 'exact bytes',
    next: 'Sent with the next message',
    origins: {
      instructions: 'Instructions',
      held: 'Earlier requests',
      history: 'Earlier history',
      tools: 'Tools',
      message: 'Message',
      reasoning: 'Reasoning',
      tool_call: 'Tool call',
      tool_output: 'Tool output',
      file: 'Active file',
      chunk: 'Snippet',
      attachment: 'Attachment',
      summary: 'Summary',
    } as Readonly<Record<string, string>>,
  },

  branches: {
    title: 'Forks',
    alone: 'This conversation has no forks. Fork from any message in the transcript.',
    means: 'Each line is a conversation, from left to right; a fork starts where it leaves its parent.',
    root: (head: number) => s(head, 'event'),
    forkedAt: (at: number, head: number) => `from event ${at}, now at ${head}`,
    ownFiles: 'own working copy',
    deleted: 'Deleted; shown because it has forks',
    compare: 'Compare',
    comparison: 'Side by side',
    noComparison: 'Close the comparison',
    parted: (event: number) => (event === 0 ? 'They share no history.' : `Identical up to event ${event}.`),
    nothingSince: (event: number) => `No messages since event ${event}.`,
    more: 'Open the conversation to see all.',
    files: 'File differences, as of the last checkpoints',
    noFiles: 'Not available: one of them has no checkpoint on this server.',
    sameFiles: 'The files are identical.',
  },

  help: {
    name: 'Keyboard shortcuts',
    title: 'Keyboard shortcuts',
    groups: [
      {
        name: 'Everywhere',
        keys: [
          ['?', 'This list'],
          ['Ctrl K', 'Search everything'],
          ['/', 'Search conversations'],
          ['+', 'New conversation'],
          ['1 … 5', 'Transcript, Changes, Timeline, Context, Forks'],
          ['t', 'Light, dark or system theme'],
          ['Esc', 'Close'],
        ],
      },
      {
        name: 'Transcript',
        keys: [
          ['c', 'Focus the composer'],
          ['j  k', 'Next message, previous message'],
          ['g  G', 'Top, end'],
          ['.', 'Stop the run'],
          ['y  n', 'Allow, deny the call that waits'],
        ],
      },
      {
        name: 'While writing',
        keys: [
          ['Enter', 'Send, or queue'],
          ['Shift Enter', 'New line'],
          ['@', 'Mention a file'],
        ],
      },
      {
        name: 'Timeline',
        keys: [
          ['Space', 'Play, pause'],
          ['← →', 'One event'],
          ['[  ]', 'One message'],
          ['Home End', 'Start, now'],
        ],
      },
    ] as readonly { name: string; keys: readonly (readonly [string, string])[] }[],
  },

  problems: {
    again: 'Try again',
    noServer: 'The server is not responding. Check that it is running.',
    notShown: 'Can’t show this conversation',
    notDrawn: 'This could not be displayed. It is still in the ledger.',
    back: 'Go to conversations',
    byCode: {
      workspace_busy: 'A run is active in this workspace. Stop it, or wait until it ends.',
      conversation_busy: 'A run is active. Stop it, or wait until it ends.',
      queue_full: 'Ten messages are already queued. Wait, or remove one.',
      conversation_not_found: 'Conversation not found; it may have been deleted.',
      missing_scope: 'Your token does not allow this.',
      idempotency_key_reused:
        'This message was already sent from another tab, with different attachments. Send it again if you want both.',
    } as Readonly<Record<string, string>>,
  },
}
