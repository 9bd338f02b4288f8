// Prints the inputs and outputs of models as a package with the interface of onnxruntime-common reports them.
//   node describe.cjs PACKAGE FILE...        a line of JSON for each: [file, inputs, outputs], or [file, null, error]
'use strict';
const fs = require('node:fs');
const path = require('node:path');
const { pathToFileURL } = require('node:url');

async function main(name, ...files) {
  // A folder with package.json, or a file.
  const entry = fs.statSync(name).isDirectory() ? require.resolve(path.resolve(name)) : path.resolve(name);
  const { InferenceSession, env } = await import(pathToFileURL(entry));
  const executionProviders = [/web/.test(name) ? 'wasm' : 'cpu'];
  const options = { executionProviders, logSeverityLevel: 4, intraOpNumThreads: 1 };
  if (env && env.wasm) env.wasm.numThreads = 1;
  for (const file of files) {
    let line;
    try {
      const session = await InferenceSession.create(/web/.test(name) ? fs.readFileSync(file) : file, options);
      for (const side of ['input', 'output'])
        if (session[`${side}Names`].join('\n') !== session[`${side}Metadata`].map((m) => m.name).join('\n'))
          throw new Error(`${side}Names and ${side}Metadata differ`);
      line = [path.basename(file), ...[session.inputMetadata, session.outputMetadata].map((list) => list.map((port) => (
        port.isTensor ? [port.name, port.type, port.shape] : [port.name])))];
      await session.release();
    } catch (error) {
      line = [path.basename(file), null, String(error.message)];
    }
    console.log(JSON.stringify(line));
  }
}
main(...process.argv.slice(2)).then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
