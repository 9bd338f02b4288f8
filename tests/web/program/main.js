// A program for onnxruntime-web. `answer` is what it found, or the error.
import ort, { InferenceSession, Tensor, env } from 'onnxruntime-web'
import * as all from 'onnxruntime-web/all'
import * as wasm from 'onnxruntime-web/wasm'
import * as webgpu from 'onnxruntime-web/webgpu'

async function refusal(options) {
  try {
    await InferenceSession.create('../mlp.onnx', options)
  } catch (error) {
    return String(error.message)
  }
}

async function main() {
  env.wasm.wasmPaths = '../static/' // used by the bundle whose bundler does not copy the module
  env.wasm.proxy = false
  env.logLevel = 'error'
  const warnings = [], { warn } = console
  console.warn = text => warnings.push(text)
  const x = new Tensor('float32', Float32Array.from({ length: 64 }, (_, i) => (i * 37 % 64 - 32) / 32), [1, 64])
  const results = []
  for (const executionProviders of [undefined, ['wasm'], ['webgpu', 'wasm'], ['cpu']]) {
    const session = await InferenceSession.create('../mlp.onnx', { executionProviders, graphOptimizationLevel: 'all' })
    results.push([...(await session.run({ x })).y.data])
    await session.release()
  }
  const session = await webgpu.InferenceSession.create('../mlp.onnx', { intraOpNumThreads: 2 })
  results.push([...(await session.run({ x }, ['y'])).y.data])
  console.warn = warn
  const picture = await Tensor.fromImage(new ImageData(Uint8ClampedArray.of(255, 0, 51, 255, 0, 102, 0, 255), 2, 1))
  const float16 = new Tensor('float16', new Uint16Array([0x3c00]), [1])
  return {
    results, warnings, isolated: self.crossOriginIsolated, threads: env.wasm.numThreads, version: env.versions.inlay,
    same: [all, wasm, webgpu, ort].every(each => each.InferenceSession === InferenceSession && each.Tensor === Tensor && each.env === env),
    metadata: [session.inputNames, session.outputNames, session.inputMetadata],
    picture: [picture.dims, Array.from(picture.data, value => Math.round(value * 255))],
    pixels: [...picture.toImageData().data],
    float16: float16.data.constructor.name,
    refused: [await refusal({ executionProviders: ['webgpu'] }), await refusal({ executionProviders: ['bogus'] })],
  }
}
main().then(answer => { self.answer = answer }, error => { self.answer = { error: String(error.stack ?? error) } })
