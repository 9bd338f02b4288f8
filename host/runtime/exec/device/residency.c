/* exec/device/residency.c - values stay on the device that computes them until they are read elsewhere. */
#include "exec/device/residency.h"
#include "base/memory.h"
#include "base/provider_calls.h"
#include "exec/device/device_memory.h"
#include "exec/device/in_flight.h"
#include "inlay/check.h"
#include "plugin/plugin.h"
#include "threads/fence.h"
#include <stdlib.h>
#include <string.h>

typedef struct resident_owner {
    const program_env *env;
    uint32_t provider, reserved;
} resident_owner;

static void free_on_device(void *owner, inlay_value *value)
{
    resident_owner *device = owner;
    inlay_buffer whole = value->buffer;

    whole.bytes = value->capacity;
    device_memory_free(device->env, device->provider, &whole);
    free(device);
}

/* The allocator: device_memory_alloc() or device_memory_try_alloc(). */
typedef inlay_status (*take_fn)(struct runner *runner, uint32_t provider, uint32_t domain, uint64_t bytes,
                                buffer_use use, inlay_buffer *out, inlay_diag *diag);

static inlay_status create_with(take_fn take, struct runner *runner, uint32_t domain, uint32_t usage, inlay_dtype dtype,
                                uint32_t rank, const int64_t *dims, inlay_value **out, inlay_diag *diag)
{
    const uint32_t provider = plan_owner_of(runner->prog->env, domain);
    resident_owner *owner = malloc(sizeof *owner);
    inlay_value *value = NULL;
    inlay_buffer buffer;
    inlay_status status;

    *out = NULL;
    if (owner == NULL || provider == INLAY_NONE) {
        free(owner);
        return no_memory(diag, "for a value on a device");
    }
    status = value_describe(dtype, rank, dims, &value, diag);
    if (status == INLAY_OK) {
        value->capacity = value->buffer.bytes > 0 ? value->buffer.bytes : 1;
        status = take(runner, provider, domain, value->capacity,
                      (buffer_use){ .usage = usage, .lifetime = INLAY_LIFETIME_RUN }, &buffer, diag);
    }
    if (status != INLAY_OK) {
        value_unref(value);
        free(owner);
        return status;
    }
    *owner = (resident_owner){ .env = runner->prog->env, .provider = provider };
    buffer.bytes = value->buffer.bytes;
    value->buffer = buffer;
    value->owner = owner;
    value->free_memory = free_on_device;
    *out = value;
    return INLAY_OK;
}

inlay_status device_value_create(struct runner *runner, uint32_t domain, uint32_t usage, inlay_dtype dtype,
                                 uint32_t rank, const int64_t *dims, inlay_value **out, inlay_diag *diag)
{
    return create_with(device_memory_alloc, runner, domain, usage, dtype, rank, dims, out, diag);
}

bool device_value_is_exclusive(const inlay_value *value, uint32_t domain)
{
    return value->free_memory == free_on_device && value->buffer.domain == domain &&
           __atomic_load_n(&value->references, __ATOMIC_ACQUIRE) == 1;
}

/* `provider` owns one or both ends of the copy. */
static inlay_status copy_with(struct runner *runner, const partition_provider *provider, const inlay_buffer *from,
                              const inlay_buffer *to, inlay_diag *diag)
{
    inlay_fence done = { 0, 1 };
    inlay_status status = INLAY_OK;

    if ((provider->table->flags & INLAY_PROVIDER_ASYNC) != 0)
        status = timeline_create(&done.timeline, diag);
    if (status == INLAY_OK)
        status = call_copy(provider->table, provider->state, &runner->shared->run, from, to, NULL, done, diag);
    if (status == INLAY_OK && done.timeline != 0)
        status = in_flight_wait_fence(runner, provider, done, diag);
    if (status != INLAY_OK)
        runner->failed = provider;
    if (status == INLAY_DEVICE_LOST)
        provider_lost(provider->state);
    if (!runner->shared->hang.unwinding)
        timeline_destroy(done.timeline);
    return status;
}

inlay_status copy_between_domains(struct runner *runner, const inlay_buffer *from, const inlay_buffer *to,
                                  inlay_diag *diag)
{
    const program_env *env = runner->prog->env;
    const uint32_t source = plan_owner_of(env, from->domain), target = plan_owner_of(env, to->domain);
    const int64_t bytes = (int64_t)from->bytes;
    inlay_value *staging = NULL;
    inlay_status status;

    if (bytes == 0)
        return INLAY_OK;
    if (source == INLAY_NONE || target == INLAY_NONE || source == target)
        return copy_with(runner, &env->providers[source != INLAY_NONE ? source : target], from, to, diag);
    /* Values of one run, which the plan does not place: through host memory, also if the devices share memory. */
    status = pool_take(runner->shared, INLAY_UINT8, 1, &bytes, &staging, diag);
    if (status == INLAY_OK)
        status = copy_with(runner, &env->providers[source], from, &staging->buffer, diag);
    if (status == INLAY_OK)
        status = copy_with(runner, &env->providers[target], &staging->buffer, to, diag);
    pool_give(runner->shared, staging);
    return status;
}

inlay_status copy_to_domain(struct runner *runner, const run_value *value, uint32_t domain, inlay_value **out,
                            inlay_diag *diag)
{
    inlay_status status;

    value_ref(value->owner); /* the allocation may evict values with a single reference */
    status = domain == INLAY_DOMAIN_HOST ? pool_take(runner->shared, value->dtype, value->rank, value->dims, out, diag)
                                         : device_value_create(runner, domain, INLAY_USE_INNER, value->dtype,
                                                               value->rank, value->dims, out, diag);
    if (status == INLAY_OK)
        status = copy_between_domains(runner, &value->buffer, &(*out)->buffer, diag);
    else
        *out = NULL;
    if (status != INLAY_OK) {
        pool_give(runner->shared, *out);
        *out = NULL;
    }
    value_unref(value->owner);
    return status;
}

uint32_t live_domain(const program_env *env, uint32_t domain)
{
    const uint32_t provider = plan_owner_of(env, domain);

    return provider == INLAY_NONE || provider_is_lost(env->providers[provider].state) ? (uint32_t)INLAY_DOMAIN_HOST
                                                                                      : domain;
}

uint32_t next_reader_domain(const struct runner *runner, uint32_t value)
{
    const uint32_t k = runner->prog->output_of[value];
    uint32_t domain = runner->prog->uses.reader_domain[value];

    if (domain == INLAY_DOMAIN_HOST && k != INLAY_NONE)
        domain = runner->out.wanted[k] == NULL && runner->out.domains != NULL ? runner->out.domains[k]
                                                                              : runner_output_domain(runner, k);
    return live_domain(runner->prog->env, domain);
}

uint32_t storage_domain(const struct runner *runner, uint32_t domain)
{
    return domain_is_shared(runner->prog->env, domain) ? (uint32_t)INLAY_DOMAIN_HOST : domain;
}

uint32_t residency_domain(const struct runner *runner, uint32_t value)
{
    return storage_domain(runner, next_reader_domain(runner, value));
}

inlay_status read_in_domain(struct runner *runner, struct bound *bound, uint32_t index, uint32_t domain,
                            run_value *current, inlay_diag *diag)
{
    inlay_value *made;
    inlay_status status;

    INLAY_CHECK(index < runner->prog->graph->value_count);
    if (current->kind != INLAY_KIND_TENSOR || current->buffer.domain == domain || current->dtype == INLAY_STRING)
        return INLAY_OK;
    if (current->alias.handle != 0 && current->alias.domain == domain) {
        current->buffer = current->alias;
        return INLAY_OK;
    }
    status = prefetch_wait(runner, bound, index, diag);
    if (status != INLAY_OK)
        return status;
    if (bound->dynamic.mirrors[index] == NULL || bound->dynamic.mirrors[index]->buffer.domain != domain) {
        status = copy_to_domain(runner, current, domain, &made, diag);
        if (status != INLAY_OK)
            return status;
        pool_give(runner->shared, bound->dynamic.mirrors[index]);
        bound->dynamic.mirrors[index] = made;
        bound->dynamic.has_objects = true;
    }
    *current = run_value_of(bound->dynamic.mirrors[index]);
    return INLAY_OK;
}

/* Each copy waits for the previous one, so one timeline is sufficient for all of them. */
void prefetch_begin(struct runner *runner, struct bound *bound, uint32_t index)
{
    const run_value source = runner_value(bound, index);
    const uint32_t domain = live_domain(runner->prog->env, runner->prog->uses.region_domain[index]);
    const partition_provider *provider =
        domain != INLAY_DOMAIN_HOST ? &runner->prog->env->providers[plan_owner_of(runner->prog->env, domain)] : NULL;
    inlay_value *made = NULL;
    inlay_status status;

    if (provider == NULL || (provider->table->flags & INLAY_PROVIDER_ASYNC) == 0 || source.owner == NULL ||
        source.kind != INLAY_KIND_TENSOR || source.buffer.domain != INLAY_DOMAIN_HOST || source.dtype == INLAY_STRING ||
        source.buffer.bytes == 0 || bound->dynamic.mirrors[index] != NULL ||
        (source.alias.handle != 0 && source.alias.domain == domain) ||
        (bound->dynamic.last_mirror_fence.timeline == 0 &&
         timeline_create(&bound->dynamic.last_mirror_fence.timeline, NULL) != INLAY_OK))
        return;
    status = create_with(device_memory_try_alloc, runner, domain, INLAY_USE_INNER, source.dtype, source.rank,
                         source.dims, &made, NULL);
    if (status == INLAY_OK) {
        const inlay_fence before = bound->dynamic.last_mirror_fence, done = { before.timeline, before.value + 1 };
        const inlay_copy_request request = { .struct_size = sizeof request,
                                             .run = &runner->shared->run,
                                             .copies = &(inlay_copy){ source.buffer, made->buffer },
                                             .copy_count = 1,
                                             .copy_stride = sizeof(inlay_copy),
                                             .waits = &before,
                                             .wait_count = before.value > 0,
                                             .own_wait_count = before.value > 0,
                                             .signal = done };

        status = provider->table->buffer_copy(provider->state, &request, NULL);
        bound->dynamic.last_mirror_fence = status == INLAY_OK ? done : before;
    }
    if (status != INLAY_OK) {
        pool_give(runner->shared, made);
        return;
    }
    bound->dynamic.mirrors[index] = made;
    bound->dynamic.mirror_fences[index] = bound->dynamic.last_mirror_fence;
    bound->dynamic.has_objects = true;
}

inlay_status prefetch_wait(struct runner *runner, struct bound *bound, uint32_t index, inlay_diag *diag)
{
    const inlay_fence fence = bound->dynamic.mirror_fences[index];
    const partition_provider *provider;
    inlay_status status;

    INLAY_CHECK(fence.timeline == 0 || bound->dynamic.mirrors[index] != NULL);
    bound->dynamic.mirror_fences[index] = (inlay_fence){ 0 };
    if (fence.timeline == 0)
        return INLAY_OK;
    provider =
        &runner->prog->env->providers[plan_owner_of(runner->prog->env, bound->dynamic.mirrors[index]->buffer.domain)];
    status = in_flight_wait_fence(runner, provider, fence, diag);
    if (status == INLAY_OK)
        return status;
    bound->flight.poisoned = true;
    runner->failed = provider;
    if (status == INLAY_DEVICE_LOST)
        provider_lost(provider->state);
    return status;
}

void release_device_values(struct runner *runner, inlay_value **list)
{
    for (uint32_t k = 0; k < runner->prog->graph->output_count; k++) {
        if (list[k] == NULL || list[k]->free_memory != free_on_device)
            continue;
        value_unref(list[k]);
        list[k] = NULL;
    }
}

uint32_t producing_domain(const struct program *program, uint32_t value)
{
    for (uint32_t step = 0; step < program->step_count; step++) {
        const partition_region *region = program->steps[step].region;

        for (uint32_t i = 0; program->steps[step].provider != NULL && i < region->output_count; i++)
            if (region->outputs[i] == value)
                return program->steps[step].placements[region->input_count + i].domain;
    }
    return INLAY_DOMAIN_HOST;
}

static bool is_output_once(const struct graph *graph, uint32_t value)
{
    uint32_t count = 0;

    for (uint32_t k = 0; k < graph->output_count; k++)
        count += graph->outputs[k] == value;
    return count == 1;
}

bool output_can_be_resident(const struct graph *graph, uint32_t value)
{
    return value != INLAY_NONE && is_output_once(graph, value) &&
           graph->values[value].info.kind == INLAY_VALUE_TENSOR && graph->values[value].info.dtype != INLAY_STRING;
}

bool domain_is_shared(const program_env *env, uint32_t domain)
{
    const uint32_t provider = plan_owner_of(env, domain);

    for (uint32_t i = 0; provider != INLAY_NONE && env->rules != NULL && i < env->rules->limit_count; i++)
        if (strcmp(env->rules->limits[i].provider, env->providers[provider].name) == 0)
            return false;
    return provider != INLAY_NONE && plan_is_unified(env, domain) &&
           partition_default_domain(&env->providers[provider]) == domain &&
           !provider_is_lost(env->providers[provider].state);
}

inlay_status shared_value_create(const struct runner *runner, uint32_t domain, inlay_dtype dtype, uint32_t rank,
                                 const int64_t *dims, inlay_value **out, inlay_diag *diag)
{
    return value_create_shared(provider_of_domain(domain, NULL), runner->prog->env->runs.priority, dtype, rank, dims,
                               out, diag);
}

bool map_into_domain(const struct runner *runner, inlay_value *value, uint32_t domain, inlay_buffer *device_buffer)
{
    const partition_provider *provider = &runner->prog->env->providers[plan_owner_of(runner->prog->env, domain)];

    return value->buffer.domain == INLAY_DOMAIN_HOST && value->buffer.handle != 0 &&
           (value_is_shared(value, domain, device_buffer) ||
            (provider->table->buffer_import != NULL &&
             (plan_domain(runner->prog->env, domain)->flags & INLAY_DOMAIN_IMPORTS_HOST) != 0 &&
             value->buffer.bytes > 0 && value_import(value, provider_of_domain(domain, NULL), domain, device_buffer)));
}

inlay_status create_host_value(struct runner *runner, uint32_t value, inlay_dtype dtype, uint32_t rank,
                               const int64_t *dims, inlay_value **out, inlay_diag *diag)
{
    const uint32_t domain =
        value != INLAY_NONE && dtype != INLAY_STRING ? next_reader_domain(runner, value) : (uint32_t)INLAY_DOMAIN_HOST;

    /* With a limit of host memory, allocate from the host, where memory is counted and the error names the limit. */
    if (runner->prog->env->memory.held_bytes == NULL && domain_is_shared(runner->prog->env, domain) &&
        shared_value_create(runner, domain, dtype, rank, dims, out, NULL) == INLAY_OK) {
        if ((*out)->buffer.bytes <= runner->shared->tensors.max_bytes)
            return INLAY_OK;
        value_unref(*out);
    }
    return pool_take(runner->shared, dtype, rank, dims, out, diag);
}

bool init_output_shares(struct runner *runner)
{
    const struct program *program = runner->prog;
    const struct graph *graph = program->graph;
    bool any = false;

    for (uint32_t i = 0; i < program->env->provider_count; i++)
        any |= domain_is_shared(program->env, partition_default_domain(&program->env->providers[i]));
    if (!any || program->env->state_count > 0)
        return true;
    runner->out.shares = calloc((size_t)graph->output_count + 1, sizeof *runner->out.shares);
    for (uint32_t k = 0; runner->out.shares != NULL && k < graph->output_count; k++) {
        const uint32_t value = graph->outputs[k], made = output_can_be_resident(graph, value)
                                                             ? producing_domain(program, value)
                                                             : (uint32_t)INLAY_DOMAIN_HOST;

        runner->out.shares[k].made = made != INLAY_DOMAIN_HOST;
        runner->out.shares[k].domain = made != INLAY_DOMAIN_HOST || !output_can_be_resident(graph, value)
                                           ? made
                                           : program->uses.reader_domain[value];
        if (!domain_is_shared(program->env, runner->out.shares[k].domain))
            runner->out.shares[k].domain = INLAY_DOMAIN_HOST;
    }
    return runner->out.shares != NULL;
}

uint32_t runner_output_domain(const struct runner *runner, uint32_t k)
{
    const uint32_t output_domain = runner->out.domains != NULL ? runner->out.domains[k] : (uint32_t)INLAY_DOMAIN_HOST;

    return runner->out.wanted[k] != NULL                        ? runner->out.wanted[k]->buffer.domain
           : domain_is_shared(runner->prog->env, output_domain) ? (uint32_t)INLAY_DOMAIN_HOST
                                                                : output_domain;
}
