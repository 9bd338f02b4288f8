// Tensors, and the arguments and results of runs, of the packages inlay (for Node) and inlay-web.

export type Type = 'float32' | 'uint8' | 'int8' | 'uint16' | 'int16' | 'int32' | 'int64' | 'string' | 'bool' | 'float16' |
  'float64' | 'uint32' | 'uint64' | 'bfloat16' | 'uint4' | 'int4';
export type TypedArray = Float32Array | Float64Array | Uint8Array | Int8Array | Uint16Array | Int16Array | Int32Array |
  Uint32Array | BigInt64Array | BigUint64Array;
export type Data = TypedArray | string[];

/** A tensor over the memory of a typed array, which runs read without a copy. */
export class Tensor {
  /** Elements of the type; int64 and uint64 accept numbers and bigints, bool accepts booleans and bytes. */
  constructor(type: Type, data: Data | readonly (number | bigint | boolean)[], dims?: readonly number[]);
  /** The type is inferred from the data. */
  constructor(data: TypedArray | readonly string[] | readonly boolean[], dims?: readonly number[]);
  readonly type: Type;
  readonly data: Data;
  readonly dims: readonly number[];
  readonly size: number;
  readonly location: 'cpu';
  getData(): Promise<Data>;
  reshape(dims: readonly number[]): Tensor;
  dispose(): void;
}

/** An input or output. shape has sizes and symbol names; type is undefined for values other than tensors. */
export interface ValueMetadata {
  readonly name: string;
  readonly isTensor: boolean;
  readonly type?: Type;
  readonly shape: readonly (number | string)[];
}

export type Feeds = { readonly [name: string]: Tensor | null | undefined };
export type Fetches = readonly string[] | { readonly [name: string]: Tensor | null };
export type Results = { readonly [name: string]: Tensor };
