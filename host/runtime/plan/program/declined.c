/* plan/program/declined.c - assigned again without the offers that were declined (late.h). */
#include "plan/program/late.h"
#include <string.h>

/* Copies what base has heard, without the offers that are late, and with refusals in their place. False: no memory. */
bool late_take_back(const partition *base, const uint8_t *late, const char *call, const char *text, arena *a,
                    partition *out)
{
    const char *sentence = arena_format(a, "declined by %s: %.300s", call, text);
    part_refusal *refusals;
    size_t nodes = 0;

    for (uint32_t o = 0; o < base->offer_count; o++)
        nodes += late[o] != 0 ? base->offers[o].node_count : 0;
    *out = *base;
    out->offers = arena_copy(a, base->offers, ((size_t)base->offer_count) * sizeof *out->offers);
    out->refusals = refusals = arena_array(a, base->refusal_count + nodes + 1, sizeof *refusals);
    if (sentence == NULL || out->offers == NULL || refusals == NULL)
        return false;
    if (base->refusal_count > 0)
        memcpy(refusals, base->refusals, base->refusal_count * sizeof *refusals);
    for (uint32_t o = 0; o < out->offer_count; o++) {
        if (late[o] == 0)
            continue;
        out->offers[o].declined = true;
        for (uint32_t k = 0; k < out->offers[o].node_count; k++)
            refusals[out->refusal_count++] = (part_refusal){ .provider = out->offers[o].provider,
                                                             .node = out->offers[o].nodes[k],
                                                             .code = INLAY_REFUSE_LATE,
                                                             .text = sentence };
    }
    return true;
}

inlay_status late_choose(const program *p, const partition *heard, arena *a, partition *out, inlay_diag *diag)
{
    part_request request = program_request(p);
    part_rules rules = p->env->rules != NULL ? *p->env->rules : (part_rules){ 0 };

    rules.saved_plan = NULL; /* it would insist on what is declined */
    request.rules = &rules;
    return partition_again(&request, heard, a, out, diag);
}

static bool same_list(const uint32_t *a, uint32_t a_count, const uint32_t *b, uint32_t b_count)
{
    return a_count == b_count && (a_count == 0 || memcmp(a, b, a_count * sizeof *a) == 0);
}

static bool same_region(const part_region *a, const part_region *b)
{
    return a->provider == b->provider && a->provider != INLAY_NONE &&
           same_list(a->nodes, a->node_count, b->nodes, b->node_count) &&
           same_list(a->offers, a->offer_count, b->offers, b->offer_count) &&
           same_list(a->inputs, a->input_count, b->inputs, b->input_count) &&
           same_list(a->outputs, a->output_count, b->outputs, b->output_count);
}

/* Other neighbours may not agree to other elements. */
static bool is_plain(const program_step *s)
{
    for (uint32_t i = 0; i < s->region->input_count + s->region->output_count; i++)
        if (s->placements[i].dtype != INLAY_UNDEFINED)
            return false;
    return true;
}

/* Steps for the regions of parts; those that `from` has compiled already are taken over. NULL: no memory. */
program_step *late_take_over(const partition *parts, const program_step *from, uint32_t from_count, bool borrow,
                             arena *a)
{
    program_step *steps = arena_array(a, (size_t)parts->region_count + 1, sizeof *steps);

    for (uint32_t i = 0; steps != NULL && i < parts->region_count; i++)
        for (uint32_t k = 0; k < from_count; k++)
            if (from[k].compiled != NULL && same_region(&parts->regions[i], from[k].region) && is_plain(&from[k])) {
                steps[i].compiled = from[k].compiled;
                steps[i].provider = from[k].provider;
                steps[i].placements = from[k].placements;
                steps[i].borrowed = borrow || from[k].borrowed;
                steps[i].resident_bytes = from[k].resident_bytes;
                break;
            }
    return steps;
}

static bool is_taken(const program_step *steps, uint32_t count, const inlay_compiled *compiled)
{
    for (uint32_t i = 0; i < count; i++)
        if (steps[i].compiled == compiled)
            return true;
    return false;
}

inlay_status late_assign(program *p, uint32_t step, const inlay_diag *why, inlay_diag *diag)
{
    uint8_t *late = arena_array(&p->a, (size_t)p->parts.offer_count + 1, sizeof *late);
    partition heard, next;
    program_step *steps;
    inlay_status status;

    if (late == NULL)
        return late_no_memory(p, diag);
    late_mark(p, step, why, late);
    if (!late_take_back(&p->parts, late, "compile", why->text, &p->a, &heard))
        return late_no_memory(p, diag);
    status = late_choose(p, &heard, &p->a, &next, diag);
    if (status == INLAY_UNSUPPORTED) {
        const part_request request = program_request(p);

        p->stuck = part_uncovered(&request, &heard, &p->a);
    }
    if (status != INLAY_OK)
        return status;
    steps = late_take_over(&next, p->steps, p->step_count, false, &p->a);
    if (steps == NULL)
        return late_no_memory(p, diag);
    for (uint32_t i = 0; i < p->step_count; i++) {
        program_step *s = &p->steps[i];

        if (s->compiled != NULL && !is_taken(steps, next.region_count, s->compiled))
            program_release_step(p->env, s);
    }
    p->parts = next;
    p->steps = steps;
    p->step_count = next.region_count;
    return INLAY_OK;
}
