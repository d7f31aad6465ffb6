/** What tools overwrite, and changes of files that could be neither finished nor taken back. */
export const keepTables = [
  'alter table file_edits add column previous_checkpoint {text}',
  'alter table workspaces add column failed_change {text}',
]
