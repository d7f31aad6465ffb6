import * as z from 'zod'
import { eventNumber, limit, pagedQuery, text } from './fields.ts'

/** Files: work sessions, checkpoints, restores, and earlier states. */

const checkpointId = z.string().regex(/^[0-9a-f]{7,40}$/, 'must be 7 to 40 hexadecimal digits')
const filePath = text(4096).min(1)
/** Files that a program kept writing to while they were replaced, and where they are now in the data folder. */
const rescuedSchema = z.array(z.object({ path: z.string(), file: z.string() }))
const skippedSchema = z.array(z.object({ path: z.string(), reason: z.string() }))

export const changedFileSchema = z
  .object({
    path: z.string(),
    status: z.enum(['added', 'modified', 'deleted']),
    additions: z.int(),
    deletions: z.int(),
    is_binary: z.boolean(),
    is_too_large: z.boolean(),
    /** Why the later checkpoint leaves the file out (W3): its status is `deleted`, but the file still exists. */
    left_out: z.string().optional(),
  })
  .meta({ id: 'ChangedFile' })

export const sessionViewSchema = z
  .object({
    active_session: z.string(),
    session_ref: z.string(),
    has_unapproved: z.boolean(),
    last_approved_at: z.string().nullable(),
    /** The state that a reset returns to: the last one approved in the workspace, by any conversation. */
    approved_checkpoint: z.string(),
    changed_files: z.array(
      changedFileSchema.extend({
        /** The conversations that changed it since; empty if a person or another program did. */
        by: z.array(
          z.object({
            /** Null for a conversation of another tenant. */
            conversation_id: z.string().nullable(),
            title: z.string().nullable(),
            /** `tool`: a tool of the agent edited it. `run`: it changed while the agent was running there. */
            how: z.enum(['tool', 'run']),
          }),
        ),
      }),
    ),
    /** A restore, reset or approval that could neither finish nor be undone. */
    failed_change: z
      .object({
        kind: z.enum(['restore', 'reset', 'approve', 'adopt']),
        conversation_id: z.string(),
        /** The checkpoint of the files before the change. */
        safety_checkpoint: z.string().nullable(),
        reason: z.string(),
        at: z.string(),
      })
      .nullable(),
    rescued: z.array(z.object({ path: z.string(), file: z.string(), rescued_at: z.string() })),
    sessions: z.array(
      z.object({
        name: z.string(),
        ref: z.string(),
        status: z.enum(['active', 'merged', 'abandoned']),
        created_at: z.string().nullable(),
        closed_at: z.string().nullable(),
        approved_commit: z.string().nullable(),
        checkpoint_count: z.int(),
      }),
    ),
  })
  .meta({ id: 'SessionView' })
export type SessionView = z.infer<typeof sessionViewSchema>

export const approveSchema = z.strictObject({ message: text(2000).optional() }).meta({ id: 'Approve' })
export type Approve = z.infer<typeof approveSchema>
export const approvedSchema = z
  .object({ approved_commit: z.string(), new_session: z.string(), commits_approved: z.int() })
  .meta({ id: 'Approved' })
export type Approved = z.infer<typeof approvedSchema>

export const resetSchema = z
  .strictObject({
    dry_run: z.boolean().optional(),
    /** Also reverts what other conversations have changed since the last approval. */
    include_others: z.boolean().optional(),
  })
  .meta({ id: 'Reset' })
export type Reset = z.infer<typeof resetSchema>
export const resetDoneSchema = z
  .object({
    reset_to: z.string(),
    /** Null for a dry run. */
    new_session: z.string().nullable(),
    pre_reset_checkpoint: z.string().nullable(),
    restored: z.array(z.string()),
    deleted: z.array(z.string()),
    skipped: skippedSchema,
    rescued: rescuedSchema,
  })
  .meta({ id: 'ResetDone' })
export type ResetDone = z.infer<typeof resetDoneSchema>

export const restoreSchema = z
  .strictObject({
    checkpoint_id: checkpointId,
    paths: z.array(filePath).min(1).max(10_000).optional(),
    dry_run: z.boolean().optional(),
  })
  .meta({ id: 'Restore' })
export type Restore = z.infer<typeof restoreSchema>
export const restoredSchema = z
  .object({
    restored_to: z.string(),
    new_checkpoint: z.string().nullable(),
    safety_checkpoint: z.string().nullable(),
    restored: z.array(z.string()),
    deleted: z.array(z.string()),
    skipped: skippedSchema,
    rescued: rescuedSchema,
  })
  .meta({ id: 'Restored' })
export type Restored = z.infer<typeof restoredSchema>

export const adoptSchema = z
  .strictObject({
    /** The conversation whose working copy is merged. */
    from: z.string(),
    /** Takes its file where both sides have changed one; otherwise the file stays and is listed as skipped. */
    prefer_other: z.boolean().optional(),
    dry_run: z.boolean().optional(),
  })
  .meta({ id: 'Adopt' })
export type Adopt = z.infer<typeof adoptSchema>
export const adoptedSchema = restoredSchema.extend({ conflicts: z.array(z.string()) }).meta({ id: 'Adopted' })
export type Adopted = z.infer<typeof adoptedSchema>

const checkpointSchema = z.object({
  checkpoint_id: z.string(),
  work_session: z.string(),
  label: z.string(),
  files: z.int(),
  changed: z.int(),
  excluded: z.int(),
  conversation_id: z.string(),
  message_id: z.string().nullable(),
  created_at: z.string(),
})
export const checkpointListSchema = z
  .object({ items: z.array(checkpointSchema), next_cursor: z.string().nullable() })
  .meta({ id: 'CheckpointList' })
export type CheckpointList = z.infer<typeof checkpointListSchema>

export const checkpointDetailsSchema = z
  .object({
    checkpoint_id: z.string(),
    left_out: z.array(z.object({ path: z.string(), reason: z.string() })),
  })
  .meta({ id: 'CheckpointDetails' })
export type CheckpointDetails = z.infer<typeof checkpointDetailsSchema>

export const editsQuery = pagedQuery.extend({ path: filePath.optional() })
export const fileEditListSchema = z
  .object({
    items: z.array(
      z.object({
        path: z.string(),
        change: z.string(),
        additions: z.int(),
        deletions: z.int(),
        diff: z.string().nullable(),
        tool_call_id: z.string().nullable(),
        message_id: z.string().nullable(),
        checkpoint_id: z.string().nullable(),
        /** The checkpoint with the previous file, if it had changed since `checkpoint_id`. */
        previous_checkpoint: z.string().nullable(),
        event_number: z.int(),
        created_at: z.string(),
      }),
    ),
    next_cursor: z.string().nullable(),
  })
  .meta({ id: 'FileEditList' })
export type FileEditList = z.infer<typeof fileEditListSchema>

export const diffQuery = z.object({
  from: checkpointId.optional(),
  to: checkpointId.optional(),
  path: filePath.optional(),
})
export const diffViewSchema = z
  .object({
    from: z.string(),
    /** Null for the current files. */
    to: z.string().nullable(),
    files: z.array(changedFileSchema.extend({ diff: z.string().nullable() })),
  })
  .meta({ id: 'DiffView' })
export type DiffView = z.infer<typeof diffViewSchema>

export const MAX_FILES_LIMIT = 2000

export const filesQuery = z.object({
  /** The files at this event; default: the current files. */
  at: eventNumber,
  /** A part of the path, or some of its letters in order. */
  q: text(500).default(''),
  limit: limit(200, MAX_FILES_LIMIT),
})
export const fileListSchema = z
  .object({
    /** The checkpoint the files come from; null for the current files. */
    checkpoint_id: z.string().nullable(),
    total: z.int(),
    items: z.array(z.string()),
    /** Differences between then and now. */
    changed: z.array(changedFileSchema),
    /** Files that a tool had changed by then, but that are shown as they were before the change. */
    unsure: skippedSchema,
  })
  .meta({ id: 'FileList' })
export type FileList = z.infer<typeof fileListSchema>

export const fileQuery = z.object({ at: eventNumber, path: filePath })
export const fileViewSchema = z
  .object({
    path: z.string(),
    checkpoint_id: z.string().nullable(),
    /** Null if the file did not exist, is not text, or is larger than 1 MiB. */
    text: z.string().nullable(),
    /** Null if the file did not exist. */
    bytes: z.int().nullable(),
    is_binary: z.boolean(),
    /** The change from then to now; null when there is none. */
    change: changedFileSchema.extend({ diff: z.string().nullable() }).nullable(),
  })
  .meta({ id: 'FileView' })
export type FileView = z.infer<typeof fileViewSchema>

export const blameQuery = z.object({ path: filePath })
export const blameViewSchema = z
  .object({
    path: z.string(),
    text: z.string(),
    /** Runs of lines with one author: `from` and `to` count from 1. */
    lines: z.array(z.object({ from: z.int(), to: z.int(), author: z.int() })),
    authors: z.array(
      z.object({
        /**
         * call: a tool call of an agent; run: a hosted agent's answer, it is not known which call; adopted: taken from a fork;
         * outside: a person or another program; unknown: a call or something else.
         */
        kind: z.enum(['call', 'run', 'adopted', 'outside', 'unknown']),
        /** Null for a conversation of another tenant, like all that follows. */
        conversation_id: z.string().nullable(),
        message_id: z.string().nullable(),
        /** The first characters of the message. */
        message: z.string().nullable(),
        tool_call_id: z.string().nullable(),
        tool: z.string().nullable(),
        /** The hosted agent; null for Waymark's own. */
        agent: z.string().nullable(),
        event_number: z.int().nullable(),
        at: z.string().nullable(),
      }),
    ),
  })
  .meta({ id: 'BlameView' })
export type BlameView = z.infer<typeof blameViewSchema>

export const commitSchema = z
  .strictObject({
    /** Default: proposed from the work session. */
    message: text(10_000).regex(/\S/, 'must have text').optional(),
    /** The name of a new branch; default: the current branch. */
    branch: text(200).min(1).optional(),
    dry_run: z.boolean().optional(),
    /** With `dry_run`: as if the current files were approved first. */
    with_current: z.boolean().optional(),
    /** True to run commit hooks, under the same limits as the agent's commands. */
    run_hooks: z.boolean().optional(),
  })
  .refine((commit) => !commit.with_current || commit.dry_run, { message: 'with_current needs dry_run' })
  .meta({ id: 'Commit' })
export type Commit = z.infer<typeof commitSchema>
export const committedSchema = z
  .object({
    approved_commit: z.string(),
    branch: z.string(),
    is_new_branch: z.boolean(),
    /** The new commit in the user's repository; null for a dry run. */
    commit: z.string().nullable(),
    parent: z.string().nullable(),
    author: z.string(),
    message: z.string(),
    files: z.array(z.object({ path: z.string(), change: z.enum(['added', 'modified', 'deleted']) })),
    skipped: skippedSchema,
    /** The hooks that the repository has for a commit. */
    hooks: z.array(z.object({ name: z.string(), path: z.string(), has_run: z.boolean() })),
  })
  .meta({ id: 'Committed' })
export type Committed = z.infer<typeof committedSchema>
