export function findBrowser(env?: NodeJS.ProcessEnv): string | null
export function hasProgram(name: string, env?: NodeJS.ProcessEnv): boolean
