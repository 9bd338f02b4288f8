// Continues a prompt by the npm package: doors.js PACKAGE MODEL VECTORS PROMPT SEED
'use strict';
const assert = require('assert');
const [, , folder, path, vectors, prompt, seed] = process.argv;
const { TextModel } = require(folder);

async function main() {
  const how = { temperature: 0.7, topP: 0.9, seed: Number(seed), maxTokens: 60 };
  const model = await TextModel.create(path);
  const text = model.generate(prompt, how), pieces = [];
  for await (const piece of text) pieces.push(piece);
  const whole = pieces.join('');
  assert(pieces.length > 1);
  assert.deepStrictEqual({ ...text.usage, reusedTokens: 0 },
    { promptTokens: prompt.length, generatedTokens: 60, reusedTokens: 0, reason: 'length' });
  assert.strictEqual(await model.generate(await model.tokenize(prompt), how).text(), whole);
  const other = [...await model.generate(prompt, { ...how, noRepeatNgramSize: 1 }).text()];
  assert(other.length > 20 && new Set([...prompt, ...other]).size === new Set(prompt).size + other.length);
  assert.notStrictEqual(await model.generate(prompt, { ...how, typicalP: 0.01, minTokens: 2 }).text(), whole);
  const both = await Promise.all([model.generate(prompt, how).text(), model.generate('z', how).text()]);
  assert.deepStrictEqual(both, [whole, await model.generate('z', how).text()]);
  const left = model.generate(prompt, how);
  for await (const piece of left) { assert(whole.startsWith(piece)); break; }
  assert.strictEqual(await left.text() === whole, false);
  assert.strictEqual(await model.generate('a', { grammar: 'root ::= "left"' }).text(), 'left');
  assert.strictEqual(await model.generate('a', { schema: { enum: [12] } }).text(), '12');
  assert.strictEqual(await model.detokenize(await model.tokenize('hello')), 'hello');
  await assert.rejects(model.generate('a', { adapter: 'x' }).next(), { code: 'not found' });
  await assert.rejects(model.render([]), { code: 'not found' });
  await assert.rejects(model.embed('a'), { code: 'unsupported' });
  await assert.rejects(TextModel.create('/nowhere'), { code: 'not found' });
  assert.throws(() => model.generate('a', { temprature: 1 }), /unknown option 'temprature'/);
  const vector = await (await TextModel.create(vectors)).embed('!!!!###');
  assert(vector.length === 128 && Math.abs(vector[33] - 0.8) < 1e-6);
  console.log(whole);
}

main().catch((error) => { console.error(error); process.exit(1); });
