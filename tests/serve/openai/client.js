// Calls the server with OpenAI's client for Node.js, as its documentation does, and checks every answer.
//   node client.js PACKAGES URL      PACKAGES: the folder in which npm has installed openai
'use strict';
const assert = require('node:assert/strict');
const path = require('node:path');
const [, , packages, url] = process.argv;
const OpenAI = require(path.join(path.resolve(packages), 'node_modules', 'openai'));
const client = new OpenAI({ baseURL: url, apiKey: 'none', maxRetries: 0 });

// The model counts from the number of its tokens: "x" is 1, after which comes A. The template writes the first letter
// of each role before its message.
const asked = [{ role: 'user', content: 'xy' }];
const chat = (more) =>
  client.chat.completions.create({ model: 'count', messages: asked, max_tokens: 4, temperature: 0, ...more });
const complete = (prompt, more) =>
  client.completions.create({ model: 'count', prompt, max_tokens: 3, temperature: 0, ...more });
const respond = (more) =>
  client.responses.create({ model: 'count', input: 'xy', max_output_tokens: 4, temperature: 0, ...more });
const embed = (input, more) => client.embeddings.create({ model: 'vectors', input, ...more });
const form = (schema) => ({
  name: 'form', strict: true,
  schema: { type: 'object', properties: { a: schema }, required: ['a'], additionalProperties: false },
});

async function refused(call, status, parameter, code = null) {
  await assert.rejects(call, (error) => {
    assert.ok(error instanceof (status === 404 ? OpenAI.NotFoundError : OpenAI.BadRequestError), String(error));
    assert.deepEqual([error.status, error.param, error.code], [status, parameter, code], error.message);
    return true;
  });
}

async function chats() {
  const plain = await chat();
  assert.equal(plain.choices[0].message.content, 'CDEF');
  assert.equal(plain.choices[0].finish_reason, 'length');
  assert.deepEqual(plain.usage, { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7,
    prompt_tokens_details: { cached_tokens: 0 } });
  const parts = await chat({ messages: [{ role: 'system', content: 's' },
    { role: 'user', content: [{ type: 'text', text: 'x' }, { type: 'text', text: 'y' }] }] });
  assert.equal(parts.choices[0].message.content, 'EFGH');
  assert.deepEqual((await chat({ n: 3 })).choices.map((c) => c.index), [0, 1, 2]);
  assert.equal((await chat({ stop: ['E'] })).choices[0].message.content, 'CD');
  assert.equal((await chat({ tools: [], response_format: { type: 'text' }, user: 'u' })).choices.length, 1);
  const likely = (await chat({ logprobs: true, top_logprobs: 2 })).choices[0].logprobs.content;
  assert.deepEqual(likely.map((t) => [t.token, t.bytes[0], t.top_logprobs.length]),
    [['C', 67, 2], ['D', 68, 2], ['E', 69, 2], ['F', 70, 2]]);
  let text = '', usage;
  for await (const event of await chat({ stream: true, stream_options: { include_usage: true } })) {
    text += event.choices[0]?.delta?.content ?? '';
    usage = event.usage ?? usage;
  }
  assert.equal(text, 'CDEF');
  assert.equal(usage.total_tokens, 7);
  const helper = client.chat.completions.stream({ model: 'count', messages: asked, max_tokens: 4, temperature: 0 });
  assert.equal(await helper.finalContent(), 'CDEF');
  const parsed = await client.chat.completions.parse({ model: 'count', messages: asked, max_tokens: 60, temperature: 0,
    response_format: { type: 'json_schema', json_schema: form({ type: 'integer', minimum: 41, maximum: 49 }) } });
  assert.ok(parsed.choices[0].message.parsed.a >= 41 && parsed.choices[0].message.parsed.a <= 49);
  const described = await chat({ tools: [{ type: 'function', function: { name: 'f', parameters: {} } }] });
  assert.match(described.warnings[0], /template takes no tools/);
  await refused(chat({ reasoning_effort: 'low' }), 400, 'reasoning_effort', 'unsupported_parameter');
  await refused(chat({ temperature: 3 }), 400, 'temperature');
  assert.match((await chat({ model: 'none' })).warnings[0], /no model 'none'; the only one that generates/);
}

async function completions() {
  assert.equal((await complete('xyz')).choices[0].text, 'CDE');
  assert.deepEqual((await complete(['x', 'xyz'])).choices.map((c) => c.text), ['ABC', 'CDE']);
  assert.equal((await complete([120, 121])).choices[0].text, 'BCD');
  assert.deepEqual((await complete([[120], [120, 121]])).choices.map((c) => c.text), ['ABC', 'BCD']);
  assert.deepEqual((await complete('x', { logprobs: 1 })).choices[0].logprobs.tokens, ['A', 'B', 'C']);
  assert.equal((await complete('x', { best_of: 2, temperature: 1 })).choices.length, 1);
  assert.equal((await complete('x', { logit_bias: { 113: 50 } })).choices[0].text, 'qqq');
  assert.equal((await complete('x', { logit_bias: { 113: 1.5 }, presence_penalty: 2 })).choices[0].text, 'qBC');
  const seeded = async (seed) => (await complete('x', { seed, temperature: 2, max_tokens: 30 })).choices[0].text;
  assert.equal(await seeded(0), await seeded(0));
  assert.notEqual(await seeded(0), await seeded(1));
  let text = '';
  for await (const event of await complete('x', { stream: true }))
    text += event.choices[0].text;
  assert.equal(text, 'ABC');
  await refused(complete('x', { suffix: 'z' }), 400, 'suffix');
  await refused(complete(''), 400, 'prompt');
}

async function embeddings() {
  const one = await embed('!'); // as base64, the client's default
  assert.equal(one.data[0].embedding.length, 128);
  assert.equal(one.data[0].embedding[33], 1);
  const two = await embed(['!', '#'], { encoding_format: 'float' });
  assert.deepEqual(two.data.map((d) => d.embedding.indexOf(1)), [33, 35]);
  assert.equal((await embed([33, 34], { dimensions: 40 })).data[0].embedding.length, 40);
  assert.equal((await embed(Array(300).fill('!'))).data.length, 300);
  await refused(embed('a', { dimensions: 0 }), 400, 'dimensions');
}

async function models() {
  const ids = [];
  for await (const model of client.models.list())
    ids.push(model.id);
  assert.deepEqual(ids, ['count', 'vectors']);
  assert.equal((await client.models.retrieve('count')).id, 'count');
  await refused(client.models.retrieve('none'), 404, 'model', 'model_not_found');
}

async function responses() {
  const plain = await respond();
  assert.equal(plain.output_text, 'CDEF');
  assert.equal(plain.status, 'incomplete');
  assert.equal((await respond({ instructions: 'a', input: asked })).output_text, 'EFGH');
  let text = '';
  for await (const event of await respond({ stream: true }))
    text += event.type === 'response.output_text.delta' ? event.delta : '';
  assert.equal(text, 'CDEF');
  const helper = client.responses.stream({ model: 'count', input: 'xy', max_output_tokens: 4, temperature: 0 });
  assert.equal((await helper.finalResponse()).output_text, 'CDEF');
  const parsed = await client.responses.parse({ model: 'count', input: 'xy', max_output_tokens: 30, temperature: 0,
    text: { format: { type: 'json_schema', ...form({ const: 'F' }) } } });
  assert.deepEqual(parsed.output_parsed, { a: 'F' });
  assert.equal(parsed.status, 'completed');
  await refused(respond({ previous_response_id: 'resp_1' }), 400, 'previous_response_id', 'unsupported_parameter');
}

(async () => {
  for (const part of [chats, completions, embeddings, models, responses])
    await part();
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
