#include "operators/indices.h"
#include "inlay/check.h"
#include "operators/args.h"

/* The loop has no branches, so the compiler vectorizes it. */
bool indices_inside(const kit_tensor *indices, int64_t first, int64_t count, int64_t dim)
{
    const int64_t *wide = (const int64_t *)indices->data + first;
    const int32_t *narrow = (const int32_t *)indices->data + first;
    int64_t outside = 0;

    INLAY_CHECK(first >= 0 && count >= 0 && first + count <= indices->count);
    if (indices->dtype == INLAY_INT64)
        for (int64_t i = 0; i < count; i++)
            outside |= (wide[i] < -dim) | (wide[i] >= dim);
    else
        for (int64_t i = 0; i < count; i++)
            outside |= (narrow[i] < -dim) | (narrow[i] >= dim);
    return outside == 0;
}

inlay_status indices_check(const kit_call *call, const kit_tensor *indices, int64_t dim)
{
    if (indices_inside(indices, 0, indices->count, dim))
        return INLAY_OK;
    for (int64_t i = 0; i < indices->count; i++) {
        int64_t index = arg_index(indices, i);

        if (index < -dim || index >= dim)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "indices[%lld] is %lld, outside [-%lld, %lld)",
                              (long long)i, (long long)index, (long long)dim, (long long)dim);
    }
    return INLAY_OK;
}
