// A typical server: Node's http and onnxruntime-node, answering binary requests of the Open Inference Protocol.
//   NODE_PATH=.../node_modules node serve_peer.js MODEL.onnx PORT [FORM]
//
// FORM: `plain`, the session with default settings; `single` (default), one thread per run, several concurrent runs;
// `cluster`, one such process per CPU behind one socket.
const cluster = require('cluster');
const http = require('http');
const os = require('os');
const ort = require('onnxruntime-node');
const [model, port, form = 'single'] = process.argv.slice(2);

async function answer(session, body, jsonBytes) {
    const request = JSON.parse(body.toString('utf8', 0, jsonBytes)), feeds = {};
    let at = jsonBytes;
    for (const input of request.inputs) {
        const bytes = input.parameters.binary_data_size;
        const [type, Values] = input.datatype === 'INT64' ? ['int64', BigInt64Array] : ['float32', Float32Array];
        const size = Values.BYTES_PER_ELEMENT;
        // A view where the bytes are aligned, a copy where not.
        const data = (body.byteOffset + at) % size === 0 ? new Values(body.buffer, body.byteOffset + at, bytes / size)
            : new Values(Uint8Array.prototype.slice.call(body, at, at + bytes).buffer);
        feeds[input.name] = new ort.Tensor(type, data, input.shape);
        at += bytes;
    }
    const results = await session.run(feeds), outputs = [], parts = [];
    for (const name of session.outputNames) {
        const { data, dims } = results[name];
        outputs.push({ name, datatype: 'FP32', shape: dims, parameters: { binary_data_size: data.byteLength } });
        parts.push(Buffer.from(data.buffer, data.byteOffset, data.byteLength));
    }
    const head = Buffer.from(JSON.stringify({ model_name: 'mlp', model_version: '1', outputs }));
    return [head.length, Buffer.concat([head, ...parts])];
}

function serve(session, ready) {
    http.createServer((request, response) => {
        const chunks = [];
        request.on('data', (chunk) => chunks.push(chunk));
        request.on('end', async () => {
            try {
                const body = chunks.length === 1 ? chunks[0] : Buffer.concat(chunks);
                const [jsonBytes, reply] = await answer(session, body, Number(request.headers['inference-header-content-length']));
                response.writeHead(200, { 'Content-Type': 'application/octet-stream', 'Inference-Header-Content-Length': jsonBytes, 'Content-Length': reply.length });
                response.end(reply);
            } catch (error) {
                response.writeHead(400).end(JSON.stringify({ error: String(error) }));
            }
        });
    }).listen(Number(port), '127.0.0.1', ready);
}

const options = form === 'plain' ? {} : { intraOpNumThreads: 1, interOpNumThreads: 1, executionMode: 'sequential', graphOptimizationLevel: 'all' };
if (form === 'cluster' && cluster.isPrimary) {
    const count = os.cpus().length;
    let listening = 0;
    cluster.on('listening', () => ++listening === count && console.log('listening'));
    for (let i = 0; i < count; i++) cluster.fork();
    process.on('SIGTERM', () => { for (const id in cluster.workers) cluster.workers[id].kill(); process.exit(0); });
} else {
    ort.InferenceSession.create(model, options).then((session) => serve(session, () => form === 'cluster' || console.log('listening')));
}
