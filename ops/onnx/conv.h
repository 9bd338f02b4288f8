/* onnx/conv.h - shape inference of convolutions, for Conv and similar operators. */
#ifndef ONNX_CONV_H
#define ONNX_CONV_H
#include "infer/infer.h"

/* Output 0 is the convolution of input x [N, C, spatial...] with weights w [M, C / group, spatial...]; the attributes
 * are those of Conv-11. */
inlay_status infer_conv_of(op_infer *infer, uint32_t x, uint32_t w);

/* Value d of an INTS attribute, `otherwise` if it is absent; fails if it does not have `count` values, or if the value
 * is not in [low, 2^31). */
INLAY_NODISCARD inlay_status infer_conv_attr(const op_infer *infer, const char *name, uint32_t count, uint32_t d,
                                             int64_t low, int64_t otherwise, int64_t *out);
#endif
