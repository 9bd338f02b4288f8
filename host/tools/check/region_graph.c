#include "check/region_graph.h"
#include "base/random.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

enum { CASES_EACH = 2, PICKS = 24 };

uint32_t region_roll(struct regions *regions, uint32_t sides)
{
    INLAY_CHECK(sides > 0);
    return (uint32_t)(random_bits(&regions->state) % sides);
}

bool region_run_alone(struct regions *regions, const op_case *entry, harness_result *out, uint32_t *out_flags)
{
    const harness_options options = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    case_instance built;
    inlay_status status;
    struct harness harness;

    memset(out, 0, sizeof *out);
    if (case_graph(entry, &regions->fixture->operators, CASE_SIZES, &built, &diag) != INLAY_OK)
        return false;
    status = harness_open(regions->check, regions->provider, &built, entry, 1, &harness, &diag);
    if (status == INLAY_OK) {
        *out_flags = harness.answer.offer.flags;
        status = harness_run(&harness, &options, out, &diag);
        harness_close(&harness);
        if (status != INLAY_OK || out->fault[0] != '\0') {
            harness_result_deinit(out);
            status = INLAY_INTERNAL;
        }
    }
    case_instance_deinit(&built);
    return status == INLAY_OK;
}

static bool take_case(void *user, op_case *entry)
{
    struct regions *regions = user;
    harness_result result;
    uint32_t flags = 0;

    if (regions->count == MAX_POOL || regions->source_cases == CASES_EACH)
        return false;
    if (entry->random || entry->out_count > 4 || !region_run_alone(regions, entry, &result, &flags))
        return true;
    harness_result_deinit(&result);
    if ((flags & INLAY_OFFER_MERGE) == 0)
        return true;
    regions->source_cases++;
    regions->pool[regions->count++] = *entry;
    entry->arena = (struct arena){ 0 }; /* the pool owns it now */
    return true;
}

bool region_take_source(void *user, const case_source *source)
{
    struct regions *regions = user;
    const case_range range = { .seed = regions->check->args->seed, .scale = 1, .quick = true };

    regions->source_cases = 0;
    check_subject(regions->check, "%s-%lld alone", source->op_type, (long long)source->opset);
    generate_cases(source, &range, take_case, regions);
    return regions->count < MAX_POOL;
}

/* Can the input read any float value? Constants and inputs with fixed elements cannot. */
static bool is_connectable(const case_tensor *tensor)
{
    return !tensor->constant && tensor->given == NULL &&
           (tensor->dtype == INLAY_FLOAT || tensor->dtype == INLAY_DOUBLE || tensor->dtype == INLAY_FLOAT16 ||
            tensor->dtype == INLAY_BFLOAT16);
}

static bool same_type(const case_tensor *tensor, inlay_dtype dtype, uint32_t rank, const int64_t *dims)
{
    return tensor->dtype == dtype && tensor->rank == rank &&
           (rank == 0 || memcmp(tensor->dims, dims, rank * sizeof *dims) == 0);
}

/* Connects input i of the part to an output of an earlier part. False: none of the outputs tried has the type and
 * shape of the input. */
static bool link_to_output(struct regions *regions, struct part *part, uint32_t i)
{
    uint32_t tries = 3 * regions->part_count;

    while (tries-- > 0) {
        uint32_t m = region_roll(regions, regions->part_count), o;
        const harness_result *result = &regions->parts[m].result;

        if (result->out_count == 0)
            continue;
        o = region_roll(regions, result->out_count);
        if (!same_type(&part->entry.in[i], result->out[o].dtype, result->out[o].rank, result->out[o].dims))
            continue;
        part->producer[i] = m;
        part->producer_output[i] = o;
        part->entry.in[i].data = result->out[o].data;
        return true;
    }
    return false;
}

/* Connects input i of the part to the value of another input, possibly of the same node. */
static void link_to_input(struct regions *regions, struct part *part, uint32_t i)
{
    uint32_t m = region_roll(regions, regions->part_count + 1), k;
    const struct part *other = m == regions->part_count ? part : &regions->parts[m];
    const case_tensor *tensor;

    if (other->entry.in_count == 0 || (other == part && i == 0))
        return;
    k = other == part ? region_roll(regions, i) : region_roll(regions, other->entry.in_count);
    tensor = &other->entry.in[k];
    if (tensor->constant || other->producer[k] != INLAY_NONE || other->shared[k] != INLAY_NONE ||
        !same_type(&part->entry.in[i], tensor->dtype, tensor->rank, tensor->dims))
        return;
    part->shared[i] = m;
    part->shared_input[i] = k;
    part->entry.in[i].data = tensor->data;
}

/* Picks a case from the pool; usually one that can read an output of an earlier part. */
static const op_case *pick_case(struct regions *regions)
{
    const uint32_t start = region_roll(regions, regions->count);
    const harness_result *result =
        regions->part_count > 0 ? &regions->parts[region_roll(regions, regions->part_count)].result : NULL;
    const harness_output *output;

    if (result == NULL || result->out_count == 0 || region_roll(regions, 4) == 0)
        return &regions->pool[start];
    output = &result->out[region_roll(regions, result->out_count)];
    for (uint32_t k = 0; k < regions->count; k++) {
        const op_case *candidate = &regions->pool[(start + k) % regions->count];

        for (uint32_t i = 0; i < candidate->in_count; i++)
            if (is_connectable(&candidate->in[i]) &&
                same_type(&candidate->in[i], output->dtype, output->rank, output->dims))
                return candidate;
    }
    return &regions->pool[start];
}

void region_part_init(struct part *part)
{
    memset(part, 0, sizeof *part);
    memset(part->producer, 0xff, sizeof part->producer);
    memset(part->shared, 0xff, sizeof part->shared);
    part->owns_entry = true;
}

bool region_add_part(struct regions *regions)
{
    struct part *part = &regions->parts[regions->part_count];
    uint32_t flags;

    INLAY_CHECK(regions->part_count < MAX_PARTS);
    for (uint32_t tries = 0; tries < PICKS; tries++) {
        region_part_init(part);
        part->owns_entry = false;
        part->entry = *pick_case(regions);
        for (uint32_t i = 0; i < part->entry.in_count; i++) {
            if (!is_connectable(&part->entry.in[i]))
                continue;
            if (regions->part_count == 0 || region_roll(regions, 5) == 0 || !link_to_output(regions, part, i))
                if (region_roll(regions, 2) == 0)
                    link_to_input(regions, part, i);
        }
        if (region_run_alone(regions, &part->entry, &part->result, &flags)) {
            part->shown = region_roll(regions, 1u << CASE_OUTPUTS);
            regions->part_count++;
            return true;
        }
    }
    return false;
}

void region_drop_parts(struct regions *regions)
{
    for (uint32_t j = 0; j < regions->part_count; j++) {
        harness_result_deinit(&regions->parts[j].result);
        if (regions->parts[j].owns_entry)
            case_deinit(&regions->parts[j].entry);
    }
    regions->part_count = 0;
}

static void set_input(graph_node *node, uint32_t input, uint32_t value)
{
    ((uint32_t *)(uintptr_t)node->info.inputs)[input] = value;
}

/* Makes values without consumers, and those that parts show, the outputs of the graph. */
static bool choose_outputs(struct regions *regions, struct graph *graph)
{
    graph->outputs = arena_array(&graph->model->arena, (size_t)MAX_PARTS * CASE_OUTPUTS, sizeof *graph->outputs);
    graph->output_count = 0;
    for (uint32_t j = 0; graph->outputs != NULL && j < regions->part_count; j++)
        for (uint32_t output = 0; output < regions->parts[j].node->info.output_count; output++) {
            bool read = false;

            for (uint32_t k = j + 1; k < regions->part_count; k++)
                for (uint32_t i = 0; i < regions->parts[k].entry.in_count; i++)
                    read |= regions->parts[k].producer[i] == j && regions->parts[k].producer_output[i] == output;
            if (!read || (regions->parts[j].shown >> output & 1) != 0)
                graph->outputs[graph->output_count++] = regions->parts[j].node->info.outputs[output];
        }
    INLAY_CHECK(graph->output_count <= MAX_PARTS * CASE_OUTPUTS);
    return graph->outputs != NULL;
}

bool region_make_model(struct regions *regions, case_instance *built)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *model = graph_model_create();

    memset(built, 0, sizeof *built);
    built->model = model;
    for (uint32_t j = 0; model != NULL && j < regions->part_count; j++) {
        struct part *part = &regions->parts[j];

        if (case_import(&part->entry, model) != INLAY_OK ||
            (part->node = case_add(&part->entry, model->main, CASE_SIZES)) == NULL)
            return false;
        for (uint32_t i = 0; i < part->entry.in_count; i++) {
            if (part->producer[i] != INLAY_NONE)
                set_input(part->node, i,
                          regions->parts[part->producer[i]].node->info.outputs[part->producer_output[i]]);
            else if (part->shared[i] != INLAY_NONE)
                set_input(part->node, i, regions->parts[part->shared[i]].node->info.inputs[part->shared_input[i]]);
        }
    }
    if (model == NULL || !choose_outputs(regions, model->main) || graph_finish(model->main, &diag) != INLAY_OK ||
        graph_bind(model, &regions->fixture->operators, &diag) != INLAY_OK || graph_infer(model, &diag) != INLAY_OK ||
        graph_snapshot(model->main, &built->arena, &built->snapshot, &diag) != INLAY_OK)
        return false;
    for (uint32_t j = 0; j < regions->part_count; j++)
        for (uint32_t node = 0; node < model->main->node_count; node++)
            if (model->main->nodes[node] == regions->parts[j].node)
                regions->parts[j].index = node;
    return true;
}

bool region_make_states(case_instance *built)
{
    const inlay_graph *graph = &built->snapshot;

    built->states = arena_array(&built->arena, graph->value_count + (size_t)1, sizeof *built->states);
    for (uint32_t value = 0; built->states != NULL && value < graph->value_count; value++) {
        const inlay_value_info *info = inlay_graph_value(graph, value);
        int64_t *dims =
            info->rank == INLAY_RANK_UNKNOWN ? NULL : arena_array(&built->arena, info->rank + (size_t)1, sizeof *dims);
        built->states[value] = (inlay_value_state){ .rank = info->rank, .dtype = info->dtype };
        for (uint32_t d = 0; dims != NULL && d < info->rank; d++)
            dims[d] = info->dims[d].kind == INLAY_DIM_FIXED ? info->dims[d].value : -1;
        built->states[value].dims = dims;
        if ((info->flags & INLAY_VALUE_CONSTANT) != 0) {
            built->states[value].data = info->data;
            built->states[value].data_bytes = info->data_bytes;
        }
    }
    return built->states != NULL;
}
