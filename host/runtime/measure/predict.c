/* What a run should have taken, at the sizes that it had, by the costs that the session knows. */
#include "measure/runs.h"
#include "measure/attribute.h"

/* What the host itself needs, beyond the call: to look at the sizes of a step that depend on data, to run a node of its
 * own, and to start a body and hand values in and out. */
static const double DYNAMIC_NS = 200, HOST_NODE_NS = 200, BODY_NS = 500;

/* The region of one step. */
static double step_ns(const struct runner *r, const plan_step *s, const inlay_value_state *values)
{
    return cost_launch_ns(r->prog->env->costs, s->step->provider) + attribute_price(r->prog, s->step->region, values);
}

static double copy_ns(const struct runner *r, const struct bound *b, const plan_step *s)
{
    const program_env *env = r->prog->env;

    return cost_copy_ns(env->costs, env->providers, env->provider_count, b->plan->places[s->in[0]].domain,
                        b->plan->places[s->out[0]].domain, s->copy_bytes);
}

/* A body as it last ran, as often as it runs for each run of what it is in. */
static double body_ns(const struct runner *outer, const struct runner *body)
{
    if (body == NULL || outer->plans.clock == 0)
        return 0;
    return (BODY_NS + predict_run(body)) * ((double)body->plans.clock / (double)outer->plans.clock);
}

double predict_run(const struct runner *r)
{
    const struct bound *b = r->plans.now;
    struct arena a = { 0 };
    inlay_value_state *values = b != NULL ? seen_states(r, &a) : NULL;
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
