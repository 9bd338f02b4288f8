/* exec/stay.c - what a loop carries stays on the device that makes it, until the loop ends. */
#include "exec/body.h"
#include "exec/device_memory.h"
#include "exec/in_flight.h"
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

/* The provider whose domain that is; INLAY_NONE: nobody's. */
static uint32_t provider_of_domain_in(const program_env *env, uint32_t domain)
{
    for (uint32_t i = 0; domain != INLAY_DOMAIN_HOST && i < env->provider_count; i++)
        if (domain - env->providers[i].first_domain < env->providers[i].table->domain_count)
            return i;
    return INLAY_NONE;
}

inlay_status stay_make(runner *r, uint32_t domain, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                       inlay_value **out, inlay_diag *diag)
{
    const uint32_t p = provider_of_domain_in(r->prog->env, domain);
    device_owner *owner = malloc(sizeof *owner);
    inlay_value *v = NULL;
    inlay_buffer buffer;
    inlay_status status;

    *out = NULL;
    if (owner == NULL || p == INLAY_NONE) {
        free(owner);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a value on a device");
    }
    status = value_describe(dtype, rank, dims, &v, diag);
    if (status == INLAY_OK) {
        v->capacity = v->buffer.bytes > 0 ? v->buffer.bytes : 1;
        status = device_take(r, p, domain, v->capacity, &buffer, diag);
    }
    if (status != INLAY_OK) {
        inlay_value_unref(v);
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

bool stay_is_free(const inlay_value *v, uint32_t domain)
{
    return v->free_memory == free_on_device && v->buffer.domain == domain &&
           __atomic_load_n(&v->references, __ATOMIC_ACQUIRE) == 1;
}

/* Between the host and a device; returns when it is done. */
static inlay_status copy_now(runner *r, const inlay_buffer *from, const inlay_buffer *to, inlay_diag *diag)
{
    const uint32_t device = from->domain != INLAY_DOMAIN_HOST ? from->domain : to->domain;
    const part_provider *p = &r->prog->env->providers[provider_of_domain_in(r->prog->env, device)];
    inlay_fence done = { 0, 1 };
    inlay_status status = INLAY_OK;

    if (from->bytes == 0)
        return INLAY_OK;
    if ((p->table->flags & INLAY_PROVIDER_ASYNC) != 0)
        status = timeline_create(&done.timeline, diag);
    if (status == INLAY_OK)
        status = p->table->buffer_copy(p->state, &r->shared->run, from, to, NULL, 0, done, diag);
    if (status == INLAY_OK && done.timeline != 0)
        status = in_flight_finish(r, p, done, diag);
    if (status != INLAY_OK)
        r->failed = p;
    if (!r->shared->unwinding)
        timeline_destroy(done.timeline);
    return status;
}

inlay_status stay_fetch(runner *r, const rt_value *x, inlay_value **out, inlay_diag *diag)
{
    inlay_status status = pool_take(r->shared, x->dtype, x->rank, x->dims, out, diag);

    if (status != INLAY_OK)
        return status;
    status = copy_now(r, &x->buffer, &(*out)->buffer, diag);
    if (status != INLAY_OK) {
        pool_give(r->shared, *out);
        *out = NULL;
    }
    return status;
}

/* ------------------------------------------------------------------ loops */

/* Where the region that makes value v leaves it. */
static uint32_t made_in(const program *p, uint32_t v)
{
    for (uint32_t s = 0; s < p->step_count; s++) {
        const part_region *r = p->steps[s].region;

        for (uint32_t i = 0; p->steps[s].provider != NULL && i < r->output_count; i++)
            if (r->outputs[i] == v)
                return p->steps[s].placements[r->input_count + i].domain;
    }
    return INLAY_DOMAIN_HOST;
}

static bool is_output_once(const graph *g, uint32_t v)
{
    uint32_t count = 0;

    for (uint32_t k = 0; k < g->output_count; k++)
        count += g->outputs[k] == v;
    return count == 1;
}

void loop_stay(loop *l, uint32_t first_input, uint32_t first_output)
{
    uint32_t *homes = arena_array(&l->c->b->scratch, (size_t)l->g->output_count + 1, sizeof *homes);

    if (homes == NULL)
        return; /* everything comes home: slower, and right */
    l->first_input = first_input;
    for (uint32_t i = 0; i < l->carried; i++) {
        const uint32_t v = l->g->outputs[first_output + i];

        if (v == INLAY_NONE || !is_output_once(l->g, v) || l->g->values[v].info.dtype == INLAY_STRING)
            continue;
        homes[first_output + i] = made_in(l->body->prog, v);
        l->lifts |= homes[first_output + i] != INLAY_DOMAIN_HOST;
    }
    l->homes = homes + first_output;
    l->body->homes = l->lifts ? homes : NULL;
}

inlay_status loop_lift(loop *l)
{
    for (uint32_t i = 0; i < l->carried; i++) {
        rt_value *in = &l->in[l->first_input + i];
        inlay_value *there;
        inlay_status status;

        if (l->homes[i] == INLAY_DOMAIN_HOST || in->kind != INLAY_KIND_TENSOR || in->buffer.domain != INLAY_DOMAIN_HOST)
            continue;
        status = stay_make(l->body, l->homes[i], in->dtype, in->rank, in->dims, &there, l->c->diag);
        if (status == INLAY_OK)
            status = copy_now(l->body, &in->buffer, &there->buffer, l->c->diag);
        if (status != INLAY_OK)
            return status;
        l->held[i] = there;
        *in = rt_from_value(there);
    }
    l->lifts = false;
    return INLAY_OK;
}

/* Memory that results had on a device, and will not have again. */
static void drop_results(runner *r, inlay_value **list)
{
    for (uint32_t k = 0; k < r->prog->graph->output_count; k++) {
        if (list[k] == NULL || list[k]->free_memory != free_on_device)
            continue;
        inlay_value_unref(list[k]);
        list[k] = NULL;
    }
}

inlay_status loop_ground(loop *l)
{
    l->lifts = false;
    l->body->homes = NULL;
    for (uint32_t i = 0; i < l->carried; i++) {
        rt_value *in = &l->in[l->first_input + i];
        inlay_value *here;
        inlay_status status;

        if (l->held[i] == NULL || in->buffer.domain == INLAY_DOMAIN_HOST)
            continue;
        status = stay_fetch(l->body, in, &here, l->c->diag);
        if (status != INLAY_OK)
            return status;
        pool_give(l->c->r->shared, l->held[i]);
        l->held[i] = here;
        *in = rt_from_value(here);
    }
    drop_results(l->body, l->body->outputs);
    drop_results(l->body, l->body->spares);
    return INLAY_OK;
}
