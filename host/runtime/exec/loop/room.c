/* exec/loop/room.c - room on a device that has none left: what is kept there for later goes, or comes home. */
#include "exec/loop/room.h"
#include "exec/device/stay.h"
#include "exec/loop/bound.h"
#include "exec/loop/ports.h"

static bool reads(const bound_step *s, uint32_t v)
{
    const part_region *r = s != NULL ? s->plan->step->region : NULL;

    for (uint32_t i = 0; r != NULL && i < r->input_count; i++)
        if (r->inputs[i] == v)
            return true;
    return false;
}

/* What steps to come read, but not the one in hand, comes home. */
static void bring_home(runner *r, bound *b)
{
    for (uint32_t v = 0; b->twins != NULL && v < r->prog->graph->value_count; v++) {
        rt_value *x = &b->dynamic[v];
        inlay_value *twin = b->twins[v], *home = NULL;

        if (reads(b->at, v) || stay_arrive(r, b, v, NULL) != INLAY_OK)
            continue;
        if (twin != NULL && twin->buffer.domain != INLAY_DOMAIN_HOST) {
            value_unref(twin);
            b->twins[v] = twin = NULL;
        }
        if (x->owner == NULL || x->kind != INLAY_KIND_TENSOR || !stay_is_free(x->owner, x->buffer.domain))
            continue;
        if (twin != NULL)
            home = value_ref(twin);
        else if (stay_move(r, x, INLAY_DOMAIN_HOST, &home, NULL) != INLAY_OK)
            return;
        runner_set(r, b, v, home);
    }
}

void stay_make_room(runner *r, bool idle, bool all)
{
    const program_step *at = NULL;

    if (r->shared->abandoned)
        return;
    if (!idle && r->busy != NULL && r->busy->at != NULL)
        at = r->busy->at->plan->step;
    for (uint32_t i = 0; i < BOUNDS_KEPT; i++) {
        if (r->bounds[i] == NULL || r->bounds[i] == r->busy)
            continue;
        if (r->now == r->bounds[i])
            r->now = NULL;
        bound_destroy(r, r->bounds[i]);
        r->bounds[i] = NULL;
    }
    stay_drop_results(r, r->spares);
    if (idle)
        stay_drop_results(r, r->outputs);
    if (all && r->busy != NULL)
        bring_home(r, r->busy);
    for (uint32_t i = 0; i < r->prog->step_count; i++)
        for (uint32_t k = 0; r->children[i] != NULL && k < r->prog->steps[i].node->body_count; k++)
            if (r->children[i][k] != NULL)
                stay_make_room(r->children[i][k], &r->prog->steps[i] != at, all);
    for (runner *x = r->instead; x != NULL; x = x->next_instead)
        stay_make_room(x, idle, all);
}
