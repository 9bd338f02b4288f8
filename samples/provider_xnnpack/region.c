/* Regions: compile converts the weights, specialize builds a subgraph and a runtime for concrete shapes, execute runs
 * it between two changes of layout. */
#include "library.h"
#include "provider.h"
#include <unistd.h>

enum { ALIGNMENT = 64, SMALL_CONSTANT = 16 };

static inlay_status failure(enum xnn_status status, const char *what, inlay_diag *diag)
{
    if (status == xnn_status_out_of_memory)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "XNNPACK has no memory (%s)", what);
    return inlay_fail(diag, INLAY_UNSUPPORTED, "XNNPACK rejects the region (%s: status %d)", what, (int)status);
}

/* States which constants the host may release. */
static void report_constants(const inlay_compile_request *request, const inlay_compiled *compiled)
{
    for (uint32_t borrowed = 0; borrowed < 2; borrowed++)
        for (uint32_t n = 0; n < request->node_count; n++) {
            const inlay_node_info *node = inlay_graph_node(request->graph, request->nodes[n]);

            for (uint32_t i = 0; i < node->input_count && i < MOST_INPUTS; i++) {
                const inlay_value_info *value = inlay_graph_value(request->graph, node->inputs[i]);

                if (value != NULL && (value->flags & INLAY_VALUE_CONSTANT) != 0 &&
                    compiled->constants[n].borrowed[i] == (borrowed != 0))
                    request->constants[node->inputs[i]] = borrowed != 0 ? INLAY_CONST_BORROWED : INLAY_CONST_COPIED;
            }
        }
}

inlay_status region_compile(void *state, const inlay_compile_request *request, inlay_compiled **out_compiled,
                            inlay_diag *diag)
{
    struct provider *provider = state;
    inlay_compiled *compiled = calloc(1, sizeof *compiled);
    inlay_status status = INLAY_OK;
    kit_region *region;

    if (compiled == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a region");
    region = &compiled->region;
    INLAY_TRY(kit_region_keep(request, SMALL_CONSTANT, 0, region, diag));
    compiled->kinds = kit_region_take(region, region->node_count * sizeof *compiled->kinds);
    compiled->constants = kit_region_take(region, region->node_count * sizeof *compiled->constants);
    compiled->borders =
        kit_region_take(region, ((uint64_t)region->input_count + region->output_count) * sizeof *compiled->borders);
    if (compiled->kinds == NULL || compiled->constants == NULL || compiled->borders == NULL) {
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a region of %u nodes", region->node_count);
        goto done;
    }
    for (uint32_t v = 0; v < region->value_count; v++) {
        if (region->values[v].input != INLAY_NONE)
            compiled->borders[region->values[v].input] = v;
        if (region->values[v].output != INLAY_NONE)
            compiled->borders[region->input_count + region->values[v].output] = v;
    }
    for (uint32_t n = 0; n < region->node_count; n++) {
        compiled->kinds[n] = operator_of(inlay_graph_node(request->graph, request->nodes[n]));
        INLAY_TRY(define_constants(provider->host, request, compiled, n, diag));
    }
    report_constants(request, compiled);
    *out_compiled = compiled;
    compiled = NULL;
done:
    region_release_compiled(state, compiled);
    return status;
}

void region_release_compiled(void *state, inlay_compiled *compiled)
{
    (void)state;
    if (compiled == NULL)
        return;
    kit_region_free(&compiled->region);
    free(compiled);
}

struct inlay_instance {
    xnn_subgraph_t graph;
    xnn_runtime_t runtime;
    pthreadpool_t pool;                 /* NULL: the calling thread */
    char *memory;                       /* XNNPACK's inputs and outputs */
    struct xnn_external_value *tensors; /* [border_count] the same, as XNNPACK gets them */
    struct plain_value *values;         /* [region.value_count] */
    float **data;                       /* [region.value_count] addresses for plain_run(), set by execute */
    uint32_t border_count;
    struct border borders[]; /* [input_count + output_count] */
};

uint32_t provider_threads(const struct provider *provider, uint32_t max_threads)
{
    const uint32_t limit = provider->most_threads > 0 ? (uint32_t)provider->most_threads : MOST_THREADS;

    return max_threads < limit ? max_threads : limit;
}

/* Returns the pool for a run; NULL: the calling thread alone. */
static pthreadpool_t pool_of(struct provider *provider, uint32_t max_threads)
{
    const uint32_t count = provider_threads(provider, max_threads);
    pthreadpool_t pool;

    if (count <= 1 || provider->process != getpid())
        return NULL;
    (void)pthread_mutex_lock(&provider->mutex);
    if (provider->pools[count] == NULL)
        provider->pools[count] = pthreadpool_create(count);
    pool = provider->pools[count];
    (void)pthread_mutex_unlock(&provider->mutex);
    return pool;
}

/* Places the tensors at the border of the region in one block of memory; declines tensors without elements, and sizes
 * that are not known. Returns the size of the block in *out_bytes. */
static inlay_status place_borders(const struct definition *definition, inlay_instance *instance, uint64_t *out_bytes,
                                  inlay_diag *diag)
{
    *out_bytes = 0;
    for (uint32_t i = 0; i < instance->border_count; i++) {
        const inlay_value_state *state = define_state(definition, definition->compiled->borders[i]);
        struct border *border = &instance->borders[i];
        const bool image = state->rank == IMAGE_RANK;
        int64_t count = 1;

        for (uint32_t d = 0; d < state->rank; d++)
            count *= state->dims[d];
        border->channels = image ? state->dims[1] : count;
        border->pixels = image ? state->dims[2] * state->dims[3] : 1;
        border->batch = image ? state->dims[0] : 1;
        border->offset = *out_bytes;
        *out_bytes += ((uint64_t)count * sizeof(float) + XNN_EXTRA_BYTES + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    for (uint32_t v = 0; v < definition->compiled->region.value_count; v++) {
        const inlay_value_state *state = define_state(definition, v);

        for (uint32_t d = 0; d < state->rank; d++)
            if (state->dims[d] <= 0)
                return inlay_fail(diag, INLAY_UNSUPPORTED, "XNNPACK does not compute tensors %s",
                                  state->dims[d] == 0 ? "without elements" : "whose size depends on data");
    }
    return INLAY_OK;
}

/* Returns whether a value is neither a constant nor at the border of the region. */
static bool is_inner(const kit_region_value *value)
{
    return !value->constant && value->input == INLAY_NONE && value->output == INLAY_NONE;
}

/* Returns the lowest offset for `bytes` bytes that overlaps no value which is in use after node n. last[v] is the last
 * node that reads value v; values that are not placed yet have none. */
static uint64_t free_offset(const kit_region *region, const inlay_instance *instance, const uint32_t *last, uint32_t n,
                            uint64_t bytes)
{
    uint64_t offset = 0;

    for (uint32_t v = 0; v < region->value_count; v++) {
        const struct plain_value *other = &instance->values[v];

        if (other->bytes > 0 && last[v] >= n && offset < other->offset + other->bytes &&
            other->offset < offset + bytes) {
            offset = other->offset + other->bytes;
            v = UINT32_MAX; /* from the first value again */
        }
    }
    return offset;
}

/* Describes all values for runs without XNNPACK, and places those inside the region in the workspace. */
static void place_values(const struct definition *definition, inlay_specialize_request *request,
                         inlay_instance *instance, uint32_t *last)
{
    const kit_region *region = &definition->compiled->region;

    for (uint32_t v = 0; v < region->value_count; v++) {
        const inlay_value_state *state = define_state(definition, v);

        if (state->rank <= MOST_RANK) {
            instance->values[v].rank = state->rank;
            define_dims(state, instance->values[v].dims);
        }
    }
    for (uint32_t n = 0; n < region->node_count; n++)
        for (uint32_t i = 0; i < region->nodes[n].input_count; i++)
            if (region->nodes[n].inputs[i] != INLAY_NONE)
                last[region->nodes[n].inputs[i]] = n;
    for (uint32_t n = 0; n < region->node_count; n++) {
        const uint32_t v = region->nodes[n].outputs[0];
        uint64_t bytes = sizeof(float);

        if (!is_inner(&region->values[v]))
            continue;
        for (uint32_t d = 0; d < instance->values[v].rank; d++)
            bytes *= instance->values[v].dims[d];
        bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        instance->values[v].offset = free_offset(region, instance, last, n, bytes);
        instance->values[v].bytes = bytes;
        if (request->workspace_bytes < instance->values[v].offset + bytes)
            request->workspace_bytes = instance->values[v].offset + bytes;
    }
}

/* Defines the values of the region that are not constants. Those at the border have the first numbers. */
static enum xnn_status define_values(struct definition *definition)
{
    const kit_region *region = &definition->compiled->region;
    enum xnn_status status = xnn_status_success;

    for (uint32_t v = 0; v < region->value_count && status == xnn_status_success; v++) {
        const kit_region_value *value = &region->values[v];
        const inlay_value_state *state = define_state(definition, v);
        size_t dims[MOST_RANK];
        uint32_t number = XNN_INVALID_VALUE_ID, flags = 0;

        definition->ids[v] = XNN_INVALID_VALUE_ID;
        if (value->constant)
            continue;
        define_dims(state, dims);
        if (value->input != INLAY_NONE) {
            number = value->input;
            flags = XNN_VALUE_FLAG_EXTERNAL_INPUT;
        } else if (value->output != INLAY_NONE) {
            number = region->input_count + value->output;
            flags = XNN_VALUE_FLAG_EXTERNAL_OUTPUT;
        }
        status = xnn_define_tensor_value(definition->graph, xnn_datatype_fp32, state->rank, dims, NULL, number, flags,
                                         &definition->ids[v]);
    }
    return status;
}

static enum xnn_status start_runtime(inlay_instance *instance)
{
    const enum xnn_status status = xnn_create_runtime_v2(
        instance->graph, instance->pool, instance->pool != NULL ? XNN_FLAG_YIELD_WORKERS : 0, &instance->runtime);

    return status == xnn_status_success ? library_setup(instance->runtime, instance->border_count, instance->tensors)
                                        : status;
}

static inlay_status build(struct provider *provider, struct definition *definition, inlay_specialize_request *request,
                          inlay_instance *instance, inlay_diag *diag)
{
    const kit_region *region = &definition->compiled->region;
    inlay_status status;
    enum xnn_status result;
    uint64_t bytes;

    status = place_borders(definition, instance, &bytes, diag);
    if (status != INLAY_OK)
        return status;
    instance->tensors = calloc(instance->border_count, sizeof *instance->tensors);
    instance->memory = aligned_alloc(ALIGNMENT, bytes);
    definition->ids = calloc(region->value_count, sizeof *definition->ids);
    instance->values = calloc(region->value_count, sizeof *instance->values);
    instance->data = calloc(region->value_count, sizeof *instance->data);
    if (instance->tensors == NULL || instance->memory == NULL || definition->ids == NULL || instance->values == NULL ||
        instance->data == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for %llu bytes", (unsigned long long)bytes);
    memset(instance->memory, 0, bytes); /* XNNPACK reads some bytes behind each tensor */
    for (uint32_t i = 0; i < instance->border_count; i++)
        instance->tensors[i] = (struct xnn_external_value){ i, instance->memory + instance->borders[i].offset };
    place_values(definition, request, instance, definition->ids); /* the ids are not needed yet */
    result = xnn_create_subgraph(instance->border_count, 0, &instance->graph);
    if (result != xnn_status_success)
        return failure(result, "subgraph", diag);
    definition->graph = instance->graph;
    result = define_values(definition);
    if (result != xnn_status_success)
        return failure(result, "values", diag);
    for (uint32_t n = 0; n < region->node_count; n++) {
        result = define_node(definition, n);
        if (result != xnn_status_success)
            return failure(result, region->nodes[n].name.data, diag);
    }
    instance->pool = pool_of(provider, definition->shapes->max_threads);
    result = start_runtime(instance);
    return result == xnn_status_success ? INLAY_OK : failure(result, "runtime", diag);
}

inlay_status region_specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                               inlay_instance **out_instance, inlay_diag *diag)
{
    const uint32_t border_count = compiled->region.input_count + compiled->region.output_count;
    struct definition definition = { .compiled = compiled, .shapes = request };
    inlay_instance *instance = calloc(1, sizeof *instance + border_count * sizeof instance->borders[0]);
    inlay_status status;

    if (instance == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a region");
    instance->border_count = border_count;
    status = build(state, &definition, request, instance, diag);
    free(definition.ids);
    if (status == INLAY_OK)
        *out_instance = instance;
    else
        region_release_instance(state, compiled, instance);
    return status;
}

void region_release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance)
{
    (void)state, (void)compiled;
    if (instance->runtime != NULL)
        (void)xnn_delete_runtime(instance->runtime);
    if (instance->graph != NULL)
        (void)xnn_delete_subgraph(instance->graph);
    free(instance->tensors);
    free(instance->values);
    free(instance->data);
    free(instance->memory);
    free(instance);
}

static float *address_of(const inlay_tensor_arg *args, uint32_t stride, uint32_t i)
{
    return inlay_buffer_host(&INLAY_AT(inlay_tensor_arg, args, stride, i)->buffer);
}

/* After fork() the child has no threads of the pool: the runtime is made once more, for the calling thread. */
static inlay_status leave_pool(inlay_instance *instance, inlay_diag *diag)
{
    enum xnn_status status;

    instance->pool = NULL;
    instance->runtime = NULL; /* leaks the runtime: deleting it could wait for threads that do not exist */
    status = start_runtime(instance);
    return status == xnn_status_success ? INLAY_OK : failure(status, "runtime after fork", diag);
}

/* Runs the region without XNNPACK, between the changes of layout. */
static inlay_status run_plainly(const inlay_host *host, const inlay_compiled *compiled, inlay_instance *instance,
                                const inlay_exec_args *args)
{
    const kit_region *region = &compiled->region;
    inlay_status status = INLAY_OK;

    for (uint32_t v = 0; v < region->value_count; v++) {
        if (region->values[v].input != INLAY_NONE)
            instance->data[v] = instance->tensors[region->values[v].input].data;
        else if (region->values[v].output != INLAY_NONE)
            instance->data[v] = instance->tensors[region->input_count + region->values[v].output].data;
        else if (is_inner(&region->values[v]))
            instance->data[v] =
                (float *)(void *)((char *)inlay_buffer_host(&args->workspace) + instance->values[v].offset);
    }
    for (uint32_t n = 0; n < region->node_count && status == INLAY_OK; n++) {
        plain_run(compiled, instance->values, instance->data, n);
        status = host->poll(host->ctx, args->run);
    }
    return status;
}

inlay_status region_execute(void *state, inlay_compiled *compiled, inlay_instance *instance,
                            const inlay_exec_args *args)
{
    struct provider *provider = state;
    const inlay_host *host = provider->host;
    inlay_status status = INLAY_OK;
    bool plain = false;

    if (instance->pool != NULL && provider->process != getpid())
        INLAY_TRY(leave_pool(instance, args->diag));
    for (uint32_t i = 0; i < args->input_count; i++) {
        const struct border *border = &instance->borders[i];
        const float *input = address_of(args->inputs, args->arg_stride, i);

        plain = plain || plain_is_needed(input, border->batch * border->channels * border->pixels);
        layout_enter(instance->pool, border, input, instance->tensors[i].data);
    }
    INLAY_TRY(host->poll(host->ctx, args->run));
    if (plain)
        INLAY_TRY(run_plainly(host, compiled, instance, args));
    else if (xnn_invoke_runtime(instance->runtime) != xnn_status_success)
        return inlay_fail(args->diag, INLAY_INTERNAL, "XNNPACK failed");
    INLAY_TRY(host->poll(host->ctx, args->run));
    for (uint32_t i = 0; i < args->output_count; i++) {
        const uint32_t border = compiled->region.input_count + i;

        layout_leave(instance->pool, &instance->borders[border], instance->tensors[border].data,
                     address_of(args->outputs, args->arg_stride, i));
    }
done:
    return status;
}
