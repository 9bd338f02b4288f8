// The functions of WASI that inlay.wasm imports: clocks, messages on the console, and files in the memory of JavaScript,
// which hold external data of models. Nothing can be written.
const SUCCESS = 0, BAD_FILE = 8, NO_ENTRY = 44, NOT_SUPPORTED = 52
const FOLDER = 3, REGULAR = 4, ROOT = 3

// Options: files, a Map from paths ("weights/a.bin") to Uint8Array. `memory()` is the memory of the instance.
export function wasiOf(files, memory) {
  const open = new Map([[ROOT, { folder: '' }]]) // descriptor -> { folder } or { data, at, inode }
  const inodes = new Map([...files.keys()].map((path, index) => [path, BigInt(index + 2)]))
  const view = () => new DataView(memory().buffer)
  const bytes = (at, count) => new Uint8Array(memory().buffer, at, count)
  let next = ROOT + 1, line = ''

  const find = (fd, at, count) => {
    const from = open.get(fd), parts = from?.folder === undefined ? null : from.folder.split('/')
    if (parts === null) return null
    for (const part of new TextDecoder().decode(bytes(at, count).slice()).split('/'))
      if (part === '..') parts.pop()
      else if (part !== '.' && part !== '') parts.push(part)
    const path = parts.filter(part => part !== '').join('/')
    if (files.has(path)) return { data: files.get(path), at: 0, inode: inodes.get(path) }
    const prefix = path === '' ? '' : `${path}/`
    return path === '' || [...files.keys()].some(name => name.startsWith(prefix)) ? { folder: path } : null
  }
  const describe = (file, out) => {
    bytes(out, 64).fill(0)
    view().setBigUint64(out, 1n, true)
    view().setBigUint64(out + 8, file.inode ?? 1n, true)
    view().setUint8(out + 16, file.data ? REGULAR : FOLDER)
    view().setBigUint64(out + 24, 1n, true)
    view().setBigUint64(out + 32, BigInt(file.data?.length ?? 0), true)
    return SUCCESS
  }
  // Fills the buffers of a list from position `at` of the file, and writes the number of bytes to `out`.
  const read = (file, list, count, at, out) => {
    let total = 0
    for (let i = 0; i < count; i++) {
      const part = file.data.subarray(at + total, at + total + view().getUint32(list + 8 * i + 4, true))
      bytes(view().getUint32(list + 8 * i, true), part.length).set(part)
      total += part.length
    }
    view().setUint32(out, total, true)
    return total
  }
  const print = text => {
    const lines = (line + text).split('\n')
    line = lines.pop()
    for (const each of lines) console.warn(`inlay: ${each}`)
  }

  const calls = {
    clock_time_get: (clock, precision, out) => {
      const ms = clock === 0 ? Date.now() : performance.now()
      view().setBigUint64(out, BigInt(Math.round(ms * 1e6)), true)
      return SUCCESS
    },
    environ_get: () => SUCCESS,
    environ_sizes_get: (count, size) => {
      view().setUint32(count, 0, true)
      view().setUint32(size, 0, true)
      return SUCCESS
    },
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
      if (!open.has(fd)) return BAD_FILE
      bytes(out, 24).fill(0)
      view().setUint8(out, open.get(fd).data ? REGULAR : FOLDER)
      view().setBigUint64(out + 8, 0xffffffffn, true) // rights
      view().setBigUint64(out + 16, 0xffffffffn, true)
      return SUCCESS
    },
    fd_fdstat_set_flags: () => SUCCESS,
    fd_filestat_get: (fd, out) => open.has(fd) ? describe(open.get(fd), out) : BAD_FILE,
    path_filestat_get: (fd, flags, at, count, out) => {
      const file = find(fd, at, count)
      return file === null ? NO_ENTRY : describe(file, out)
    },
    path_open: (fd, lookup, at, count, flags, rights, inherited, fdFlags, out) => {
      const file = find(fd, at, count)
      if (file === null) return NO_ENTRY
      open.set(next, file)
      view().setUint32(out, next++, true)
      return SUCCESS
    },
    fd_read: (fd, list, count, out) => {
      const file = open.get(fd)
      if (!file?.data) return BAD_FILE
      file.at += read(file, list, count, file.at, out)
      return SUCCESS
    },
    fd_pread: (fd, list, count, at, out) => {
      const file = open.get(fd)
      if (!file?.data) return BAD_FILE
      read(file, list, count, Number(at), out)
      return SUCCESS
    },
    fd_seek: (fd, offset, whence, out) => {
      const file = open.get(fd)
      if (!file?.data) return BAD_FILE
      file.at = Number(offset) + [0, file.at, file.data.length][whence]
      view().setBigUint64(out, BigInt(file.at), true)
      return SUCCESS
    },
    fd_close: fd => open.delete(fd) ? SUCCESS : BAD_FILE,
    fd_write: (fd, list, count, out) => {
      let total = 0
      for (let i = 0; i < count; i++) {
        const part = bytes(view().getUint32(list + 8 * i, true), view().getUint32(list + 8 * i + 4, true))
        print(new TextDecoder().decode(part.slice()))
        total += part.length
      }
      view().setUint32(out, total, true)
      return SUCCESS
    },
    proc_exit: code => { throw new Error(`exit ${code}`) },
  }
  return new Proxy(calls, { get: (table, name) => table[name] ?? (() => NOT_SUPPORTED) })
}
