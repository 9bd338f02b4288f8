/* plan/program/states.c - which states stay where they are: those whose one region writes behind what the last run
 * left, and that nobody else reads (INLAY_EXT_STATES). */
#include "inlay/extensions.h"
#include "plan/program.h"
#include <string.h>

static uint32_t find(const uint32_t *values, uint32_t count, uint32_t v)
{
    for (uint32_t i = 0; i < count; i++)
        if (values[i] == v)
            return i;
    return INLAY_NONE;
}

/* Does the step read v, or only its sizes? These are known when a run is planned. */
static bool reads_elements(const struct program *p, const program_step *s, uint32_t v)
{
    if (find(s->region->inputs, s->region->input_count, v) == INLAY_NONE)
        return false;
    for (uint32_t i = 0; i < s->region->node_count; i++) {
        const inlay_node_info *n = &p->graph->nodes[s->region->nodes[i]]->info;

        if (find(n->inputs, n->input_count, v) != INLAY_NONE && strcmp(n->op_type.data, "Shape") != 0)
            return true;
    }
    return s->provider == NULL;
}

/* What the provider has for states that are in place; NULL: nothing. */
static const inlay_ext_states *extension_of(const program_step *s)
{
    const inlay_provider *t = s->provider == NULL ? NULL : s->provider->table;

    return t == NULL || t->extension == NULL || (t->flags & INLAY_PROVIDER_ASYNC) != 0
               ? NULL
               : t->extension(s->provider->state, INLAY_EXT_STATES);
}

/* Can the step read v with room behind its rows? */
static bool reads_with_room(const program_step *s, uint32_t v, uint32_t axis)
{
    const inlay_ext_states *e = extension_of(s);
    const uint32_t in = find(s->region->inputs, s->region->input_count, v);

    return e != NULL && !s->view && INLAY_HAS(e, reads) && e->reads != NULL &&
           s->placements[in].domain == INLAY_DOMAIN_HOST && e->reads(s->provider->state, s->compiled, in, axis) == 1;
}

static bool appends(const program_step *s, uint32_t in, uint32_t out, uint32_t axis)
{
    const inlay_ext_states *e = extension_of(s);
    uint32_t at = INLAY_NONE;

    return e != NULL && INLAY_HAS(e, appends) && s->placements[in].domain == INLAY_DOMAIN_HOST &&
           s->placements[s->region->input_count + out].domain == INLAY_DOMAIN_HOST &&
           e->appends(s->provider->state, s->compiled, in, out, &at) == 1 && at == axis;
}

/* The step that appends to the state; INLAY_NONE: none does, or the state is read elsewhere, too. */
static uint32_t find_step(const struct program *p, const program_state *state)
{
    const struct graph *g = p->graph;
    const uint32_t past = g->inputs[state->input], present = g->outputs[state->output];
    uint32_t found = INLAY_NONE, times = 0;

    for (uint32_t k = 0; k < g->output_count; k++)
        times += g->outputs[k] == present || g->outputs[k] == past;
    for (uint32_t i = 0; i < p->step_count; i++) {
        const program_step *s = &p->steps[i];
        const uint32_t in = find(s->region->inputs, s->region->input_count, past);
        const uint32_t out = find(s->region->outputs, s->region->output_count, present);

        if (out != INLAY_NONE && in != INLAY_NONE && appends(s, in, out, state->axis))
            found = i;
        else if (reads_elements(p, s, past) ||
                 (reads_elements(p, s, present) && !reads_with_room(s, present, state->axis)))
            return INLAY_NONE;
    }
    return times == 1 ? found : INLAY_NONE;
}

bool program_find_states(struct program *p)
{
    const program_env *env = p->env;

    if (env->state_count == 0 || p->graph->parent != NULL)
        return true;
    p->state_steps = arena_array(&p->a, env->state_count, sizeof *p->state_steps);
    for (uint32_t i = 0; p->state_steps != NULL && i < env->state_count; i++)
        p->state_steps[i] = env->states[i].axis == INLAY_NONE ? INLAY_NONE : find_step(p, &env->states[i]);
    return p->state_steps != NULL;
}
