/* exec/run/seen.c - the sizes that runs found. */
#include "exec/run/run.h"
#include <string.h>

static bool is_known(const inlay_value_state *v)
{
    for (uint32_t d = 0; v->rank != INLAY_RANK_UNKNOWN && d < v->rank; d++)
        if (v->dims[d] < 0)
            return false;
    return v->rank != INLAY_RANK_UNKNOWN;
}

bool seen_create(struct bound *b, uint32_t value_count)
{
    b->made.seen = arena_array(&b->a, (size_t)value_count + 1, sizeof *b->made.seen);
    for (uint32_t v = 0; b->made.seen != NULL && v < value_count; v++) {
        if (is_known(&b->plan->states[v]))
            continue;
        b->made.seen[v] = arena_alloc(&b->a, sizeof *b->made.seen[v]);
        if (b->made.seen[v] == NULL)
            return false;
        b->made.seen[v]->rank = INLAY_RANK_UNKNOWN;
    }
    return b->made.seen != NULL;
}

void seen_keep(struct bound *b, uint32_t v, uint32_t rank, const int64_t *dims)
{
    seen_shape *s = b->made.seen != NULL ? b->made.seen[v] : NULL;

    if (s == NULL || rank > INLAY_MAX_RANK)
        return;
    s->rank = rank;
    if (rank > 0)
        memcpy(s->dims, dims, rank * sizeof *dims);
}

const cost_input *seen_sizes(const struct runner *r, struct arena *a)
{
    const struct bound *b = r->plans.now;
    uint32_t count = r->prog->graph->value_count;
    cost_input *sizes = arena_array(a, (size_t)count + 1, sizeof *sizes);

    for (uint32_t v = 0; sizes != NULL && v < count; v++) {
        const seen_shape *s = b != NULL && b->made.seen != NULL ? b->made.seen[v] : NULL;

        sizes[v].rank = INLAY_RANK_UNKNOWN;
        if (s != NULL)
            sizes[v] = (cost_input){ s->rank, s->dims };
        else if (b != NULL)
            sizes[v] = (cost_input){ b->plan->states[v].rank, b->plan->states[v].dims };
    }
    return sizes;
}

inlay_value_state *seen_states(const struct runner *r, struct arena *a)
{
    const inlay_value_state *assumed = r->prog->parts.profile;
    uint32_t count = r->prog->graph->value_count;
    inlay_value_state *states = arena_copy(a, r->plans.now->plan->states, (size_t)count * sizeof *states);

    for (uint32_t v = 0; states != NULL && v < count; v++) {
        const seen_shape *s = r->plans.now->made.seen != NULL ? r->plans.now->made.seen[v] : NULL;

        if (is_known(&states[v]))
            continue;
        if (s != NULL && s->rank != INLAY_RANK_UNKNOWN) {
            states[v].rank = s->rank;
            states[v].dims = s->dims;
        } else if (assumed != NULL) {
            states[v] = assumed[v];
        }
    }
    return states;
}

const struct runner *runner_of(const struct runner *r, const struct program *p)
{
    const struct runner *found = r == NULL || r->prog == p ? r : NULL;

    for (uint32_t i = 0; r != NULL && found == NULL && r->children != NULL && i < r->prog->step_count; i++)
        for (uint32_t k = 0; found == NULL && r->children[i] != NULL && k < r->prog->steps[i].node->body_count; k++)
            found = runner_of(r->children[i][k], p);
    return found;
}
