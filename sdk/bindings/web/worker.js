// A thread of a session: an instance of the module on the session's memory. See threads.js.
import { hostOf } from './files.js'
import { nodeModule } from './threads.js'
import { wasiOf } from './wasi.js'

function serve({ module, memory, top, thread }, answer) {
  const imports = { env: { memory }, wasi_snapshot_preview1: wasiOf(hostOf(new Map()), () => memory) }
  const { exports } = new WebAssembly.Instance(module, imports)
  exports.__stack_pointer.value = top
  exports.__wasm_init_tls(top)
  answer('started')
  try {
    exports.serve(thread)
  } catch (error) {
    console.warn(`inlay: a thread stopped: ${error.message}`)
    exports.thread_stopped()
  }
}

if (globalThis.process?.versions?.node)
  nodeModule('worker_threads').then(({ parentPort }) =>
    parentPort.once('message', data => serve(data, text => parentPort.postMessage(text))))
else
  self.onmessage = ({ data }) => serve(data, text => self.postMessage(text))
