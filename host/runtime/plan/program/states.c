/* plan/program/states.c - finds the states that can be kept in place (INLAY_EXT_STATES): a single region appends to the
 * rows of the last run, and all other steps that read the result support spare rows after the last one. */
#include "inlay/check.h"
#include "inlay/extensions.h"
#include "inlay/plugin.h"
#include "plan/program/compile.h"
#include <string.h>

static uint32_t index_of(const uint32_t *values, uint32_t count, uint32_t value)
{
    for (uint32_t i = 0; i < count; i++)
        if (values[i] == value)
            return i;
    return INLAY_NONE;
}

/* Returns whether the step reads the elements of the value, and not only its shape, which is known when a run is
 * planned. */
static bool reads_elements(const struct program *program, const program_step *step, uint32_t value)
{
    if (index_of(step->region->inputs, step->region->input_count, value) == INLAY_NONE)
        return false;
    for (uint32_t i = 0; i < step->region->node_count; i++) {
        const inlay_node_info *node = &program->graph->nodes[step->region->nodes[i]]->info;

        if (index_of(node->inputs, node->input_count, value) != INLAY_NONE && strcmp(node->op_type.data, "Shape") != 0)
            return true;
    }
    return step->provider == NULL;
}

/* The provider's extension for states in place; NULL: none. */
static const inlay_ext_states *extension_of(const program_step *step)
{
    const inlay_provider *table = step->provider == NULL ? NULL : step->provider->table;

    return table == NULL || table->extension == NULL || (table->flags & INLAY_PROVIDER_ASYNC) != 0
               ? NULL
               : table->extension(step->provider->state, INLAY_EXT_STATES);
}

/* Returns whether the step can read the value with spare rows after the last one. */
static bool reads_with_room(const program_step *step, uint32_t value, uint32_t axis)
{
    const inlay_ext_states *states = extension_of(step);
    const uint32_t in = index_of(step->region->inputs, step->region->input_count, value);

    return states != NULL && !step->view && INLAY_HAS(states, reads) && states->reads != NULL &&
           step->placements[in].domain == INLAY_DOMAIN_HOST &&
           states->reads(step->provider->state, step->compiled, in, axis) == 1;
}

static bool appends(const program_step *step, uint32_t in, uint32_t out, uint32_t axis)
{
    const inlay_ext_states *states = extension_of(step);
    uint32_t at = INLAY_NONE;

    return states != NULL && INLAY_HAS(states, appends) && step->placements[in].domain == INLAY_DOMAIN_HOST &&
           step->placements[step->region->input_count + out].domain == INLAY_DOMAIN_HOST &&
           states->appends(step->provider->state, step->compiled, in, out, &at) == 1 && at == axis;
}

/* The step that appends to the state; INLAY_NONE: none, or other steps read the state. */
static uint32_t find_step(const struct program *program, const graph_state *state)
{
    const struct graph *graph = program->graph;
    const uint32_t past = graph->inputs[state->input], present = graph->outputs[state->output];
    uint32_t found = INLAY_NONE, times = 0;

    INLAY_CHECK(state->input < graph->input_count && state->output < graph->output_count);
    for (uint32_t k = 0; k < graph->output_count; k++)
        times += graph->outputs[k] == present || graph->outputs[k] == past;
    for (uint32_t i = 0; i < program->step_count; i++) {
        const program_step *step = &program->steps[i];
        const uint32_t in = index_of(step->region->inputs, step->region->input_count, past);
        const uint32_t out = index_of(step->region->outputs, step->region->output_count, present);

        if (out != INLAY_NONE && in != INLAY_NONE && appends(step, in, out, state->axis))
            found = i;
        else if (reads_elements(program, step, past) ||
                 (reads_elements(program, step, present) && !reads_with_room(step, present, state->axis)))
            return INLAY_NONE;
    }
    return times == 1 ? found : INLAY_NONE;
}

bool program_find_states(struct program *program)
{
    const program_env *env = program->env;

    if (env->state_count == 0 || program->graph->parent != NULL)
        return true;
    program->state_steps = arena_array(&program->arena, env->state_count, sizeof *program->state_steps);
    for (uint32_t i = 0; program->state_steps != NULL && i < env->state_count; i++)
        program->state_steps[i] = env->states[i].axis == INLAY_NONE ? INLAY_NONE : find_step(program, &env->states[i]);
    return program->state_steps != NULL;
}
