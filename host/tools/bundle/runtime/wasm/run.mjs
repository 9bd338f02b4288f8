// Runs a WebAssembly program of WASI as a process: run.mjs PROGRAM ARGUMENT...
// The program may print, and open, read and write files by absolute paths: what prepare.c and list_parts.c need. (node:wasi
// of Node 20 has crashed in the garbage collector with programs of 100 MB.)
import { closeSync, fstatSync, openSync, readFileSync, readSync, statSync, writeSync } from 'node:fs'
import { Exit, wasiOf } from './wasi.mjs'

const streamOf = fd => ({ read: part => readSync(fd, part), write: part => writeSync(fd, part) })
const fileOf = fd => ({
  get size() { return fstatSync(fd).size },
  read: (part, at) => readSync(fd, part, 0, part.length, at),
  write: (part, at) => writeSync(fd, part, 0, part.length, at),
  close: () => closeSync(fd)
})
const orNull = make => {
  try {
    return make()
  } catch {
    return null
  }
}
const find = path => orNull(() => {
  const about = statSync(`/${path}`)
  return about.isDirectory() ? { folder: path } : { size: about.size, inode: BigInt(about.ino) }
})
const open = (path, { create, truncate, write }) =>
  orNull(() => fileOf(openSync(`/${path}`, create || truncate ? 'w' : write ? 'r+' : 'r')))

const args = process.argv.slice(2)
let memory = null
const wasi = wasiOf({ args, streams: [0, 1, 2].map(streamOf), find, open }, () => memory)
const { instance } = await WebAssembly.instantiate(readFileSync(args[0]), { wasi_snapshot_preview1: wasi })
memory = instance.exports.memory
const run = entry => {
  try {
    entry()
  } catch (error) {
    if (error instanceof WebAssembly.RuntimeError && entry !== instance.exports.fault && instance.exports.fault)
      return run(instance.exports.fault)
    if (!(error instanceof Exit)) throw error
    process.exitCode = error.code
  }
}
run(instance.exports._start)
