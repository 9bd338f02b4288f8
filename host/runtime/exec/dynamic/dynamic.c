/* exec/dynamic/dynamic.c - steps whose shapes are known only when they are reached.
 *
 * What the step's inputs look like now (dims, and the elements of small integer tensors, which shapes are made of) is
 * compared with the last time; only when it differs are shapes inferred and the region specialised anew. */
#include "exec/dynamic/dynamic.h"
#include "base/checked.h"
#include "base/memory.h"
#include "exec/device/device_memory.h"
#include "exec/device/in_flight.h"
#include "exec/device/stay.h"
#include "exec/loop/dynamic_cache.h"
#include "exec/loop/ports.h"
#include "infer/infer.h"
#include "threads/fence.h"
#include <stdlib.h>
#include <string.h>

typedef struct dynamic_call {
    struct runner *r;
    struct bound *b;
    bound_step *s;
    const part_provider *provider;
    uint32_t domain; /* the provider's default one */
    dynamic_cache *cache;
    inlay_tensor_arg *in, *out;
    inlay_value **made;     /* [output_count] results where the provider leaves them, ours until set */
    inlay_buffer workspace; /* on the device */
    inlay_fence *waits;     /* [input_count] twins that are still on their way there ... */
    uint32_t wait_count;    /* ... so many of them */
    inlay_diag *diag;
} dynamic_call;

/* ------------------------------------------------------------------ sizing */

static bool info_from_value(const rt_value *x, inlay_value_info *info, struct arena *a)
{
    inlay_dim *dims = arena_array(a, (size_t)x->rank + 1, sizeof *dims);

    if (dims == NULL)
        return false;
    for (uint32_t d = 0; d < x->rank; d++)
        dims[d] = (inlay_dim){ .value = x->dims[d], .kind = INLAY_DIM_FIXED };
    info->dtype = x->dtype;
    info->rank = x->rank;
    info->dims = dims;
    info->data = look_at_data(x) ? inlay_buffer_host(&x->buffer) : NULL;
    info->data_bytes = info->data == NULL ? 0 : x->buffer.bytes;
    info->elements = NULL;
    info->element_count = 0;
    return true;
}

static void release_instance(const dynamic_call *c)
{
    if (c->cache->instance != NULL)
        c->provider->table->release_instance(c->provider->state, c->s->plan->step->compiled, c->cache->instance);
    c->cache->instance = NULL;
    c->cache->seen.bytes = 0;
}

static bool shape_known(const inlay_value_state *st)
{
    if (st->rank == INLAY_RANK_UNKNOWN)
        return false;
    for (uint32_t d = 0; d < st->rank; d++)
        if (st->dims[d] < 0)
            return false;
    return true;
}

/* The bound's infos and states belong to the plan outside the region, so only the region's entries change. */
static inlay_status infer_shapes(dynamic_call *c, const rt_value *in)
{
    const part_region *r = c->s->plan->step->region;
    const struct graph *g = c->r->prog->graph;
    struct bound *b = c->b;
    inlay_status status;

    for (uint32_t i = 0; i < r->input_count; i++)
        if (!info_from_value(&in[i], &b->made.infos[r->inputs[i]], &b->made.scratch) ||
            !plan_state_from_info(&b->made.infos[r->inputs[i]], &b->made.scratch, &b->made.states[r->inputs[i]]))
            return no_memory(c->diag, "to size a step at run time");
    for (uint32_t k = 0; k < r->node_count; k++) {
        const graph_node *n = g->nodes[r->nodes[k]];
        for (uint32_t o = 0; o < n->info.output_count; o++) {
            inlay_value_info *info = n->info.outputs[o] == INLAY_NONE ? NULL : &b->made.infos[n->info.outputs[o]];
            if (info == NULL)
                continue;
            info->rank = INLAY_RANK_UNKNOWN;
            info->dims = NULL;
            info->data = NULL;
            info->elements = NULL;
            info->element_count = 0;
        }
    }
    status = plan_infer_region(c->r->prog, r, b->made.infos, &b->made.scratch, c->diag);
    if (status != INLAY_OK)
        return status;
    for (uint32_t k = 0; k < r->node_count; k++) {
        const graph_node *n = g->nodes[r->nodes[k]];
        for (uint32_t o = 0; o < n->info.output_count; o++) {
            uint32_t v = n->info.outputs[o];

            if (v == INLAY_NONE)
                continue;
            if (!plan_state_from_info(&b->made.infos[v], &b->made.scratch, &b->made.states[v]))
                return no_memory(c->diag, "to size a step at run time");
            if (shape_known(&b->made.states[v]))
                seen_keep(b, v, b->made.states[v].rank, b->made.states[v].dims);
        }
    }
    return INLAY_OK;
}

static inlay_status specialize(dynamic_call *c)
{
    const program_step *ps = c->s->plan->step;
    const part_region *r = ps->region;
    dynamic_cache *cache = c->cache;
    inlay_specialize_request request = { .struct_size = sizeof request,
                                         .values = c->b->made.states,
                                         .value_count = c->r->prog->graph->value_count,
                                         .value_stride = sizeof *c->b->made.states,
                                         .max_threads = c->r->prog->env->max_threads,
                                         .workspace_alignment = 64,
                                         .output_count = r->output_count,
                                         .output_stride = sizeof *cache->outputs };
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status;

    arena_reset(&cache->a);
    cache->outputs = arena_array(&cache->a, (size_t)r->output_count + 1, sizeof *cache->outputs);
    cache->shapes = arena_array(&cache->a, (size_t)r->output_count + 1, sizeof *cache->shapes);
    if (cache->outputs == NULL || cache->shapes == NULL)
        return no_memory(c->diag, "to size a step at run time");
    for (uint32_t i = 0; i < r->output_count; i++) {
        cache->outputs[i].alias = INLAY_NONE;
        if (!plan_state_from_info(&c->b->made.infos[r->outputs[i]], &cache->a, &cache->shapes[i]))
            return no_memory(c->diag, "to size a step at run time");
    }
    request.outputs = cache->outputs;
    status = c->provider->table->specialize(c->provider->state, ps->compiled, &request, &cache->instance, &why);
    if (status != INLAY_OK) {
        cache->instance = NULL;
        if (status == INLAY_UNSUPPORTED) {
            c->r->declined.step = ps;
            c->r->declined.why = why;
        } else if (c->provider->table->domain_count > 0) {
            c->r->failed = c->provider; /* which counts where it is lost or has no memory */
        }
        return inlay_fail(c->diag, status, "can't prepare it for these shapes: %.300s", why.text);
    }
    if (request.workspace_bytes > PTRDIFF_MAX / 2) {
        release_instance(c);
        return inlay_fail(c->diag, INLAY_LIMIT_EXCEEDED, "provider %s wants %llu bytes of workspace", c->provider->name,
                          (unsigned long long)request.workspace_bytes);
    }
    cache->workspace_bytes = request.workspace_bytes;
    cache->workspace_alignment = request.workspace_alignment < 64 ? 64 : request.workspace_alignment;
    return INLAY_OK;
}

/* *out_sized = false: shapes are missing, or the provider wants to know more, and there is more to be known. */
static inlay_status size_by(dynamic_call *c, const rt_value *in, bool more, bool *out_sized)
{
    const part_region *r = c->s->plan->step->region;
    char *now = arena_alloc(&c->b->made.scratch, look_room(in, r->input_count) + 1);
    inlay_status status;
    size_t bytes;

    *out_sized = true;
    if (now == NULL)
        return no_memory(c->diag, "to size a step at run time");
    bytes = look_write(now, in, r->input_count);
    if (c->cache->instance != NULL && look_equals(&c->cache->seen, now, bytes))
        return INLAY_OK;
    release_instance(c);
    status = infer_shapes(c, in);
    for (uint32_t i = 0; status == INLAY_OK && i < r->output_count; i++)
        *out_sized &= !more || shape_known(&c->b->made.states[r->outputs[i]]);
    if (status != INLAY_OK || !*out_sized)
        return status;
    status = specialize(c);
    *out_sized = !more || status != INLAY_UNSUPPORTED;
    if (status == INLAY_OK && !look_keep(&c->cache->seen, now, bytes))
        status = no_memory(c->diag, "to size a step at run time");
    return status;
}

/* Few elements that lie on a device come home to be looked at: where the sizes need them, which one look tells. */
static inlay_status size_step(dynamic_call *c, rt_value *in)
{
    const part_region *r = c->s->plan->step->region;
    dynamic_cache *cache = c->cache;
    inlay_status status = INLAY_OK;
    bool hidden = false, sized = false;

    for (uint32_t i = 0; i < r->input_count; i++)
        hidden |= in[i].buffer.domain != INLAY_DOMAIN_HOST && look_is_small(&in[i]);
    if (!cache->looks || !hidden) {
        status = size_by(c, in, hidden && !cache->looked, &sized);
        if (sized)
            return status;
    }
    for (uint32_t i = 0; i < r->input_count; i++) {
        if (look_is_small(&in[i]))
            status = stay_read(c->r, c->b, r->inputs[i], INLAY_DOMAIN_HOST, &in[i], c->diag);
        if (status != INLAY_OK)
            return status;
    }
    c->r->declined.step = NULL;
    status = size_by(c, in, false, &sized);
    cache->looked = true;
    for (uint32_t i = 0; status == INLAY_OK && i < r->output_count; i++)
        cache->looks |= shape_known(&c->b->made.states[r->outputs[i]]);
    return status;
}

/* ------------------------------------------------------------------ memory */

static bool on_device(const dynamic_call *c)
{
    return c->domain != INLAY_DOMAIN_HOST;
}

static uint32_t provider_index(const dynamic_call *c)
{
    return (uint32_t)(c->provider - c->r->prog->env->providers);
}

/* Memory for an output in the provider's hands. */
static inlay_status make_output(dynamic_call *c, uint32_t i, uint32_t domain, inlay_dtype dtype, uint32_t rank,
                                const int64_t *dims)
{
    const uint32_t v = c->s->plan->step->region->outputs[i];
    inlay_value *made = NULL;
    inlay_status status;

    if (domain == INLAY_DOMAIN_HOST)
        status = stay_make_home(c->r, v, dtype, rank, dims, &made, c->diag);
    else if (stay_is_shared(c->r->prog->env, domain))
        status = stay_make_shared(domain, dtype, rank, dims, &made, c->diag);
    else
        status = stay_make(c->r, domain, dtype, rank, dims, &made, c->diag);
    if (status != INLAY_OK)
        return status;
    pool_give(c->r->shared, c->made[i]);
    c->made[i] = made;
    c->out[i].buffer = made->buffer;
    if (made->buffer.domain != domain)
        (void)value_is_shared(made, domain, &c->out[i].buffer);
    c->out[i].dims = made->dims;
    return INLAY_OK;
}

inlay_status dynamic_output_alloc(void *ctx, uint32_t output, uint32_t rank, const int64_t *dims, inlay_buffer *out)
{
    run_shared *shared = ctx;
    dynamic_call *c = shared->dynamic;
    const part_region *r;
    inlay_tensor_arg *arg;
    inlay_status status;

    if (c == NULL || rank > INLAY_MAX_RANK)
        return INLAY_INVALID_ARGUMENT;
    r = c->s->plan->step->region;
    if (output >= r->output_count || c->cache->outputs[output].kind != INLAY_OUTPUT_ALLOCATED)
        return INLAY_INVALID_ARGUMENT;
    arg = &c->out[output];
    status = make_output(c, output, c->domain, arg->dtype, rank, dims);
    if (status != INLAY_OK)
        return status;
    arg->rank = rank;
    *out = arg->buffer;
    return status;
}

static bool has_place(const dynamic_call *c, uint32_t v)
{
    return c->b->plan->places[c->b->plan->values[v].place].source != PLACE_DYNAMIC;
}

/* The memory an output is written to: its place when its shape was planned, otherwise from the pool. */
static inlay_status give_output(dynamic_call *c, uint32_t i)
{
    const part_region *r = c->s->plan->step->region;
    uint32_t v = r->outputs[i];
    const inlay_output_plan *wanted = &c->cache->outputs[i];
    const inlay_value_state *shape = &c->cache->shapes[i];
    const uint32_t domain = c->s->plan->step->placements[r->input_count + i].domain;
    inlay_tensor_arg *arg = &c->out[i];
    inlay_status status = INLAY_OK;
    int64_t bytes;

    *arg = (inlay_tensor_arg){ .dtype = shape->dtype };
    if (wanted->kind == INLAY_OUTPUT_ALLOCATED)
        return INLAY_OK;
    if (wanted->kind == INLAY_OUTPUT_BOUNDED) {
        bytes = (int64_t)wanted->max_bytes;
        status = make_output(c, i, domain, INLAY_UINT8, 1, &bytes);
        if (status != INLAY_OK)
            return status;
        arg->rank = shape->rank == INLAY_RANK_UNKNOWN ? 0 : shape->rank;
        if (shape->dims != NULL)
            memcpy(c->made[i]->dims, shape->dims, arg->rank * sizeof *shape->dims);
    } else if (!shape_known(shape)) {
        return inlay_fail(c->diag, INLAY_INTERNAL,
                          "provider %s leaves the size of output %u to the host, which can't "
                          "know it: the operator has no shape inference",
                          c->provider->name, i);
    } else if (has_place(c, v)) {
        arg->buffer = c->b->memory.buffers[c->b->plan->values[v].place];
        arg->dims = (int64_t *)(uintptr_t)c->b->plan->states[v].dims;
        arg->rank = shape->rank;
        return INLAY_OK;
    } else {
        status = make_output(c, i, domain, shape->dtype, shape->rank, shape->dims);
        if (status != INLAY_OK)
            return status;
        arg->rank = shape->rank;
    }
    return status;
}

static inlay_status give_workspace(dynamic_call *c, inlay_exec_args *args)
{
    dynamic_cache *cache = c->cache;
    uint64_t bytes = cache->workspace_bytes;

    if (bytes == 0)
        return INLAY_OK;
    if (on_device(c)) {
        inlay_status status = device_take(c->r, provider_index(c), c->domain, bytes, &c->workspace, c->diag);
        args->workspace = c->workspace;
        return status;
    }
    if (bytes > cache->workspace_room || (uintptr_t)cache->workspace % cache->workspace_alignment != 0) {
        inlay_status status = run_may_take(c->r->shared, bytes, c->diag);
        if (status != INLAY_OK)
            return status;
        run_memory_give(c->r->shared->tensors.memory, cache->workspace, cache->workspace_room);
        cache->workspace_room = 0;
        cache->memory = c->r->shared->tensors.memory;
        status = run_take(c->r->shared, bytes, cache->workspace_alignment, &cache->workspace, c->diag);
        if (status != INLAY_OK)
            return status;
        cache->workspace_room = bytes;
    }
    args->workspace = (inlay_buffer){ .handle = (uintptr_t)cache->workspace, .bytes = bytes };
    return INLAY_OK;
}

/* ------------------------------------------------------------------ devices */

static inlay_fence next_fence(dynamic_call *c)
{
    if ((c->provider->table->flags & INLAY_PROVIDER_ASYNC) == 0)
        return (inlay_fence){ 0 };
    return (inlay_fence){ c->cache->timeline, ++c->cache->signalled };
}

static inlay_status finish(dynamic_call *c, inlay_status status, inlay_fence fence)
{
    if (status != INLAY_OK || fence.timeline == 0)
        return status;
    status = in_flight_finish(c->r, c->provider, fence, c->diag);
    if (status != INLAY_OK &&
        !c->r->shared->hang.unwinding) { /* the next use is of a timeline that knows nothing of it */
        timeline_renew(&c->cache->timeline);
        c->cache->signalled = 0;
    }
    return status;
}

/* What the run made elsewhere is brought where the provider reads it; the plan has seen to all else. */
static inlay_status bring_inputs(dynamic_call *c)
{
    const program_step *ps = c->s->plan->step;

    for (uint32_t i = 0; i < ps->region->input_count; i++) {
        const uint32_t v = ps->region->inputs[i];
        rt_value x = runner_value(c->b, v);
        inlay_status status;

        if (c->in[i].buffer.domain == ps->placements[i].domain)
            continue;
        if (c->b->made.arrivals[v].timeline != 0 && c->b->made.twins[v]->buffer.domain == ps->placements[i].domain) {
            c->in[i].buffer = c->b->made.twins[v]->buffer;
            c->waits[c->wait_count++] = c->b->made.arrivals[v];
            continue;
        }
        status = stay_read(c->r, c->b, v, ps->placements[i].domain, &x, c->diag);
        if (status != INLAY_OK)
            return status;
        c->in[i].buffer = x.buffer;
    }
    return INLAY_OK;
}

static inlay_status execute(dynamic_call *c)
{
    const program_step *ps = c->s->plan->step;
    const part_region *r = ps->region;
    run_shared *shared = c->r->shared;
    inlay_exec_args args = { .struct_size = sizeof args,
                             .run = &shared->run,
                             .inputs = c->in,
                             .outputs = c->out,
                             .input_count = r->input_count,
                             .output_count = r->output_count,
                             .arg_stride = sizeof *c->in,
                             .waits = c->waits,
                             .wait_count = c->wait_count,
                             .own_wait_count = c->wait_count,
                             .cancel = shared->run.cancel,
                             .deadline_ns = shared->run.deadline_ns,
                             .diag = c->diag };
    inlay_status status = give_workspace(c, &args);

    if (status != INLAY_OK)
        return status;
    args.signal = next_fence(c);
    shared->dynamic = c;
    status = finish(c, c->provider->table->execute(c->provider->state, ps->compiled, c->cache->instance, &args),
                    args.signal);
    shared->dynamic = NULL;
    for (uint32_t i = 0; i < r->input_count && status == INLAY_OK; i++) { /* what it has waited for is there */
        const inlay_value *twin = c->b->made.twins[r->inputs[i]];

        if (twin != NULL && twin->buffer.domain == c->in[i].buffer.domain)
            c->b->made.arrivals[r->inputs[i]] = (inlay_fence){ 0 };
    }
    return status;
}

/* What the provider sized itself although its shape had been planned: later steps read the planned place. */
static inlay_status move_to_place(dynamic_call *c, uint32_t i)
{
    uint32_t v = c->s->plan->step->region->outputs[i];
    const inlay_value *made = c->made[i];
    const inlay_value_state *st = &c->b->plan->states[v];
    const inlay_buffer *to = &c->b->memory.buffers[c->b->plan->values[v].place];

    if (made->rank != st->rank || memcmp(made->dims, st->dims, st->rank * sizeof *st->dims) != 0)
        return inlay_fail(c->diag, INLAY_SHAPE_MISMATCH,
                          "provider %s gave output %u another shape than the operator's "
                          "shape inference",
                          c->provider->name, i);
    if (made->buffer.domain != INLAY_DOMAIN_HOST || to->domain != INLAY_DOMAIN_HOST)
        return stay_copy(c->r, &made->buffer, to, c->diag);
    if (made->buffer.bytes > 0)
        memcpy(inlay_buffer_host(to), value_data(made), (size_t)made->buffer.bytes);
    return INLAY_OK;
}

/* An output that has no place becomes the value, on the device where somebody wants it there. */
static inlay_status take_result(dynamic_call *c, uint32_t i)
{
    const uint32_t v = c->s->plan->step->region->outputs[i];
    rt_value x = rt_from_value(c->made[i]);
    inlay_value *home = c->made[i];

    if (x.buffer.domain != INLAY_DOMAIN_HOST && stay_domain(c->r, v) != x.buffer.domain) {
        inlay_status status = stay_move(c->r, &x, INLAY_DOMAIN_HOST, &home, c->diag);
        if (status != INLAY_OK)
            return status;
        pool_give(c->r->shared, c->made[i]);
    }
    c->made[i] = NULL;
    runner_set(c->r, c->b, v, home);
    return INLAY_OK;
}

/* Bounded outputs get the dims that execute wrote; allocated ones must be there. */
static inlay_status take_results(dynamic_call *c)
{
    const part_region *r = c->s->plan->step->region;

    for (uint32_t i = 0; i < r->output_count; i++) {
        const inlay_tensor_arg *arg = &c->out[i];
        uint32_t kind = c->cache->outputs[i].kind;
        int64_t dims[INLAY_MAX_RANK];

        if (kind == INLAY_OUTPUT_ALLOCATED && c->made[i] == NULL)
            return inlay_fail(c->diag, INLAY_INTERNAL, "provider %s gave no memory to output %u", c->provider->name, i);
        if (kind == INLAY_OUTPUT_BOUNDED) {
            if (arg->rank > INLAY_MAX_RANK)
                return inlay_fail(c->diag, INLAY_INTERNAL, "provider %s gave output %u rank %u", c->provider->name, i,
                                  arg->rank);
            memcpy(dims, arg->dims, arg->rank * sizeof *dims);
            if (!value_reshape(c->made[i], c->cache->shapes[i].dtype, arg->rank, dims) ||
                c->made[i]->buffer.bytes > c->cache->outputs[i].max_bytes)
                return inlay_fail(c->diag, INLAY_INTERNAL, "provider %s made output %u larger than its bound",
                                  c->provider->name, i);
        }
        if (c->made[i] != NULL) {
            inlay_status status = has_place(c, r->outputs[i]) ? move_to_place(c, i) : take_result(c, i);
            if (status != INLAY_OK)
                return status;
        }
    }
    return INLAY_OK;
}

static dynamic_cache *cache_of(bound_step *s, const part_provider *provider, inlay_diag *diag)
{
    if (s->cache == NULL) {
        s->cache = calloc(1, sizeof *s->cache);
        if (s->cache != NULL && (provider->table->flags & INLAY_PROVIDER_ASYNC) != 0 &&
            timeline_create(&s->cache->timeline, diag) != INLAY_OK) {
            free(s->cache);
            s->cache = NULL;
        }
    }
    return s->cache;
}

inlay_status dynamic_run(struct runner *r, struct bound *b, bound_step *s, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    const program_step *ps = s->plan->step;
    const part_region *region = ps->region;
    size_t tensors = (size_t)region->input_count + region->output_count + 1;
    dynamic_call c = {
        .r = r, .b = b, .s = s, .provider = ps->provider, .diag = diag, .domain = part_default_domain(ps->provider)
    };
    rt_value *in;

    arena_reset(&b->made.scratch);
    in = arena_array(&b->made.scratch, tensors, sizeof *in);
    c.in = arena_array(&b->made.scratch, tensors, sizeof *c.in);
    c.waits = arena_array(&b->made.scratch, tensors, sizeof *c.waits);
    c.made = arena_array(&b->made.scratch, tensors, sizeof(inlay_value *));
    c.cache = cache_of(s, ps->provider, diag);
    if (in == NULL || c.in == NULL || c.waits == NULL || c.made == NULL || c.cache == NULL)
        return no_memory(c.diag, "to size a step at run time");
    c.out = c.in + region->input_count;
    for (uint32_t i = 0; i < region->input_count; i++) {
        uint32_t v = region->inputs[i];
        in[i] = runner_value(b, v);
        if (in[i].kind != INLAY_KIND_TENSOR)
            return inlay_fail(diag, INLAY_INVALID_MODEL, "input '%s' is %s, not a tensor",
                              r->prog->graph->values[v].info.name.data, in[i].kind == 0 ? "absent" : "a list");
        if (in[i].dtype != r->prog->graph->values[v].info.dtype)
            return inlay_fail(diag, INLAY_INVALID_MODEL, "input '%s' is %s where %s was expected",
                              r->prog->graph->values[v].info.name.data, inlay_dtype_name(in[i].dtype),
                              inlay_dtype_name(r->prog->graph->values[v].info.dtype));
        c.in[i] = (inlay_tensor_arg){
            .buffer = in[i].buffer, .dims = (int64_t *)(uintptr_t)in[i].dims, .rank = in[i].rank, .dtype = in[i].dtype
        };
        if (b->plan->places[s->plan->in[i]].source != PLACE_DYNAMIC)
            c.in[i].buffer = b->memory.buffers[s->plan->in[i]];
        if (!plan_is_ready(&b->plan->places[b->plan->values[v].place]))
            in[i].buffer = c.in[i].buffer;
    }
    INLAY_TRY(size_step(&c, in));
    INLAY_TRY(bring_inputs(&c));
    for (uint32_t i = 0; i < region->output_count; i++)
        INLAY_TRY(give_output(&c, i));
    INLAY_TRY(execute(&c));
    INLAY_TRY(take_results(&c));
done:
    if (r->shared->hang.unwinding)
        return status;
    device_give(r->prog->env, provider_index(&c), &c.workspace);
    for (uint32_t i = 0; i < region->output_count; i++)
        pool_give(r->shared, c.made[i]);
    return status;
}
