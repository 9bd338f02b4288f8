// Times models with ONNX Runtime's WebGPU provider and with inlay's Vulkan provider, on one device, interleaved, and
// compares the outputs. Run by webgpu.sh, which installs a driver that both support.
//   NODE_PATH=.../node_modules node webgpu.js INLAY FOLDER ROUNDS MODEL.onnx[,NAME=N]...
const { spawnSync } = require('child_process');
const fs = require('fs');
const path = require('path');
const ort = require('onnxruntime-node');
const [inlay, folder, rounds, ...models] = process.argv.slice(2);
const forced = ['--providers', 'vulkan,reference', '--policy', 'priority'];
const arrays = { float32: [Float32Array, '<f4'], int64: [BigInt64Array, '<i8'], int32: [Int32Array, '<i4'], bool: [Uint8Array, '|b1'] };

function writeNpy(file, type, dims, data) {
    const text = `{'descr': '${arrays[type][1]}', 'fortran_order': False, 'shape': (${dims.map((d) => d + ',').join('')}), }`;
    const head = text.padEnd(Math.ceil((text.length + 11) / 64) * 64 - 11) + '\n', size = Buffer.alloc(2);
    size.writeUInt16LE(head.length);
    fs.writeFileSync(file, Buffer.concat([Buffer.from('\x93NUMPY\x01\x00', 'latin1'), size, Buffer.from(head),
        Buffer.from(data.buffer, data.byteOffset, data.byteLength)]));
}

// Floats between -1 and 1, integers 0 and 1: the same for both.
function makeInputs(session, sizes, to) {
    const feeds = {};
    for (const { name, type, shape } of session.inputMetadata) {
        if (!(type in arrays))
            throw new Error(`input ${name} is ${type}`);
        const dims = shape.map((d) => (typeof d === 'number' && d > 0 ? d : sizes[d] ?? 1));
        const data = new arrays[type][0](dims.reduce((a, b) => a * b, 1));
        for (let i = 0; i < data.length; i++) {
            const x = type === 'float32' ? ((i * 2654435761) % 2001) / 1000 - 1 : i % 2;
            data[i] = type === 'int64' ? BigInt(x) : x;
        }
        feeds[name] = new ort.Tensor(type, data, dims);
        writeNpy(path.join(to, name.replace(/[/:]/g, '_') + '.npy'), type, dims, data);
    }
    return feeds;
}

async function timed(session, feeds, seconds) {
    const times = [], end = performance.now() + seconds * 1000;
    do {
        const begin = performance.now();
        await session.run(feeds);
        times.push(performance.now() - begin);
    } while (performance.now() < end || times.length < 2);
    return Math.min(...times);
}

function call(...args) {
    const done = spawnSync(inlay, args, { encoding: 'utf8', maxBuffer: 1 << 26 });
    if (done.status !== 0)
        throw new Error((done.stderr || done.stdout).trim().split('\n').pop());
    return done.stdout;
}

async function compare(model, sizes, to) {
    const session = await ort.InferenceSession.create(model, { executionProviders: [{ name: 'webgpu' }] });
    const wanted = path.join(to, 'outputs'), inputs = path.join(to, 'inputs');
    for (const d of [inputs, wanted])
        fs.mkdirSync(d, { recursive: true });
    const feeds = makeInputs(session, sizes, inputs), outputs = await session.run(feeds);
    for (const name of session.outputNames)
        writeNpy(path.join(wanted, name.replace(/[/:]/g, '_') + '.npy'), outputs[name].type, outputs[name].dims, outputs[name].data);
    call('run', model, '--inputs', inputs, '--expect', wanted, '--rtol', '1e-3', '--atol', '1e-3', ...forced);
    const best = { webgpu: Infinity, inlay: Infinity };
    for (let round = 0; round < Number(rounds); round++) { // interleaved, so that other load affects both
        best.webgpu = Math.min(best.webgpu, await timed(session, feeds, 2));
        const report = JSON.parse(call('bench', model, '--inputs', inputs, '--seconds', '2', '--json', ...forced));
        best.inlay = Math.min(best.inlay, report.min_ms);
    }
    await session.release();
    return best;
}

(async () => {
    const ratios = [];
    console.log(`${'model'.padEnd(28)} ${'WebGPU ms'.padStart(10)} ${'inlay ms'.padStart(10)} ${'ratio'.padStart(7)}`);
    for (const [at, given] of models.entries()) {
        const [model, ...dims] = given.split(','), name = path.basename(path.dirname(model)).padEnd(28);
        try {
            const sizes = Object.fromEntries(dims.map((d) => [d.split('=')[0], Number(d.split('=')[1])]));
            const { webgpu, inlay: own } = await compare(model, sizes, path.join(folder, String(at)));
            ratios.push(webgpu / own);
            console.log(`${name} ${webgpu.toFixed(2).padStart(10)} ${own.toFixed(2).padStart(10)} ${(webgpu / own).toFixed(2).padStart(7)}`);
        } catch (e) {
            console.log(`${name} ${e.message}`);
        }
    }
    if (ratios.length > 0)
        console.log(`geometric mean of ${ratios.length}: ${Math.exp(ratios.reduce((a, x) => a + Math.log(x), 0) / ratios.length).toFixed(2)}`);
})();
