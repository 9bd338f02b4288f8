/* onnx/image_decoder.c - decoding of image files. */
#include "schema.h"

static const op_row rows[] = {
    { "ImageDecoder", 20, 0, "encoded_stream:T1 -> image:T2; T1=uint8, T2=uint8; pixel_format:s='RGB'", NULL },
};

const op_table op_onnx_image_decoder = { "ai.onnx", rows, OP_COUNT(rows) };
