import * as common from 'onnxruntime-common';
export * from 'onnxruntime-common';
export default common;
