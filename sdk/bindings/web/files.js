// What the functions of WASI (wasi.js) give to inlay.wasm: messages on the console, and files in the memory of JavaScript,
// which hold external data of models. Nothing can be written.

// files: a Map from paths ("weights/a.bin") to Uint8Array.
export function hostOf(files) {
  const names = [...files.keys()]
  let line = ''
  const print = part => {
    const lines = (line + new TextDecoder().decode(part.slice())).split('\n')
    line = lines.pop()
    for (const each of lines) console.warn(`inlay: ${each}`)
    return part.length
  }
  const find = path => {
    const data = files.get(path), prefix = path === '' ? '' : `${path}/`
    if (data === undefined) return path === '' || names.some(name => name.startsWith(prefix)) ? { folder: path } : null
    const read = (part, at) => {
      const from = data.subarray(at, at + part.length)
      part.set(from)
      return from.length
    }
    return { size: data.length, inode: BigInt(names.indexOf(path) + 2), read }
  }
  return { streams: [{}, { write: print }, { write: print }], find }
}
