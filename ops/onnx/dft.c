/* onnx/dft.c - discrete Fourier transforms. */
#include "schema.h"

/* The one element of integer input i, or unknown. */
static inlay_dim scalar_of(op_infer *infer, uint32_t i)
{
    uint32_t count;
    const inlay_dim *elements = infer_elements(infer, i, &count);

    return elements != NULL && count == 1 ? elements[0] : dim_unknown();
}

/* How many of n frequencies of a real signal are not mirror images. */
static inlay_dim half_spectrum(op_infer *infer, inlay_dim n)
{
    return dim_add(infer, dim_div(infer, n, dim_fixed(2)), dim_fixed(1));
}

/* [..., n, ..., 1 or 2] gives [..., dft_length, ..., 2], half of it when one-sided. The axis is an attribute in version
 * 17 and an input, -2 by default, later. A one-sided inverse gives back a real signal whose length may be odd. */
static inlay_status infer_dft(op_infer *infer)
{
    uint32_t rank = infer_rank(infer, 0), at;
    bool onesided = infer_attr_int(infer, "onesided", 0) != 0, inverse = infer_attr_int(infer, "inverse", 0) != 0;
    inlay_dim dims[INLAY_MAX_RANK], axis = dim_fixed(infer_attr_int(infer, "axis", 1));
    inlay_status status = INLAY_OK;

    if (rank == INLAY_RANK_UNKNOWN)
        return INLAY_OK;
    if (rank < 2)
        return infer_fail(infer, INLAY_SHAPE_MISMATCH,
                          "input has rank %u; it needs a signal axis and a last one for the "
                          "real and imaginary parts",
                          rank);
    if (infer->node->since_version >= 20)
        axis = infer_has_in(infer, 2) ? scalar_of(infer, 2) : dim_fixed(-2);
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = infer_dim(infer, 0, d);
    if (axis.kind != INLAY_DIM_FIXED) {
        for (uint32_t d = 0; d + 1 < rank; d++)
            dims[d] = dim_unknown();
    } else {
        INLAY_TRY(infer_axis(infer, axis.value, rank, "axis", &at));
        if (infer_has_in(infer, 1))
            dims[at] = scalar_of(infer, 1);
        if (onesided)
            dims[at] = inverse ? dim_unknown() : half_spectrum(infer, dims[at]);
    }
    dims[rank - 1] = onesided && inverse ? dim_unknown() : dim_fixed(2);
    status = infer_set_shape(infer, 0, rank, dims);
done:
    return status;
}

/* signal [N, L, 1 or 2] gives [N, (L - frame_length) / frame_step + 1, bins, 2]; a frame is as long as its window. */
static inlay_status infer_stft(op_infer *infer)
{
    inlay_dim step = scalar_of(infer, 1), length = infer_dim(infer, 2, 0), dims[4];

    if (infer_has_in(infer, 3))
        length = scalar_of(infer, 3);
    dims[0] = infer_dim(infer, 0, 0);
    dims[1] = dim_div(infer, dim_sub(infer, infer_dim(infer, 0, 1), length), step);
    dims[1] = dim_add(infer, dims[1], dim_fixed(1));
    dims[2] = infer_attr_int(infer, "onesided", 1) != 0 ? half_spectrum(infer, length) : length;
    dims[3] = dim_fixed(2);
    return infer_set_shape(infer, 0, 4, dims);
}

static const op_row rows[] = {
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

const op_table op_onnx_dft = { "ai.onnx", rows, OP_COUNT(rows) };
