// The URL of the module with relaxed SIMD; null: the engine does not know relaxed SIMD. The build writes null in a package
// without the module, because bundlers look for each file that a URL names.
const knowsRelaxed = WebAssembly.validate(Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10,
  15, 1, 13, 0, 65, 1, 253, 15, 65, 2, 253, 15, 253, 128, 2, 11)) // i8x16.relaxed_swizzle
export const relaxedUrl = knowsRelaxed ? () => new URL('./inlay-relaxed.wasm', import.meta.url) : null
