/* exec/run/pool.c - the pool of tensors that a run reuses, within the memory limits. */
#include "base/checked.h"
#include "exec/run/run.h"
#include "inlay/check.h"
#include <string.h>

static void drop_workspace(run_tensors *tensors)
{
    run_memory_give(tensors->memory, tensors->workspace, tensors->workspace_room);
    tensors->workspace = NULL;
    tensors->workspace_room = 0;
}

/* Returns whether run_shared_drop() would free memory. */
static bool has_idle_memory(const run_shared *shared)
{
    return shared->tensors.pool_count > 0 || (shared->dynamic == NULL && shared->tensors.workspace != NULL);
}

/* Takes tensor i out of the pool. */
static inlay_value *take_out(run_tensors *tensors, uint32_t i)
{
    inlay_value *value = tensors->pool[i];

    INLAY_CHECK(i < tensors->pool_count && tensors->pool_count <= POOL_SIZE && tensors->pool_bytes >= value->capacity);
    tensors->pool[i] = tensors->pool[--tensors->pool_count];
    tensors->pool_bytes -= value->capacity;
    return value;
}

void run_shared_drop(run_shared *shared)
{
    if (shared->dynamic == NULL)
        drop_workspace(&shared->tensors);
    while (shared->tensors.pool_count > 0)
        value_unref(take_out(&shared->tensors, shared->tensors.pool_count - 1));
    shared->tensors.most_bytes = 0;
}

/* Before an allocation of `bytes` bytes: frees tensors of the pool, the largest first, so that idle memory does not make
 * the session larger than what its runs had in use at any time, plus a little. */
static void limit_pool(run_tensors *tensors, uint64_t bytes)
{
    const uint64_t used = run_memory_used(tensors->memory), in_use = used - tensors->pool_bytes + bytes;

    if (in_use > tensors->most_bytes)
        tensors->most_bytes = in_use;
    while (tensors->pool_count > 0 && in_use + tensors->pool_bytes > tensors->most_bytes + POOL_SPARE_BYTES) {
        uint32_t largest = 0;

        for (uint32_t i = 1; i < tensors->pool_count; i++)
            if (tensors->pool[i]->capacity > tensors->pool[largest]->capacity)
                largest = i;
        value_unref(take_out(tensors, largest));
    }
}

inlay_status run_take(run_shared *shared, uint64_t bytes, uint64_t alignment, void **out_memory, inlay_diag *diag)
{
    inlay_status status = run_memory_take(shared->tensors.memory, bytes, alignment, out_memory, diag);

    if (status == INLAY_OK || !has_idle_memory(shared))
        return status;
    run_shared_drop(shared);
    return run_memory_take(shared->tensors.memory, bytes, alignment, out_memory, diag);
}

inlay_status run_take_workspace(run_shared *shared, uint64_t bytes, uint64_t alignment, void **out_memory,
                                inlay_diag *diag)
{
    run_tensors *tensors = &shared->tensors;
    inlay_status status = INLAY_OK;

    INLAY_CHECK(shared->dynamic == NULL);
    if (bytes > tensors->workspace_room || (uintptr_t)tensors->workspace % alignment != 0) {
        status = run_check_tensor_size(shared, bytes, diag);
        if (status != INLAY_OK)
            return status;
        drop_workspace(tensors);
        status = run_take(shared, bytes, alignment, &tensors->workspace, diag);
        if (status == INLAY_OK)
            tensors->workspace_room = bytes;
    }
    *out_memory = tensors->workspace;
    return status;
}

/* Allocates a tensor; empties the pool and tries again if there is not enough memory. */
static inlay_status make_tensor(run_shared *shared, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                                inlay_value **out_value, inlay_diag *diag)
{
    inlay_status status = value_create_from(shared->tensors.memory, dtype, rank, dims, false, out_value, diag);

    if ((status != INLAY_OUT_OF_MEMORY && status != INLAY_LIMIT_EXCEEDED) || !has_idle_memory(shared))
        return status;
    run_shared_drop(shared);
    return value_create_from(shared->tensors.memory, dtype, rank, dims, false, out_value, diag);
}

inlay_status run_check_tensor_size(const run_shared *shared, uint64_t bytes, inlay_diag *diag)
{
    if (bytes <= shared->tensors.max_bytes)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_LIMIT_EXCEEDED,
                      "a tensor of %llu bytes is above the limit of %llu; raise max_run_bytes if that is meant",
                      (unsigned long long)bytes, (unsigned long long)shared->tensors.max_bytes);
}

inlay_status pool_take(run_shared *shared, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                       inlay_value **out_value, inlay_diag *diag)
{
    uint32_t best = POOL_SIZE;
    size_t need = 0;
    int64_t count;
    inlay_status status;

    /* make_tensor() reports an invalid shape. */
    if (rank <= INLAY_MAX_RANK && (!dims_count(dims, rank, &count) || !dtype_bytes(dtype, count, &need)))
        return make_tensor(shared, dtype, rank, dims, out_value, diag);
    status = run_check_tensor_size(shared, need, diag);
    if (status != INLAY_OK)
        return status;
    INLAY_CHECK(shared->tensors.pool_count <= POOL_SIZE);
    for (uint32_t i = 0; i < shared->tensors.pool_count; i++)
        if (shared->tensors.pool[i]->capacity >= need && shared->tensors.pool[i]->capacity <= need * 2 + 4096 &&
            (best == POOL_SIZE || shared->tensors.pool[i]->capacity < shared->tensors.pool[best]->capacity))
            best = i;
    if (best < POOL_SIZE && value_reshape(shared->tensors.pool[best], dtype, rank, dims)) {
        *out_value = take_out(&shared->tensors, best);
        if (dtype == INLAY_STRING)
            memset(inlay_buffer_host(&(*out_value)->buffer), 0, (*out_value)->buffer.bytes);
        return INLAY_OK;
    }
    if (shared->tensors.memory != NULL)
        limit_pool(&shared->tensors, need);
    return make_tensor(shared, dtype, rank, dims, out_value, diag);
}

inlay_status pool_value(run_shared *shared, const run_value *value, inlay_value **out_value, inlay_diag *diag)
{
    inlay_status status;

    if (value->kind != INLAY_KIND_TENSOR || value->owner != NULL || value->dtype == INLAY_STRING)
        return run_value_to_object(value, out_value, diag);
    status = pool_take(shared, value->dtype, value->rank, value->dims, out_value, diag);
    if (status == INLAY_OK && (*out_value)->buffer.bytes > 0)
        memcpy(value_data(*out_value), inlay_buffer_host(&value->buffer), (size_t)(*out_value)->buffer.bytes);
    return status;
}

void pool_give(run_shared *shared, inlay_value *value)
{
    if (value == NULL || shared->hang.unwinding)
        return;
    if (shared->tensors.pool_count < POOL_SIZE && value_is_reusable(value)) {
        shared->tensors.pool[shared->tensors.pool_count++] = value;
        shared->tensors.pool_bytes += value->capacity;
    } else {
        value_unref(value);
    }
}
