// Names of onnxruntime-node as an ESM program imports them.
import assert from 'node:assert';
import * as ort from 'onnxruntime-node';
import { env, InferenceSession, listSupportedBackends, Tensor } from 'onnxruntime-node';
import { identity } from './models.cjs';

assert.deepStrictEqual(listSupportedBackends(), [{ name: 'cpu', bundled: true }]);
assert.ok(env.versions.node && env.versions.common && env.logLevel);
assert.strictEqual(ort.Tensor, Tensor);
const session = await InferenceSession.create(identity(1));
const { y } = await session.run({ x: new Tensor('float32', [1, 2, 3, 4, 5], [1, 5]) });
assert.ok(y instanceof Tensor);
assert.deepStrictEqual([...y.data], [1, 2, 3, 4, 5]);
