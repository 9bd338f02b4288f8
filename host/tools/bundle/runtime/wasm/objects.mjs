// Reads the WebAssembly objects of an archive, for merge.sh, in place of tools that do not know their format:
//   objects.mjs notes ARCHIVE          prints the notes of providers/simd/optional.h
//   objects.mjs types ARCHIVE          prints "type NAME PARAMETERS:RESULTS" for each defined function, a letter for each
//                                      value: i, I = 32 and 64 bits, f, F = float and double, v = a vector
//   objects.mjs weaken LIST ARCHIVE    makes the symbols in the file LIST weak
// The format: https://github.com/WebAssembly/tool-conventions/blob/main/Linking.md
import { readFileSync, writeFileSync } from 'node:fs'

const [verb, ...rest] = process.argv.slice(2)
const archive = rest.at(-1)
const bytes = readFileSync(archive)
const weak = verb === 'weaken' ? new Set(readFileSync(rest[0], 'utf8').split('\n')) : null
const UNDEFINED = 0x10, EXPLICIT_NAME = 0x40, WEAK = 1, FUNCTION = 0, DATA = 1, SECTION = 3
const letters = { 0x7f: 'i', 0x7e: 'I', 0x7d: 'f', 0x7c: 'F', 0x7b: 'v', 0x70: 'r', 0x6f: 'r' }
let at = 0

const number = () => {
  let value = 0
  for (let scale = 1; ; scale *= 128) {
    const byte = bytes[at++]
    value += (byte & 127) * scale
    if (byte < 128) return value
  }
}
const text = () => {
  const length = number()
  at += length
  return bytes.toString('utf8', at - length, at)
}
const list = one => Array.from({ length: number() }, one)
const limits = () => {
  const flags = number()
  number()
  if (flags & 1) number()
}
const values = () => list(() => letters[bytes[at++]]).join('')

// Import entries that are not functions are skipped.
const imported = () => {
  text()
  const name = text(), kind = bytes[at++]
  if (kind === 0) return { name, type: number() }
  if (kind === 1) { at++; limits() } else if (kind === 2) limits()
  else if (kind === 3) at += 2
  else { at++; number() }
  return null
}

const symbol = (functions, types) => {
  const kind = bytes[at++], flags_at = at, flags = number()
  let name = null, index = -1
  if (kind === DATA) {
    name = text()
    if (!(flags & UNDEFINED)) { number(); number(); number() }
  } else {
    index = number()
    if (kind !== SECTION && (!(flags & UNDEFINED) || flags & EXPLICIT_NAME)) name = text()
    else if (kind === FUNCTION) name = functions[index].name
  }
  const defined = !(flags & UNDEFINED)
  if (verb === 'types' && kind === FUNCTION && defined) console.log(`type ${name} ${types[functions[index].type]}`)
  // An undefined weak function would not be linked from an archive.
  if (weak?.has(name) && (defined || kind === DATA)) bytes[flags_at] |= WEAK
}

function readObject(end) {
  const types = [], functions = []
  at += 8
  while (at < end) {
    const id = bytes[at++], size = number(), next = at + size
    if (id === 1) types.push(...list(() => { at++; return values() + ':' + values() }))
    else if (id === 2) functions.push(...list(imported).filter(entry => entry !== null))
    else if (id === 3) functions.push(...list(() => ({ type: number() })))
    else if (id === 0) {
      const name = text()
      if (name === 'bundle_parts' && verb === 'notes') process.stdout.write(bytes.toString('utf8', at, next))
      if (name === 'linking') {
        for (number(); at < next;) {
          const kind = bytes[at++], part = number(), after = at + part
          if (kind === 8) list(() => symbol(functions, types))
          at = after
        }
      }
    }
    at = next
  }
}

for (let member = 8; member + 60 <= bytes.length;) {
  const size = Number(bytes.toString('latin1', member + 48, member + 58)), begin = member + 60
  at = begin
  if (bytes.readUInt32LE(begin) === 0x6d736100) readObject(begin + size)
  member = begin + size + size % 2
}
if (verb === 'weaken') writeFileSync(archive, bytes)
