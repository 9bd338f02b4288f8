/* In which type an elementwise op is computed. */
#include "region.h"

bool vr_is_float(inlay_dtype dtype)
{
    return dtype < 32 && (VR_FLOATS & INLAY_DTYPE_BIT(dtype)) != 0;
}

vr_arithmetic vr_arithmetic_of(inlay_dtype dtype)
{
    return vr_is_float(dtype) ? VR_SINGLE : VR_INTEGER;
}

bool vr_computes_in(const vr_build *build, const vr_op *op, vr_arithmetic in)
{
    const vr_family *family = op->row->family;
    const bool is_function = family == &vr_pointwise;
    const inlay_dtype dtype = vr_in(build, op, is_function && op->row->number == OP_WHERE)->dtype,
                      y = vr_out(build, op, 0)->dtype;

    if (family == &vr_quantize || family == &vr_dequantize)
        return in == VR_SINGLE;
    if (dtype == INLAY_DOUBLE || y == INLAY_DOUBLE)
        return in == VR_DOUBLE;
    if (vr_is_float(dtype) || vr_is_float(y) ||
        (is_function && op->row->number == OP_POW && vr_is_float(vr_in(build, op, 1)->dtype)))
        return in == VR_SINGLE;
    return in == VR_INTEGER || (in == VR_SINGLE && dtype == INLAY_BOOL);
}
