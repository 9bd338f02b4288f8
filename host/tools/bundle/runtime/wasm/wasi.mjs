// The functions of WASI that programs and modules in WebAssembly import: arguments, clocks, streams and files.
//   wasiOf({ args, streams, find, open }, memory)
// args: the arguments of a program. streams: the files of the descriptors 0, 1 and 2. find(path): the file or folder of a path
// below "/" ("weights/a.bin"), or null. open(path, { create, truncate, write }): the same for a file that is then used; by
// default find. memory(): the memory of the instance.
// A folder is { folder: path }. A file has what it supports of read(bytes, at) and write(bytes, at), which return how many
// bytes they have transferred, close(), size and inode.
const SUCCESS = 0, BAD_FILE = 8, NO_ENTRY = 44, NOT_SUPPORTED = 52
const FOLDER = 3, REGULAR = 4, ROOT = 3, CREATE = 1, TRUNCATE = 8, WRITE = 64n

export class Exit extends Error {
  constructor(code) {
    super(`exit ${code}`)
    this.code = code
  }
}

export function wasiOf({ args = [], streams = [], find, open = find }, memory) {
  const used = new Map([...streams.entries(), [ROOT, { folder: '' }]].map(([fd, file]) => [fd, { file, at: 0 }]))
  const view = () => new DataView(memory().buffer)
  const bytes = (at, count) => new Uint8Array(memory().buffer, at, count)
  let next = ROOT + 1

  // The path below "/" of a path in a folder; null: it is not a folder.
  const pathOf = (fd, at, count) => {
    const folder = used.get(fd)?.file.folder
    if (folder === undefined) return null
    const parts = folder.split('/')
    for (const part of new TextDecoder().decode(bytes(at, count).slice()).split('/'))
      if (part === '..') parts.pop()
      else if (part !== '.') parts.push(part)
    return parts.filter(part => part !== '').join('/')
  }
  const describe = (file, out) => {
    bytes(out, 64).fill(0)
    view().setBigUint64(out, 1n, true)
    view().setBigUint64(out + 8, file.inode ?? 1n, true)
    view().setUint8(out + 16, file.folder === undefined ? REGULAR : FOLDER)
    view().setBigUint64(out + 24, 1n, true)
    view().setBigUint64(out + 32, BigInt(file.size ?? 0), true)
    return SUCCESS
  }
  // Fills, or writes, the buffers of a list from position `at` of a file on; the number of bytes is stored in `out`.
  const transfer = (verb, file, list, count, at, out) => {
    let total = 0
    for (let i = 0; i < count; i++) {
      const part = bytes(view().getUint32(list + 8 * i, true), view().getUint32(list + 8 * i + 4, true))
      for (let done = 0, got = 1; done < part.length && got > 0; done += got, total += got)
        got = file[verb](part.subarray(done), at + total)
    }
    view().setUint32(out, total, true)
    return total
  }
  const transferNext = (verb, fd, list, count, out) => {
    const here = used.get(fd)
    if (here?.file[verb] === undefined) return BAD_FILE
    here.at += transfer(verb, here.file, list, count, here.at, out)
    return SUCCESS
  }
  const putSizes = (texts, count, size) => {
    view().setUint32(count, texts.length, true)
    view().setUint32(size, texts.reduce((sum, text) => sum + new TextEncoder().encode(text).length + 1, 0), true)
    return SUCCESS
  }

  const calls = {
    args_sizes_get: (count, size) => putSizes(args, count, size),
    args_get: (list, at) => {
      args.forEach((text, i) => {
        const encoded = new TextEncoder().encode(`${text}\0`)
        view().setUint32(list + 4 * i, at, true)
        bytes(at, encoded.length).set(encoded)
        at += encoded.length
      })
      return SUCCESS
    },
    clock_time_get: (clock, precision, out) => {
      const ms = clock === 0 ? Date.now() : performance.now()
      view().setBigUint64(out, BigInt(Math.round(ms * 1e6)), true)
      return SUCCESS
    },
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
      if (!used.has(fd)) return BAD_FILE
      bytes(out, 24).fill(0)
      view().setUint8(out, used.get(fd).file.folder === undefined ? REGULAR : FOLDER)
      view().setBigUint64(out + 8, 0xffffffffn, true) // rights
      view().setBigUint64(out + 16, 0xffffffffn, true)
      return SUCCESS
    },
    fd_fdstat_set_flags: () => SUCCESS,
    fd_filestat_get: (fd, out) => used.has(fd) ? describe(used.get(fd).file, out) : BAD_FILE,
    path_filestat_get: (fd, flags, at, count, out) => {
      const path = pathOf(fd, at, count), file = path === null ? null : find(path)
      return file === null ? NO_ENTRY : describe(file, out)
    },
    path_open: (fd, lookup, at, count, flags, rights, inherited, fdFlags, out) => {
      const path = pathOf(fd, at, count), truncate = (flags & TRUNCATE) !== 0
      const how = { create: (flags & CREATE) !== 0, truncate, write: (rights & WRITE) !== 0n }
      const file = path === null ? null : open(path, how)
      if (file === null) return NO_ENTRY
      used.set(next, { file, at: 0 })
      view().setUint32(out, next++, true)
      return SUCCESS
    },
    fd_read: (fd, list, count, out) => transferNext('read', fd, list, count, out),
    fd_write: (fd, list, count, out) => transferNext('write', fd, list, count, out),
    fd_pread: (fd, list, count, at, out) => {
      const file = used.get(fd)?.file
      if (file?.read === undefined) return BAD_FILE
      transfer('read', file, list, count, Number(at), out)
      return SUCCESS
    },
    fd_seek: (fd, offset, whence, out) => {
      const here = used.get(fd)
      if (here?.file.size === undefined) return BAD_FILE
      here.at = Number(offset) + [0, here.at, here.file.size][whence]
      view().setBigUint64(out, BigInt(here.at), true)
      return SUCCESS
    },
    fd_close: fd => {
      if (!used.has(fd)) return BAD_FILE
      used.get(fd).file.close?.()
      used.delete(fd)
      return SUCCESS
    },
    proc_exit: code => { throw new Exit(code) },
  }
  return new Proxy(calls, { get: (table, name) => table[name] ?? (() => NOT_SUPPORTED) })
}
