/* exec/loop/ports.c - graph inputs and outputs of a run: binds the memory that steps read and write directly, and moves
 * the remaining outputs to where the caller wants them. */
#include "exec/loop/ports.h"
#include "exec/device/residency.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include "plugin/plugin.h"
#include "threads/fence.h"
#include <string.h>

void runner_set(struct runner *runner, struct bound *bound, uint32_t value_index, inlay_value *value)
{
    INLAY_CHECK(value_index < runner->prog->graph->value_count);
    if (value != NULL && value->kind == INLAY_KIND_TENSOR)
        observed_shapes_record(bound, value_index, value->rank, value->dims);
    /* The failure was reported already, or is reported when the value is read. */
    if (bound->dynamic.mirror_fences != NULL && prefetch_wait(runner, bound, value_index, NULL) != INLAY_OK &&
        runner->shared->hang.unwinding)
        return;
    pool_give(runner->shared, bound->dynamic.values[value_index].owner);
    bound->dynamic.values[value_index] = run_value_of(value);
    if (bound->dynamic.mirrors != NULL) {
        pool_give(runner->shared, bound->dynamic.mirrors[value_index]);
        bound->dynamic.mirrors[value_index] = NULL;
    }
}

void runner_bind_inputs(struct runner *runner, struct bound *bound, const run_value *inputs)
{
    const struct graph *graph = runner->prog->graph;
    uint32_t count = graph->input_count + graph->captured_count;

    bound->ports.inputs = inputs;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t value = i < graph->input_count ? graph->inputs[i] : graph->captured[i - graph->input_count];
        uint32_t place = bound->plan->values[value].place;

        INLAY_CHECK(place == INLAY_NONE || place < bound->plan->place_count);
        if (place == INLAY_NONE || bound->plan->places[place].source != PLACE_INPUT ||
            bound->plan->places[place].index != i)
            continue;
        bound->memory.buffers[place] = inputs[i].buffer;
        /* Keep the objects, so that lists and loop-carried tensors are passed on instead of being copied. */
        if (inputs[i].kind != INLAY_KIND_TENSOR || inputs[i].owner != NULL) {
            bound->dynamic.values[value] = inputs[i];
            bound->dynamic.has_objects = true;
            value_ref(inputs[i].owner);
        }
    }
}

/* Returns whether the output `want` shares bytes with an input, so that a step could overwrite an input that is still
 * needed. */
static bool overlaps_inputs(const struct runner *runner, const inlay_value *want, const run_value *inputs)
{
    const struct graph *graph = runner->prog->graph;
    const bool on_host = want->buffer.domain == INLAY_DOMAIN_HOST;
    const uint64_t begin = (on_host ? want->buffer.handle : 0) + want->buffer.offset, end = begin + want->capacity;

    for (uint32_t i = 0; i < graph->input_count + graph->captured_count; i++) {
        const inlay_buffer *buffer = &inputs[i].buffer;
        const uint64_t in = (on_host ? buffer->handle : 0) + buffer->offset;

        if (inputs[i].kind == INLAY_KIND_TENSOR && buffer->domain == want->buffer.domain &&
            (on_host || buffer->handle == want->buffer.handle) && in < end && begin < in + buffer->bytes)
            return true;
    }
    return false;
}

static inlay_status fail_too_small(uint32_t k, uint64_t bytes, const inlay_value *want, inlay_diag *diag)
{
    return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                      "output %u takes %llu bytes: the value on the device that it is bound to "
                      "has %llu, or is an input, too",
                      k, (unsigned long long)bytes, (unsigned long long)want->capacity);
}

/* Returns whether the value has memory in the domain and the caller holds the only reference. *out: its buffer in that
 * domain. */
static bool output_is_exclusive(const inlay_value *value, uint32_t domain, inlay_buffer *out)
{
    *out = value->buffer;
    return device_value_is_exclusive(value, domain) ||
           (value_is_shared(value, domain, out) && __atomic_load_n(&value->references, __ATOMIC_ACQUIRE) == 1);
}

/* Binds output k to memory that the host shares with a device; the caller's memory if possible. *device_buffer: the
 * buffer as the device addresses it. */
static inlay_status bind_shared(struct runner *runner, uint32_t k, const inlay_value_state *state, uint64_t bytes,
                                const run_value *inputs, inlay_buffer *device_buffer, inlay_diag *diag)
{
    const uint32_t domain = runner->out.shares[k].now;
    inlay_value **out = &runner->out.values[k], *want = runner->out.wanted[k], *swap;

    if (want != NULL && want->capacity >= bytes && !overlaps_inputs(runner, want, inputs) &&
        value_reshape(want, state->dtype, state->rank, state->dims) &&
        map_into_domain(runner, want, domain, device_buffer)) {
        if (*out != want) {
            value_unref(*out);
            *out = value_ref(want);
        }
        return INLAY_OK;
    }
    if (*out != NULL && !output_is_exclusive(*out, domain, device_buffer)) {
        swap = runner->out.spares[k];
        runner->out.spares[k] = *out;
        *out = swap;
    }
    if (*out != NULL &&
        (!output_is_exclusive(*out, domain, device_buffer) || (*out)->buffer.domain != INLAY_DOMAIN_HOST ||
         !value_reshape(*out, state->dtype, state->rank, state->dims))) {
        value_unref(*out);
        *out = NULL;
    }
    if (*out == NULL) {
        const inlay_status status =
            shared_value_create(runner, domain, state->dtype, state->rank, state->dims, out, diag);
        if (status != INLAY_OK)
            return status;
    }
    (void)value_is_shared(*out, domain, device_buffer);
    return INLAY_OK;
}

/* Binds output k to a device's own memory. */
static inlay_status bind_on_device(struct runner *runner, uint32_t k, uint32_t domain, const inlay_value_state *state,
                                   inlay_diag *diag)
{
    inlay_value **out = &runner->out.values[k], *swap;

    if (*out != NULL && !device_value_is_exclusive(*out, domain)) {
        swap = runner->out.spares[k];
        runner->out.spares[k] = *out;
        *out = swap;
    }
    if (*out != NULL &&
        (!device_value_is_exclusive(*out, domain) || !value_reshape(*out, state->dtype, state->rank, state->dims))) {
        value_unref(*out);
        *out = NULL;
    }
    return *out == NULL ? device_value_create(runner, domain, INLAY_USE_OUTPUT, state->dtype, state->rank, state->dims,
                                              out, diag)
                        : INLAY_OK;
}

/* Binds output k to host memory. If the caller still holds the last result, the run uses the spare memory instead. */
static inlay_status bind_on_host(struct runner *runner, uint32_t k, const inlay_value_state *state, inlay_diag *diag)
{
    inlay_value **out = &runner->out.values[k], *swap;

    if (*out != NULL && !value_is_reusable(*out)) {
        swap = runner->out.spares[k];
        runner->out.spares[k] = *out;
        *out = swap;
    }
    if (*out != NULL && (!value_is_reusable(*out) || !value_reshape(*out, state->dtype, state->rank, state->dims))) {
        value_unref(*out);
        *out = NULL;
    }
    return *out == NULL ? pool_take(runner->shared, state->dtype, state->rank, state->dims, out, diag) : INLAY_OK;
}

/* Binds the output whose place is `place`. *to is the buffer that steps write, *other its alias in the other domain of
 * shared memory. */
static inlay_status bind_output(struct runner *runner, const plan_place *place, const inlay_value_state *state,
                                const run_value *inputs, inlay_buffer *to, inlay_buffer *other, inlay_diag *diag)
{
    const uint32_t k = place->index;
    inlay_value **out = &runner->out.values[k], *want = runner->out.wanted[k];
    inlay_status status = INLAY_OK;

    INLAY_CHECK(k < runner->prog->graph->output_count && place->source == PLACE_OUTPUT);
    if (runner->out.shares != NULL && runner->out.shares[k].now != INLAY_DOMAIN_HOST) {
        status = bind_shared(runner, k, state, place->bytes, inputs, other, diag);
        if (status == INLAY_OK)
            *to = (*out)->buffer;
        if (status == INLAY_OK && place->domain != INLAY_DOMAIN_HOST) {
            const inlay_buffer host_buffer = *to;

            *to = *other;
            *other = host_buffer;
        }
        return status;
    }
    if (want != NULL && want->capacity >= place->bytes && want->buffer.domain == place->domain &&
        want->buffer.handle != 0 && !overlaps_inputs(runner, want, inputs) &&
        value_reshape(want, state->dtype, state->rank, state->dims)) {
        if (*out != want) {
            value_unref(*out);
            *out = value_ref(want);
        }
    } else if (place->domain != INLAY_DOMAIN_HOST && want != NULL) {
        return fail_too_small(k, place->bytes, want, diag);
    } else {
        status = place->domain != INLAY_DOMAIN_HOST ? bind_on_device(runner, k, place->domain, state, diag)
                                                    : bind_on_host(runner, k, state, diag);
    }
    if (status == INLAY_OK)
        *to = (*out)->buffer;
    return status;
}

inlay_status runner_bind_outputs(struct runner *runner, struct bound *bound, const run_value *inputs, inlay_diag *diag)
{
    const struct graph *graph = runner->prog->graph;
    const struct plan *plan = bound->plan;

    for (uint32_t i = 0; i < plan->place_count; i++) {
        const plan_place *place = &plan->places[i];
        inlay_buffer other = { 0 };
        inlay_status status;

        if (place->source != PLACE_OUTPUT)
            continue;
        if (runner->out.placed != NULL && runner->out.placed[place->index].handle != 0) {
            value_unref(runner->out.values[place->index]);
            runner->out.values[place->index] = NULL;
            bound->memory.buffers[i] = runner->out.placed[place->index];
            continue;
        }
        status = bind_output(runner, place, &plan->states[graph->outputs[place->index]], inputs,
                             &bound->memory.buffers[i], &other, diag);
        if (status != INLAY_OK)
            return status;
        for (uint32_t value = 0; plan->port_views > 0 && value < plan->place_count; value++)
            if (plan->places[value].source == PLACE_VIEW && plan->places[value].index == i)
                bound->memory.buffers[value] = other;
    }
    for (uint32_t value = 0; plan->port_views > 0 && value < plan->place_count; value++)
        if (plan->places[value].source == PLACE_VIEW && plan->places[plan->places[value].index].source == PLACE_INPUT)
            bound->memory.buffers[value] = inputs[plan->places[plan->places[value].index].index].alias;
    return INLAY_OK;
}

/* The domain that shares the memory of output k with the host in this run; INLAY_DOMAIN_HOST: none. */
static uint32_t shared_output_domain(const struct runner *runner, uint32_t k)
{
    const uint32_t output_domain = runner->out.domains != NULL ? runner->out.domains[k] : (uint32_t)INLAY_DOMAIN_HOST;
    const uint32_t domain =
        domain_is_shared(runner->prog->env, output_domain) ? output_domain : runner->out.shares[k].domain;
    inlay_buffer device_buffer;

    if (domain == INLAY_DOMAIN_HOST || runner_output_domain(runner, k) != INLAY_DOMAIN_HOST ||
        !domain_is_shared(runner->prog->env, domain))
        return INLAY_DOMAIN_HOST;
    return runner->out.wanted[k] == NULL || map_into_domain(runner, runner->out.wanted[k], domain, &device_buffer)
               ? domain
               : (uint32_t)INLAY_DOMAIN_HOST;
}

uint32_t runner_output_key(const struct runner *runner, plan_input *out)
{
    const uint32_t count = runner->prog->graph->output_count;
    bool any = false;

    for (uint32_t k = 0; k < count; k++) {
        const uint32_t shared =
            runner->out.shares != NULL ? shared_output_domain(runner, k) : (uint32_t)INLAY_DOMAIN_HOST;

        out[k] = (plan_input){ .domain = runner_output_domain(runner, k) };
        if (shared != INLAY_DOMAIN_HOST) {
            const bool made = runner->out.shares[k].made && runner->out.shares[k].domain == shared;

            out[k].domain = made ? shared : (uint32_t)INLAY_DOMAIN_HOST;
            out[k].also = 1 + (made ? (uint32_t)INLAY_DOMAIN_HOST : shared);
        }
        if (runner->out.shares != NULL)
            runner->out.shares[k].now = shared;
        any |= out[k].domain != INLAY_DOMAIN_HOST || out[k].also != 0;
    }
    return any ? count : 0;
}

/* Creates an object for output k from its current value: in host memory, unless the caller wants it in another
 * domain. */
static inlay_status create_output_object(struct runner *runner, struct bound *bound, uint32_t k, run_value *now,
                                         inlay_value **made, inlay_diag *diag)
{
    const bool movable = now->kind == INLAY_KIND_TENSOR && now->dtype != INLAY_STRING;

    if (movable && runner_output_domain(runner, k) == INLAY_DOMAIN_HOST) {
        inlay_status status =
            read_in_domain(runner, bound, runner->prog->graph->outputs[k], INLAY_DOMAIN_HOST, now, diag);
        if (status != INLAY_OK)
            return status;
    }
    return movable && now->owner == NULL && now->buffer.domain != INLAY_DOMAIN_HOST
               ? copy_to_domain(runner, now, now->buffer.domain, made, diag)
               : pool_value(runner->shared, now, made, diag);
}

/* Copies output k, which could not be computed in place, to the memory that the caller wants. */
static inlay_status copy_to_requested(struct runner *runner, uint32_t k, inlay_diag *diag)
{
    inlay_value *want = runner->out.wanted[k], *made = runner->out.values[k];
    const bool on_host = want->buffer.domain == INLAY_DOMAIN_HOST && made->buffer.domain == INLAY_DOMAIN_HOST;
    inlay_status status = INLAY_OK;

    INLAY_CHECK(want != NULL && made != NULL && want != made);
    if (!value_reshape(want, made->dtype, made->rank, made->dims))
        return on_host ? INLAY_OK : fail_too_small(k, made->buffer.bytes, want, diag);
    if (on_host)
        memmove(value_data(want), value_data(made), (size_t)want->buffer.bytes);
    else
        status = copy_between_domains(runner, &made->buffer, &want->buffer, diag);
    if (status != INLAY_OK)
        return status;
    runner->out.values[k] = value_ref(want);
    pool_give(runner->shared, made);
    return INLAY_OK;
}

inlay_status runner_gather_outputs(struct runner *runner, struct bound *bound, inlay_diag *diag)
{
    const struct graph *graph = runner->prog->graph;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; runner->in.ready != NULL && status == INLAY_OK && i < graph->input_count + graph->output_count;
         i++)
        status = fence_wait(runner->in.ready[i], &runner->shared->run, diag);
    for (uint32_t k = 0; k < graph->output_count && status == INLAY_OK; k++) {
        uint32_t value = graph->outputs[k], place = value == INLAY_NONE ? INLAY_NONE : bound->plan->values[value].place;
        inlay_value *made = NULL;
        run_value now;

        if (place != INLAY_NONE && bound->plan->places[place].source == PLACE_OUTPUT &&
            bound->plan->places[place].index == k)
            continue;
        now = runner_value(bound, value);
        if (now.kind != 0)
            status = create_output_object(runner, bound, k, &now, &made, diag);
        if (status != INLAY_OK)
            return status;
        pool_give(runner->shared, runner->out.values[k]);
        runner->out.values[k] = made;
    }
    /* Last, because these copies may overwrite inputs: outputs that could not be computed in the caller's memory. */
    for (uint32_t k = 0; k < graph->output_count && status == INLAY_OK; k++) {
        const inlay_value *want = runner->out.wanted[k], *made = runner->out.values[k];

        if (want != NULL && made != NULL && made != want && made->kind == INLAY_KIND_TENSOR &&
            made->dtype != INLAY_STRING && want->buffer.handle != 0)
            status = copy_to_requested(runner, k, diag);
    }
    return status;
}

void runner_retain_outputs(struct runner *runner)
{
    for (uint32_t k = 0; k < runner->prog->graph->output_count && runner->shared->hang.unwinding; k++) {
        if (runner->out.spares[k] != NULL)
            value_unref(runner->out.spares[k]);
        runner->out.spares[k] = runner->out.values[k];
        runner->out.values[k] = NULL;
    }
}
