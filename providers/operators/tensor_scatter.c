/* TensorScatter: ONNX 24. Writes the rows of `update` to a cache; each batch has its own position in the cache. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/args.h"
#include "operators/operators.h"
#include "operators/strided.h"

typedef struct cache_state {
    int64_t axis;
    bool circular;
} cache_state;

static inlay_status prepare_cache(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const char *mode = kit_attr_string(node->info, "mode", "linear");
    inlay_status status;

    if (strcmp(mode, "linear") != 0 && strcmp(mode, "circular") != 0)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "mode '%s' is neither linear nor circular", mode);
    status = arg_allocate_state(sizeof(cache_state), out_state, diag);
    if (status == INLAY_OK)
        *(cache_state *)*out_state =
            (cache_state){ kit_attr_int(node->info, "axis", -2), strcmp(mode, "circular") == 0 };
    return status;
}

static inlay_status shape_cache(const void *state, kit_plan *plan, inlay_diag *diag)
{
    (void)state;
    (void)diag;
    if (strided_is_packed(plan->in[0].dtype))
        plan->workspace_bytes = (uint64_t)plan->in[0].count + (uint64_t)plan->in[1].count;
    return INLAY_OK;
}

static inlay_status check_cache(const kit_call *call, uint32_t axis)
{
    const kit_tensor *cache = &call->in[0], *update = &call->in[1];

    if (axis == 0)
        return inlay_fail(call->diag, INLAY_INVALID_MODEL, "axis is 0, which is the batch");
    if (update->rank != cache->rank)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "update has rank %u, the cache %u", update->rank,
                          cache->rank);
    for (uint32_t i = 0; i < cache->rank; i++)
        if (i == axis ? update->dims[i] > cache->dims[i] : update->dims[i] != cache->dims[i])
            return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "update has size %lld on axis %u, the cache %lld",
                              (long long)update->dims[i], i, (long long)cache->dims[i]);
    if (kit_has_input(call, 2) && (call->in[2].rank != 1 || call->in[2].count != cache->dims[0]))
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "write_indices has %lld values for a batch of %lld",
                          (long long)call->in[2].count, (long long)cache->dims[0]);
    return INLAY_OK;
}

/* Copies the rows of update into the cache at `to`. Elements have whole bytes. */
static inlay_status write_rows(const kit_call *call, uint32_t axis, const char *update, char *to)
{
    const kit_tensor *cache = &call->in[0];
    const bool circular = ((const cache_state *)call->state)->circular;
    const int64_t rows = call->in[1].dims[axis], limit = cache->dims[axis];
    const int64_t planes = strided_product(cache->dims, 1, axis);
    const int64_t bytes = strided_product(cache->dims, axis + 1, cache->rank) * strided_element_bytes(cache->dtype);

    INLAY_CHECK(axis > 0 && axis < cache->rank);
    for (int64_t batch = 0; batch < cache->dims[0] && rows > 0; batch++) {
        const int64_t at = kit_has_input(call, 2) ? ((const int64_t *)call->in[2].data)[batch] : 0;
        const int64_t first = circular && limit > 0 ? at % limit : at;

        if (at < 0 || (!circular && at > limit - rows))
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT,
                              "write_indices[%lld] is %lld: %lld rows exceed the size %lld", (long long)batch,
                              (long long)at, (long long)rows, (long long)limit);
        for (int64_t plane_index = 0; plane_index < planes; plane_index++) {
            const char *from = update + (batch * planes + plane_index) * rows * bytes;
            char *plane = to + (batch * planes + plane_index) * limit * bytes;
            const int64_t until_end = rows < limit - first ? rows : limit - first;

            memcpy(plane + first * bytes, from, (size_t)(until_end * bytes));
            if (rows > until_end)
                memcpy(plane, from + until_end * bytes, (size_t)((rows - until_end) * bytes));
        }
    }
    return INLAY_OK;
}

static inlay_status run_cache(const kit_call *call)
{
    const kit_tensor *cache = &call->in[0], *update = &call->in[1], *output = &call->out[0];
    inlay_status status = INLAY_OK;
    uint32_t axis;

    INLAY_TRY(arg_axis(call->diag, ((const cache_state *)call->state)->axis, cache->rank, "axis", &axis));
    INLAY_TRY(arg_expect_dims(call->diag, output, cache->rank, cache->dims));
    INLAY_TRY(check_cache(call, axis));
    if (strided_is_packed(cache->dtype)) {
        uint8_t *to = call->workspace, *from = to + cache->count;

        strided_unpack(cache->dtype, cache->data, cache->count, to);
        strided_unpack(cache->dtype, update->data, update->count, from);
        INLAY_TRY(write_rows(call, axis, (const char *)from, (char *)to));
        strided_pack(cache->dtype, to, cache->count, output->data);
    } else {
        INLAY_TRY(strided_memcpy(call, output->data, cache->data, kit_bytes(cache->dtype, cache->count)));
        INLAY_TRY(write_rows(call, axis, update->data, output->data));
    }
done:
    return status;
}

static const kit_kernel kernels[] = {
    { .op_type = "TensorScatter",
      .flags = KIT_IN_PLACE_FIRST,
      .prepare = prepare_cache,
      .shape = shape_cache,
      .run = run_cache },
};
const kit_table OPERATOR(operators_tensor_scatter) = { kernels, KIT_COUNT(kernels) };
