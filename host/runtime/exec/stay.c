/* exec/stay.c - values stay on the device that makes them for as long as nobody reads them elsewhere: what is sized in
 * the run, what leaves a branch or a loop, and what a loop carries. */
#include "exec/body.h"
#include "exec/device_memory.h"
#include "exec/in_flight.h"
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
typedef inlay_status (*take_fn)(runner *r, uint32_t p, uint32_t domain, uint64_t bytes, inlay_buffer *out,
                                inlay_diag *diag);

static inlay_status make_by(take_fn take, runner *r, uint32_t domain, inlay_dtype dtype, uint32_t rank,
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
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a value on a device");
    }
    status = value_describe(dtype, rank, dims, &v, diag);
    if (status == INLAY_OK) {
        v->capacity = v->buffer.bytes > 0 ? v->buffer.bytes : 1;
        status = take(r, p, domain, v->capacity, &buffer, diag);
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

inlay_status stay_make(runner *r, uint32_t domain, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
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
static inlay_status copy_by(runner *r, const part_provider *p, const inlay_buffer *from, const inlay_buffer *to,
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
    if (!r->shared->unwinding)
        timeline_destroy(done.timeline);
    return status;
}

inlay_status stay_copy(runner *r, const inlay_buffer *from, const inlay_buffer *to, inlay_diag *diag)
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

inlay_status stay_move(runner *r, const rt_value *x, uint32_t domain, inlay_value **out, inlay_diag *diag)
{
    inlay_status status;

    inlay_value_ref(x->owner); /* so that it is not moved in turn to make room */
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
    inlay_value_unref(x->owner);
    return status;
}

/* The domain, or the host's where its device is lost: nothing stays there. */
static uint32_t unless_lost(const program_env *env, uint32_t domain)
{
    const uint32_t p = plan_owner_of(env, domain);

    return p == INLAY_NONE || provider_is_lost(env->providers[p].state) ? (uint32_t)INLAY_DOMAIN_HOST : domain;
}

/* Where v is read next, or wanted. */
static uint32_t next_domain(const runner *r, uint32_t v)
{
    const uint32_t k = r->prog->output_of[v];
    uint32_t domain = r->prog->read_in[v];

    if (domain == INLAY_DOMAIN_HOST && k != INLAY_NONE)
        domain = r->wanted[k] == NULL && r->homes != NULL ? r->homes[k] : runner_wanted(r, k);
    return unless_lost(r->prog->env, domain);
}

/* What both know is at home. */
static uint32_t home_of(const runner *r, uint32_t domain)
{
    return stay_is_shared(r->prog->env, domain) ? (uint32_t)INLAY_DOMAIN_HOST : domain;
}

uint32_t stay_domain(const runner *r, uint32_t v)
{
    return home_of(r, next_domain(r, v));
}

inlay_status stay_read(runner *r, bound *b, uint32_t v, uint32_t domain, rt_value *x, inlay_diag *diag)
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
    if (b->twins[v] == NULL || b->twins[v]->buffer.domain != domain) {
        status = stay_move(r, x, domain, &made, diag);
        if (status != INLAY_OK)
            return status;
        pool_give(r->shared, b->twins[v]);
        b->twins[v] = made;
        b->has_objects = true;
    }
    *x = rt_from_value(b->twins[v]);
    return INLAY_OK;
}

/* ------------------------------------------------------------------ on the way */

/* Each copy waits for the one before, so that one timeline tells of them all. */
void stay_begin(runner *r, bound *b, uint32_t v)
{
    const rt_value x = runner_value(b, v);
    const uint32_t domain = unless_lost(r->prog->env, r->prog->taken_in[v]);
    const part_provider *p =
        domain != INLAY_DOMAIN_HOST ? &r->prog->env->providers[plan_owner_of(r->prog->env, domain)] : NULL;
    inlay_value *made = NULL;
    inlay_status status;

    if (p == NULL || (p->table->flags & INLAY_PROVIDER_ASYNC) == 0 || x.owner == NULL || x.kind != INLAY_KIND_TENSOR ||
        x.buffer.domain != INLAY_DOMAIN_HOST || x.dtype == INLAY_STRING || x.buffer.bytes == 0 || b->twins[v] != NULL ||
        (x.alias.handle != 0 && x.alias.domain == domain) ||
        (b->arrival.timeline == 0 && timeline_create(&b->arrival.timeline, NULL) != INLAY_OK))
        return;
    status = make_by(device_try, r, domain, x.dtype, x.rank, x.dims, &made, NULL);
    if (status == INLAY_OK) {
        const inlay_fence before = b->arrival, done = { before.timeline, before.value + 1 };
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
        b->arrival = status == INLAY_OK ? done : before;
    }
    if (status != INLAY_OK) {
        pool_give(r->shared, made);
        return;
    }
    b->twins[v] = made;
    b->arrivals[v] = b->arrival;
    b->has_objects = true;
}

inlay_status stay_arrive(runner *r, bound *b, uint32_t v, inlay_diag *diag)
{
    const inlay_fence fence = b->arrivals[v];
    const part_provider *p;
    inlay_status status;

    b->arrivals[v] = (inlay_fence){ 0 };
    if (fence.timeline == 0)
        return INLAY_OK;
    p = &r->prog->env->providers[plan_owner_of(r->prog->env, b->twins[v]->buffer.domain)];
    status = in_flight_finish(r, p, fence, diag);
    if (status == INLAY_OK)
        return status;
    b->poisoned = true;
    r->failed = p;
    if (status == INLAY_DEVICE_LOST)
        provider_lost(p->state);
    return status;
}

/* ------------------------------------------------------------------ room */

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

static bool reads(const bound_step *s, uint32_t v)
{
    const part_region *r = s != NULL ? s->plan->step->region : NULL;

    for (uint32_t i = 0; r != NULL && i < r->input_count; i++)
        if (r->inputs[i] == v)
            return true;
    return false;
}

/* What steps to come read, but not the one in hand, comes home. */
static void bring_home(runner *r, bound *b)
{
    for (uint32_t v = 0; b->twins != NULL && v < r->prog->graph->value_count; v++) {
        rt_value *x = &b->dynamic[v];
        inlay_value *twin = b->twins[v], *home = NULL;

        if (reads(b->at, v) || stay_arrive(r, b, v, NULL) != INLAY_OK)
            continue;
        if (twin != NULL && twin->buffer.domain != INLAY_DOMAIN_HOST) {
            inlay_value_unref(twin);
            b->twins[v] = twin = NULL;
        }
        if (x->owner == NULL || x->kind != INLAY_KIND_TENSOR || !stay_is_free(x->owner, x->buffer.domain))
            continue;
        if (twin != NULL)
            home = inlay_value_ref(twin);
        else if (stay_move(r, x, INLAY_DOMAIN_HOST, &home, NULL) != INLAY_OK)
            return;
        runner_set(r, b, v, home);
    }
}

void stay_make_room(runner *r, bool idle, bool all)
{
    const program_step *at = NULL;

    if (r->shared->abandoned)
        return;
    if (!idle && r->busy != NULL && r->busy->at != NULL)
        at = r->busy->at->plan->step;
    for (uint32_t i = 0; i < BOUNDS_KEPT; i++) {
        if (r->bounds[i] == NULL || r->bounds[i] == r->busy)
            continue;
        if (r->now == r->bounds[i])
            r->now = NULL;
        bound_destroy(r, r->bounds[i]);
        r->bounds[i] = NULL;
    }
    drop_results(r, r->spares);
    if (idle)
        drop_results(r, r->outputs);
    if (all && r->busy != NULL)
        bring_home(r, r->busy);
    for (uint32_t i = 0; i < r->prog->step_count; i++)
        for (uint32_t k = 0; r->children[i] != NULL && k < r->prog->steps[i].node->body_count; k++)
            if (r->children[i][k] != NULL)
                stay_make_room(r->children[i][k], &r->prog->steps[i] != at, all);
    for (runner *x = r->instead; x != NULL; x = x->next_instead)
        stay_make_room(x, idle, all);
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

static bool can_stay(const graph *g, uint32_t v)
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

bool stay_lend(const runner *r, inlay_value *v, uint32_t domain, inlay_buffer *there)
{
    const part_provider *p = &r->prog->env->providers[plan_owner_of(r->prog->env, domain)];

    return v->buffer.domain == INLAY_DOMAIN_HOST && v->buffer.handle != 0 &&
           (value_is_shared(v, domain, there) ||
            (p->table->import_host != NULL &&
             (plan_domain(r->prog->env, domain)->flags & INLAY_DOMAIN_IMPORTS_HOST) != 0 && v->buffer.bytes > 0 &&
             value_import(v, provider_of_domain(domain, NULL), domain, there)));
}

inlay_status stay_make_home(runner *r, uint32_t v, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                            inlay_value **out, inlay_diag *diag)
{
    const uint32_t domain = v != INLAY_NONE && dtype != INLAY_STRING ? next_domain(r, v) : (uint32_t)INLAY_DOMAIN_HOST;

    /* What is limited is the host's own: there it is counted, and refused with the limit's name. */
    if (r->prog->env->held_bytes == NULL && stay_is_shared(r->prog->env, domain) &&
        stay_make_shared(domain, dtype, rank, dims, out, NULL) == INLAY_OK) {
        if ((*out)->buffer.bytes <= r->shared->max_bytes)
            return INLAY_OK;
        inlay_value_unref(*out);
    }
    return pool_take(r->shared, dtype, rank, dims, out, diag);
}

bool stay_share(runner *r)
{
    const program *p = r->prog;
    const graph *g = p->graph;
    bool any = false;

    for (uint32_t i = 0; i < p->env->provider_count; i++)
        any |= stay_is_shared(p->env, part_default_domain(&p->env->providers[i]));
    if (!any || p->env->state_count > 0)
        return true;
    r->shares = calloc((size_t)g->output_count + 1, sizeof *r->shares);
    for (uint32_t k = 0; r->shares != NULL && k < g->output_count; k++) {
        const uint32_t v = g->outputs[k], made = can_stay(g, v) ? made_in(p, v) : (uint32_t)INLAY_DOMAIN_HOST;

        r->shares[k].made = made != INLAY_DOMAIN_HOST;
        r->shares[k].domain = made != INLAY_DOMAIN_HOST || !can_stay(g, v) ? made : p->read_in[v];
        if (!stay_is_shared(p->env, r->shares[k].domain))
            r->shares[k].domain = INLAY_DOMAIN_HOST;
    }
    return r->shares != NULL;
}

/* Is what the loop begins with, its carried value i, where it is to lie: there, or at home in memory that is of there,
 * too, if it is read there? */
static bool lies_at(const loop *l, uint32_t i, uint32_t domain)
{
    const rt_value *x = &l->in[l->first_input + i];
    const bool shared = stay_is_shared(l->body->prog->env, domain);

    if (x->kind != INLAY_KIND_TENSOR || x->dtype == INLAY_STRING)
        return true;
    return x->buffer.domain == (shared ? (uint32_t)INLAY_DOMAIN_HOST : domain) &&
           (!shared || l->body->prog->read_in[l->g->inputs[l->first_input + i]] != domain || x->alias.handle != 0);
}

static void see_from_home(rt_value *x)
{
    const inlay_buffer there = x->buffer;

    if (there.domain == INLAY_DOMAIN_HOST || x->alias.handle == 0 || x->alias.domain != INLAY_DOMAIN_HOST)
        return;
    x->buffer = x->alias;
    x->alias = there;
}

/* The domain that reads carried value i in the next iteration, or behind the loop, where it has its memory in common
 * with the host, who makes it. */
static uint32_t read_after(const loop *l, uint32_t i)
{
    const inlay_node_info *n = &l->c->node->info;
    const uint32_t within = l->body->prog->read_in[l->g->inputs[l->first_input + i]];
    const uint32_t behind = i < n->output_count && n->outputs[i] != INLAY_NONE ? next_domain(l->c->r, n->outputs[i])
                                                                               : (uint32_t)INLAY_DOMAIN_HOST;

    return stay_is_shared(l->body->prog->env, within)   ? within
           : stay_is_shared(l->body->prog->env, behind) ? behind
                                                        : (uint32_t)INLAY_DOMAIN_HOST;
}

void loop_stay(loop *l, uint32_t first_input, uint32_t first_output, bool stacks)
{
    const inlay_node_info *n = &l->c->node->info;
    uint32_t *homes = arena_array(&l->c->b->scratch, (size_t)l->g->output_count + 1, sizeof *homes);

    if (homes == NULL)
        return; /* everything comes home: slower, and right */
    l->first_input = first_input;
    for (uint32_t k = first_output; k < l->g->output_count; k++) {
        const uint32_t v = l->g->outputs[k], i = k - first_output;

        if (can_stay(l->g, v))
            homes[k] = unless_lost(l->body->prog->env, made_in(l->body->prog, v));
        if (i < l->carried && homes[k] == INLAY_DOMAIN_HOST && can_stay(l->g, v))
            homes[k] = read_after(l, i);
        if (i < l->carried && home_of(l->body, homes[k]) == INLAY_DOMAIN_HOST)
            see_from_home(&l->in[first_input + i]);
        if (i < l->carried)
            l->lifts |= !lies_at(l, i, homes[k]);
        else if (homes[k] == INLAY_DOMAIN_HOST)
            continue;
        else if (!stacks || i >= n->output_count || n->outputs[i] == INLAY_NONE ||
                 homes[k] != stay_domain(l->c->r, n->outputs[i]))
            homes[k] = INLAY_DOMAIN_HOST;
        if (homes[k] != INLAY_DOMAIN_HOST)
            l->body->homes = homes;
    }
    l->homes = homes + first_output;
}

void branch_stay(loop *l)
{
    const inlay_node_info *n = &l->c->node->info;
    uint32_t *homes = arena_array(&l->c->b->scratch, (size_t)l->g->output_count + 1, sizeof *homes);

    for (uint32_t k = 0; homes != NULL && k < l->g->output_count && k < n->output_count; k++) {
        if (n->outputs[k] == INLAY_NONE || !can_stay(l->g, l->g->outputs[k]))
            continue;
        homes[k] = next_domain(l->c->r, n->outputs[k]);
        if (homes[k] != INLAY_DOMAIN_HOST)
            l->body->homes = homes;
    }
}

static inlay_status lift(const loop *l, const rt_value *x, uint32_t domain, inlay_value **out)
{
    inlay_status status;

    if (!stay_is_shared(l->body->prog->env, domain))
        return stay_move(l->body, x, domain, out, l->c->diag);
    status = stay_make_shared(domain, x->dtype, x->rank, x->dims, out, l->c->diag);
    if (status == INLAY_OK && x->buffer.domain != INLAY_DOMAIN_HOST)
        status = stay_copy(l->body, &x->buffer, &(*out)->buffer, l->c->diag);
    else if (status == INLAY_OK && x->buffer.bytes > 0)
        memcpy(inlay_value_data(*out), inlay_buffer_host(&x->buffer), (size_t)x->buffer.bytes);
    return status;
}

inlay_status loop_lift(loop *l)
{
    rt_value *before = arena_copy(&l->c->b->scratch, &l->in[l->first_input], (l->carried + 1) * sizeof *before);
    inlay_status status = before != NULL ? INLAY_OK : INLAY_OUT_OF_MEMORY;

    l->lifts = false;
    for (uint32_t i = 0; i < l->carried && status == INLAY_OK; i++) {
        rt_value *in = &l->in[l->first_input + i];

        if (lies_at(l, i, l->homes[i]))
            continue;
        status = lift(l, in, l->homes[i], &l->held[i]);
        if (status == INLAY_OK)
            *in = rt_from_value(l->held[i]);
    }
    if (status == INLAY_OK || before == NULL)
        return status;
    /* As it was: the body's runner sees to a device that fails. */
    l->body->homes = NULL;
    for (uint32_t i = 0; i < l->carried; i++) {
        pool_give(l->c->r->shared, l->held[i]);
        l->held[i] = NULL;
        l->in[l->first_input + i] = before[i];
    }
    return stay_lacks_room(status) || l->body->prog->env->without_failed ? INLAY_OK : status;
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
        status = stay_move(l->body, in, INLAY_DOMAIN_HOST, &here, l->c->diag);
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
