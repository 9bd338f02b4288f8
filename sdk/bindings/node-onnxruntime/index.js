// inlay in place of onnxruntime-node: everything of onnxruntime-common, with inlay as the backend "cpu".
'use strict';
Object.defineProperty(exports, '__esModule', { value: true });
exports.listSupportedBackends = void 0;
// In this form, Node finds the names of onnxruntime-common for `import { Tensor } from ...`.
function __exportStar(from, to) {
  for (const name of Object.keys(from))
    if (name !== 'default' && !Object.hasOwn(to, name))
      Object.defineProperty(to, name, { enumerable: true, get: () => from[name] });
}
__exportStar(require("onnxruntime-common"), exports);
const { env, registerBackend } = require('onnxruntime-common');
const { backend, version } = require('./backend');

exports.listSupportedBackends = () => [{ name: 'cpu', bundled: true }];
registerBackend('cpu', backend, 100);
if (env.versions) Object.defineProperty(env.versions, 'node', { value: version, enumerable: true });
