import type { Approval } from '../src/replay/transcript.ts'

/** Every word that the page says. */

const s = (count: number, noun: string, many = `${noun}s`) =>
  `${count.toLocaleString()} ${count === 1 ? noun : many}`

export const text = {
  name: 'Waymark',
  skip: 'Skip to the conversation',
  openList: 'Conversations',
  closeList: 'Close the list of conversations',
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

  welcome: {
    title: 'Work with an agent, and lose nothing',
    what: 'Talk to an agent about this project. Every word is kept as you saw it, the files are saved before each message, and every step can be undone.',
    demo: 'Without an API key the demo model answers: a script, not an AI. Lines that begin with ! direct it. Try one:',
    demoExamples: [
      'I am Ada. What is my name?',
      '!write_to_file {"path":"hello.txt","content":"Hello!\\n"}',
      '!run_command {"command":"ls -l"}',
      '!wait 40\n!say 200',
    ],
  },

  views: {
    name: 'Views of this conversation',
    transcript: 'Transcript',
    changes: 'Changes',
    timeline: 'Timeline',
    context: 'Context',
    branches: 'Branches',
  },

  connection: {
    lost: 'Connection lost. Trying again …',
    notReady: (reason: string) => `The server can’t save anything right now (${reason}). Trying again …`,
    running: 'Running',
    asking: 'Waiting for approval',
  },

  conversations: {
    name: 'Conversations',
    search: 'Search conversations',
    new: 'New conversation',
    none: 'There are no conversations yet.',
    notFound: (q: string) => `No conversations match “${q}”.`,
    untitled: 'Untitled',
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
      'The conversation is removed from the list, and its run is stopped. Forks keep what they inherited, and files are not changed. You can undo this for a while.',
    deleteAction: 'Delete',
    deleted: (title: string, until: string) => `“${title}” was deleted. You can undo this until ${until}.`,
  },

  transcript: {
    name: 'Transcript',
    you: 'You',
    agent: 'Agent',
    sentAlong: 'Attached',
    actions: 'Message actions',
    restore: 'Restore files to this point',
    fork: 'Fork from here',
    editAndFork: 'Edit and fork',
    delete: 'Delete from here',
    forkAfter: 'Fork after this',
    whatItSaw: 'What the model saw',
    thinking: 'Thinking …',
    thought: 'Thought',
    atWork: 'Running …',
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
          'The files could not be saved first, so nothing was done. Fix the files listed above, then send the message again.',
        workspace_not_here:
          'This server does not have the files of this conversation. Start it in the folder that has them.',
        storage_failed:
          'The server could not write. Check its disk space and its log, then send the message again.',
        invalid_api_key: 'The provider rejected the API key. Set OPENAI_API_KEY and restart the server.',
        insufficient_quota: 'The quota of your provider account is used up.',
        context_length_exceeded:
          'The request exceeded the model’s context limit. Shorten the memory (waymark memory --strategy summarize) and send the message again.',
      }
      if (known[code]) return known[code]
      if (isRetryable) return 'This may be temporary. Send the message again in a while.'
      return source === 'provider'
        ? 'The model’s server rejected the request. Context shows what was sent.'
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
    allow: 'Allow',
    deny: 'Deny',
    reason: 'Reason (optional)',
    confinement(sandbox: string | null, network: boolean): string {
      if (sandbox === null) return 'Runs with your permissions, without a sandbox.'
      return `Runs in a sandbox (${sandbox}), ${network ? 'with' : 'without'} network access.`
    },
    wantsNetwork: 'The agent requests network access.',
    withNetwork: 'Allow network access, including services on this machine',
    allowWithoutNetwork: 'Allow without network',
    outside: 'Run outside the sandbox',
    always: 'Always allow exactly this call',
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
    none: 'The diff is not shown here.',
    binary: 'Binary file.',
    tooLarge: 'Too large to show.',
    showAll: (lines: number) => `Show all ${lines.toLocaleString()} lines`,
  },

  marks: {
    restored: (restored: number, deleted: number) =>
      `Files restored: ${restored} written, ${deleted} deleted`,
    undoRestore: 'Undo this restore',
    approved: (session: string, message: string | null) =>
      `${session} was approved${message === null ? '' : `: ${message}`}`,
    reset: (session: string) => `${session} was discarded; files reset to the last approval`,
    undoReset: 'Undo this reset',
    forked: 'Forked here',
    toParent: 'Open the parent',
    cut: (by: string) => `Later messages were deleted by ${by}`,
    bringBack: 'Undo the deletion',
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

  composer: {
    name: 'Write a message',
    message: 'Message',
    placeholder: 'Ask a question or give a task. Type @ to mention a file.',
    send: 'Send',
    queue: 'Queue',
    stop: 'Stop',
    attach: 'Attach files',
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
    noText: (name: string) => `${name} is not text and can’t be attached.`,
    isEmpty: (name: string) => `${name} is empty.`,
    notReadable: (name: string) => `${name} can’t be read; folders can’t be attached.`,
    tooMany: (most: number) => `You can attach at most ${most} files.`,
    lost: (names: string) => `No longer available: ${names}. Attach it again.`,
    dropElsewhere: 'To attach files, open a conversation and drop them there.',
    mayNotWrite: 'Your token allows reading only.',
    notKept: 'This draft is too long to survive a reload. Send it, or keep a copy.',
  },

  changes: {
    title: (session: string) => `Changes in ${session}`,
    none: 'Nothing has changed since the last approval.',
    count: (files: number) => `${s(files, 'file')} changed since the last approval`,
    mayNot: 'Your token does not allow changing files.',
    busy: 'The agent is running: approve or reset when it has finished, or stop it.',
    words: { added: 'added', modified: 'modified', deleted: 'deleted' },
    sessions: 'Work sessions',
    status: { active: 'active', merged: 'approved', abandoned: 'discarded' },
    checkpoints: (count: number) => s(count, 'checkpoint'),
    allCheckpoints: 'Checkpoints',
    files: (files: number, changed: number) => `${s(files, 'file')}, ${changed} changed`,
    failed: {
      restore: 'A restore could be neither finished nor undone',
      reset: 'A reset could be neither finished nor undone',
      approve: 'An approval could be neither finished nor undone',
    },
    by: {
      none: 'changed outside Waymark',
      this: 'this conversation',
      untitled: 'an untitled conversation',
      other: 'a conversation of another tenant',
      tool: (name: string) => `edited by ${name}`,
      run: (name: string) => `changed during a run of ${name}, or since`,
    },
    failedAction: 'Restore the files from before it',
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

  approve: {
    open: 'Approve …',
    title: 'Approve these changes?',
    means: 'The current files become the state that a reset returns to. No file is changed.',
    message: 'Comment (optional)',
    action: 'Approve',
    done: (checkpoints: number, session: string) =>
      `Approved: ${s(checkpoints, 'checkpoint')}. ${session} has begun.`,
    undo: 'No file was changed. To undo more, restore any checkpoint in Changes.',
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

  deletion: {
    title: 'Delete from here?',
    action: 'Delete',
    leaves: (messages: number, answers: number) =>
      `${s(messages, 'message')} and ${s(answers, 'answer')} are removed from this conversation and from the model’s memory.`,
    stops: 'The active run is stopped first.',
    clears: (count: number) => `${s(count, 'queued message')} will be moved back to the composer.`,
    stays: 'Files are not changed, and forks keep what they inherited.',
    undoable: 'You can undo this for a while.',
    done: (messages: number, until: string) =>
      `${s(messages, 'message')} deleted; files were not changed. You can undo this until ${until}.`,
    cleared: (content: string) => `Moved from the queue to the composer: ${content}`,
    restoreFiles: 'Restore files, too',
    saidSince: (count: number) =>
      `${s(count, 'message')} followed since. Undoing the deletion removes ${count === 1 ? 'it' : 'them'} from this conversation and stops the active run; you can undo that, too.`,
    allTheSame: 'Undo the deletion anyway',
    broughtBack: 'The deleted messages are back; the later ones were removed.',
    asBefore: 'Redo the deletion',
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
    nothingYet: 'Nothing had been said yet.',
    filter: 'Find a file',
    counts: (total: number, changed: number) =>
      `${s(total, 'file')}, ${changed === 0 ? 'same as now' : `${changed} changed since`}`,
    unsure: (path: string, reason: string) => `${path} is shown as it was before its last edit: ${reason}.`,
    nowAsThen: 'No checkpoint has been made since: these are the files as they are now.',
    commandsRan:
      'Commands have run since the last checkpoint. Their effect on files appears at the next one.',
    since: { added: 'added later', modified: 'changed later', deleted: 'deleted later' },
    howToShow: 'Version',
    asThen: 'At this event',
    toNow: 'Changes until now',
    same: 'Not changed since.',
    notThere: 'The file did not exist.',
  },

  context: {
    none: 'The model has not been asked anything yet.',
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
    providerId: 'Provider’s id',
    usage: 'Tokens counted by the provider',
    error: 'Error',
    chain: {
      first: 'First request: everything was sent.',
      follow_up: 'Follow-up: the provider had the rest, so only new parts were sent.',
      expired: 'The provider’s thread had expired, so the whole history was sent again.',
      refused: 'The provider no longer had its thread, so the whole history was sent again.',
      changed: 'The model or its settings had changed, so the whole history was sent again.',
      memory: 'The memory was shortened, so the rest was sent again.',
      not_kept: 'The provider stores no responses, so the whole history is sent each time.',
    },
    sent: 'Sent',
    notSent: 'Not sent: known, unchanged or too large',
    share: (origin: string, tokens: string) => `${origin}: ${tokens} tokens`,
    groupOf: (count: number, tokens: string) => `${count} × · ${tokens} tokens`,
    parts: 'All parts',
    origin: 'Part',
    tokensHead: 'Tokens',
    isSent: 'Sent',
    why: 'Why',
    isHeld: (parts: number) => `${s(parts, 'part')} of earlier requests; the provider has it`,
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
    alone: 'No forks yet. Fork from any message in the transcript.',
    means: 'Each line is a conversation, from left to right; a fork starts where it leaves its parent.',
    root: (head: number) => s(head, 'event'),
    forkedAt: (at: number, head: number) => `from event ${at}, now at ${head}`,
    ownFiles: 'files of its own',
    deleted: 'Deleted; shown because others were forked from it',
    compare: 'Compare',
    comparison: 'Side by side',
    noComparison: 'Close the comparison',
    parted: (event: number) =>
      event === 0 ? 'They have no event in common.' : `Identical up to event ${event}.`,
    nothingSince: (event: number) => `Nothing since event ${event}.`,
    more: 'Open the conversation to see all.',
    files: 'File differences, as of the last checkpoints',
    noFiles: 'Unknown: one of them has no checkpoint here.',
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
          ['/', 'Search conversations'],
          ['+', 'New conversation'],
          ['1 … 5', 'Transcript, Changes, Timeline, Context, Branches'],
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
    noServer: 'The server does not respond. Is it running?',
    notShown: 'This can’t be shown',
    notDrawn: 'This could not be displayed. It is still in the ledger.',
    back: 'To the conversations',
    byCode: {
      workspace_busy: 'The agent is working on these files. Stop it, or wait until it has finished.',
      conversation_busy: 'The agent is running. Stop it, or wait until it has finished.',
      queue_full: 'Ten messages are queued already. Wait, or remove one.',
      conversation_not_found: 'Conversation not found; it may have been deleted.',
      missing_scope: 'Your token does not allow this.',
      idempotency_key_reused:
        'It was already sent from another tab, with other attachments. Send it again if you want both.',
    } as Readonly<Record<string, string>>,
  },
}
