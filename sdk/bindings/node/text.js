// Language models: inlay/text.h for Node, on the addon inlay_text.node.
'use strict';
const fs = require('fs');
const path = require('path');
const { invalid, settingsOf } = require('./common.js');

const RENDERED = 1, IGNORE_ENDS = 2, OPEN = 0xffffffff; // INLAY_TEXT_*, INLAY_NONE
const REASONS = ['running', 'stop', 'length', 'stopped', 'failed']; // INLAY_TEXT_RUNS ...

// The addon is in the folder of the one given by INLAY_NODE_ADDON, or of this file. It is loaded for the first model.
let addon;
function native() {
  if (addon === undefined) {
    const folder = process.env.INLAY_NODE_ADDON ? path.dirname(path.resolve(process.env.INLAY_NODE_ADDON)) : __dirname;
    const file = path.join(folder, 'inlay_text.node');
    if (!fs.existsSync(file)) throw invalid(Error, `texts need ${file}: inlay was built without libinlay-text`);
    addon = require(file);
  }
  return addon;
}

function numberOf(name, value, otherwise) {
  if (value === undefined) return otherwise;
  if (typeof value !== 'number' || Number.isNaN(value)) throw invalid(TypeError, `'${name}' must be a number`);
  return value;
}

// A whole number of at least 0.
function countOf(name, value, otherwise) {
  const count = numberOf(name, value, otherwise);
  if (value !== undefined && (!Number.isSafeInteger(count) || count < 0))
    throw invalid(RangeError, `'${name}' must be a whole number of at least 0, not ${value}`);
  return count;
}

function textOf(name, value) {
  if (value !== undefined && typeof value !== 'string') throw invalid(TypeError, `'${name}' must be a string`);
  if (value !== undefined && value.includes('\0')) throw invalid(Error, `'${name}' has a NUL at position ${value.indexOf('\0')}`);
  return value;
}

// JSON as a text, or a value to be written as JSON.
const jsonOf = (value) => (value === undefined || typeof value === 'string' ? value : JSON.stringify(value));

function refuseOthers(options, known) {
  for (const name of Object.keys(options))
    if (!known.includes(name)) throw invalid(Error, `unknown option '${name}'; the options are: ${known.join(', ')}`);
}

const SAMPLING = ['maxTokens', 'temperature', 'topK', 'topP', 'minP', 'typicalP', 'repetitionPenalty', 'presencePenalty',
  'frequencyPenalty', 'noRepeatNgramSize', 'minTokens', 'seed', 'stop', 'schema', 'grammar', 'adapter', 'ignoreEnds',
  'rendered'];

/* A text in progress: an async iterator of its pieces. Several texts of a model share runs. */
class Text {
  #handle; // a promise
  #usage;

  constructor(handle) {
    this.#handle = handle;
    handle.catch(() => {}); // the failure is that of next()
  }
  async next() {
    if (this.#usage !== undefined) return { value: undefined, done: true };
    const piece = await native().next(await this.#handle);
    if (typeof piece === 'string') return { value: piece, done: false };
    const [state, promptTokens, generatedTokens, reusedTokens] = piece;
    this.#usage = { promptTokens, generatedTokens, reusedTokens, reason: REASONS[state] };
    return { value: undefined, done: true };
  }
  // `break` out of a loop ends the text.
  async return(value) {
    await this.stop();
    return { value, done: true };
  }
  [Symbol.asyncIterator]() { return this; }
  /* Ends the text with the next step. */
  async stop() { native().stop(await this.#handle); }
  /* The whole text: what has not been iterated yet. */
  async text() {
    let text = '';
    for await (const piece of this) text += piece;
    return text;
  }
  /* Numbers of tokens, and why the text has ended; undefined before. */
  get usage() { return this.#usage; }
}

class TextModel {
  #handle;

  constructor(handle) {
    const [vocabulary, context, embeds, hasTemplate, ...ends] = native().describe(handle);
    this.#handle = handle;
    this.vocabulary = vocabulary;
    this.context = context || undefined;
    this.embeds = embeds !== 0;
    this.hasTemplate = hasTemplate !== 0;
    this.ends = ends;
  }

  static async create(file, options = {}) {
    const { variant, tokenizer, draft, draftTokens, lookup, maxTexts, kvMemory, context, ...session } = options;
    const names = [textOf('variant', variant), textOf('tokenizer', tokenizer), textOf('draft', draft)];
    const numbers = [countOf('kvMemory', kvMemory, 0), countOf('maxTexts', maxTexts, 0),
      countOf('draftTokens', draftTokens, 0), countOf('lookup', lookup, 0),
      countOf('context', context, 0)];
    return new TextModel(await native().create(textOf('model', file), settingsOf(session, []), names, numbers));
  }

  /* prompt: a text, or an array of tokens. */
  generate(prompt, options = {}) {
    refuseOthers(options, SAMPLING);
    const { schema, grammar, adapter, stop = [], seed = Math.floor(Math.random() * Number.MAX_SAFE_INTEGER) } = options;
    const isText = typeof prompt === 'string';
    if (!isText && !Array.isArray(prompt)) throw invalid(TypeError, "'prompt' must be a string, or an array of tokens");
    const texts = [isText ? textOf('prompt', prompt) : undefined, jsonOf(schema), textOf('grammar', grammar),
      textOf('adapter', adapter)];
    const stops = (Array.isArray(stop) ? stop : [stop]).map((one) => textOf('stop', one));
    const flags = (options.ignoreEnds ? IGNORE_ENDS : 0) | (options.rendered ? RENDERED : 0);
    const numbers = [countOf('seed', seed), countOf('maxTokens', options.maxTokens, 0), flags,
      countOf('topK', options.topK, -1), numberOf('temperature', options.temperature, -1),
      numberOf('topP', options.topP, -1), numberOf('minP', options.minP, -1),
      numberOf('repetitionPenalty', options.repetitionPenalty, -1), numberOf('presencePenalty', options.presencePenalty, 0),
      numberOf('frequencyPenalty', options.frequencyPenalty, 0), numberOf('typicalP', options.typicalP, -1),
      countOf('noRepeatNgramSize', options.noRepeatNgramSize, OPEN), countOf('minTokens', options.minTokens, OPEN)];
    return new Text(native().begin(this.#handle, texts, isText ? [] : prompt, stops, numbers));
  }

  /* The prompt of a chat, by the model's chat template. */
  async render(messages, { tools, variables } = {}) {
    return native().chat(this.#handle, jsonOf(messages), jsonOf(tools), jsonOf(variables));
  }

  /* The answer to the messages of a chat: an async iterator as generate() returns. */
  async chat(messages, { tools, variables, ...sampling } = {}) {
    return this.generate(await this.render(messages, { tools, variables }), { ...sampling, rendered: true });
  }

  async tokenize(text, { rendered = false } = {}) {
    return native().tokenize(this.#handle, textOf('text', text), rendered ? '1' : undefined);
  }
  async detokenize(tokens) { return native().detokenize(this.#handle, Array.from(tokens)); }
  async embed(text) { return native().embed(this.#handle, textOf('text', text)); }
}

module.exports = { Text, TextModel };
