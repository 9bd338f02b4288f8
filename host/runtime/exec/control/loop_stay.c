/* exec/control/loop_stay.c - what a loop carries, and what leaves a branch, stays on the device that makes it. */
#include "exec/control/body.h"
#include "exec/device/stay.h"
#include <string.h>

/* Is what the loop begins with, its carried value i, where it is to lie: there, or at home in memory that is of there,
 * too, if it is read there? */
static bool lies_at(const struct loop *l, uint32_t i, uint32_t domain)
{
    const rt_value *x = &l->in[l->first_input + i];
    const bool shared = stay_is_shared(l->body->prog->env, domain);

    if (x->kind != INLAY_KIND_TENSOR || x->dtype == INLAY_STRING)
        return true;
    return x->buffer.domain == (shared ? (uint32_t)INLAY_DOMAIN_HOST : domain) &&
           (!shared || l->body->prog->uses.read_in[l->g->inputs[l->first_input + i]] != domain || x->alias.handle != 0);
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
static uint32_t read_after(const struct loop *l, uint32_t i)
{
    const inlay_node_info *n = &l->c->node->info;
    const uint32_t within = l->body->prog->uses.read_in[l->g->inputs[l->first_input + i]];
    const uint32_t behind = i < n->output_count && n->outputs[i] != INLAY_NONE
                                ? stay_next_domain(l->c->r, n->outputs[i])
                                : (uint32_t)INLAY_DOMAIN_HOST;

    return stay_is_shared(l->body->prog->env, within)   ? within
           : stay_is_shared(l->body->prog->env, behind) ? behind
                                                        : (uint32_t)INLAY_DOMAIN_HOST;
}

void loop_stay(struct loop *l, uint32_t first_input, uint32_t first_output, bool stacks)
{
    const inlay_node_info *n = &l->c->node->info;
    uint32_t *homes = arena_array(&l->c->b->made.scratch, (size_t)l->g->output_count + 1, sizeof *homes);

    if (homes == NULL)
        return; /* everything comes home: slower, and right */
    l->first_input = first_input;
    for (uint32_t k = first_output; k < l->g->output_count; k++) {
        const uint32_t v = l->g->outputs[k], i = k - first_output;

        if (stay_can(l->g, v))
            homes[k] = stay_unless_lost(l->body->prog->env, stay_made_in(l->body->prog, v));
        if (i < l->carried && homes[k] == INLAY_DOMAIN_HOST && stay_can(l->g, v))
            homes[k] = read_after(l, i);
        if (i < l->carried && stay_home_of(l->body, homes[k]) == INLAY_DOMAIN_HOST)
            see_from_home(&l->in[first_input + i]);
        if (i < l->carried)
            l->lifts |= !lies_at(l, i, homes[k]);
        else if (homes[k] == INLAY_DOMAIN_HOST)
            continue;
        else if (!stacks || i >= n->output_count || n->outputs[i] == INLAY_NONE ||
                 homes[k] != stay_domain(l->c->r, n->outputs[i]))
            homes[k] = INLAY_DOMAIN_HOST;
        if (homes[k] != INLAY_DOMAIN_HOST)
            l->body->out.homes = homes;
    }
    l->homes = homes + first_output;
}

void branch_stay(struct loop *l)
{
    const inlay_node_info *n = &l->c->node->info;
    uint32_t *homes = arena_array(&l->c->b->made.scratch, (size_t)l->g->output_count + 1, sizeof *homes);

    for (uint32_t k = 0; homes != NULL && k < l->g->output_count && k < n->output_count; k++) {
        if (n->outputs[k] == INLAY_NONE || !stay_can(l->g, l->g->outputs[k]))
            continue;
        homes[k] = stay_next_domain(l->c->r, n->outputs[k]);
        if (homes[k] != INLAY_DOMAIN_HOST)
            l->body->out.homes = homes;
    }
}

static inlay_status lift(const struct loop *l, const rt_value *x, uint32_t domain, inlay_value **out)
{
    inlay_status status;

    if (!stay_is_shared(l->body->prog->env, domain))
        return stay_move(l->body, x, domain, out, l->c->diag);
    status = stay_make_shared(domain, x->dtype, x->rank, x->dims, out, l->c->diag);
    if (status == INLAY_OK && x->buffer.domain != INLAY_DOMAIN_HOST)
        status = stay_copy(l->body, &x->buffer, &(*out)->buffer, l->c->diag);
    else if (status == INLAY_OK && x->buffer.bytes > 0)
        memcpy(value_data(*out), inlay_buffer_host(&x->buffer), (size_t)x->buffer.bytes);
    return status;
}

inlay_status loop_lift(struct loop *l)
{
    rt_value *before = arena_copy(&l->c->b->made.scratch, &l->in[l->first_input], (l->carried + 1) * sizeof *before);
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
    l->body->out.homes = NULL;
    for (uint32_t i = 0; i < l->carried; i++) {
        pool_give(l->c->r->shared, l->held[i]);
        l->held[i] = NULL;
        l->in[l->first_input + i] = before[i];
    }
    return stay_lacks_room(status) || l->body->prog->env->without_failed ? INLAY_OK : status;
}

inlay_status loop_ground(struct loop *l)
{
    l->lifts = false;
    l->body->out.homes = NULL;
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
    stay_drop_results(l->body, l->body->out.values);
    stay_drop_results(l->body, l->body->out.spares);
    return INLAY_OK;
}
