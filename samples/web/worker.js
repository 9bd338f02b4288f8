// Runs a model on a separate thread. Messages: { model: bytes or URL } is answered with { about, input },
// { pixels, dims } with { scores, time }; each failure with { error }.
import { InferenceSession, Tensor } from './inlay-web/index.js'

let session = null

async function load(model) {
  session?.dispose()
  session = null
  const begin = performance.now(), loaded = await InferenceSession.create(model)
  const [input] = loaded.inputMetadata, time = performance.now() - begin
  const shape = `${input.name}: ${input.type} [${input.shape.join(', ')}]`
  if (loaded.inputNames.length !== 1 || input.type !== 'float32' || input.shape.length !== 4 || input.shape[1] !== 3)
    throw new Error(`this page is for models with one picture as input, not ${shape}`)
  session = loaded
  return { about: `input ${shape}; loaded in ${time.toFixed(0)} ms`, input: input.shape }
}

async function run({ pixels, dims }) {
  const begin = performance.now()
  const results = await session.run({ [session.inputNames[0]]: new Tensor('float32', pixels, dims) })
  return { scores: results[session.outputNames[0]].data, time: performance.now() - begin }
}

// One message after the other, because loading waits.
let last = Promise.resolve()
self.onmessage = ({ data }) => {
  last = last.then(() => data.model === undefined ? run(data) : load(data.model))
    .then(answer => self.postMessage(answer), error => self.postMessage({ error: error.message }))
}
