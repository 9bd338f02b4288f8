/* exec/device/stay.c - values stay on the device that makes them for as long as nobody reads them elsewhere. */
#include "exec/device/stay.h"
#include "base/memory.h"
#include "exec/device/device_memory.h"
#include "exec/device/in_flight.h"
#include "plugin/plugin.h"
#include "threads/fence.h"
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ values on a device, of one run */

typedef struct device_owner {
    const program_env *env;
    uint32_t provider, reserved;
} device_owner;

static void free_on_device(void *owner, inlay_value *value)
{
    device_owner *o = owner;
    inlay_buffer whole = value->buffer;

    whole.bytes = value->capacity;
    device_give(o->env, o->provider, &whole);
    free(o);
}

/* How the memory is taken: device_take() or device_try(). */
typedef inlay_status (*take_fn)(struct runner *r, uint32_t p, uint32_t domain, uint64_t bytes, inlay_buffer *out,
                                inlay_diag *diag);

static inlay_status make_by(take_fn take, struct runner *r, uint32_t domain, inlay_dtype dtype, uint32_t rank,
                            const int64_t *dims, inlay_value **out, inlay_diag *diag)
{
    const uint32_t p = plan_owner_of(r->prog->env, domain);
    device_owner *owner = malloc(sizeof *owner);
    inlay_value *v = NULL;
    inlay_buffer buffer;
    inlay_status status;

    *out = NULL;
    if (owner == NULL || p == INLAY_NONE) {
        free(owner);
        return no_memory(diag, "for a value on a device");
    }
    status = value_describe(dtype, rank, dims, &v, diag);
    if (status == INLAY_OK) {
        v->capacity = v->buffer.bytes > 0 ? v->buffer.bytes : 1;
        status = take(r, p, domain, v->capacity, &buffer, diag);
    }
    if (status != INLAY_OK) {
        value_unref(v);
        free(owner);
        return status;
    }
    *owner = (device_owner){ .env = r->prog->env, .provider = p };
    buffer.bytes = v->buffer.bytes;
    v->buffer = buffer;
    v->owner = owner;
    v->free_memory = free_on_device;
    *out = v;
    return INLAY_OK;
}

inlay_status stay_make(struct runner *r, uint32_t domain, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                       inlay_value **out, inlay_diag *diag)
{
    return make_by(device_take, r, domain, dtype, rank, dims, out, diag);
}

bool stay_is_free(const inlay_value *v, uint32_t domain)
{
    return v->free_memory == free_on_device && v->buffer.domain == domain &&
           __atomic_load_n(&v->references, __ATOMIC_ACQUIRE) == 1;
}

/* By provider p, of whom one end is or both are. */
static inlay_status copy_by(struct runner *r, const part_provider *p, const inlay_buffer *from, const inlay_buffer *to,
                            inlay_diag *diag)
{
    inlay_fence done = { 0, 1 };
    inlay_status status = INLAY_OK;

    if ((p->table->flags & INLAY_PROVIDER_ASYNC) != 0)
        status = timeline_create(&done.timeline, diag);
    if (status == INLAY_OK)
        status = p->table->buffer_copy(p->state, &r->shared->run, from, to, NULL, 0, done, diag);
    if (status == INLAY_OK && done.timeline != 0)
        status = in_flight_finish(r, p, done, diag);
    if (status != INLAY_OK)
        r->failed = p;
    if (status == INLAY_DEVICE_LOST)
        provider_lost(p->state);
    if (!r->shared->hang.unwinding)
        timeline_destroy(done.timeline);
    return status;
}

inlay_status stay_copy(struct runner *r, const inlay_buffer *from, const inlay_buffer *to, inlay_diag *diag)
{
    const program_env *env = r->prog->env;
    const uint32_t source = plan_owner_of(env, from->domain), target = plan_owner_of(env, to->domain);
    const int64_t bytes = (int64_t)from->bytes;
    inlay_value *between = NULL;
    inlay_status status;

    if (bytes == 0)
        return INLAY_OK;
    if (source == INLAY_NONE || target == INLAY_NONE || source == target)
        return copy_by(r, &env->providers[source != INLAY_NONE ? source : target], from, to, diag);
    /* Two devices that know nothing of each other. */
    status = pool_take(r->shared, INLAY_UINT8, 1, &bytes, &between, diag);
    if (status == INLAY_OK)
        status = copy_by(r, &env->providers[source], from, &between->buffer, diag);
    if (status == INLAY_OK)
        status = copy_by(r, &env->providers[target], &between->buffer, to, diag);
    pool_give(r->shared, between);
    return status;
}

inlay_status stay_move(struct runner *r, const rt_value *x, uint32_t domain, inlay_value **out, inlay_diag *diag)
{
    inlay_status status;

    value_ref(x->owner); /* so that it is not moved in turn to make room */
    status = domain == INLAY_DOMAIN_HOST ? pool_take(r->shared, x->dtype, x->rank, x->dims, out, diag)
                                         : stay_make(r, domain, x->dtype, x->rank, x->dims, out, diag);
    if (status == INLAY_OK)
        status = stay_copy(r, &x->buffer, &(*out)->buffer, diag);
    else
        *out = NULL;
    if (status != INLAY_OK) {
        pool_give(r->shared, *out);
        *out = NULL;
    }
    value_unref(x->owner);
    return status;
}

uint32_t stay_unless_lost(const program_env *env, uint32_t domain)
{
    const uint32_t p = plan_owner_of(env, domain);

    return p == INLAY_NONE || provider_is_lost(env->providers[p].state) ? (uint32_t)INLAY_DOMAIN_HOST : domain;
}

uint32_t stay_next_domain(const struct runner *r, uint32_t v)
{
    const uint32_t k = r->prog->output_of[v];
    uint32_t domain = r->prog->uses.read_in[v];

    if (domain == INLAY_DOMAIN_HOST && k != INLAY_NONE)
        domain = r->out.wanted[k] == NULL && r->out.homes != NULL ? r->out.homes[k] : runner_wanted(r, k);
    return stay_unless_lost(r->prog->env, domain);
}

uint32_t stay_home_of(const struct runner *r, uint32_t domain)
{
    return stay_is_shared(r->prog->env, domain) ? (uint32_t)INLAY_DOMAIN_HOST : domain;
}

uint32_t stay_domain(const struct runner *r, uint32_t v)
{
    return stay_home_of(r, stay_next_domain(r, v));
}

inlay_status stay_read(struct runner *r, struct bound *b, uint32_t v, uint32_t domain, rt_value *x, inlay_diag *diag)
{
    inlay_value *made;
    inlay_status status;

    if (x->kind != INLAY_KIND_TENSOR || x->buffer.domain == domain || x->dtype == INLAY_STRING)
        return INLAY_OK;
    if (x->alias.handle != 0 && x->alias.domain == domain) {
        x->buffer = x->alias;
        return INLAY_OK;
    }
    status = stay_arrive(r, b, v, diag);
    if (status != INLAY_OK)
        return status;
    if (b->made.twins[v] == NULL || b->made.twins[v]->buffer.domain != domain) {
        status = stay_move(r, x, domain, &made, diag);
        if (status != INLAY_OK)
            return status;
        pool_give(r->shared, b->made.twins[v]);
        b->made.twins[v] = made;
        b->made.has_objects = true;
    }
    *x = rt_from_value(b->made.twins[v]);
    return INLAY_OK;
}

/* ------------------------------------------------------------------ on the way */

/* Each copy waits for the one before, so that one timeline tells of them all. */
void stay_begin(struct runner *r, struct bound *b, uint32_t v)
{
    const rt_value x = runner_value(b, v);
    const uint32_t domain = stay_unless_lost(r->prog->env, r->prog->uses.taken_in[v]);
    const part_provider *p =
        domain != INLAY_DOMAIN_HOST ? &r->prog->env->providers[plan_owner_of(r->prog->env, domain)] : NULL;
    inlay_value *made = NULL;
    inlay_status status;

    if (p == NULL || (p->table->flags & INLAY_PROVIDER_ASYNC) == 0 || x.owner == NULL || x.kind != INLAY_KIND_TENSOR ||
        x.buffer.domain != INLAY_DOMAIN_HOST || x.dtype == INLAY_STRING || x.buffer.bytes == 0 ||
        b->made.twins[v] != NULL || (x.alias.handle != 0 && x.alias.domain == domain) ||
        (b->made.arrival.timeline == 0 && timeline_create(&b->made.arrival.timeline, NULL) != INLAY_OK))
        return;
    status = make_by(device_try, r, domain, x.dtype, x.rank, x.dims, &made, NULL);
    if (status == INLAY_OK) {
        const inlay_fence before = b->made.arrival, done = { before.timeline, before.value + 1 };
        const inlay_copy_request request = { .struct_size = sizeof request,
                                             .run = &r->shared->run,
                                             .copies = &(inlay_copy){ x.buffer, made->buffer },
                                             .copy_count = 1,
                                             .copy_stride = sizeof(inlay_copy),
                                             .waits = &before,
                                             .wait_count = before.value > 0,
                                             .own_wait_count = before.value > 0,
                                             .signal = done };

        status = p->table->buffer_copies != NULL
                     ? p->table->buffer_copies(p->state, &request, NULL)
                     : p->table->buffer_copy(p->state, request.run, &x.buffer, &made->buffer, request.waits,
                                             request.wait_count, done, NULL);
        b->made.arrival = status == INLAY_OK ? done : before;
    }
    if (status != INLAY_OK) {
        pool_give(r->shared, made);
        return;
    }
    b->made.twins[v] = made;
    b->made.arrivals[v] = b->made.arrival;
    b->made.has_objects = true;
}

inlay_status stay_arrive(struct runner *r, struct bound *b, uint32_t v, inlay_diag *diag)
{
    const inlay_fence fence = b->made.arrivals[v];
    const part_provider *p;
    inlay_status status;

    b->made.arrivals[v] = (inlay_fence){ 0 };
    if (fence.timeline == 0)
        return INLAY_OK;
    p = &r->prog->env->providers[plan_owner_of(r->prog->env, b->made.twins[v]->buffer.domain)];
    status = in_flight_finish(r, p, fence, diag);
    if (status == INLAY_OK)
        return status;
    b->flight.poisoned = true;
    r->failed = p;
    if (status == INLAY_DEVICE_LOST)
        provider_lost(p->state);
    return status;
}

/* ------------------------------------------------------------------ room */

void stay_drop_results(struct runner *r, inlay_value **list)
{
    for (uint32_t k = 0; k < r->prog->graph->output_count; k++) {
        if (list[k] == NULL || list[k]->free_memory != free_on_device)
            continue;
        value_unref(list[k]);
        list[k] = NULL;
    }
}

/* ------------------------------------------------------------------ loops */

uint32_t stay_made_in(const struct program *p, uint32_t v)
{
    for (uint32_t s = 0; s < p->step_count; s++) {
        const part_region *r = p->steps[s].region;

        for (uint32_t i = 0; p->steps[s].provider != NULL && i < r->output_count; i++)
            if (r->outputs[i] == v)
                return p->steps[s].placements[r->input_count + i].domain;
    }
    return INLAY_DOMAIN_HOST;
}

static bool is_output_once(const struct graph *g, uint32_t v)
{
    uint32_t count = 0;

    for (uint32_t k = 0; k < g->output_count; k++)
        count += g->outputs[k] == v;
    return count == 1;
}

bool stay_can(const struct graph *g, uint32_t v)
{
    return v != INLAY_NONE && is_output_once(g, v) && g->values[v].info.kind == INLAY_VALUE_TENSOR &&
           g->values[v].info.dtype != INLAY_STRING;
}

bool stay_is_shared(const program_env *env, uint32_t domain)
{
    const uint32_t p = plan_owner_of(env, domain);

    for (uint32_t i = 0; p != INLAY_NONE && env->rules != NULL && i < env->rules->limit_count; i++)
        if (strcmp(env->rules->limits[i].provider, env->providers[p].name) == 0)
            return false;
    return p != INLAY_NONE && plan_is_unified(env, domain) && part_default_domain(&env->providers[p]) == domain &&
           !provider_is_lost(env->providers[p].state);
}

inlay_status stay_make_shared(uint32_t domain, inlay_dtype dtype, uint32_t rank, const int64_t *dims, inlay_value **out,
                              inlay_diag *diag)
{
    return value_create_shared(provider_of_domain(domain, NULL), dtype, rank, dims, out, diag);
}

bool stay_lend(const struct runner *r, inlay_value *v, uint32_t domain, inlay_buffer *there)
{
    const part_provider *p = &r->prog->env->providers[plan_owner_of(r->prog->env, domain)];

    return v->buffer.domain == INLAY_DOMAIN_HOST && v->buffer.handle != 0 &&
           (value_is_shared(v, domain, there) ||
            (p->table->import_host != NULL &&
             (plan_domain(r->prog->env, domain)->flags & INLAY_DOMAIN_IMPORTS_HOST) != 0 && v->buffer.bytes > 0 &&
             value_import(v, provider_of_domain(domain, NULL), domain, there)));
}

inlay_status stay_make_home(struct runner *r, uint32_t v, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                            inlay_value **out, inlay_diag *diag)
{
    const uint32_t domain =
        v != INLAY_NONE && dtype != INLAY_STRING ? stay_next_domain(r, v) : (uint32_t)INLAY_DOMAIN_HOST;

    /* What is limited is the host's own: there it is counted, and refused with the limit's name. */
    if (r->prog->env->held_bytes == NULL && stay_is_shared(r->prog->env, domain) &&
        stay_make_shared(domain, dtype, rank, dims, out, NULL) == INLAY_OK) {
        if ((*out)->buffer.bytes <= r->shared->tensors.max_bytes)
            return INLAY_OK;
        value_unref(*out);
    }
    return pool_take(r->shared, dtype, rank, dims, out, diag);
}

bool stay_share(struct runner *r)
{
    const struct program *p = r->prog;
    const struct graph *g = p->graph;
    bool any = false;

    for (uint32_t i = 0; i < p->env->provider_count; i++)
        any |= stay_is_shared(p->env, part_default_domain(&p->env->providers[i]));
    if (!any || p->env->state_count > 0)
        return true;
    r->out.shares = calloc((size_t)g->output_count + 1, sizeof *r->out.shares);
    for (uint32_t k = 0; r->out.shares != NULL && k < g->output_count; k++) {
        const uint32_t v = g->outputs[k], made = stay_can(g, v) ? stay_made_in(p, v) : (uint32_t)INLAY_DOMAIN_HOST;

        r->out.shares[k].made = made != INLAY_DOMAIN_HOST;
        r->out.shares[k].domain = made != INLAY_DOMAIN_HOST || !stay_can(g, v) ? made : p->uses.read_in[v];
        if (!stay_is_shared(p->env, r->out.shares[k].domain))
            r->out.shares[k].domain = INLAY_DOMAIN_HOST;
    }
    return r->out.shares != NULL;
}

uint32_t runner_wanted(const struct runner *r, uint32_t k)
{
    const uint32_t home = r->out.homes != NULL ? r->out.homes[k] : (uint32_t)INLAY_DOMAIN_HOST;

    return r->out.wanted[k] != NULL             ? r->out.wanted[k]->buffer.domain
           : stay_is_shared(r->prog->env, home) ? (uint32_t)INLAY_DOMAIN_HOST
                                                : home;
}
