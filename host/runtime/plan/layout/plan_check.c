/* plan/layout/plan_check.c - what holds for every plan, derived again from its steps: the planner keeps lifetimes up to
 * date while it adds, moves and groups steps. */
#include "inlay/check.h"
#include "plan/layout/planner.h"

/* Steps [first, last] use the place: they are within its lifetime. */
static void check_use(const struct plan *plan, uint32_t place, uint32_t first, uint32_t last)
{
    const plan_place *used;

    INLAY_CHECK(place < plan->place_count);
    used = &plan->places[plan_memory_place(plan, place)];
    INLAY_CHECK(used->source != PLACE_VIEW && used->source != PLACE_NONE);
    if (used->source != PLACE_SLAB || used->kept)
        return;
    INLAY_CHECK(used->first <= first && used->last >= last);
}

/* Steps of a group run concurrently: what one of them uses, none of the others may overwrite. */
static void check_step(const struct plan *plan, uint32_t j, uint32_t first, uint32_t last)
{
    const plan_step *step = &plan->steps[j];
    const uint32_t inputs = step->kind == PLAN_COPY ? 1 : step->step->region->input_count;
    const uint32_t outputs = step->kind == PLAN_COPY   ? 1
                             : step->kind == PLAN_EXEC ? step->step->region->output_count
                                                       : 0;

    for (uint32_t i = 0; i < inputs; i++)
        check_use(plan, step->in[i], first, last);
    for (uint32_t i = 0; i < outputs; i++)
        check_use(plan, step->out[i], first, last);
    if (step->kind == PLAN_EXEC && step->workspace != INLAY_NONE)
        check_use(plan, step->workspace, first, last);
}

static void check_steps(const struct plan *plan)
{
    const branch_group *group = plan->branch_groups, *const end = group + plan->branch_group_count;

    for (uint32_t j = 0; j < plan->step_count; j++) {
        while (group < end && group->end <= j)
            group++;
        if (group < end && group->first <= j)
            check_step(plan, j, group->first, group->end - 1);
        else
            check_step(plan, j, j, j);
    }
}

static bool live_at_once(const plan_place *a, const plan_place *b)
{
    return a->kept || b->kept || (a->first <= b->last && b->first <= a->last);
}

/* Are these two places in use at the same time, at the same bytes? */
static bool clash(const plan_place *a, const plan_place *b)
{
    return b->source == PLACE_SLAB && b->bytes > 0 && a->memory_domain == b->memory_domain &&
           a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes && live_at_once(a, b);
}

/* Places of a slab that are live at the same time are disjoint. */
static void check_slabs(const struct plan *plan)
{
    for (uint32_t i = 0; i < plan->place_count; i++) {
        const plan_place *place = &plan->places[i];
        bool clashes = false;

        if (place->source != PLACE_SLAB || place->bytes == 0)
            continue;
        INLAY_CHECK(place->offset + place->bytes <= plan->slab_bytes[place->memory_domain]);
        for (uint32_t k = 0; k < i; k++)
            clashes |= clash(place, &plan->places[k]);
        INLAY_CHECK(!clashes);
    }
}

bool plan_check(const struct plan *plan)
{
    check_steps(plan);
    check_slabs(plan);
    return true;
}
