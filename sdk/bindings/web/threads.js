// Threads of sessions: workers that share the memory of a session and compute parts of its loops (worker.js). They wait
// inside the module, and end with the session.

// A module of Node. Bundlers for web pages, which lack these modules, do not look into this import.
export const nodeModule = name => import(/* webpackIgnore: true */ /* @vite-ignore */ `node:${name}`)

export const inNode = globalThis.process?.versions?.node !== undefined
const PAGES = 256, MOST_PAGES = 65536 // of 64 KB; at least what inlay.wasm states
const MOST_THREADS = 64

// Node, and pages that are isolated from other origins, can share memory. Service workers have no workers.
export const canShare = inNode || (globalThis.crossOriginIsolated === true && typeof Worker !== 'undefined')

// The threads of a session for `requested`, the value of option intra_threads; by default as many as onnxruntime-web has.
export async function threadsFor(requested) {
  if (!canShare) return 1
  if (requested > 0) return Math.min(Math.ceil(requested), MOST_THREADS)
  const cores = globalThis.navigator?.hardwareConcurrency ?? (await nodeModule('os')).cpus().length
  return Math.min(4, Math.ceil(cores / 2))
}

// Changes the kind of the memory that the module in `bytes` imports.
export function setShared(bytes, shared) {
  const SHARED = 2, LIMITED = 1, name = '\x03env\x06memory\x02'
  const at = new TextDecoder('latin1').decode(bytes.slice(0, 1 << 16)).indexOf(name)
  if (at < 0) throw new Error('the module imports no memory')
  bytes[at + name.length] = shared ? SHARED | LIMITED : LIMITED
}

export const memoryOf = shared => new WebAssembly.Memory({ initial: PAGES, maximum: MOST_PAGES, shared })

// The main thread of a page may not wait.
export function mayWait(memory) {
  try {
    Atomics.wait(new Int32Array(memory.buffer), 0, -1, 0)
    return true
  } catch {
    return false
  }
}

const abandoned = new FinalizationRegistry(team => team.stop())

// Workers cannot be started: the page's policy forbids them, or worker.js is not beside this script.
export class NoThreads extends Error {
  constructor(error) { super(`a thread cannot be started: ${error.message ?? 'worker.js cannot be loaded'}`, { cause: error }) }
}

export class Team {
  #workers = []
  #failed = [] // for each worker a promise that is rejected if it cannot start, also before start()

  // Starts `count` workers, which wait for start().
  static async of(count) {
    const team = new Team(), { Worker: Thread } = inNode && count > 0 ? await nodeModule('worker_threads') : {}, here = import.meta.url
    // Bundlers recognize the second form, and bundle worker.js.
    const create = () => (Thread !== undefined ? new Thread(new URL('./worker.js', here))
      : new Worker(new URL('./worker.js', import.meta.url), { type: 'module' }))
    try {
      for (let i = 0; i < count; i++) team.#add(create())
    } catch (error) {
      team.stop()
      throw new NoThreads(error)
    }
    return team
  }

  #add(worker) {
    const failed = new Promise((_, reject) => {
      const fail = error => reject(new NoThreads(error))
      if (inNode) worker.once('error', fail)
      else worker.onerror = fail
    })
    failed.catch(() => {}) // start() reports it
    this.#workers.push(worker)
    this.#failed.push(failed)
  }

  // Gives the workers the module and its memory; tops: the address of each worker's stack.
  async start(module, memory, tops) {
    await Promise.all(this.#workers.map((worker, index) => Promise.race([this.#failed[index], new Promise(resolve => {
      if (inNode) worker.once('message', resolve)
      else worker.onmessage = resolve
      worker.postMessage({ module, memory, top: tops[index], thread: index + 1 })
    })])))
    if (inNode) for (const worker of this.#workers) worker.unref() // a process may end while they wait
  }

  // Stops the workers once `owner` is not reachable.
  endWith(owner) { abandoned.register(owner, this) }
  stop() { for (const worker of this.#workers.splice(0)) worker.terminate() }
}
