/* exec/run/observed_shapes.c - shapes that runs observed. */
#include "exec/run/run.h"
#include <string.h>

static bool is_known(const inlay_value_state *state)
{
    for (uint32_t d = 0; state->rank != INLAY_RANK_UNKNOWN && d < state->rank; d++)
        if (state->dims[d] < 0)
            return false;
    return state->rank != INLAY_RANK_UNKNOWN;
}

bool observed_shapes_create(struct bound *bound, uint32_t value_count)
{
    bound->dynamic.observed = arena_array(&bound->arena, (size_t)value_count + 1, sizeof *bound->dynamic.observed);
    for (uint32_t value = 0; bound->dynamic.observed != NULL && value < value_count; value++) {
        if (is_known(&bound->plan->states[value]))
            continue;
        bound->dynamic.observed[value] = arena_alloc(&bound->arena, sizeof *bound->dynamic.observed[value]);
        if (bound->dynamic.observed[value] == NULL)
            return false;
        bound->dynamic.observed[value]->rank = INLAY_RANK_UNKNOWN;
    }
    return bound->dynamic.observed != NULL;
}

void observed_shapes_record(struct bound *bound, uint32_t value, uint32_t rank, const int64_t *dims)
{
    observed_shape *shape = bound->dynamic.observed != NULL ? bound->dynamic.observed[value] : NULL;

    if (shape == NULL || rank > INLAY_MAX_RANK)
        return;
    shape->rank = rank;
    if (rank > 0)
        memcpy(shape->dims, dims, rank * sizeof *dims);
}

const cost_input *observed_sizes(const struct runner *runner, struct arena *arena)
{
    const struct bound *bound = runner->plans.now;
    uint32_t count = runner->prog->graph->value_count;
    cost_input *sizes = arena_array(arena, (size_t)count + 1, sizeof *sizes);

    for (uint32_t value = 0; sizes != NULL && value < count; value++) {
        const observed_shape *shape =
            bound != NULL && bound->dynamic.observed != NULL ? bound->dynamic.observed[value] : NULL;

        sizes[value].rank = INLAY_RANK_UNKNOWN;
        if (shape != NULL)
            sizes[value] = (cost_input){ shape->rank, shape->dims };
        else if (bound != NULL)
            sizes[value] = (cost_input){ bound->plan->states[value].rank, bound->plan->states[value].dims };
    }
    return sizes;
}

inlay_value_state *observed_states(const struct runner *runner, struct arena *arena)
{
    const inlay_value_state *assumed = runner->prog->parts.profile;
    uint32_t count = runner->prog->graph->value_count;
    inlay_value_state *states = arena_copy(arena, runner->plans.now->plan->states, (size_t)count * sizeof *states);

    for (uint32_t value = 0; states != NULL && value < count; value++) {
        const observed_shape *shape =
            runner->plans.now->dynamic.observed != NULL ? runner->plans.now->dynamic.observed[value] : NULL;

        if (is_known(&states[value]))
            continue;
        if (shape != NULL && shape->rank != INLAY_RANK_UNKNOWN) {
            states[value].rank = shape->rank;
            states[value].dims = shape->dims;
        } else if (assumed != NULL) {
            states[value] = assumed[value];
        }
    }
    return states;
}

const struct runner *runner_of(const struct runner *runner, const struct program *program)
{
    const struct runner *found = runner == NULL || runner->prog == program ? runner : NULL;

    for (uint32_t i = 0; runner != NULL && found == NULL && runner->children != NULL && i < runner->prog->step_count;
         i++)
        for (uint32_t k = 0;
             found == NULL && runner->children[i] != NULL && k < runner->prog->steps[i].node->body_count; k++)
            found = runner_of(runner->children[i][k], program);
    return found;
}
