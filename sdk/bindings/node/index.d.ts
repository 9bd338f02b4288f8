// inlay for Node, with the interface of onnxruntime-common.

import { Feeds, Fetches, Results, ValueMetadata } from './common.js';
export * from './common.js';

export interface SessionOptions {
  /** Threads of one run; 0: all. */
  intraOpNumThreads?: number;
  graphOptimizationLevel?: 'disabled' | 'basic' | 'extended' | 'layout' | 'all';
  freeDimensionOverrides?: { readonly [name: string]: number };
  /** Options of inlay by name: `{ precision: 'strict', providers: 'cpu,reference' }`. */
  inlay?: { readonly [name: string]: string | number | boolean | readonly (string | number)[] };
  /** 'cpu' stands for all of inlay's providers; other names are errors. */
  executionProviders?: readonly (string | { readonly name: string })[];
  /** The contents of files with external data, by their paths as in the model. */
  externalData?: readonly { readonly path: string; readonly data: ArrayBufferLike | ArrayBufferView }[];
  /** Profiles runs, one at a time; endProfiling() writes PREFIX_DATE.json with the events of ONNX Runtime. */
  enableProfiling?: boolean;
  profileFilePrefix?: string;
  /** A file that receives the optimised model. */
  optimizedModelFilePath?: string;
  /** Other options of onnxruntime-node are accepted without effect; unknown ones are errors. */
  [other: string]: unknown;
}

export interface RunOptions {
  /** Stops the run: it is rejected with code 'cancelled'. */
  signal?: AbortSignal;
  /** Threads of this run, at most intraOpNumThreads; 0 or undefined: intraOpNumThreads. */
  maxThreads?: number;
  /** A hint to devices; 'normal' or undefined: as option priority of the session says. */
  priority?: 'low' | 'normal' | 'high';
  /** A hint to devices; 'default' or undefined: as option power of the session says. */
  power?: 'default' | 'efficiency' | 'performance';
  [other: string]: unknown;
}

export class InferenceSession {
  private constructor();
  static create(path: string, options?: SessionOptions): Promise<InferenceSession>;
  static create(model: ArrayBufferLike | Uint8Array, options?: SessionOptions): Promise<InferenceSession>;
  static create(model: ArrayBufferLike, byteOffset: number, byteLength?: number, options?: SessionOptions):
    Promise<InferenceSession>;
  /** Any number of runs may be active at once. */
  run(feeds: Feeds, options?: RunOptions): Promise<Results>;
  run(feeds: Feeds, fetches: Fetches, options?: RunOptions): Promise<Results>;
  /** Changes an option of an open provider; no value: the default. */
  setOption(provider: string, option: string, value?: string | number | boolean): Promise<void>;
  /** Releases unused memory of a provider, of which unusedBytes may stay. Resolves to the bytes that were released. */
  trim(provider: string, unusedBytes?: number): Promise<number>;
  /** Gives memory back to the system that runs have left behind; the next run prepares its input sizes again. */
  trim(): Promise<number>;
  /** Waits for the runs in progress; later ones are rejected with code 'busy' until resume(). */
  suspend(provider: string): Promise<void>;
  resume(provider: string): Promise<void>;
  /** Frees the memory of the runs, of an active run when it ends. The session itself is freed by garbage collection. */
  release(): Promise<void>;
  readonly inputNames: readonly string[];
  /** Inputs with default values, which may be fed. They are not in inputNames. */
  readonly overridableInitializerNames: readonly string[];
  readonly outputNames: readonly string[];
  readonly inputMetadata: readonly ValueMetadata[];
  readonly outputMetadata: readonly ValueMetadata[];
  /** Without effect: option enableProfiling starts the profile. */
  startProfiling(): void;
  /** Writes the profile. */
  endProfiling(): void;
}

export interface TextModelOptions extends SessionOptions {
  /** Of a folder: the weights to use, such as 'q4' or 'fp16'; undefined: chosen by size. */
  variant?: string;
  /** The path of tokenizer.json. */
  tokenizer?: string;
  /** The path of a draft model, which guesses tokens; the texts stay the same. */
  draft?: string;
  /** Guesses of a run: of the draft model, at most 16; from the text's own tokens, at most 16. */
  draftTokens?: number;
  lookup?: number;
  /** Texts that are generated at once; others wait. */
  maxTexts?: number;
  /** The most bytes of the states of all texts. */
  kvMemory?: number;
  /** The most tokens of a text with its prompt, if the model has more. */
  context?: number;
}

/** Parameters that are undefined are those of the model's generation_config.json. */
export interface Sampling {
  maxTokens?: number;
  temperature?: number;
  topK?: number;
  topP?: number;
  minP?: number;
  typicalP?: number;
  repetitionPenalty?: number;
  presencePenalty?: number;
  frequencyPenalty?: number;
  /** So many tokens in succession do not occur twice in the text; 0: no limit. */
  noRepeatNgramSize?: number;
  minTokens?: number;
  /** The same seed gives the same text; undefined: another one each time. */
  seed?: number;
  /** The text ends before each of these. */
  stop?: string | readonly string[];
  /** A JSON Schema, or a GBNF grammar, that the text matches. */
  schema?: string | object;
  grammar?: string;
  /** The name of a LoRA adapter of option adapter. */
  adapter?: string;
  ignoreEnds?: boolean;
  /** The prompt has its special tokens already. */
  rendered?: boolean;
}

export interface TextUsage {
  readonly promptTokens: number;
  readonly generatedTokens: number;
  readonly reusedTokens: number;
  readonly reason: 'stop' | 'length' | 'stopped' | 'failed';
}

/** A text in progress. Leaving a loop over it ends the text. */
export class Text implements AsyncIterableIterator<string> {
  private constructor();
  next(): Promise<IteratorResult<string, undefined>>;
  return(value?: undefined): Promise<IteratorResult<string, undefined>>;
  [Symbol.asyncIterator](): this;
  /** Ends the text with the next step. */
  stop(): Promise<void>;
  /** What has not been iterated yet. */
  text(): Promise<string>;
  /** undefined until the text has ended. */
  readonly usage?: TextUsage;
}

export type Messages = string | readonly { readonly role: string; readonly content?: unknown; readonly [other: string]: unknown }[];
export interface ChatOptions {
  tools?: string | readonly object[];
  /** Further variables of the chat template, such as enable_thinking. */
  variables?: string | object;
}

/** A language model with its tokenizer: an ONNX file, a GGUF file, or a folder as Hugging Face publishes it. */
export class TextModel {
  private constructor();
  static create(path: string, options?: TextModelOptions): Promise<TextModel>;
  /** Continues a text, or tokens. Several texts share runs. */
  generate(prompt: string | readonly number[], options?: Sampling): Text;
  /** The answer to the messages of a chat. */
  chat(messages: Messages, options?: ChatOptions & Sampling): Promise<Text>;
  /** The prompt of a chat, by the model's chat template. */
  render(messages: Messages, options?: ChatOptions): Promise<string>;
  tokenize(text: string, options?: { rendered?: boolean }): Promise<number[]>;
  detokenize(tokens: Iterable<number>): Promise<string>;
  /** The embedding of a text, by a model that makes embeddings. */
  embed(text: string): Promise<Float32Array>;
  readonly vocabulary: number;
  /** The most tokens of a text; undefined: unknown. */
  readonly context?: number;
  readonly embeds: boolean;
  readonly hasTemplate: boolean;
  readonly ends: readonly number[];
}

export const env: { versions: { node: string }; [other: string]: unknown };
export function listSupportedBackends(): { name: string; bundled: boolean }[];
export const version: string;
