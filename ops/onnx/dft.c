/* onnx/dft.c - discrete Fourier transforms. */
#include "schema.h"

/* The element of an integer input; false if it is not known. */
static bool read_scalar(op_infer *infer, uint32_t i, int64_t *out)
{
    uint32_t count;

    return infer_ints(infer, i, out, 1, &count) && count == 1;
}

/* ONNX DFT-20: the transformed axis has dft_length elements, with onesided dft_length / 2 + 1. A onesided inverse
 * transform returns real numbers. */
static inlay_status infer_dft(op_infer *infer)
{
    uint32_t rank = infer_rank(infer, 0), at;
    bool onesided = infer_attr_int(infer, "onesided", 0) != 0, inverse = infer_attr_int(infer, "inverse", 0) != 0;
    int64_t axis = infer_attr_int(infer, "axis", 1), value;
    inlay_dim dims[INLAY_MAX_RANK], length;
    inlay_status status = INLAY_OK;

    if (rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    if (rank < 2)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH, "the input has rank %u; it needs at least 2", rank);
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = infer_dim(infer, 0, d);
    if (infer->node->since_version >= 20) {
        axis = -2;
        if (infer_has_in(infer, 2) && !read_scalar(infer, 2, &axis)) {
            for (uint32_t d = 0; d < rank; d++)
                dims[d] = dim_unknown();
            return infer_set_shape(infer, 0, rank, dims);
        }
    }
    INLAY_TRY(infer_axis(infer, axis, rank, "axis", &at));
    length = dims[at];
    if (onesided && inverse)
        length = dim_mul(infer, dim_sub(infer, length, dim_fixed(1)), dim_fixed(2));
    if (infer_has_in(infer, 1)) {
        length = dim_unknown();
        if (read_scalar(infer, 1, &value)) {
            if (value < 1)
                return infer_fail(infer, INLAY_INVALID_ARGUMENT, "dft_length is %lld", (long long)value);
            length = dim_fixed(value);
        }
    }
    if (onesided && !inverse)
        length = dim_add(infer, dim_div(infer, length, dim_fixed(2)), dim_fixed(1));
    dims[at] = length;
    dims[rank - 1] = dim_fixed(onesided && inverse ? 1 : 2);
    INLAY_TRY(infer_set_shape(infer, 0, rank, dims));
done:
    return status;
}

/* ONNX STFT-17: [batch, frames, bins, 2]. */
static inlay_status infer_stft(op_infer *infer)
{
    inlay_dim length = dim_unknown(), frames = dim_unknown(), signal = infer_dim(infer, 0, 1), bins;
    int64_t value;

    if (infer_has_in(infer, 3)) {
        if (read_scalar(infer, 3, &value))
            length = dim_fixed(value);
    } else if (infer_has_in(infer, 2)) {
        length = infer_dim(infer, 2, 0);
    }
    if (length.kind == INLAY_DIM_FIXED && length.value < 1)
        return infer_fail(infer, INLAY_INVALID_ARGUMENT, "frame_length is %lld", (long long)length.value);
    if (read_scalar(infer, 1, &value)) {
        if (value < 1)
            return infer_fail(infer, INLAY_INVALID_ARGUMENT, "frame_step is %lld", (long long)value);
        frames = dim_add(infer, dim_div(infer, dim_sub(infer, signal, length), dim_fixed(value)), dim_fixed(1));
        if (frames.kind == INLAY_DIM_FIXED && frames.value < 1)
            return infer_fail(infer, INLAY_SHAPE_MISMATCH, "the signal is shorter than one frame");
    }
    bins = length;
    if (infer_attr_int(infer, "onesided", 1) != 0)
        bins = dim_add(infer, dim_div(infer, length, dim_fixed(2)), dim_fixed(1));
    const inlay_dim dims[] = { infer_dim(infer, 0, 0), frames, bins, dim_fixed(2) };
    return infer_set_shape(infer, 0, 4, dims);
}

static const op_row onnx_dft_rows[] = {
    { "DFT", 17, 0,
      "input:T1, dft_length?:T2 -> output:T1; T1=@float_ir4, T2=int32|int64; axis:i=1, inverse:i=0, onesided:i=0",
      infer_dft },
    { "DFT", 20, 0,
      "input:T1, dft_length?:T2, axis?:int64 -> output:T1; T1=@float_ir4, T2=int32|int64; inverse:i=0, onesided:i=0",
      infer_dft },

    { "STFT", 17, 0,
      "signal:T1, frame_step:T2, window?:T1, frame_length?:T2 -> output:T1; T1=@float_ir4, T2=int32|int64; "
      "onesided:i=1",
      infer_stft },
};

const op_table op_onnx_dft = { "ai.onnx", onnx_dft_rows, OP_COUNT(onnx_dft_rows) };
