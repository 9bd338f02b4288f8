/* exec/dynamic/dynamic.c - steps whose shapes are known only at run time.
 *
 * The signature of a step's inputs consists of their dims, and of the elements of small integer tensors, which may
 * decide shapes. Only if the signature differs from that of the last run, shapes are inferred and the region is
 * specialised again. */
#include "exec/dynamic/dynamic.h"
#include "base/checked.h"
#include "base/memory.h"
#include "exec/device/device_memory.h"
#include "exec/device/in_flight.h"
#include "exec/device/residency.h"
#include "exec/loop/dynamic_cache.h"
#include "exec/loop/ports.h"
#include "infer/infer.h"
#include "inlay/check.h"
#include "threads/fence.h"
#include <stdlib.h>
#include <string.h>

typedef struct dynamic_call {
    struct runner *runner;
    struct bound *bound;
    bound_step *step;
    const partition_provider *provider;
    uint32_t domain; /* default domain of the provider */
    dynamic_cache *cache;
    inlay_tensor_arg *in, *out;
    inlay_value **made; /* [output_count] results where the provider wrote them; owned by the call until they are set */
    inlay_buffer workspace; /* in device memory */
    inlay_fence *waits;     /* [input_count] fences of mirrors that are still being copied */
    uint32_t wait_count;
    inlay_diag *diag;
} dynamic_call;

static bool info_from_value(const run_value *value, inlay_value_info *info, struct arena *arena)
{
    inlay_dim *dims = arena_array(arena, (size_t)value->rank + 1, sizeof *dims);

    if (dims == NULL)
        return false;
    for (uint32_t d = 0; d < value->rank; d++)
        dims[d] = (inlay_dim){ .value = value->dims[d], .kind = INLAY_DIM_FIXED };
    info->dtype = value->dtype;
    info->rank = value->rank;
    info->dims = dims;
    info->data = signature_has_data(value) ? inlay_buffer_host(&value->buffer) : NULL;
    info->data_bytes = info->data == NULL ? 0 : value->buffer.bytes;
    info->elements = NULL;
    info->element_count = 0;
    return true;
}

static void release_instance(const dynamic_call *call)
{
    if (call->cache->instance != NULL)
        call->provider->table->release_instance(call->provider->state, call->step->plan->step->compiled,
                                                call->cache->instance);
    call->cache->instance = NULL;
    call->cache->signature.bytes = 0;
}

static bool shape_known(const inlay_value_state *state)
{
    if (state->rank == INLAY_RANK_UNKNOWN)
        return false;
    for (uint32_t d = 0; d < state->rank; d++)
        if (state->dims[d] < 0)
            return false;
    return true;
}

/* Only the entries of this region change: the bound plan's infos and states of other values belong to the plan. */
static inlay_status infer_shapes(dynamic_call *call, const run_value *in)
{
    const partition_region *region = call->step->plan->step->region;
    const struct graph *graph = call->runner->prog->graph;
    struct bound *bound = call->bound;
    inlay_status status;

    for (uint32_t i = 0; i < region->input_count; i++)
        if (!info_from_value(&in[i], &bound->dynamic.infos[region->inputs[i]], &bound->dynamic.scratch) ||
            !plan_state_from_info(&bound->dynamic.infos[region->inputs[i]], &bound->dynamic.scratch,
                                  &bound->dynamic.states[region->inputs[i]]))
            return no_memory(call->diag, "to size a step at run time");
    for (uint32_t k = 0; k < region->node_count; k++) {
        const graph_node *node = graph->nodes[region->nodes[k]];
        for (uint32_t output = 0; output < node->info.output_count; output++) {
            inlay_value_info *info =
                node->info.outputs[output] == INLAY_NONE ? NULL : &bound->dynamic.infos[node->info.outputs[output]];
            if (info == NULL)
                continue;
            info->rank = INLAY_RANK_UNKNOWN;
            info->dims = NULL;
            info->data = NULL;
            info->elements = NULL;
            info->element_count = 0;
        }
    }
    status = plan_infer_region(call->runner->prog, region, bound->dynamic.infos, &bound->dynamic.scratch, call->diag);
    if (status != INLAY_OK)
        return status;
    for (uint32_t k = 0; k < region->node_count; k++) {
        const graph_node *node = graph->nodes[region->nodes[k]];
        for (uint32_t output = 0; output < node->info.output_count; output++) {
            uint32_t value = node->info.outputs[output];

            if (value == INLAY_NONE)
                continue;
            if (!plan_state_from_info(&bound->dynamic.infos[value], &bound->dynamic.scratch,
                                      &bound->dynamic.states[value]))
                return no_memory(call->diag, "to size a step at run time");
            if (shape_known(&bound->dynamic.states[value]))
                observed_shapes_record(bound, value, bound->dynamic.states[value].rank,
                                       bound->dynamic.states[value].dims);
        }
    }
    return INLAY_OK;
}

static inlay_status specialize(dynamic_call *call)
{
    const program_step *step = call->step->plan->step;
    const partition_region *region = step->region;
    dynamic_cache *cache = call->cache;
    inlay_specialize_request request = { .struct_size = sizeof request,
                                         .values = call->bound->dynamic.states,
                                         .value_count = call->runner->prog->graph->value_count,
                                         .value_stride = sizeof *call->bound->dynamic.states,
                                         .max_threads = call->runner->prog->env->max_threads,
                                         .workspace_alignment = 64,
                                         .output_count = region->output_count,
                                         .output_stride = sizeof *cache->outputs };
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status;

    INLAY_CHECK(cache->instance == NULL);
    arena_reset(&cache->arena);
    cache->outputs = arena_array(&cache->arena, (size_t)region->output_count + 1, sizeof *cache->outputs);
    cache->shapes = arena_array(&cache->arena, (size_t)region->output_count + 1, sizeof *cache->shapes);
    if (cache->outputs == NULL || cache->shapes == NULL)
        return no_memory(call->diag, "to size a step at run time");
    for (uint32_t i = 0; i < region->output_count; i++) {
        cache->outputs[i].alias = INLAY_NONE;
        if (!plan_state_from_info(&call->bound->dynamic.infos[region->outputs[i]], &cache->arena, &cache->shapes[i]))
            return no_memory(call->diag, "to size a step at run time");
    }
    request.outputs = cache->outputs;
    status = program_specialize(call->runner->prog, step, &call->runner->shared->run, &request, &cache->instance,
                                &cache->blob, &why);
    if (status != INLAY_OK) {
        if (status == INLAY_UNSUPPORTED) {
            call->runner->declined.step = step;
            call->runner->declined.why = why;
        } else if (call->provider->table->domain_count > 0) {
            call->runner->failed = call->provider; /* has an effect only if the device is lost or out of memory */
        }
        return inlay_fail(call->diag, status, "can't prepare it for these shapes: %.300s", why.text);
    }
    status = program_check_workspace(step, &request, call->diag);
    if (status != INLAY_OK) {
        release_instance(call);
        return status;
    }
    cache->workspace_bytes = request.workspace_bytes;
    cache->workspace_alignment = request.workspace_alignment < 64 ? 64 : request.workspace_alignment;
    return INLAY_OK;
}

/* Infers shapes and specialises the region. `more`: inputs that may decide shapes are on a device and still unread;
 * *out_sized is then false if a shape stays unknown or the provider declines, and the caller reads these inputs. */
static inlay_status try_size(dynamic_call *call, const run_value *in, bool more, bool *out_sized)
{
    const partition_region *region = call->step->plan->step->region;
    char *signature = arena_alloc(&call->bound->dynamic.scratch, signature_bytes(in, region->input_count) + 1);
    inlay_status status;
    size_t bytes;

    *out_sized = true;
    if (signature == NULL)
        return no_memory(call->diag, "to size a step at run time");
    bytes = signature_write(signature, in, region->input_count);
    if (call->cache->instance != NULL && signature_equals(&call->cache->signature, signature, bytes))
        return INLAY_OK;
    release_instance(call);
    status = infer_shapes(call, in);
    for (uint32_t i = 0; status == INLAY_OK && i < region->output_count; i++)
        *out_sized &= !more || shape_known(&call->bound->dynamic.states[region->outputs[i]]);
    if (status != INLAY_OK || !*out_sized)
        return status;
    status = specialize(call);
    *out_sized = !more || status != INLAY_UNSUPPORTED;
    if (status == INLAY_OK && !signature_store(&call->cache->signature, signature, bytes))
        status = no_memory(call->diag, "to size a step at run time");
    return status;
}

/* Copies tensors with few elements from a device to the host if the sizes of the outputs depend on them. The first run
 * determines whether they do. */
static inlay_status size_step(dynamic_call *call, run_value *in)
{
    const partition_region *region = call->step->plan->step->region;
    dynamic_cache *cache = call->cache;
    inlay_status status = INLAY_OK;
    bool hidden = false, sized = false;

    for (uint32_t i = 0; i < region->input_count; i++)
        hidden |= in[i].buffer.domain != INLAY_DOMAIN_HOST && signature_may_decide_shape(&in[i]);
    if (!cache->reads_device_data || !hidden) {
        status = try_size(call, in, hidden && !cache->reads_device_data_known, &sized);
        if (sized)
            return status;
    }
    for (uint32_t i = 0; i < region->input_count; i++) {
        if (signature_may_decide_shape(&in[i]))
            status =
                read_in_domain(call->runner, call->bound, region->inputs[i], INLAY_DOMAIN_HOST, &in[i], call->diag);
        if (status != INLAY_OK)
            return status;
    }
    call->runner->declined.step = NULL;
    status = try_size(call, in, false, &sized);
    cache->reads_device_data_known = true;
    for (uint32_t i = 0; status == INLAY_OK && i < region->output_count; i++)
        cache->reads_device_data |= shape_known(&cache->shapes[i]); /* the states may be those of an earlier run */
    return status;
}

static bool on_device(const dynamic_call *call)
{
    return call->domain != INLAY_DOMAIN_HOST;
}

static uint32_t provider_index(const dynamic_call *call)
{
    INLAY_CHECK(call->provider >= call->runner->prog->env->providers);
    return (uint32_t)(call->provider - call->runner->prog->env->providers);
}

/* Allocates memory for an output of the provider. */
static inlay_status make_output(dynamic_call *call, uint32_t i, uint32_t domain, inlay_dtype dtype, uint32_t rank,
                                const int64_t *dims)
{
    const uint32_t value = call->step->plan->step->region->outputs[i];
    inlay_value *made = NULL;
    inlay_status status;

    if (domain == INLAY_DOMAIN_HOST)
        status = create_host_value(call->runner, value, dtype, rank, dims, &made, call->diag);
    else if (domain_is_shared(call->runner->prog->env, domain))
        status = shared_value_create(call->runner, domain, dtype, rank, dims, &made, call->diag);
    else
        status = device_value_create(call->runner, domain, INLAY_USE_INNER, dtype, rank, dims, &made, call->diag);
    if (status != INLAY_OK)
        return status;
    pool_give(call->runner->shared, call->made[i]);
    call->made[i] = made;
    call->out[i].buffer = made->buffer;
    if (made->buffer.domain != domain)
        (void)value_is_shared(made, domain, &call->out[i].buffer);
    call->out[i].dims = made->dims;
    return INLAY_OK;
}

inlay_status dynamic_output_alloc(void *ctx, uint32_t output, uint32_t rank, const int64_t *dims, inlay_buffer *out)
{
    run_shared *shared = ctx;
    dynamic_call *call = shared->dynamic;
    const partition_region *region;
    inlay_tensor_arg *arg;
    inlay_status status;

    if (call == NULL || rank > INLAY_MAX_RANK)
        return INLAY_INVALID_ARGUMENT;
    region = call->step->plan->step->region;
    if (output >= region->output_count || call->cache->outputs[output].kind != INLAY_OUTPUT_ALLOCATED)
        return INLAY_INVALID_ARGUMENT;
    arg = &call->out[output];
    status = make_output(call, output, call->domain, arg->dtype, rank, dims);
    if (status != INLAY_OK)
        return status;
    arg->rank = rank;
    *out = arg->buffer;
    return status;
}

static bool has_place(const dynamic_call *call, uint32_t value)
{
    return call->bound->plan->places[call->bound->plan->values[value].place].source != PLACE_DYNAMIC;
}

/* Binds an output: to its place if the plan knows its shape, otherwise to newly allocated memory. */
static inlay_status bind_output(dynamic_call *call, uint32_t i)
{
    const partition_region *region = call->step->plan->step->region;
    uint32_t value = region->outputs[i];
    const inlay_output_plan *wanted = &call->cache->outputs[i];
    const inlay_value_state *shape = &call->cache->shapes[i];
    const uint32_t domain = call->step->plan->step->placements[region->input_count + i].domain;
    inlay_tensor_arg *arg = &call->out[i];
    inlay_status status = INLAY_OK;
    int64_t bytes;

    INLAY_CHECK(call->made[i] == NULL);
    *arg = (inlay_tensor_arg){ .dtype = shape->dtype };
    if (wanted->kind == INLAY_OUTPUT_ALLOCATED)
        return INLAY_OK;
    if (wanted->kind == INLAY_OUTPUT_BOUNDED) {
        bytes = (int64_t)wanted->max_bytes;
        status = make_output(call, i, domain, INLAY_UINT8, 1, &bytes);
        if (status != INLAY_OK)
            return status;
        arg->rank = shape->rank == INLAY_RANK_UNKNOWN ? 0 : shape->rank;
        if (shape->dims != NULL)
            memcpy(call->made[i]->dims, shape->dims, arg->rank * sizeof *shape->dims);
    } else if (!shape_known(shape)) {
        return inlay_fail(call->diag, INLAY_INTERNAL,
                          "provider %s requires the host to know the size of output %u, but "
                          "the operator has no shape inference",
                          call->provider->name, i);
    } else if (has_place(call, value)) {
        arg->buffer = call->bound->memory.buffers[call->bound->plan->values[value].place];
        arg->dims = (int64_t *)(uintptr_t)call->bound->plan->states[value].dims;
        arg->rank = shape->rank;
        return INLAY_OK;
    } else {
        status = make_output(call, i, domain, shape->dtype, shape->rank, shape->dims);
        if (status != INLAY_OK)
            return status;
        arg->rank = shape->rank;
    }
    return status;
}

static inlay_status bind_workspace(dynamic_call *call, inlay_exec_args *args)
{
    const dynamic_cache *cache = call->cache;
    const uint64_t bytes = cache->workspace_bytes;
    void *memory = NULL;
    inlay_status status;

    if (bytes == 0)
        return INLAY_OK;
    if (on_device(call)) {
        status = device_memory_alloc(call->runner, provider_index(call), call->domain, bytes,
                                     (buffer_use){ .usage = INLAY_USE_WORKSPACE,
                                                   .lifetime = INLAY_LIFETIME_RUN,
                                                   .alignment = cache->workspace_alignment },
                                     &call->workspace, call->diag);
        args->workspace = call->workspace;
        return status;
    }
    status = run_take_workspace(call->runner->shared, bytes, cache->workspace_alignment, &memory, call->diag);
    args->workspace = (inlay_buffer){ .handle = (uintptr_t)memory, .bytes = bytes };
    return status;
}

static inlay_fence next_fence(dynamic_call *call)
{
    if ((call->provider->table->flags & INLAY_PROVIDER_ASYNC) == 0)
        return (inlay_fence){ 0 };
    return (inlay_fence){ call->cache->timeline, ++call->cache->signalled };
}

static inlay_status wait_for_result(dynamic_call *call, inlay_status status, inlay_fence fence)
{
    if (status != INLAY_OK || fence.timeline == 0)
        return status;
    status = in_flight_wait_fence(call->runner, call->provider, fence, call->diag);
    if (status != INLAY_OK &&
        !call->runner->shared->hang.unwinding) { /* later fences need a timeline without the failure */
        timeline_renew(&call->cache->timeline);
        call->cache->signalled = 0;
    }
    return status;
}

/* Copies dynamic values to the domains where the provider reads them; the plan has copies for all other values. */
static inlay_status move_inputs_to_domains(dynamic_call *call)
{
    const program_step *step = call->step->plan->step;

    for (uint32_t i = 0; i < step->region->input_count; i++) {
        const uint32_t value = step->region->inputs[i];
        run_value current = runner_value(call->bound, value);
        inlay_status status;

        if (call->in[i].buffer.domain == step->placements[i].domain)
            continue;
        if (call->bound->dynamic.mirror_fences[value].timeline != 0 &&
            call->bound->dynamic.mirrors[value]->buffer.domain == step->placements[i].domain) {
            call->in[i].buffer = call->bound->dynamic.mirrors[value]->buffer;
            call->waits[call->wait_count++] = call->bound->dynamic.mirror_fences[value];
            continue;
        }
        status = read_in_domain(call->runner, call->bound, value, step->placements[i].domain, &current, call->diag);
        if (status != INLAY_OK)
            return status;
        call->in[i].buffer = current.buffer;
    }
    return INLAY_OK;
}

/* Waits for fences that the provider does not accept in addition to its max_waits. */
static inlay_status join_waits(dynamic_call *call)
{
    const uint32_t max_waits = call->provider->table->max_waits;
    inlay_status status = INLAY_OK;

    while (max_waits > 0 && call->wait_count > max_waits && status == INLAY_OK)
        status = in_flight_wait_fence(call->runner, call->provider, call->waits[--call->wait_count], call->diag);
    return status;
}

static inlay_status execute(dynamic_call *call)
{
    const program_step *step = call->step->plan->step;
    const partition_region *region = step->region;
    run_shared *shared = call->runner->shared;
    inlay_exec_args args = { .struct_size = sizeof args,
                             .run = &shared->run,
                             .inputs = call->in,
                             .outputs = call->out,
                             .input_count = region->input_count,
                             .output_count = region->output_count,
                             .arg_stride = sizeof *call->in,
                             .waits = call->waits,
                             .wait_count = call->wait_count,
                             .own_wait_count = call->wait_count,
                             .cancel = shared->run.cancel,
                             .deadline_ns = shared->run.deadline_ns,
                             .priority = shared->run.priority,
                             .power = shared->run.power,
                             .diag = call->diag };
    inlay_status status = bind_workspace(call, &args);

    if (status != INLAY_OK)
        return status;
    args.signal = next_fence(call);
    INLAY_CHECK(shared->dynamic == NULL);
    shared->dynamic = call;
    status = wait_for_result(
        call, call->provider->table->execute(call->provider->state, step->compiled, call->cache->instance, &args),
        args.signal);
    shared->dynamic = NULL;
    /* The mirrors that the step waited for are complete. */
    for (uint32_t i = 0; i < region->input_count && status == INLAY_OK; i++) {
        const inlay_value *mirror = call->bound->dynamic.mirrors[region->inputs[i]];

        if (mirror != NULL && mirror->buffer.domain == call->in[i].buffer.domain)
            call->bound->dynamic.mirror_fences[region->inputs[i]] = (inlay_fence){ 0 };
    }
    return status;
}

/* The provider allocated an output whose shape the plan knows: copies it to the planned place, where later steps read
 * it. */
static inlay_status move_to_place(dynamic_call *call, uint32_t i)
{
    uint32_t value = call->step->plan->step->region->outputs[i];
    const inlay_value *made = call->made[i];
    const inlay_value_state *state = &call->bound->plan->states[value];
    const inlay_buffer *to = &call->bound->memory.buffers[call->bound->plan->values[value].place];

    INLAY_CHECK(made != NULL);
    if (made->rank != state->rank || memcmp(made->dims, state->dims, state->rank * sizeof *state->dims) != 0)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                          "provider %s gave output %u another shape than the operator's "
                          "shape inference",
                          call->provider->name, i);
    if (made->buffer.domain != INLAY_DOMAIN_HOST || to->domain != INLAY_DOMAIN_HOST)
        return copy_between_domains(call->runner, &made->buffer, to, call->diag);
    if (made->buffer.bytes > 0)
        memcpy(inlay_buffer_host(to), value_data(made), (size_t)made->buffer.bytes);
    return INLAY_OK;
}

/* Sets the value of an output without a place. The value stays on the device if it is read there. */
static inlay_status set_result(dynamic_call *call, uint32_t i)
{
    const uint32_t value = call->step->plan->step->region->outputs[i];
    run_value result = run_value_of(call->made[i]);
    inlay_value *stored = call->made[i];

    if (result.buffer.domain != INLAY_DOMAIN_HOST && residency_domain(call->runner, value) != result.buffer.domain) {
        inlay_status status = copy_to_domain(call->runner, &result, INLAY_DOMAIN_HOST, &stored, call->diag);
        if (status != INLAY_OK)
            return status;
        pool_give(call->runner->shared, call->made[i]);
    }
    call->made[i] = NULL;
    runner_set(call->runner, call->bound, value, stored);
    return INLAY_OK;
}

/* Checks the outputs and sets their values. Bounded outputs get the dims that execute wrote; allocated outputs must
 * have memory. */
static inlay_status set_results(dynamic_call *call)
{
    const partition_region *region = call->step->plan->step->region;

    for (uint32_t i = 0; i < region->output_count; i++) {
        const inlay_tensor_arg *arg = &call->out[i];
        uint32_t kind = call->cache->outputs[i].kind;
        int64_t dims[INLAY_MAX_RANK];

        if (kind == INLAY_OUTPUT_ALLOCATED && call->made[i] == NULL)
            return inlay_fail(call->diag, INLAY_INTERNAL, "provider %s gave no memory to output %u",
                              call->provider->name, i);
        if (kind == INLAY_OUTPUT_BOUNDED) {
            if (arg->rank > INLAY_MAX_RANK)
                return inlay_fail(call->diag, INLAY_INTERNAL, "provider %s gave output %u rank %u",
                                  call->provider->name, i, arg->rank);
            memcpy(dims, arg->dims, arg->rank * sizeof *dims);
            if (!value_reshape(call->made[i], call->cache->shapes[i].dtype, arg->rank, dims) ||
                call->made[i]->buffer.bytes > call->cache->outputs[i].max_bytes)
                return inlay_fail(call->diag, INLAY_INTERNAL, "provider %s made output %u larger than its bound",
                                  call->provider->name, i);
        }
        if (call->made[i] != NULL) {
            inlay_status status = has_place(call, region->outputs[i]) ? move_to_place(call, i) : set_result(call, i);
            if (status != INLAY_OK)
                return status;
        }
    }
    return INLAY_OK;
}

static dynamic_cache *get_cache(bound_step *step, const partition_provider *provider, inlay_diag *diag)
{
    if (step->cache == NULL) {
        step->cache = calloc(1, sizeof *step->cache);
        if (step->cache != NULL && (provider->table->flags & INLAY_PROVIDER_ASYNC) != 0 &&
            timeline_create(&step->cache->timeline, diag) != INLAY_OK) {
            free(step->cache);
            step->cache = NULL;
        }
    }
    return step->cache;
}

inlay_status dynamic_run(struct runner *runner, struct bound *bound, bound_step *step, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    const program_step *planned = step->plan->step;
    const partition_region *region = planned->region;
    size_t tensors = (size_t)region->input_count + region->output_count + 1;
    dynamic_call call = { .runner = runner,
                          .bound = bound,
                          .step = step,
                          .provider = planned->provider,
                          .diag = diag,
                          .domain = partition_default_domain(planned->provider) };
    run_value *in;

    arena_reset(&bound->dynamic.scratch);
    in = arena_array(&bound->dynamic.scratch, tensors, sizeof *in);
    call.in = arena_array(&bound->dynamic.scratch, tensors, sizeof *call.in);
    call.waits = arena_array(&bound->dynamic.scratch, tensors, sizeof *call.waits);
    call.made = arena_array(&bound->dynamic.scratch, tensors, sizeof(inlay_value *));
    call.cache = get_cache(step, planned->provider, diag);
    if (in == NULL || call.in == NULL || call.waits == NULL || call.made == NULL || call.cache == NULL)
        return no_memory(call.diag, "to size a step at run time");
    call.out = call.in + region->input_count;
    for (uint32_t i = 0; i < region->input_count; i++) {
        uint32_t value = region->inputs[i];
        in[i] = runner_value(bound, value);
        if (in[i].kind != INLAY_KIND_TENSOR)
            return inlay_fail(diag, INLAY_INVALID_MODEL, "input '%s' is %s, not a tensor",
                              runner->prog->graph->values[value].info.name.data, in[i].kind == 0 ? "absent" : "a list");
        if (in[i].dtype != runner->prog->graph->values[value].info.dtype)
            return inlay_fail(diag, INLAY_INVALID_MODEL, "input '%s' is %s where %s was expected",
                              runner->prog->graph->values[value].info.name.data, inlay_dtype_name(in[i].dtype),
                              inlay_dtype_name(runner->prog->graph->values[value].info.dtype));
        call.in[i] = (inlay_tensor_arg){
            .buffer = in[i].buffer, .dims = (int64_t *)(uintptr_t)in[i].dims, .rank = in[i].rank, .dtype = in[i].dtype
        };
        if (bound->plan->places[step->plan->in[i]].source != PLACE_DYNAMIC)
            call.in[i].buffer = bound->memory.buffers[step->plan->in[i]];
        if (!plan_is_ready(&bound->plan->places[bound->plan->values[value].place]))
            in[i].buffer = call.in[i].buffer;
    }
    INLAY_TRY(size_step(&call, in));
    INLAY_TRY(move_inputs_to_domains(&call));
    for (uint32_t i = 0; i < region->output_count; i++)
        INLAY_TRY(bind_output(&call, i));
    INLAY_TRY(join_waits(&call));
    INLAY_TRY(execute(&call));
    INLAY_TRY(set_results(&call));
done:
    if (runner->shared->hang.unwinding)
        return status;
    device_memory_free(runner->prog->env, provider_index(&call), &call.workspace);
    for (uint32_t i = 0; i < region->output_count; i++)
        pool_give(runner->shared, call.made[i]);
    return status;
}
