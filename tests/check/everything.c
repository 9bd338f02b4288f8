/* A provider that offers every node of every operator and computes zeros. With it, group `results` prints the number of
 * operators for which plugin-check has a case. */
#include "plugin_entry.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct inlay_compiled {
    uint32_t count;
    uint32_t values[]; /* [count] indices of the outputs in the graph */
};

static const inlay_host *host;

static inlay_status assess(void *state, const inlay_assess_request *request, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    (void)state, (void)diag;
    for (uint32_t n = 0; n < request->graph->node_count && status == INLAY_OK; n++)
        if (request->candidates[n] != 0)
            status = request->sink->offer(
                request->sink->ctx, &(inlay_offer){ .struct_size = sizeof(inlay_offer), .nodes = &n, .node_count = 1 });
    return status;
}

static inlay_status cost(void *state, const inlay_cost_request *request, inlay_cost *out, inlay_diag *diag)
{
    (void)state, (void)request, (void)diag;
    out->ns = 1000;
    return INLAY_OK;
}

static inlay_status compile(void *state, const inlay_compile_request *request, inlay_compiled **out, inlay_diag *diag)
{
    const uint32_t count = request->output_count;
    inlay_compiled *compiled = malloc(sizeof *compiled + count * sizeof compiled->values[0]);

    (void)state;
    if (compiled == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for %u outputs", count);
    compiled->count = count;
    memcpy(compiled->values, request->outputs, count * sizeof compiled->values[0]);
    *out = compiled;
    return INLAY_OK;
}

static void release_compiled(void *state, inlay_compiled *compiled)
{
    (void)state;
    free(compiled);
}

static bool is_known(const inlay_value_state *value)
{
    for (uint32_t d = 0; value->rank != INLAY_RANK_UNKNOWN && d < value->rank; d++)
        if (value->dims[d] < 0)
            return false;
    return value->rank != INLAY_RANK_UNKNOWN;
}

static inlay_status specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                               inlay_instance **out, inlay_diag *diag)
{
    (void)state, (void)diag;
    for (uint32_t i = 0; i < compiled->count; i++)
        if (!is_known(INLAY_AT(inlay_value_state, request->values, request->value_stride, compiled->values[i])))
            INLAY_AT_OUT(inlay_output_plan, request->outputs, request->output_stride, i)->kind = INLAY_OUTPUT_ALLOCATED;
    *out = (inlay_instance *)compiled;
    return INLAY_OK;
}

static void release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance)
{
    (void)state, (void)compiled, (void)instance;
}

static inlay_status execute(void *state, inlay_compiled *compiled, inlay_instance *instance,
                            const inlay_exec_args *args)
{
    static const int64_t one = 1;

    (void)state, (void)compiled, (void)instance;
    for (uint32_t i = 0; i < args->output_count; i++) {
        const inlay_tensor_arg *output = INLAY_AT(inlay_tensor_arg, args->outputs, args->arg_stride, i);
        inlay_buffer buffer = output->buffer;
        inlay_status status = INLAY_OK;

        if (buffer.handle == 0)
            status = host->output_alloc(
                host->ctx, args->run,
                &(inlay_output_request){
                    .struct_size = sizeof(inlay_output_request), .dims = &one, .output = i, .rank = 1 },
                &buffer);
        if (status != INLAY_OK)
            return status;
        memset(inlay_buffer_host(&buffer), 0, (size_t)buffer.bytes);
    }
    return INLAY_OK;
}

static inlay_status create(void *ctx, const inlay_host *caller, const inlay_create_args *args, void **out,
                           inlay_diag *diag)
{
    (void)ctx, (void)args, (void)diag;
    host = caller;
    *out = &host;
    return INLAY_OK;
}

static void destroy(void *state)
{
    (void)state;
}

static const inlay_provider provider = { .struct_size = sizeof provider,
                                         .name = "everything",
                                         .description = "zeros",
                                         .device_kind = INLAY_DEVICE_CPU,
                                         .create = create,
                                         .destroy = destroy,
                                         .assess = assess,
                                         .cost = cost,
                                         .compile = compile,
                                         .release_compiled = release_compiled,
                                         .specialize = specialize,
                                         .release_instance = release_instance,
                                         .execute = execute };
PLUGIN_ENTRY("everything", "everything", provider)
