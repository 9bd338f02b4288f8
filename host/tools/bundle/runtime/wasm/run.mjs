// Runs a WebAssembly program of WASI as a process: run.mjs PROGRAM ARGUMENT...
// It sees the whole file system and the environment, as a native program does.
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import process from 'node:process'

process.removeAllListeners('warning') // node calls WASI experimental
const { WASI } = await import('node:wasi')
const wasi = new WASI({
  version: 'preview1', args: process.argv.slice(2), env: process.env, preopens: { '/': '/', '.': resolve('.') }, returnOnExit: true
})
const module = await WebAssembly.compile(readFileSync(process.argv[2]))
const instance = await WebAssembly.instantiate(module, { wasi_snapshot_preview1: wasi.wasiImport })
process.exitCode = wasi.start(instance)
