#include "inlay/check.h"
#include "base/order.h"
#include "inlay/execution.h"
#include "plan/create/create.h"
#include "plan/program/declined.h"

/* Marks the offers as declined in the program's partition, and adds a refusal for each of their nodes. False: out of
 * memory. */
static bool mark_declined(const program_declined *declined)
{
    struct program *program = declined->program;
    const char *sentence = arena_format(&program->arena, "declined by %s: %.300s", declined->call, declined->text);
    partition_offer *offers =
        arena_copy(&program->arena, program->parts.offers, (size_t)program->parts.offer_count * sizeof *offers);
    partition_refusal *refusals;
    size_t nodes = 0;

    for (uint32_t offer = 0; offer < program->parts.offer_count; offer++)
        nodes += declined->offers[offer] != 0 ? program->parts.offers[offer].node_count : 0;
    refusals = arena_grown(&program->arena, program->parts.refusals, program->parts.refusal_count,
                           program->parts.refusal_count + nodes + 1, sizeof *refusals);
    if (sentence == NULL || offers == NULL || refusals == NULL)
        return false;
    program->parts.offers = offers; /* a fallback program shared them */
    program->parts.refusals = refusals;
    for (uint32_t offer = 0; offer < program->parts.offer_count; offer++) {
        if (declined->offers[offer] == 0)
            continue;
        offers[offer].declined = true;
        for (uint32_t k = 0; k < offers[offer].node_count; k++)
            refusals[program->parts.refusal_count++] = (partition_refusal){ .provider = offers[offer].provider,
                                                                            .node = offers[offer].nodes[k],
                                                                            .code = INLAY_REFUSE_LATE,
                                                                            .text = sentence };
    }
    return true;
}

static bool same_region(const partition_region *first, const partition_region *second)
{
    return first->provider == second->provider && first->provider != INLAY_NONE &&
           same_list(first->nodes, first->node_count, second->nodes, second->node_count) &&
           same_list(first->offers, first->offer_count, second->offers, second->offer_count) &&
           same_list(first->inputs, first->input_count, second->inputs, second->input_count) &&
           same_list(first->outputs, first->output_count, second->outputs, second->output_count);
}

/* Returns whether all boundary values have the element types of the model. Otherwise the region cannot be reused,
 * because a new neighbour may not support its types. */
static bool has_model_dtypes(const program_step *step)
{
    for (uint32_t i = 0; i < step->region->input_count + step->region->output_count; i++)
        if (step->placements[i].dtype != INLAY_UNDEFINED)
            return false;
    return true;
}

/* Creates steps for the regions of `parts`; reuses compiled regions of the program. NULL: out of memory. */
static program_step *reuse_compiled_steps(struct program *program, const struct partition *parts)
{
    program_step *steps = arena_array(&program->arena, (size_t)parts->region_count + 1, sizeof *steps);

    for (uint32_t i = 0; steps != NULL && i < parts->region_count; i++)
        for (uint32_t k = 0; k < program->step_count; k++) {
            const program_step *from = &program->steps[k];

            if (from->compiled == NULL || !same_region(&parts->regions[i], from->region) || !has_model_dtypes(from))
                continue;
            steps[i] = (program_step){ .compiled = from->compiled,
                                       .provider = from->provider,
                                       .placements = from->placements,
                                       .borrowed = from->borrowed,
                                       .share = from->share,
                                       .resident_bytes = from->resident_bytes,
                                       .weights = from->weights,
                                       .has_key = from->has_key,
                                       .key = from->key,
                                       .blob = from->blob };
            break;
        }
    return steps;
}

static bool is_reused(const program_step *steps, uint32_t count, const inlay_compiled *compiled)
{
    for (uint32_t i = 0; i < count; i++)
        if (steps[i].compiled == compiled)
            return true;
    return false;
}

inlay_status program_assign_without(const program_declined *declined, inlay_diag *diag)
{
    struct program *program = declined->program;
    partition_request request = program_request(program);
    partition_rules rules = program->env->rules != NULL ? *program->env->rules : (partition_rules){ 0 };
    program_step *steps;
    inlay_status status;
    struct partition next;

    INLAY_CHECK(program != NULL && declined->offers != NULL);
    if (!mark_declined(declined))
        return declined_no_memory(program, diag);
    rules.saved_plan = NULL; /* the saved plan requires the declined offer */
    request.rules = &rules;
    status = partition_again(&request, &program->parts, &program->arena, &next, diag);
    if (status != INLAY_OK)
        return status;
    steps = reuse_compiled_steps(program, &next);
    if (steps == NULL)
        return declined_no_memory(program, diag);
    for (uint32_t i = 0; i < program->step_count; i++)
        if (program->steps[i].compiled != NULL && !is_reused(steps, next.region_count, program->steps[i].compiled))
            program_release_step(program->env, &program->steps[i]);
    program->parts = next;
    program->steps = steps;
    program->step_count = next.region_count;
    return INLAY_OK;
}
