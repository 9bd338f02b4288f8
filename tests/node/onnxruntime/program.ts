// A program that uses the types of onnxruntime-node.
import { env, InferenceSession, OnnxValue, Tensor, TypedTensor } from 'onnxruntime-node';
const { identity } = require('./models.cjs') as { identity: (type: number) => Uint8Array };

async function main(): Promise<void> {
  env.logLevel = 'error';
  const options: InferenceSession.SessionOptions = { graphOptimizationLevel: 'all', executionProviders: ['cpu'] };
  const session: InferenceSession = await InferenceSession.create(identity(1), options);
  const about: InferenceSession.ValueMetadata = session.inputMetadata[0];
  if (!about.isTensor || about.type !== 'float32') throw new Error('wrong type');
  const x: TypedTensor<'float32'> = new Tensor('float32', Float32Array.of(1, 2, 3, 4, 5), [1, 5]);
  const run: InferenceSession.RunOptions = { logSeverityLevel: 3 };
  const results: InferenceSession.OnnxValueMapType = await session.run({ x }, run);
  const y: OnnxValue = results.y;
  const type: Tensor.Type = (y as Tensor).type;
  if (type !== 'float32' || (y as Tensor).dims[1] !== 5) throw new Error('wrong result');
  await session.release();
}
main().catch((problem) => { console.error(problem); process.exit(1); });
