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

export const env: { versions: { node: string }; [other: string]: unknown };
export function listSupportedBackends(): { name: string; bundled: boolean }[];
export const version: string;
