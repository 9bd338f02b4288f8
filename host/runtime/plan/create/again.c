#include "plan/create/create.h"
#include "plan/program/declined.h"
#include <string.h>

/* Marks the offers in p's partition, and adds a refusal for each of their nodes. False: no memory. */
static bool take_back(const program_declined *declined)
{
    struct program *p = declined->program;
    const char *sentence = arena_format(&p->a, "declined by %s: %.300s", declined->call, declined->text);
    part_offer *offers = arena_copy(&p->a, p->parts.offers, (size_t)p->parts.offer_count * sizeof *offers);
    part_refusal *refusals;
    size_t nodes = 0;

    for (uint32_t o = 0; o < p->parts.offer_count; o++)
        nodes += declined->offers[o] != 0 ? p->parts.offers[o].node_count : 0;
    refusals = arena_grown(&p->a, p->parts.refusals, p->parts.refusal_count, p->parts.refusal_count + nodes + 1,
                           sizeof *refusals);
    if (sentence == NULL || offers == NULL || refusals == NULL)
        return false;
    p->parts.offers = offers; /* a program that stands in for another one shared them */
    p->parts.refusals = refusals;
    for (uint32_t o = 0; o < p->parts.offer_count; o++) {
        if (declined->offers[o] == 0)
            continue;
        offers[o].declined = true;
        for (uint32_t k = 0; k < offers[o].node_count; k++)
            refusals[p->parts.refusal_count++] = (part_refusal){
                .provider = offers[o].provider, .node = offers[o].nodes[k], .code = INLAY_REFUSE_LATE, .text = sentence
            };
    }
    return true;
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

/* Steps for the regions of parts; those that p has compiled already are taken over. NULL: no memory. */
static program_step *take_over(struct program *p, const struct partition *parts)
{
    program_step *steps = arena_array(&p->a, (size_t)parts->region_count + 1, sizeof *steps);

    for (uint32_t i = 0; steps != NULL && i < parts->region_count; i++)
        for (uint32_t k = 0; k < p->step_count; k++) {
            const program_step *from = &p->steps[k];

            if (from->compiled == NULL || !same_region(&parts->regions[i], from->region) || !is_plain(from))
                continue;
            steps[i] = (program_step){ .compiled = from->compiled,
                                       .provider = from->provider,
                                       .placements = from->placements,
                                       .borrowed = from->borrowed,
                                       .resident_bytes = from->resident_bytes };
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

inlay_status program_assign_without(const program_declined *declined, inlay_diag *diag)
{
    struct program *p = declined->program;
    part_request request = program_request(p);
    part_rules rules = p->env->rules != NULL ? *p->env->rules : (part_rules){ 0 };
    program_step *steps;
    inlay_status status;
    struct partition next;

    if (!take_back(declined))
        return declined_no_memory(p, diag);
    rules.saved_plan = NULL; /* it would insist on what is declined */
    request.rules = &rules;
    status = partition_again(&request, &p->parts, &p->a, &next, diag);
    if (status != INLAY_OK)
        return status;
    steps = take_over(p, &next);
    if (steps == NULL)
        return declined_no_memory(p, diag);
    for (uint32_t i = 0; i < p->step_count; i++)
        if (p->steps[i].compiled != NULL && !is_taken(steps, next.region_count, p->steps[i].compiled))
            program_release_step(p->env, &p->steps[i]);
    p->parts = next;
    p->steps = steps;
    p->step_count = next.region_count;
    return INLAY_OK;
}
