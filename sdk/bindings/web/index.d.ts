// inlay for browsers and Node in WebAssembly, with the interface of onnxruntime-common.

import { Feeds, Fetches, Results, ValueMetadata } from './common.js';
export * from './common.js';

/** A URL, a path (in Node), a response of fetch(), or the bytes. */
export type Source = string | URL | Response | ArrayBufferLike | ArrayBufferView;

export interface SessionOptions {
  /**
   * Threads that compute: this one and workers. By default as many as onnxruntime-web has, half of the CPUs up to 4; 1 in
   * pages that are not isolated from other origins (crossOriginIsolated).
   */
  intraOpNumThreads?: number;
  graphOptimizationLevel?: 'disabled' | 'basic' | 'extended' | 'layout' | 'all';
  freeDimensionOverrides?: { readonly [name: string]: number };
  /** Files with external data of the model, by their paths relative to it. */
  externalData?: readonly { readonly path: string; readonly data: Source }[];
  /** Options of inlay by name: `{ precision: 'strict' }`. */
  inlay?: { readonly [name: string]: string | number | boolean | readonly (string | number)[] };
  /**
   * The module, by default `inlay.wasm` next to `index.js`. A URL is compiled once for all sessions. With a
   * `WebAssembly.Module`, a session has one thread.
   */
  wasm?: Source | WebAssembly.Module;
  /** The folder of `inlay.wasm` if it is not beside `index.js`, for instance because a bundler left it out. */
  wasmFolder?: string;
  /** Other options of onnxruntime-web are accepted without effect. */
  [other: string]: unknown;
}

export interface RunOptions {
  /** A run is rejected if it was aborted before; a run that has begun cannot be stopped. */
  signal?: AbortSignal;
  [other: string]: unknown;
}

export class InferenceSession {
  private constructor();
  static create(source: Source, options?: SessionOptions): Promise<InferenceSession>;
  static create(model: ArrayBufferLike, byteOffset: number, byteLength?: number, options?: SessionOptions):
    Promise<InferenceSession>;
  /** Blocks the thread until the run has ended. The results are copies. */
  run(feeds: Feeds, options?: RunOptions): Promise<Results>;
  run(feeds: Feeds, fetches: Fetches, options?: RunOptions): Promise<Results>;
  /**
   * Ends the workers of the session, and releases its memory at the next garbage collection, which also frees sessions that
   * are not reachable.
   */
  dispose(): void;
  /** As dispose(). */
  release(): Promise<void>;
  readonly inputNames: readonly string[];
  /** Inputs with default values, which may be fed. They are not in inputNames. */
  readonly overridableInitializerNames: readonly string[];
  readonly outputNames: readonly string[];
  readonly inputMetadata: readonly ValueMetadata[];
  readonly outputMetadata: readonly ValueMetadata[];
  /** The entries of metadata_props of the model. */
  readonly metadata: { readonly [key: string]: string };
  startProfiling(): void;
  endProfiling(): void;
}
export const version: string;
/** The threads of a session whose options do not state them. */
export function defaultThreads(): Promise<number>;
export { InferenceSession as InlaySession };
