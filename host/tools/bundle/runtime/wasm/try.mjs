// Runs a bundle on .npy files, as the programs of other targets do, while it is made:
//   try.mjs MODULE.wasm -o DIR [NAME=FILE.npy ...]    writes each output to DIR/NUMBER.npy
import { readFileSync, writeFileSync } from 'node:fs'
import { load } from './load.mjs'

const descriptions = {
  Float32Array: '<f4', Float64Array: '<f8', Int8Array: '|i1', Uint8Array: '|u1', Int16Array: '<i2', Uint16Array: '<u2',
  Int32Array: '<i4', Uint32Array: '<u4', BigInt64Array: '<i8', BigUint64Array: '<u8'
}
const byType = { bool: '|b1', float16: '<f2' }
const [module, , folder, ...files] = process.argv.slice(2)
const model = await load(module, { weights: module.replace(/\.wasm$/, '.weights') })
const given = new Map(files.map(file => [file.slice(0, file.lastIndexOf('=')), file.slice(file.lastIndexOf('=') + 1)]))
const inputs = {}

for (const { name, array: kind, size } of model.inputs) {
  const array = new globalThis[kind](size), file = readFileSync(given.get(name))
  const skip = file[6] === 1 ? 10 + file.readUInt16LE(8) : 12 + file.readUInt32LE(8)
  new Uint8Array(array.buffer).set(file.subarray(skip))
  inputs[name] = array
}
const results = model.run(inputs)
model.outputs.forEach(({ name, type, array, dims }, index) => {
  const descr = byType[type] ?? descriptions[array]
  const head = `{'descr': '${descr}', 'fortran_order': False, 'shape': (${dims.map(size => size + ',').join(' ')}), }`
  const padded = head.padEnd(Math.ceil((head.length + 11) / 64) * 64 - 11) + '\n'
  const magic = Buffer.from([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, padded.length & 255, padded.length >> 8])
  writeFileSync(`${folder}/${index}.npy`,
    Buffer.concat([magic, Buffer.from(padded), Buffer.from(results[name].buffer)]))
})
