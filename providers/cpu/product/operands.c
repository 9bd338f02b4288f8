/* Operands of products: which are constants that are packed, and matrices as they lie. */
#include "region/build.h"

/* C of Gemm as a bias: one element for each column. */
static bool is_row(const cpu_build *build, uint32_t c, int64_t columns)
{
    uint32_t rank = build->ranks[c];

    return build->compiled->values[c].constant != INLAY_NONE && rank >= 1 && build->dims[c][rank - 1] == columns &&
           cpu_count(build, c) == columns;
}

bool cpu_is_packed(const cpu_build *build, const cpu_op *op)
{
    uint32_t w = op->in[1];
    bool row = op->in_count < 3 || op->in[2] == INLAY_NONE ||
               is_row(build, op->in[2], build->dims[op->out[0]][build->ranks[op->out[0]] - 1]);

    return build->compiled->values[w].constant != INLAY_NONE && build->ranks[w] == 2 && !op->product.trans_a && row &&
           cpu_count(build, op->in[0]) > 0;
}

inlay_status cpu_read_matrix(cpu_build *build, uint32_t value, uint32_t rank, bool trans, cpu_place *out)
{
    uint32_t own = build->ranks[value];
    int64_t dims[CPU_MAX_RANK], strides[CPU_MAX_RANK];
    const int64_t *s;
    inlay_status status = cpu_read(build, value, out);

    if (status != INLAY_OK)
        return status;
    s = out->md.strides;
    if (memory_desc_is_blocked(&out->md) || !memory_desc_is_dense(&out->md) || (s[own - 1] != 1 && s[own - 2] != 1)) {
        status = cpu_read_plain(build, value, out);
        if (status != INLAY_OK)
            return status;
        s = out->md.strides;
    }
    for (uint32_t d = 0; d < rank; d++) {
        dims[d] = d + own < rank ? 1 : build->dims[value][d + own - rank];
        strides[d] = d + own < rank ? cpu_count(build, value) : s[d + own - rank];
    }
    if (trans) {
        int64_t t = dims[rank - 1];

        dims[rank - 1] = dims[rank - 2];
        dims[rank - 2] = t;
        t = strides[rank - 1];
        strides[rank - 1] = strides[rank - 2];
        strides[rank - 2] = t;
    }
    /* Of an axis of one element the stride says nothing, but kernels take it for the distance of rows. */
    if (dims[rank - 1] == 1)
        strides[rank - 1] = 1;
    else if (dims[rank - 2] == 1)
        strides[rank - 2] = strides[rank - 1] == 1 ? dims[rank - 1] : 1;
    memory_desc_strides(&out->md, rank, dims, strides);
    return INLAY_OK;
}
