/* exec/run/pool.c - the pool of tensors that a run reuses, within the memory limits. */
#include "base/checked.h"
#include "exec/run/run.h"
#include "inlay/check.h"
#include <string.h>

enum { GROWN_BYTES = 1 << 20, GROWN_SHARE = 8 };

static void drop_workspace(run_tensors *tensors)
{
    run_memory_give(tensors->memory, false, tensors->workspace, tensors->workspace_room);
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

/* Called before an allocation of `bytes` bytes: frees tensors of the pool, the largest first, and then the workspace if
 * it is idle. So idle memory makes the session only a little larger than the most that its runs had in use at any
 * time. */
static void limit_idle(run_tensors *tensors, uint64_t bytes, bool workspace_idle)
{
    const uint64_t idle = workspace_idle ? tensors->workspace_room : 0;
    uint64_t in_use;

    if (tensors->memory == NULL)
        return;
    in_use = run_memory_used(tensors->memory) - tensors->pool_bytes - idle + bytes;
    if (in_use > tensors->most_bytes)
        tensors->most_bytes = in_use;
    while (tensors->pool_count > 0 && in_use + idle + tensors->pool_bytes > tensors->most_bytes + POOL_SPARE_BYTES) {
        uint32_t largest = 0;

        for (uint32_t i = 1; i < tensors->pool_count; i++)
            if (tensors->pool[i]->capacity > tensors->pool[largest]->capacity)
                largest = i;
        value_unref(take_out(tensors, largest));
    }
    if (idle > 0 && in_use + idle > tensors->most_bytes + POOL_SPARE_BYTES)
        drop_workspace(tensors);
}

/* Notes the class of a refusal, because a plugin may describe it in its own words. Returns the status. */
static inlay_status note_refusal(run_shared *shared, inlay_status status, const inlay_diag *why, inlay_diag *diag)
{
    if (status == INLAY_LIMIT_EXCEEDED)
        __atomic_store_n(&shared->tensors.refused_class, why->error_class, __ATOMIC_RELAXED);
    if (status != INLAY_OK && diag != NULL && diag->struct_size >= sizeof *diag) {
        const uint64_t size = diag->struct_size;

        *diag = *why;
        diag->struct_size = size;
    }
    return status;
}

inlay_status run_take(run_shared *shared, uint64_t bytes, uint64_t alignment, void **out_memory, inlay_diag *diag)
{
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status = run_memory_take(shared->tensors.memory, false, bytes, alignment, out_memory, &why);

    if (status != INLAY_OK && has_idle_memory(shared)) {
        run_shared_drop(shared);
        status = run_memory_take(shared->tensors.memory, false, bytes, alignment, out_memory, &why);
    }
    return note_refusal(shared, status, &why, diag);
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
        limit_idle(tensors, bytes, false);
        status = run_take(shared, bytes, alignment, &tensors->workspace, diag);
        if (status == INLAY_OK)
            tensors->workspace_room = bytes;
    } else {
        limit_idle(tensors, 0, false);
    }
    *out_memory = tensors->workspace;
    return status;
}

/* Allocates a tensor; empties the pool and tries again if there is not enough memory. */
static inlay_status make_tensor(run_shared *shared, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                                inlay_value **out_value, inlay_diag *diag)
{
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status = value_create_from(shared->tensors.memory, dtype, rank, dims, false, out_value, &why);

    if ((status == INLAY_OUT_OF_MEMORY || status == INLAY_LIMIT_EXCEEDED) && has_idle_memory(shared)) {
        run_shared_drop(shared);
        status = value_create_from(shared->tensors.memory, dtype, rank, dims, false, out_value, &why);
    }
    return note_refusal(shared, status, &why, diag);
}

/* Whether an idle tensor is a little too small. */
static bool is_growth(const run_tensors *tensors, size_t need)
{
    for (uint32_t i = 0; i < tensors->pool_count && need >= GROWN_BYTES; i++)
        if (tensors->pool[i]->capacity < need &&
            need - tensors->pool[i]->capacity <= tensors->pool[i]->capacity / GROWN_SHARE)
            return true;
    return false;
}

/* Allocates a tensor of `need` bytes with a little room: tensors that grow from step to step, as in a loop that
 * concatenates, then seldom need new memory. The pages of the room are not touched. NULL: the limits forbid it. */
static inlay_value *make_grown(run_shared *shared, size_t need, inlay_dtype dtype, uint32_t rank, const int64_t *dims)
{
    const int64_t room = (int64_t)(need + need / GROWN_SHARE);
    inlay_value *value = NULL;

    if (dtype != INLAY_STRING &&
        value_create_from(shared->tensors.memory, INLAY_UINT8, 1, &room, false, &value, NULL) == INLAY_OK &&
        !value_reshape(value, dtype, rank, dims)) {
        value_unref(value);
        value = NULL;
    }
    return value;
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
    bool grows;

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
    grows = is_growth(&shared->tensors, need);
    limit_idle(&shared->tensors, need, shared->dynamic == NULL);
    *out_value = grows ? make_grown(shared, need, dtype, rank, dims) : NULL;
    return *out_value != NULL ? INLAY_OK : make_tensor(shared, dtype, rank, dims, out_value, diag);
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

/* The smallest tensor of a full pool leaves it for a larger one. */
static void make_place(run_tensors *tensors, size_t capacity)
{
    uint32_t smallest = 0;

    for (uint32_t i = 1; i < tensors->pool_count; i++)
        if (tensors->pool[i]->capacity < tensors->pool[smallest]->capacity)
            smallest = i;
    if (tensors->pool_count == POOL_SIZE && tensors->pool[smallest]->capacity < capacity)
        value_unref(take_out(tensors, smallest));
}

void pool_give(run_shared *shared, inlay_value *value)
{
    run_tensors *tensors = &shared->tensors;

    if (value == NULL || shared->hang.unwinding)
        return;
    if (!value_is_reusable(value)) {
        value_unref(value);
        return;
    }
    if (tensors->pool_count == POOL_SIZE)
        make_place(tensors, value->capacity);
    if (tensors->pool_count == POOL_SIZE) {
        value_unref(value);
        return;
    }
    tensors->pool[tensors->pool_count++] = value;
    tensors->pool_bytes += value->capacity;
}
