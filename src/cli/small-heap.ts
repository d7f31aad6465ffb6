import { setFlagsFromString } from 'node:v8'

/**
 * Makes V8 collect garbage earlier instead of letting the heap grow with the machine's memory. Under a flood of hostile
 * input a server then uses 100 MB more instead of 245 MB. It must be set before the first thread starts, and only
 * programs import it: a library doesn't decide this for its process.
 */
setFlagsFromString('--optimize-for-size')
