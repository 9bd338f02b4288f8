// Calls the server with gRPC's Node client, and checks every answer.
//   node client.js PACKAGES PROTO PORT      PACKAGES: the folder in which npm has installed @grpc/grpc-js
'use strict';
const assert = require('node:assert/strict');
const path = require('node:path');
const [, , packages, proto, port] = process.argv;
const from = (name) => require(path.join(path.resolve(packages), 'node_modules', name));
const grpc = from('@grpc/grpc-js');
const loader = from('@grpc/proto-loader');

const definition = loader.loadSync(proto, { keepCase: true, longs: String, defaults: true });
const service = grpc.loadPackageDefinition(definition).inference.GRPCInferenceService;
const client = new service(`127.0.0.1:${port}`, grpc.credentials.createInsecure());

function call(method, request, options = {}) {
  const deadline = Date.now() + (options.ms ?? 60000);
  return new Promise((good, bad) =>
    client[method](request, new grpc.Metadata(), { deadline }, (error, reply) => (error ? bad(error) : good(reply))));
}

async function refused(method, request, code, words, options) {
  await assert.rejects(call(method, request, options), (error) => {
    assert.equal(error.code, code, error.message);
    assert.match(error.details, words);
    return true;
  });
}

const floats = (...values) => Buffer.from(new Float32Array(values).buffer);

function inTypedFields(values) {
  const input = { name: 'x', datatype: 'FP32', shape: [values.length / 3, 3], contents: { fp32_contents: values } };
  return { model_name: 'twice', id: 'typed', inputs: [input], outputs: [{ name: 'y' }] };
}

function asRaw(values) {
  const input = { name: 'x', datatype: 'FP32', shape: [values.length / 3, 3] };
  return { model_name: 'twice', id: 'raw', inputs: [input], raw_input_contents: [floats(...values)] };
}

async function metadata() {
  assert.deepEqual(await call('ServerLive', {}), { live: true });
  assert.deepEqual(await call('ServerReady', {}), { ready: true });
  assert.deepEqual(await call('ModelReady', { name: 'twice' }), { ready: true });
  assert.deepEqual(await call('ModelReady', { name: 'triple', version: '1' }), { ready: false });
  const server = await call('ServerMetadata', {});
  assert.equal(server.name, 'inlay');
  for (const name of ['sequence', 'schedule_policy', 'parameters', 'statistics', 'trace', 'logging', 'model_repository', 'binary_tensor_data'])
    assert.ok(server.extensions.includes(name), name);
  const model = await call('ModelMetadata', { name: 'twice' });
  assert.deepEqual([model.name, model.versions, model.platform.length > 0], ['twice', ['1'], true]);
  assert.deepEqual(model.inputs, [{ name: 'x', datatype: 'FP32', shape: ['-1', '3'] }]);
  assert.deepEqual(model.outputs, [{ name: 'y', datatype: 'FP32', shape: ['-1', '3'] }]);
}

async function infer() {
  const typed = await call('ModelInfer', inTypedFields([1, 2, 3, -4, 0.5, 6]));
  assert.deepEqual([typed.model_name, typed.model_version, typed.id], ['twice', '1', 'typed']);
  assert.equal(typed.outputs.length, 1);
  assert.deepEqual([typed.outputs[0].name, typed.outputs[0].shape], ['y', ['2', '3']]);
  assert.deepEqual(typed.outputs[0].contents.fp32_contents, [2, 4, 6, -8, 1, 12]);
  const raw = await call('ModelInfer', asRaw([1, 2, 3]));
  assert.deepEqual([raw.id, raw.outputs[0].datatype, raw.outputs[0].shape], ['raw', 'FP32', ['1', '3']]);
  assert.deepEqual(raw.raw_output_contents, [floats(2, 4, 6)]);

  const text = { name: 'x', datatype: 'BYTES', shape: [2], contents: { bytes_contents: [Buffer.from('ä'), Buffer.alloc(0)] } };
  const texts = await call('ModelInfer', { model_name: 'id_BYTES', inputs: [text] });
  assert.deepEqual(texts.outputs[0].contents.bytes_contents, [Buffer.from('ä'), Buffer.alloc(0)]);
  const large = { name: 'x', datatype: 'UINT64', shape: [1], contents: { uint64_contents: ['18446744073709551615'] } };
  const largest = await call('ModelInfer', { model_name: 'id_UINT64', inputs: [large] });
  assert.deepEqual(largest.outputs[0].contents.uint64_contents, ['18446744073709551615']);

  // Parameters are a map to this client.
  const asked = inTypedFields([1, 2, 3]);
  asked.parameters = { timeout: { int64_param: 60000000 }, priority: { uint64_param: 1 }, mine: { string_param: 'a' } };
  assert.equal((await call('ModelInfer', asked)).id, 'typed');
}

async function invalidRequests() {
  const wrong = inTypedFields([1, 2, 3]);
  wrong.inputs[0].shape = [2, 3];
  await refused('ModelInfer', wrong, grpc.status.INVALID_ARGUMENT, /'x'/);
  await refused('ModelInfer', { model_name: 'none' }, grpc.status.NOT_FOUND, /no such model/);
  const spin = {
    model_name: 'spin',
    inputs: [{ name: 'n', datatype: 'INT64', shape: [] }, { name: 'x', datatype: 'FP32', shape: [4, 4] }],
    raw_input_contents: [Buffer.from(new BigInt64Array([10n ** 12n]).buffer), Buffer.alloc(64)],
  };
  await refused('ModelInfer', spin, grpc.status.DEADLINE_EXCEEDED, /./, { ms: 200 });
}

// Requests in a stream are answered in order; an invalid one gets an error_message, and the stream continues.
function stream() {
  return new Promise((good, bad) => {
    const answers = [];
    const both = client.ModelStreamInfer(new grpc.Metadata(), { deadline: Date.now() + 60000 });
    both.on('data', (reply) => answers.push(reply));
    both.on('error', bad);
    both.on('end', () => good(answers));
    for (let i = 0; i < 50; i++)
      both.write(i === 20 ? { model_name: 'none' } : { ...asRaw([i, 0, 1]), id: `${i}` });
    both.end();
  });
}

async function streams() {
  for (const answers of await Promise.all([stream(), stream(), stream()])) {
    assert.equal(answers.length, 50);
    answers.forEach((answer, i) => {
      if (i === 20) {
        assert.match(answer.error_message, /no such model/);
        return;
      }
      assert.equal(answer.error_message, '');
      assert.equal(answer.infer_response.id, `${i}`);
      assert.deepEqual(answer.infer_response.raw_output_contents, [floats(2 * i, 0, 2)]);
    });
  }
}

(async () => {
  await metadata();
  await infer();
  await invalidRequests();
  await streams();
  client.close();
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
