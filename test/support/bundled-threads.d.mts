/** `module` is its path below `src`. */
export function bundleName(module: string): string
