/* SparseToDense of ai.inlay: converts a sparse matrix to a dense tensor. It is used if no provider supports the sparse
 * matrix directly (host/runtime/passes/sparse_constants.c), or if placement rules exclude the providers that do. */
#include "operators/operators.h"
#include <string.h>

static inlay_status run_sparse(const kit_call *call)
{
    const kit_tensor *values = &call->in[0], *indices = &call->in[1], *output = &call->out[0];
    float *to = output->data;

    if (values->count != indices->count)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "%lld values and %lld indices", (long long)values->count,
                          (long long)indices->count);
    memset(to, 0, (size_t)output->count * sizeof *to);
    for (int64_t i = 0; i < values->count; i++) {
        int64_t at;

        memcpy(&at, (const char *)indices->data + i * (int64_t)sizeof at, sizeof at);
        if (at < 0 || at >= output->count)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "index %lld is out of range", (long long)at);
        memcpy(&to[at], (const char *)values->data + i * (int64_t)sizeof *to, sizeof *to);
    }
    return INLAY_OK;
}

static const kit_kernel kernels[] = {
    { .domain = "ai.inlay", .op_type = "SparseToDense", .since_max = 1, .run = run_sparse },
};
const kit_table reference_sparse = { kernels, KIT_COUNT(kernels) };
