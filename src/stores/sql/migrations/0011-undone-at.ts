/** When an operation was undone: redo takes the last one. Those that were undone before have a 1. */
export const undoneAt = ['alter table operations rename column is_undone to undone_at']
