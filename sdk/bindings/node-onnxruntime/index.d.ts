export * from 'onnxruntime-common';
export declare const listSupportedBackends: () => Array<{ name: string; bundled: boolean }>;
