/* onnx/pool.h - shape inference of pooling, for MaxPool and similar operators. */
#ifndef ONNX_POOL_H
#define ONNX_POOL_H
#include "infer/infer.h"

/* All outputs are windows of input 0 [N, C, spatial...]; the attributes are those of MaxPool-12. */
inlay_status infer_pool(op_infer *infer);
#endif
