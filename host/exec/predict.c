/* What a run should have taken, at the sizes that it had, by the costs that the session knows. */
#include "exec/attribute.h"

/* What the host itself needs, beyond the call: to look at the sizes of a step that depend on data, to run a node of its
 * own, and to start a body and hand values in and out. */
static const double DYNAMIC_NS = 200, HOST_NODE_NS = 200, BODY_NS = 500;

static bool is_known(const inlay_value_state *v)
{
    for (uint32_t d = 0; v->rank != INLAY_RANK_UNKNOWN && d < v->rank; d++)
        if (v->dims[d] < 0)
            return false;
    return v->rank != INLAY_RANK_UNKNOWN;
}

/* The sizes of the plan, and where these depend on data what was assumed when the graph was assigned. NULL: no
 * memory. */
static inlay_value_state *sizes_of(const runner *r, const bound *b, arena *a)
{
    uint32_t count = r->prog->graph->value_count;
    inlay_value_state *values = arena_array(a, (size_t)count + 1, sizeof *values);

    for (uint32_t v = 0; values != NULL && v < count; v++)
        values[v] = is_known(&b->plan->states[v]) || r->prog->parts.profile == NULL ? b->plan->states[v]
                                                                                     : r->prog->parts.profile[v];
    return values;
}

/* The region of one step. */
static double step_ns(const runner *r, const plan_step *s, const inlay_value_state *values)
{
    return cost_launch_ns(r->prog->env->costs, s->step->provider) + attribute_price(r->prog, s->step->region, values);
}

static double copy_ns(const runner *r, const bound *b, const plan_step *s)
{
    const program_env *env = r->prog->env;

    return cost_copy_ns(env->costs, env->providers, env->provider_count, b->plan->places[s->in[0]].domain,
                        b->plan->places[s->out[0]].domain, s->copy_bytes);
}

/* A body as it last ran, as often as it runs for each run of what it is in. */
static double body_ns(const runner *outer, const runner *body)
{
    if (body == NULL || outer->clock == 0)
        return 0;
    return (BODY_NS + session_predict(body)) * ((double)body->clock / (double)outer->clock);
}

double session_predict(const runner *r)
{
    const bound *b = r->now;
    arena a = { 0 };
    inlay_value_state *values = b != NULL ? sizes_of(r, b, &a) : NULL;
    double ns = 0;

    for (uint32_t i = 0; values != NULL && i < b->plan->step_count; i++) {
        const plan_step *s = &b->plan->steps[i];
        uint32_t index = s->step != NULL ? (uint32_t)(s->step - r->prog->steps) : 0;

        if (s->kind == PLAN_COPY)
            ns += copy_ns(r, b, s);
        else if (s->kind != PLAN_HOST)
            ns += step_ns(r, s, values) + (s->kind == PLAN_DYNAMIC ? DYNAMIC_NS : 0);
        else if (r->children == NULL || r->children[index] == NULL)
            ns += HOST_NODE_NS;
        else
            for (uint32_t k = 0; k < s->step->node->body_count; k++)
                ns += body_ns(r, r->children[index][k]);
    }
    arena_deinit(&a);
    return ns;
}
