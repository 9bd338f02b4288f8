/* plan/program/fold_run.c - runs a region once on host tensors, for constant folding. */
#include "base/checked.h"
#include "base/memory.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include "plan/program/compile.h"
#include "threads/run.h"

enum { FOLD_ALIGN = 64 };

/* A run in progress, with the bytes that outputs may still use. */
typedef struct fold_state {
    const fold_run *run;
    uint64_t bytes_left;
} fold_state;

static void *aligned_alloc_from(struct arena *arena, uint64_t bytes, uint64_t alignment)
{
    char *memory = bytes < SIZE_MAX - alignment ? arena_alloc(arena, (size_t)(bytes + alignment)) : NULL;

    return memory == NULL ? NULL : memory + (alignment - (uintptr_t)memory % alignment) % alignment;
}

static inlay_status allocate_tensor(fold_state *state, uint32_t i, uint32_t rank, const int64_t *dims)
{
    const fold_run *run = state->run;
    fold_tensor *tensor = &run->outputs[i];
    int64_t count;
    size_t bytes;

    INLAY_CHECK(i < run->output_count);
    if (rank > INLAY_MAX_RANK || !dims_count(dims, rank, &count) || !dtype_bytes(tensor->dtype, count, &bytes))
        return INLAY_SHAPE_MISMATCH;
    if (bytes > state->bytes_left)
        return INLAY_LIMIT_EXCEEDED;
    state->bytes_left -= bytes;
    tensor->rank = rank;
    tensor->bytes = bytes;
    tensor->dims = arena_copy(run->arena, dims, rank * sizeof *dims);
    tensor->data = run->owner != NULL && bytes >= GRAPH_LARGE_CONSTANT
                       ? graph_blob_alloc(run->owner, bytes)
                       : aligned_alloc_from(run->arena, bytes, FOLD_ALIGN);
    return tensor->dims == NULL || tensor->data == NULL ? INLAY_OUT_OF_MEMORY : INLAY_OK;
}

/* The memory of the input that output i may share and overwrite; NULL: none. */
static void *shared_memory(const fold_run *run, uint32_t i, uint32_t alias)
{
    const fold_tensor *output = &run->outputs[i], *input = &run->inputs[alias < run->input_count ? alias : 0];
    int64_t count;
    size_t bytes;

    return run->overwrites && alias < run->input_count && dims_count(output->dims, output->rank, &count) &&
                   dtype_bytes(output->dtype, count, &bytes) && bytes == input->bytes
               ? input->data
               : NULL;
}

static inlay_status allocate_output(void *ctx, uint32_t output, uint32_t rank, const int64_t *dims, inlay_buffer *out)
{
    fold_state *state = ctx;
    inlay_status status;

    if (output >= state->run->output_count)
        return INLAY_INVALID_ARGUMENT;
    status = allocate_tensor(state, output, rank, dims);
    if (status == INLAY_OK)
        *out = (inlay_buffer){ .handle = (uintptr_t)state->run->outputs[output].data,
                               .bytes = state->run->outputs[output].bytes };
    return status;
}

static char *allocate_string(void *ctx, uint64_t bytes)
{
    fold_state *state = ctx;

    if (bytes > state->bytes_left)
        return NULL;
    state->bytes_left -= bytes;
    return arena_alloc(state->run->arena, (size_t)bytes);
}

static void fill_arg(inlay_tensor_arg *arg, const fold_tensor *tensor)
{
    arg->buffer = (inlay_buffer){ .handle = (uintptr_t)tensor->data, .bytes = tensor->bytes };
    arg->dims = (int64_t *)(uintptr_t)tensor->dims;
    arg->rank = tensor->rank;
    arg->dtype = tensor->dtype;
}

inlay_status program_fold_region(const fold_run *fold, inlay_diag *diag)
{
    static const uint32_t never;
    const uint32_t *cancel = fold->cancel != NULL ? fold->cancel : &never;
    const inlay_provider *table = fold->provider->table;
    fold_state state = { fold, fold->max_bytes };
    const fold_tensor *outputs = fold->outputs;
    inlay_run run = { .cancel = cancel,
                      .max_threads = fold->max_threads,
                      .ctx = &state,
                      .output_alloc = allocate_output,
                      .string_alloc = allocate_string };
    inlay_output_plan *plans = arena_array(fold->arena, (size_t)fold->output_count + 1, sizeof *plans);
    inlay_tensor_arg *args = arena_array(fold->arena, (size_t)fold->input_count + fold->output_count + 1, sizeof *args);
    inlay_specialize_request request = { .struct_size = sizeof request,
                                         .values = fold->values,
                                         .value_count = fold->value_count,
                                         .value_stride = sizeof *fold->values,
                                         .max_threads = fold->max_threads,
                                         .workspace_alignment = FOLD_ALIGN,
                                         .outputs = plans,
                                         .output_count = fold->output_count,
                                         .output_stride = sizeof *plans };
    inlay_exec_args exec = { .struct_size = sizeof exec,
                             .run = &run,
                             .inputs = args,
                             .input_count = fold->input_count,
                             .output_count = fold->output_count,
                             .arg_stride = sizeof *args,
                             .cancel = cancel,
                             .diag = diag };
    inlay_instance *instance = NULL;
    inlay_status status = INLAY_OK;

    if (plans == NULL || args == NULL)
        return no_memory(diag, "to fold a node");
    for (uint32_t i = 0; i < fold->output_count; i++)
        plans[i].alias = INLAY_NONE;
    for (uint32_t i = 0; i < fold->output_count; i++) {
        int64_t elements;
        bool known = outputs[i].rank <= INLAY_MAX_RANK;
        for (uint32_t d = 0; known && d < outputs[i].rank; d++)
            known = outputs[i].dims[d] >= 0;
        if (known && !dims_count(outputs[i].dims, outputs[i].rank, &elements)) {
            status = INLAY_LIMIT_EXCEEDED;
            goto done;
        }
    }
    INLAY_TRY(table->specialize(fold->provider->state, fold->compiled, &request, &instance, diag));
    exec.outputs = args + fold->input_count;
    for (uint32_t i = 0; i < fold->input_count; i++)
        fill_arg(&args[i], &fold->inputs[i]);
    for (uint32_t i = 0; i < fold->output_count; i++) {
        void *shared = plans[i].kind == INLAY_OUTPUT_KNOWN ? shared_memory(fold, i, plans[i].alias) : NULL;

        if (shared != NULL) {
            fold->outputs[i].data = shared;
            fold->outputs[i].bytes = fold->inputs[plans[i].alias].bytes;
        } else if (plans[i].kind == INLAY_OUTPUT_KNOWN) {
            INLAY_TRY(allocate_tensor(&state, i, outputs[i].rank, outputs[i].dims));
        } else if (plans[i].kind == INLAY_OUTPUT_BOUNDED) {
            status = INLAY_UNSUPPORTED; /* too rare to support */
            goto done;
        }
        fill_arg(&exec.outputs[i], &outputs[i]);
    }
    if (request.workspace_bytes > 0) {
        uint64_t alignment = request.workspace_alignment > FOLD_ALIGN ? request.workspace_alignment : FOLD_ALIGN;
        void *room = NULL;
        if (request.workspace_bytes <= fold->max_bytes + (1u << 20) && program_workspace_status(&request) == INLAY_OK)
            room = aligned_alloc_from(fold->arena, request.workspace_bytes, alignment);
        if (room == NULL) {
            status = INLAY_LIMIT_EXCEEDED;
            goto done;
        }
        exec.workspace = (inlay_buffer){ .handle = (uintptr_t)room, .bytes = request.workspace_bytes };
    }
    status = table->execute(fold->provider->state, fold->compiled, instance, &exec);
done:
    if (instance != NULL)
        table->release_instance(fold->provider->state, fold->compiled, instance);
    return status;
}
