/* Operands of matrix multiplications: views of computed matrices. */
#include "cpu/region/build.h"
#include "cpu/weights/read.h"
#include "inlay/check.h"

inlay_status cpu_read_matrix(cpu_build *build, uint32_t value, uint32_t rank, bool trans, cpu_place *out)
{
    uint32_t own_rank = build->ranks[value];
    int64_t dims[CPU_MAX_RANK], strides[CPU_MAX_RANK];
    const int64_t *source_strides;
    inlay_status status = cpu_read(build, value, out);

    INLAY_CHECK(rank >= 2 && rank <= CPU_MAX_RANK);
    if (status != INLAY_OK)
        return status;
    source_strides = out->layout.strides;
    if (!layout_is_dense(&out->layout) || (source_strides[own_rank - 1] != 1 && source_strides[own_rank - 2] != 1)) {
        status = cpu_read_plain(build, value, out);
        if (status != INLAY_OK)
            return status;
        source_strides = out->layout.strides;
    }
    for (uint32_t d = 0; d < rank; d++) {
        dims[d] = d + own_rank < rank ? 1 : build->dims[value][d + own_rank - rank];
        strides[d] = d + own_rank < rank ? cpu_count(build, value) : source_strides[d + own_rank - rank];
    }
    if (trans) {
        int64_t swapped = dims[rank - 1];

        dims[rank - 1] = dims[rank - 2];
        dims[rank - 2] = swapped;
        swapped = strides[rank - 1];
        strides[rank - 1] = strides[rank - 2];
        strides[rank - 2] = swapped;
    }
    /* The stride of an axis of one element is arbitrary, but kernels use it as the distance of rows. */
    if (dims[rank - 1] == 1)
        strides[rank - 1] = 1;
    else if (dims[rank - 2] == 1)
        strides[rank - 2] = strides[rank - 1] == 1 ? dims[rank - 1] : 1;
    layout_strides(&out->layout, rank, dims, strides);
    return INLAY_OK;
}
