/* The predicted time of a run at its sizes, from the costs that the session knows. */
#include "measure/runs.h"
#include "inlay/check.h"
#include "measure/attribute.h"
#include "plan/stream/stream.h"
#include <math.h>

/* Overhead of the host in addition to the calls: reading the sizes of a data-dependent step, running a node on the
 * host, and starting a body with its inputs and outputs. */
static const double DYNAMIC_NS = 200, HOST_NODE_NS = 200, BODY_NS = 500;

/* The predicted time of the region of one step. */
static double step_ns(const struct runner *runner, const plan_step *step, const inlay_value_state *values)
{
    return cost_launch_ns(runner->prog->env->costs, step->step->provider) +
           attribute_price(runner->prog, step->step->region, values);
}

static double copy_ns(const struct runner *runner, const struct bound *bound, const plan_step *step)
{
    const program_env *env = runner->prog->env;
    const struct plan *plan = bound->plan;

    return cost_copy_ns(env->costs, env->providers, env->provider_count, plan->places[step->in[0]].domain,
                        plan->places[plan_memory_place(plan, step->out[0])].domain, step->copy_bytes);
}

static double compute_ns(const struct runner *runner);

/* The time of a body's last run, multiplied by the number of its runs per run of the outer graph. */
static double body_ns(const struct runner *outer, const struct runner *body)
{
    if (body == NULL || outer->plans.clock == 0)
        return 0;
    return (BODY_NS + compute_ns(body)) * ((double)body->plans.clock / (double)outer->plans.clock);
}

/* The time of all steps. */
static double compute_ns(const struct runner *runner)
{
    const struct bound *bound = runner->plans.now;
    struct arena arena = { 0 };
    inlay_value_state *values = bound != NULL ? observed_states(runner, &arena) : NULL;
    double ns = 0;

    for (uint32_t i = 0; values != NULL && i < bound->plan->step_count; i++) {
        const plan_step *step = &bound->plan->steps[i];
        uint32_t index = step->step != NULL ? (uint32_t)(step->step - runner->prog->steps) : 0;

        INLAY_CHECK(step->step == NULL || index < runner->prog->step_count);
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

/* Weights are read from their files while steps compute. */
double predict_run(const struct runner *runner)
{
    return fmax(compute_ns(runner), weight_stream_read_ns(runner->prog->env->stream));
}
