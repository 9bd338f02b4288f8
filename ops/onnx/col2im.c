/* onnx/col2im.c - rearranges columns to images. */
#include "schema.h"

/* Col2Im-18: [N, C * product(block), L] -> [N, C, image...]. */
static inlay_status infer_col2im(op_infer *infer)
{
    inlay_dim dims[INLAY_MAX_RANK], length = infer_dim(infer, 1, 0);
    uint32_t count, block_count;
    const inlay_dim *image = infer_elements(infer, 1, &count), *block = infer_elements(infer, 2, &block_count);

    for (uint32_t i = 1; i < 3; i++) {
        const inlay_status status = infer_check_list(infer, i);

        if (status != INLAY_OK)
            return status;
    }
    if (image == NULL && length.kind != INLAY_DIM_FIXED)
        return INLAY_OK;
    if (image == NULL)
        count = length.value >= 0 && length.value <= INLAY_MAX_RANK ? (uint32_t)length.value : INLAY_MAX_RANK;
    if (count + 2 > INLAY_MAX_RANK)
        return infer_fail(infer, INLAY_LIMIT_EXCEEDED, "image_shape has too many values; at most %d axes are supported",
                          INLAY_MAX_RANK);
    dims[0] = infer_dim(infer, 0, 0);
    dims[1] =
        block != NULL ? dim_div(infer, infer_dim(infer, 0, 1), dim_product(infer, block, block_count)) : dim_unknown();
    for (uint32_t i = 0; i < count; i++)
        dims[2 + i] = image != NULL ? image[i] : dim_unknown();
    return infer_set_shape(infer, 0, count + 2, dims);
}

static const op_row onnx_col2im_rows[] = {
    { "Col2Im", 18, 0,
      "input:T, image_shape:int64, block_shape:int64 -> output:T; T=@all_ir4; dilations:is, pads:is, strides:is",
      infer_col2im },
};

const op_table op_onnx_col2im = { "ai.onnx", onnx_col2im_rows, OP_COUNT(onnx_col2im_rows) };
