// inlay-web in place of onnxruntime-web: everything of onnxruntime-common, with inlay-web as the backends "wasm" and "cpu".
import * as common from 'onnxruntime-common'
import { absent, backend, version } from './backend.js'

common.registerBackend('wasm', backend, 10)
common.registerBackend('cpu', backend, 10)
// Requests for these fall to the next provider with onnxruntime-web's warning, or fail with its error.
for (const name of ['webgpu', 'webnn', 'webgl']) common.registerBackend(name, absent, -1)
// Not versions.web, for which transformers.js would fetch onnxruntime-web's module.
Object.defineProperty(common.env.versions, 'inlay', { value: version, enumerable: true })

export * from 'onnxruntime-common'
export default { ...common }
