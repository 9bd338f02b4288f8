#include "plan/program/take_over.h"
#include "base/order.h"
#include "inlay/check.h"
#include "inlay/extensions.h"
#include "inlay/plugin.h"
#include "plan/program/borders.h"
#include <stdlib.h>
#include <string.h>

static bool same_elements(const inlay_value_info *a, const inlay_value_info *b)
{
    if (a->element_count != b->element_count || (a->elements == NULL) != (b->elements == NULL) ||
        (a->data == NULL) != (b->data == NULL) || a->data_bytes != b->data_bytes ||
        (a->elements != NULL && !graph_same_dims(a->elements, b->elements, a->element_count)))
        return false;
    if (a->data == b->data)
        return true;
    if ((a->flags & INLAY_VALUE_CONSTANT) != 0)
        return a->content_hash != 0 && a->content_hash == b->content_hash;
    return a->dtype != INLAY_STRING && memcmp(a->data, b->data, (size_t)a->data_bytes) == 0;
}

static bool same_value(const inlay_graph *a, const inlay_graph *b, uint32_t value)
{
    const inlay_value_info *first = inlay_graph_value(a, value), *second = inlay_graph_value(b, value);

    if (first == NULL || second == NULL)
        return first == second;
    return first->kind == second->kind && first->flags == second->flags && first->dtype == second->dtype &&
           first->rank == second->rank &&
           (first->rank == INLAY_RANK_UNKNOWN || graph_same_dims(first->dims, second->dims, first->rank)) &&
           same_elements(first, second);
}

static bool same_values(const inlay_graph *a, const inlay_graph *b, const uint32_t *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!same_value(a, b, values[i]))
            return false;
    return true;
}

static bool same_bodies(const inlay_node_info *a, const inlay_node_info *b)
{
    if (a->body_count != b->body_count)
        return false;
    for (uint32_t i = 0; i < a->body_count; i++) {
        const inlay_body *first = INLAY_AT(inlay_body, a->bodies, a->body_stride, i);
        const inlay_body *second = INLAY_AT(inlay_body, b->bodies, b->body_stride, i);

        if (first->graph->content_hash != second->graph->content_hash ||
            !same_list(first->capture_outer, first->capture_count, second->capture_outer, second->capture_count) ||
            !same_list(first->capture_inner, first->capture_count, second->capture_inner, second->capture_count))
            return false;
    }
    return true;
}

static bool same_node(const inlay_graph *a, const inlay_graph *b, uint32_t node)
{
    const inlay_node_info *first = inlay_graph_node(a, node), *second = inlay_graph_node(b, node);

    return graph_hash_node(first, 1) == graph_hash_node(second, 1) &&
           same_list(first->inputs, first->input_count, second->inputs, second->input_count) &&
           same_list(first->outputs, first->output_count, second->outputs, second->output_count) &&
           same_bodies(first, second) && same_values(a, b, first->inputs, first->input_count) &&
           same_values(a, b, first->outputs, first->output_count);
}

/* Do indexes mean the same in both graphs? */
static bool same_indexes(const inlay_graph *a, const inlay_graph *b)
{
    if (a->node_count != b->node_count || a->value_count != b->value_count || a->symbol_count != b->symbol_count)
        return false;
    for (uint32_t i = 0; i < a->symbol_count; i++) {
        const inlay_symbol_info *first = INLAY_AT(inlay_symbol_info, a->symbols, a->symbol_stride, i);
        const inlay_symbol_info *second = INLAY_AT(inlay_symbol_info, b->symbols, b->symbol_stride, i);

        if (first->name.bytes != second->name.bytes || first->min != second->min || first->max != second->max ||
            memcmp(first->name.data, second->name.data, (size_t)first->name.bytes) != 0)
            return false;
    }
    return true;
}

/* The program of the same graph among `donor` and its bodies; NULL: none. */
static struct program *counterpart(struct program *donor, const char *path)
{
    struct program *found = strcmp(donor->path, path) == 0 ? donor : NULL;

    for (uint32_t i = 0; found == NULL && i < donor->body_count; i++)
        found = counterpart(donor->bodies[i], path);
    return found;
}

static bool same_offers(const struct program *a, const partition_region *first, const struct program *b,
                        const partition_region *second)
{
    if (first->offer_count != second->offer_count)
        return false;
    for (uint32_t i = 0; i < first->offer_count; i++) {
        const partition_offer *x = &a->parts.offers[first->offers[i]], *y = &b->parts.offers[second->offers[i]];

        if (!same_list(x->nodes, x->node_count, y->nodes, y->node_count))
            return false;
    }
    return true;
}

/* Are the shapes equal that compile gets as a hint? */
static bool same_profile(const struct program *a, const struct program *b, const partition_region *region)
{
    const inlay_value_state *first = a->parts.compiled_for, *second = b->parts.compiled_for;

    if (first == NULL || second == NULL)
        return first == second;
    for (uint32_t i = 0; i < region->input_count; i++) {
        const inlay_value_state *x = &first[region->inputs[i]], *y = &second[region->inputs[i]];

        if (x->rank != y->rank || (x->dims == NULL) != (y->dims == NULL) ||
            (x->dims != NULL && memcmp(x->dims, y->dims, x->rank * sizeof *x->dims) != 0))
            return false;
    }
    return true;
}

static bool same_region(const struct program *a, const partition_region *first, const struct program *b,
                        const partition_region *second)
{
    if (first->provider != second->provider ||
        !same_list(first->nodes, first->node_count, second->nodes, second->node_count) ||
        !same_list(first->inputs, first->input_count, second->inputs, second->input_count) ||
        !same_list(first->outputs, first->output_count, second->outputs, second->output_count) ||
        !same_offers(a, first, b, second) || !same_profile(a, b, first))
        return false;
    for (uint32_t i = 0; i < first->node_count; i++)
        if (!same_node(&a->snapshot, &b->snapshot, first->nodes[i]))
            return false;
    return true;
}

static bool same_placements(const inlay_placement *a, const inlay_placement *b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (a[i].domain != b[i].domain || a[i].dtype != b[i].dtype)
            return false;
    return true;
}

static program_share *share_of(program_step *step, const struct program *home)
{
    if (step->share == NULL) {
        step->share = malloc(sizeof *step->share);
        if (step->share != NULL)
            *step->share = (program_share){ .references = 1, .home = home };
    }
    return step->share;
}

static void take_over(struct program *program, program_step *step, program_step *from)
{
    const partition_region *region = step->region;
    const inlay_placement *placements = borders_negotiate(program, region, &program->arena);

    if (placements == NULL ||
        !same_placements(placements, from->placements, region->input_count + region->output_count) ||
        share_of(from, program->env->donor) == NULL)
        return;
    (void)__atomic_add_fetch(&from->share->references, 1, __ATOMIC_ACQ_REL);
    step->compiled = from->compiled;
    step->placements = placements;
    step->resident_bytes = from->resident_bytes;
    step->weights = from->weights;
    step->has_key = from->has_key;
    step->key = from->key;
    step->blob = from->blob;
    step->share = from->share;
}

void program_take_over(struct program *program)
{
    struct program *donor = program->env->donor != NULL ? counterpart(program->env->donor, program->path) : NULL;

    if (donor == NULL || !donor->compiled || program->fallback.base != NULL ||
        !same_indexes(&donor->snapshot, &program->snapshot))
        return;
    /* A run of the donor may be copying its steps for a fallback. */
    (void)pthread_mutex_lock(&donor->kept.lock);
    for (uint32_t i = 0; i < program->step_count; i++) {
        program_step *step = &program->steps[i];

        for (uint32_t k = 0; k < donor->step_count && step->provider != NULL && step->compiled == NULL; k++) {
            program_step *from = &donor->steps[k];

            if (from->compiled != NULL && from->region->nodes[0] == step->region->nodes[0] &&
                same_region(donor, from->region, program, step->region))
                take_over(program, step, from);
        }
    }
    (void)pthread_mutex_unlock(&donor->kept.lock);
}

void program_each_home(const struct program *program, void (*each)(void *ctx, const struct program *home), void *ctx)
{
    for (uint32_t i = 0; i < program->step_count; i++)
        if (program->steps[i].share != NULL)
            each(ctx, program->steps[i].share->home);
    for (uint32_t i = 0; program->fallback.base == NULL && i < program->body_count; i++)
        program_each_home(program->bodies[i], each, ctx);
}
