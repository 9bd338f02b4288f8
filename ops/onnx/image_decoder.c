/* onnx/image_decoder.c - decoding of image files. */
#include "schema.h"
#include <string.h>

/* [height, width, channels]; the first two are known at run time only. */
static inlay_status infer_image_decoder(op_infer *infer)
{
    bool grey = strcmp(infer_attr_string(infer, "pixel_format", "RGB"), "Grayscale") == 0;
    inlay_dim dims[] = { dim_unknown(), dim_unknown(), dim_fixed(grey ? 1 : 3) };

    return infer_set_shape(infer, 0, 3, dims);
}

static const op_row onnx_image_decoder_rows[] = {
    { "ImageDecoder", 20, 0, "encoded_stream:T1 -> image:T2; T1=uint8, T2=uint8; pixel_format:s='RGB'",
      infer_image_decoder },
};

const op_table op_onnx_image_decoder = { "ai.onnx", onnx_image_decoder_rows, OP_COUNT(onnx_image_decoder_rows) };
