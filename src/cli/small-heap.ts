import { setFlagsFromString } from 'node:v8'

/**
 * Keeps the heap small instead of letting it grow with the machine's memory: V8 collects garbage once the heap has grown by
 * half, and the young generation doesn't grow. `--optimize-for-size` saves no more memory and takes three times as long.
 * It must be set before the first thread starts, and only programs import it: a library doesn't decide this for its process.
 */
setFlagsFromString('--heap-growing-percent=50')
setFlagsFromString('--semi-space-growth-factor=1')
