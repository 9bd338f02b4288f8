/* exec/loop/release.c - destroys a runner, or what it keeps for later runs. */
#include "exec/loop/bound.h"
#include "exec/loop/runner.h"
#include <stdlib.h>

static void release_values(const struct runner *runner, inlay_value **values)
{
    for (uint32_t k = 0; values != NULL && k < runner->prog->graph->output_count; k++) {
        value_unref(values[k]);
        values[k] = NULL;
    }
}

static void release_plans(struct runner *runner)
{
    runner_plans *plans = &runner->plans;

    for (uint32_t i = 0; i < MAX_BOUND_PLANS; i++) {
        bound_destroy(runner, plans->kept[i]);
        plans->kept[i] = NULL;
    }
    if (plans->spare != NULL)
        arena_deinit(&plans->spare->arena);
    free(plans->spare);
    run_memory_give(runner->shared->tensors.memory, false, plans->slab, plans->slab_bytes);
    plans->spare = plans->now = plans->busy = NULL;
    plans->slab = NULL;
    plans->slab_bytes = 0;
}

/* Destroys the runners of bodies. */
static void release_children(struct runner *runner)
{
    for (uint32_t i = 0; runner->children != NULL && i < runner->prog->step_count; i++) {
        for (uint32_t k = 0; runner->children[i] != NULL && k < runner->prog->steps[i].node->body_count; k++)
            runner_destroy(runner->children[i][k]);
        free(runner->children[i]);
        runner->children[i] = NULL;
    }
}

static void release_fallbacks(struct runner *runner)
{
    while (runner->fallback.runners != NULL) {
        struct runner *next = runner->fallback.runners->fallback.next;

        runner_destroy(runner->fallback.runners);
        runner->fallback.runners = next;
    }
}

void runner_trim(struct runner *runner, bool outputs)
{
    if (runner->shared->hang.abandoned)
        return;
    release_fallbacks(runner);
    release_plans(runner);
    release_children(runner);
    release_values(runner, runner->out.spares);
    if (outputs)
        release_values(runner, runner->out.values);
}

void runner_destroy(struct runner *runner)
{
    if (runner == NULL || runner->shared->hang.abandoned)
        return;
    runner_trim(runner, true);
    if (runner->shared->root == runner)
        runner->shared->root = NULL;
    free(runner->children);
    free(runner->out.values);
    free(runner->out.spares);
    free(runner->out.shares);
    free(runner->out.wanted);
    free(runner->in.key);
    free(runner);
}
