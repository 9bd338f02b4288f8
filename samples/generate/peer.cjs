#!/usr/bin/env node
// The loop of generate.c on onnxruntime-node, to compare both: greedy sampling, with the present keys and values of a run
// as the past of the next one.
//   peer.cjs MODEL.onnx --ids 1,2,3 [--tokens N] [--threads N]
// `generate --show-tokens` prints the ids of a prompt. NODE_PATH is the folder with onnxruntime-node.
'use strict';
const ort = require('onnxruntime-node');

function option(name, otherwise) {
  const at = process.argv.indexOf('--' + name);
  return at > 0 && at + 1 < process.argv.length ? process.argv[at + 1] : otherwise;
}

const integers = (values) => new ort.Tensor('int64', BigInt64Array.from(values, BigInt), [1, values.length]);
const count = (n, from, step) => Array.from({ length: n }, (_, i) => from + i * step);

/* Empty keys and values, with the sizes that the model declares. */
function empty(session) {
  const past = {};
  for (const [i, name] of session.inputNames.entries()) {
    if (!name.startsWith('past')) continue;
    const shape = session.inputMetadata[i].shape.map((d, axis) => (typeof d === 'number' && d >= 0 ? d : axis === 0 ? 1 : 0));
    past[name] = new ort.Tensor('float32', new Float32Array(0), shape);
  }
  return past;
}

/* Returns the most probable token after the last one. */
function mostProbable(logits) {
  const words = logits.dims[2], begin = (logits.dims[1] - 1) * words;
  let best = 0;
  for (let i = 1; i < words; i++) if (logits.data[begin + i] > logits.data[begin + best]) best = i;
  return best;
}

async function main() {
  const ids = (option('ids', '')).split(',').filter(Boolean).map(Number), most = Number(option('tokens', 256));
  const threads = Number(option('threads', 1)), prompt = ids.length;
  if (process.argv.length < 3 || prompt === 0) throw new Error('usage: peer.cjs MODEL.onnx --ids 1,2,3 [--tokens N] [--threads N]');
  const session = await ort.InferenceSession.create(process.argv[2], {
    intraOpNumThreads: threads, interOpNumThreads: 1, graphOptimizationLevel: 'all',
  });
  const pairs = session.inputNames.filter((n) => n.startsWith('past'))
    .map((n) => [n, n.replace('past_key_values', 'present')]);
  let past = empty(session), read = 0, first = 0, cpu = 0;
  const begin = performance.now();
  for (let made = 0; made < most; made++) {
    const feeds = { ...past, input_ids: integers(ids.slice(read)) };
    if (session.inputNames.includes('attention_mask')) feeds.attention_mask = integers(count(ids.length, 1, 0));
    if (session.inputNames.includes('position_ids')) feeds.position_ids = integers(count(ids.length - read, read, 1));
    const out = await session.run(feeds);
    read = ids.length;
    ids.push(mostProbable(out.logits));
    past = Object.fromEntries(pairs.map(([from, to]) => [from, out[to]]));
    if (made === 0) {
      first = performance.now();
      cpu = process.cpuUsage();
    }
  }
  const each = (performance.now() - first) / (most - 1), used = process.cpuUsage(cpu);
  console.log(ids.slice(prompt).join(','));
  console.error(`prompt ${prompt} tokens, first token after ${(first - begin).toFixed(1)} ms; then ${most - 1} tokens, ` +
    `${(1000 / each).toFixed(1)} a second (${each.toFixed(2)} ms each, ` +
    `${((used.user + used.system) / 1000 / (most - 1)).toFixed(2)} ms of CPU)`);
}

main().catch((e) => {
  console.error('peer: ' + e.message);
  process.exit(1);
});
