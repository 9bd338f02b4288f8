/* What a run should have taken, at the sizes that it had, by the costs that the session knows. */
#include "measure/runs.h"
#include "measure/attribute.h"

/* What the host itself needs, beyond the call: to look at the sizes of a step that depend on data, to run a node of its
 * own, and to start a body and hand values in and out. */
static const double DYNAMIC_NS = 200, HOST_NODE_NS = 200, BODY_NS = 500;

/* The region of one step. */
static double step_ns(const struct runner *runner, const plan_step *step, const inlay_value_state *values)
{
    return cost_launch_ns(runner->prog->env->costs, step->step->provider) +
           attribute_price(runner->prog, step->step->region, values);
}

static double copy_ns(const struct runner *runner, const struct bound *bound, const plan_step *step)
{
    const program_env *env = runner->prog->env;

    return cost_copy_ns(env->costs, env->providers, env->provider_count, bound->plan->places[step->in[0]].domain,
                        bound->plan->places[step->out[0]].domain, step->copy_bytes);
}

/* A body as it last ran, as often as it runs for each run of what it is in. */
static double body_ns(const struct runner *outer, const struct runner *body)
{
    if (body == NULL || outer->plans.clock == 0)
        return 0;
    return (BODY_NS + predict_run(body)) * ((double)body->plans.clock / (double)outer->plans.clock);
}

double predict_run(const struct runner *runner)
{
    const struct bound *bound = runner->plans.now;
    struct arena arena = { 0 };
    inlay_value_state *values = bound != NULL ? seen_states(runner, &arena) : NULL;
    double ns = 0;

    for (uint32_t i = 0; values != NULL && i < bound->plan->step_count; i++) {
        const plan_step *step = &bound->plan->steps[i];
        uint32_t index = step->step != NULL ? (uint32_t)(step->step - runner->prog->steps) : 0;

        if (step->kind == PLAN_COPY)
            ns += copy_ns(runner, bound, step);
        else if (step->kind != PLAN_HOST)
            ns += step_ns(runner, step, values) + (step->kind == PLAN_DYNAMIC ? DYNAMIC_NS : 0);
        else if (runner->children == NULL || runner->children[index] == NULL)
            ns += HOST_NODE_NS;
        else
            for (uint32_t k = 0; k < step->step->node->body_count; k++)
                ns += body_ns(runner, runner->children[index][k]);
    }
    arena_deinit(&arena);
    return ns;
}
