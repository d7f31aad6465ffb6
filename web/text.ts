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
  loading: 'Reading …',
  looking: 'Looking …',
  working: 'Working …',
  cancel: 'Cancel',
  showAll: 'Show all of it',
  close: 'Close',
  undo: 'Undo',
  redo: 'Redo',
  copy: 'Copy',
  copied: 'Copied',
  yes: 'yes',
  no: 'no',
  andMore: (count: number) => `… and ${count.toLocaleString()} more`,
  theme: {
    system: 'Colours: as the system has them',
    light: 'Colours: light',
    dark: 'Colours: dark',
  },

  welcome: {
    title: 'Work with an agent, and lose nothing',
    what: 'Talk to an agent about this project. Every word is kept as you saw it, every file is saved before each message, and every step can be taken back.',
    demo: 'Without a key the demo model answers: a script, not an AI. Lines that begin with ! tell it what to do. Try one:',
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
    running: 'At work',
    asking: 'Waits for your answer',
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
    asking: 'waits for you',
    renameThis: 'Rename this conversation',
    queued: (count: number) => `${count} queued`,
    rename: (title: string) => `Rename “${title}”`,
    delete: (title: string) => `Delete “${title}”`,
    title: 'Title',
    renameTitle: 'Rename the conversation',
    renameAction: 'Rename',
    deleteTitle: (title: string) => `Delete “${title}”?`,
    deleteMeans:
      'The conversation leaves the list, and what runs in it is stopped. Its forks keep what they inherited, and the files stay as they are. It can be brought back for a while.',
    deleteAction: 'Delete',
    deleted: (title: string, until: string) =>
      `“${title}” was deleted. It can be brought back until ${until}.`,
  },

  transcript: {
    name: 'Transcript',
    you: 'You',
    agent: 'Agent',
    sentAlong: 'Sent along',
    actions: 'From this message',
    restore: 'Restore files to here',
    fork: 'Fork from here',
    editAndFork: 'Edit and fork',
    delete: 'Delete from here',
    forkAfter: 'Fork after this',
    whatItSaw: 'What the model saw',
    thinking: 'Thinking …',
    thought: 'Thought',
    atWork: 'At work …',
    waitsForYou: 'It waits for your answer.',
    brokenOff: 'Broken off here, and asked again.',
    sources: 'Sources',
    refused: 'Refused:',
    unknownItem: (type: string) => `Something this version does not know: ${type}`,
    took: (duration: string) => `Took ${duration}`,
    usage: (input: string, output: string) => `${input} tokens in, ${output} out`,
    earlier: 'Reading what came before …',
    toEnd: 'To the end',
    emptyTitle: 'Say something',
    empty: 'Name files with @, drop texts to send them along, and press ? for the keys.',
    failed: 'This did not work.',
    sendAgain: 'Send it again',
    ended: {
      failed: 'This did not work.',
      incomplete: 'Not finished.',
      refused: 'The model refused.',
      cancelled: 'Stopped.',
    } as Readonly<Record<string, string>>,
    whatToDo(code: string, source: string, isRetryable: boolean): string {
      const known: Readonly<Record<string, string>> = {
        snapshot_failed:
          'The files could not be saved first, so nothing was done. See to the files named above, then send it again.',
        workspace_not_here:
          'This server does not have the files of this conversation. Start it in the folder that has them.',
        storage_failed:
          'The server could not write. Look for room on its disk and at its log, then send it again.',
        invalid_api_key: 'The key is not accepted. Set OPENAI_API_KEY and start the server again.',
        insufficient_quota: 'The account with the provider has nothing left.',
        context_length_exceeded:
          'It was too much at once. Shorten the memory (waymark memory --strategy summarize) and send it again.',
      }
      if (known[code]) return known[code]
      if (isRetryable) return 'It may work if you send it again in a while.'
      return source === 'provider'
        ? 'The model’s server refused it. Look at the context for what it was sent.'
        : 'The server’s log says more.'
    },
  },

  tools: {
    arguments: 'Arguments',
    code: 'Code',
    output: 'Output',
    outputSoFar: 'Output so far',
    image: 'An image that the model made',
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
      writing: 'being written',
      asking: 'waiting for approval',
      running: 'running',
      done: 'done',
      failed: 'failed',
      denied: 'denied',
      'not-run': 'not run',
      'broken-off': 'broken off',
    },
  },

  diff: {
    same: 'It says the same as before.',
    of: (path: string) => `Changes of ${path}`,
    none: 'The differences are not shown here.',
    binary: 'This is not text.',
    tooLarge: 'This is too large to be shown.',
    showAll: (lines: number) => `Show all ${lines.toLocaleString()} lines`,
  },

  marks: {
    restored: (restored: number, deleted: number) =>
      `Files were put back: ${restored} restored, ${deleted} deleted`,
    undoRestore: 'Undo this restore',
    approved: (session: string, message: string | null) =>
      `${session} was approved${message === null ? '' : `: ${message}`}`,
    reset: (session: string) => `${session} was discarded, and the files returned to what was approved`,
    undoReset: 'Bring it back',
    forked: 'Forked here',
    toParent: 'Where it came from',
    cut: (by: string) => `What followed was deleted by ${by}`,
    bringBack: 'Bring it back',
    title: (title: string) => `Renamed to “${title.length > 80 ? `${title.slice(0, 79)}…` : title}”`,
    agent: (from: string | null, to: string) =>
      from === null ? `${to} goes on` : `${from} hands over to ${to}`,
    unknown: (kind: string) => `Something this version does not know: ${kind}`,
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
    undone: 'The model sees everything again',
    undoneMeans: 'What was shortened before this is sent whole again from the next message on.',
    why: (reason: string) => `Why: ${reason}`,
    kept: 'Kept',
    keptFrom: (event: number, after: number, before: number) =>
      `everything from event ${event} on (${after} of ${s(before, 'item')})`,
    look: 'Look at it',
    dropped: 'Dropped',
    nothing: 'nothing',
    range: (from: number, to: number) => `events ${from} to ${to}`,
    summary: 'In its place',
    peopleSeeAll: 'This changes what the model sees. You see every word, above.',
    undo: 'Let the model see everything again',
    isUndone: 'The model sees everything again from the next message on.',
  },

  composer: {
    name: 'Write a message',
    message: 'Message',
    placeholder: 'Ask, or tell it what to do. @ names a file.',
    send: 'Send',
    queue: 'Queue',
    stop: 'Stop',
    attach: 'Attach texts',
    along: 'Goes along',
    without: (name: string) => `Without ${name}`,
    waiting: 'Waiting messages',
    remove: (content: string) => `Take out “${content}”`,
    takenOut: (content: string) => `Taken out of the queue: ${content}`,
    withMore: 'Something goes along',
    files: 'Files',
    noFile: 'There is no file like this.',
    unsent: 'Messages that may not have arrived',
    notSent: 'may not have arrived',
    sendAgain: 'Send again',
    takeBack: 'Back into the field',
    tooLarge: (name: string) => `${name} is larger than 4 MB and can’t go along.`,
    noText: (name: string) => `${name} is not text and can’t go along.`,
    isEmpty: (name: string) => `${name} is empty.`,
    notReadable: (name: string) => `${name} can’t be read; folders can’t go along.`,
    tooMany: (most: number) => `At most ${most} texts can go along.`,
    lost: (names: string) => `Not here any more: ${names}. Attach it again.`,
    dropElsewhere: 'Files go along with a message: drop them onto the transcript.',
    mayNotWrite: 'Your token allows reading only.',
    notKept: 'This is too long to be kept through a reload. Send it, or keep a copy.',
  },

  changes: {
    title: (session: string) => `Changes in ${session}`,
    none: 'Nothing has changed since the last approval.',
    count: (files: number) => `${s(files, 'file')} changed since the last approval`,
    mayNot: 'Your token does not allow changing files.',
    busy: 'The agent is at work: files can be approved or returned when it has finished, or is stopped.',
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
    nothingToDo: 'The files are just so already.',
    willRestore: (count: number) => `Written as they were (${count})`,
    willDelete: (count: number) => `Deleted, since they were not there (${count})`,
    willSkip: (count: number) => `Left alone (${count})`,
    skipped: (path: string, reason: string) => `${path}: ${reason}`,
    rescued: (path: string, file: string) =>
      `${path}: a program was writing to it; its last state is in the data folder (${file})`,
    undone: (counts: string) => `Undone: ${counts}`,
    report: (restored: number, deleted: number, skipped: number) =>
      `${s(restored, 'file')} restored, ${deleted} deleted${skipped > 0 ? `, ${skipped} skipped` : ''}.`,
  },

  restore: {
    open: 'Restore',
    title: 'Restore the files to here?',
    means:
      'What is there now is kept as a checkpoint first, so this can be undone. The conversation stays as it is.',
    action: 'Restore files',
    leftOut: (count: number) => `${s(count, 'path')} not in this checkpoint, left as it is now`,
  },

  approve: {
    open: 'Approve …',
    title: 'Approve these changes?',
    means: 'What is there now becomes the state that a reset returns to. No file is touched.',
    message: 'A word about it (if you like)',
    action: 'Approve',
    done: (checkpoints: number, session: string) =>
      `Approved: ${s(checkpoints, 'checkpoint')}. ${session} has begun.`,
    undo: 'No file was changed. To undo more, restore any checkpoint in Changes.',
  },

  reset: {
    open: 'Reset …',
    title: 'Discard these changes?',
    means:
      'The files return to what was approved last. What is there now is kept as a checkpoint first, so this can be undone.',
    action: 'Reset files',
    others: 'Also discard what other conversations have changed since the last approval',
  },

  fork: {
    title: 'Fork the conversation',
    editTitle: 'Say it in other words',
    action: 'Fork',
    editAction: 'Fork and send',
    meansBefore: 'A new conversation with everything before this message. This one stays as it is.',
    along: (names: string) => `Goes along again: ${names}`,
    meansAfter: 'A new conversation with everything up to here. This one stays as it is.',
    message: 'Message',
    name: 'Title (if you like)',
    of: (title: string) => `${title} (fork)`,
    files: 'Files',
    ways: {
      keep: { name: 'Leave them.', means: 'Both work on the files as they are now.' },
      restore: {
        name: 'Put them back.',
        means: 'The files return to what they were at that place; what is there is kept first.',
      },
      copy: {
        name: 'A copy.',
        means: 'The fork gets files of its own, as they were at that place. Both can work at the same time.',
      },
    },
  },

  deletion: {
    title: 'Delete from here?',
    action: 'Delete',
    leaves: (messages: number, answers: number) =>
      `${s(messages, 'message')} and ${s(answers, 'answer')} leave this conversation, and the model’s memory goes back to before them.`,
    stops: 'What is running now is stopped first.',
    clears: (count: number) =>
      `${s(count, 'waiting message')} will be taken out of the queue, back into the field.`,
    stays: 'The files stay as they are, and forks keep what they inherited.',
    undoable: 'It can be undone for a while.',
    done: (messages: number, until: string) =>
      `${s(messages, 'message')} deleted; the files are as the agent left them. It can be undone until ${until}.`,
    cleared: (content: string) => `Out of the queue, back in the field: ${content}`,
    restoreFiles: 'Restore the files, too',
    saidSince: (count: number) =>
      `${s(count, 'message')} came since. Bringing the deleted ones back takes ${count === 1 ? 'it' : 'them'} off this conversation and stops what runs; that can be undone as well.`,
    allTheSame: 'Bring them back all the same',
    broughtBack: 'The deleted messages are back, and what came since has left.',
    asBefore: 'As it was before',
  },

  timeline: {
    name: 'Go through the conversation',
    transcript: 'The transcript as it was then',
    files: 'The files as they were then',
    filesThen: 'Files then',
    filesNow: 'Files now',
    play: 'Play',
    pause: 'Pause',
    previous: 'To the message before',
    next: 'To the next message',
    speed: 'Speed',
    times: (speed: number) => `${speed}×`,
    event: 'Event',
    place: (at: number, head: number, kind: string) => `Event ${at} of ${head}, ${kind}`,
    of: (at: number, head: number) => `Event ${at.toLocaleString()} of ${head.toLocaleString()}`,
    now: 'Now',
    nothingYet: 'Nothing had been said yet.',
    filter: 'Find a file',
    counts: (total: number, changed: number) =>
      `${s(total, 'file')}, ${changed === 0 ? 'all as they are now' : `${changed} not as now`}`,
    unsure: (path: string, reason: string) => `${path} is shown as it was before its last edit: ${reason}.`,
    nowAsThen: 'No checkpoint has been made since: these are the files as they are now.',
    commandsRan: 'Commands have run since the last checkpoint. What they did to files shows at the next one.',
    since: { added: 'not there yet', modified: 'different now', deleted: 'gone since' },
    howToShow: 'What to show',
    asThen: 'Then',
    toNow: 'Changes until now',
    same: 'It is the same now.',
    notThere: 'It was not there.',
  },

  context: {
    none: 'The model has not been asked anything yet.',
    responses: 'Requests to the model',
    request: (event: number) => `Request after event ${event}`,
    status: {
      in_progress: 'under way',
      completed: 'answered',
      incomplete: 'not finished',
      failed: 'failed',
      cancelled: 'stopped',
    },
    tokens: (count: string) => `${count} tokens`,
    title: 'What the model was sent',
    model: 'Model',
    providerId: 'The provider’s id',
    usage: 'Counted by the provider',
    error: 'Error',
    chain: {
      first: 'The first request: everything was sent.',
      follow_up: 'A follow-up: the provider had the rest, so only what was new was sent.',
      expired: 'The provider’s thread had expired, so everything was sent again from the ledger.',
      refused: 'The provider did not know its thread any more, so everything was sent again from the ledger.',
      changed: 'The model or its settings had changed, so everything was sent again.',
      memory: 'The memory had been shortened, so what is left of it was sent anew.',
      not_kept: 'The provider keeps nothing, so everything is sent each time.',
    },
    sent: 'Sent',
    notSent: 'Not sent: known, unchanged or too large',
    share: (origin: string, tokens: string) => `${origin}: ${tokens} tokens`,
    groupOf: (count: number, tokens: string) => `${count} × · ${tokens} tokens`,
    parts: 'Every part of it',
    origin: 'What',
    tokensHead: 'Tokens',
    isSent: 'Sent',
    why: 'Why',
    isHeld: (parts: number) => `${s(parts, 'part')} of earlier requests; the provider has it`,
    requestBody: 'The request in full',
    responseBody: 'The answer in full',
    raw: 'to the byte',
    next: 'What would go with the next message',
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
    title: 'The family',
    alone: 'Nothing has been forked yet. Each message offers to fork from there.',
    means: 'Each line is a conversation, from left to right; a fork goes on from where it leaves its parent.',
    root: (head: number) => s(head, 'event'),
    forkedAt: (at: number, head: number) => `from event ${at}, now at ${head}`,
    ownFiles: 'files of its own',
    deleted: 'Deleted; here because others come from it',
    compare: 'Compare',
    comparison: 'Side by side',
    noComparison: 'Close the comparison',
    parted: (event: number) =>
      event === 0 ? 'They have nothing in common.' : `They are the same up to event ${event}.`,
    nothingSince: (event: number) => `Nothing since event ${event}.`,
    more: 'There is more; open it to see all.',
    files: 'How their files differ, as of their last checkpoints',
    noFiles: 'Not to be told: one of them has no checkpoint here.',
    sameFiles: 'Their files are the same.',
  },

  help: {
    name: 'Keys',
    title: 'Keys',
    groups: [
      {
        name: 'Everywhere',
        keys: [
          ['?', 'These keys'],
          ['/', 'Search conversations'],
          ['+', 'New conversation'],
          ['1 … 5', 'Transcript, Changes, Timeline, Context, Branches'],
          ['t', 'Light, dark, or as the system has it'],
          ['Esc', 'Close what is open'],
        ],
      },
      {
        name: 'Transcript',
        keys: [
          ['c', 'Write'],
          ['j  k', 'Next message, message before'],
          ['g  G', 'To the top, to the end'],
          ['.', 'Stop what runs'],
        ],
      },
      {
        name: 'While writing',
        keys: [
          ['Enter', 'Send, or queue'],
          ['Shift Enter', 'New line'],
          ['@', 'Name a file'],
        ],
      },
      {
        name: 'Timeline',
        keys: [
          ['Space', 'Play, pause'],
          ['← →', 'One event'],
          ['[  ]', 'One message'],
          ['Home End', 'Beginning, now'],
        ],
      },
    ] as readonly { name: string; keys: readonly (readonly [string, string])[] }[],
  },

  problems: {
    again: 'Try again',
    noServer: 'The server does not answer. Is it running?',
    notShown: 'This can’t be shown',
    notDrawn: 'This could not be drawn; it is in the ledger all the same.',
    back: 'To the conversations',
    byCode: {
      workspace_busy: 'The agent is at work on these files. Stop it, or wait until it has finished.',
      conversation_busy: 'The agent is at work. Stop it, or wait until it has finished.',
      queue_full: 'Ten messages are waiting already. Wait for one to be done, or take one back.',
      conversation_not_found: 'There is no such conversation; it may have been deleted.',
      missing_scope: 'Your token does not allow this.',
      idempotency_key_reused:
        'It was sent from another tab already, without what goes along. Send it once more if you want both.',
    } as Readonly<Record<string, string>>,
  },
}
