// Runs a WebAssembly program of WASI as a process: run.mjs PROGRAM ARGUMENT...
// The program may print, and open, read and write files by absolute paths: what prepare.c and list_parts.c need. (node:wasi
// of Node 20 has crashed in the garbage collector with programs of 100 MB.)
import { closeSync, openSync, readFileSync, readSync, writeSync } from 'node:fs'

const args = process.argv.slice(2)
const SUCCESS = 0, BAD_FILE = 8, IO_ERROR = 29, NOT_SUPPORTED = 52, ROOT = 3, CREATE = 1, TRUNCATE = 8, WRITE = 64n
const files = new Map([[0, 0], [1, 1], [2, 2]]) // descriptor of the program -> descriptor
const decoder = new TextDecoder()
let memory = null, next = ROOT + 1

const view = () => new DataView(memory.buffer)
const bytes = (at, count) => new Uint8Array(memory.buffer, at, count)
class Exit { constructor(code) { this.code = code } }

// Texts with their zero bytes, and their addresses.
function putTexts(texts, list, at) {
  for (const text of texts) {
    const encoded = new TextEncoder().encode(`${text}\0`)
    view().setUint32(list, at, true)
    bytes(at, encoded.length).set(encoded)
    list += 4
    at += encoded.length
  }
  return SUCCESS
}
function putSizes(texts, count, size) {
  view().setUint32(count, texts.length, true)
  view().setUint32(size, texts.reduce((sum, text) => sum + Buffer.byteLength(text) + 1, 0), true)
  return SUCCESS
}
// Applies `call` (of node:fs) to each buffer of a list.
function transfer(call, fd, list, count, out) {
  let total = 0
  if (!files.has(fd)) return BAD_FILE
  for (let i = 0; i < count; i++) {
    const size = view().getUint32(list + 8 * i + 4, true), part = bytes(view().getUint32(list + 8 * i, true), size)
    let done = 0, got = 1
    while (done < size && got > 0) done += got = call(files.get(fd), part, done)
    total += done
  }
  view().setUint32(out, total, true)
  return SUCCESS
}

const wasi = {
  args_get: (list, at) => putTexts(args, list, at),
  args_sizes_get: (count, size) => putSizes(args, count, size),
  environ_get: () => SUCCESS,
  environ_sizes_get: (count, size) => putSizes([], count, size),
  fd_prestat_get: (fd, out) => {
    if (fd !== ROOT) return BAD_FILE
    view().setUint32(out, 0, true)
    view().setUint32(out + 4, 1, true)
    return SUCCESS
  },
  fd_prestat_dir_name: (fd, at) => {
    bytes(at, 1)[0] = 47 // "/"
    return SUCCESS
  },
  fd_fdstat_get: (fd, out) => {
    bytes(out, 24).fill(0)
    bytes(out, 1)[0] = fd === ROOT ? 3 : 4 // a folder, a file
    view().setBigUint64(out + 8, 0xffffffffn, true) // rights
    view().setBigUint64(out + 16, 0xffffffffn, true)
    return fd === ROOT || files.has(fd) ? SUCCESS : BAD_FILE
  },
  fd_fdstat_set_flags: () => SUCCESS,
  path_open: (folder, lookup, at, size, flags, rights, inherited, fdFlags, out) => {
    const mode = (flags & CREATE) !== 0 || (flags & TRUNCATE) !== 0 ? 'w' : (rights & WRITE) !== 0n ? 'r+' : 'r'
    try {
      files.set(next, openSync(`/${decoder.decode(bytes(at, size))}`, mode))
    } catch {
      return IO_ERROR
    }
    view().setUint32(out, next++, true)
    return SUCCESS
  },
  fd_read: (fd, list, count, out) => transfer((file, part, at) => readSync(file, part, at), fd, list, count, out),
  fd_write: (fd, list, count, out) => transfer((file, part, at) => writeSync(file, part, at), fd, list, count, out),
  fd_close: fd => {
    if (!files.has(fd)) return BAD_FILE
    closeSync(files.get(fd))
    files.delete(fd)
    return SUCCESS
  },
  proc_exit: code => { throw new Exit(code) }
}
const all = new Proxy(wasi, { get: (table, name) => table[name] ?? (() => NOT_SUPPORTED) })
const { instance } = await WebAssembly.instantiate(readFileSync(args[0]), { wasi_snapshot_preview1: all })
memory = instance.exports.memory
try {
  instance.exports._start()
} catch (error) {
  if (!(error instanceof Exit)) throw error
  process.exitCode = error.code
}
