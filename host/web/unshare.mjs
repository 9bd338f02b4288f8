// Changes the memory that a module imports to one that is not shared, in place: unshare.mjs THREADS.js MODULE.wasm
import { readFileSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

const [script, file] = process.argv.slice(2)
const { setShared } = await import(pathToFileURL(resolve(script)))
const bytes = readFileSync(file)
setShared(bytes, false)
writeFileSync(file, bytes)
