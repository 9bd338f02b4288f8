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
static void bring_home(struct runner *r, struct bound *b)
{
    for (uint32_t v = 0; b->made.twins != NULL && v < r->prog->graph->value_count; v++) {
        rt_value *x = &b->made.values[v];
        inlay_value *twin = b->made.twins[v], *home = NULL;

        if (reads(b->at, v) || stay_arrive(r, b, v, NULL) != INLAY_OK)
            continue;
        if (twin != NULL && twin->buffer.domain != INLAY_DOMAIN_HOST) {
            value_unref(twin);
            b->made.twins[v] = twin = NULL;
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

void stay_make_room(struct runner *r, bool idle, bool all)
{
    const program_step *at = NULL;

    if (r->shared->hang.abandoned)
        return;
    if (!idle && r->plans.busy != NULL && r->plans.busy->at != NULL)
        at = r->plans.busy->at->plan->step;
    for (uint32_t i = 0; i < BOUNDS_KEPT; i++) {
        if (r->plans.kept[i] == NULL || r->plans.kept[i] == r->plans.busy)
            continue;
        if (r->plans.now == r->plans.kept[i])
            r->plans.now = NULL;
        bound_destroy(r, r->plans.kept[i]);
        r->plans.kept[i] = NULL;
    }
    stay_drop_results(r, r->out.spares);
    if (idle)
        stay_drop_results(r, r->out.values);
    if (all && r->plans.busy != NULL)
        bring_home(r, r->plans.busy);
    for (uint32_t i = 0; i < r->prog->step_count; i++)
        for (uint32_t k = 0; r->children[i] != NULL && k < r->prog->steps[i].node->body_count; k++)
            if (r->children[i][k] != NULL)
                stay_make_room(r->children[i][k], &r->prog->steps[i] != at, all);
    for (struct runner *x = r->fallback.runners; x != NULL; x = x->fallback.next)
        stay_make_room(x, idle, all);
}
