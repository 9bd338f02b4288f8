/* Placement of values that enter and leave If, Loop and Scan bodies. These nodes pass values on without copying them
 * (exec/device/residency.c): a body reads captured values where the surrounding graph has them, carried values stay
 * where the body computes them, and the result of a branch is placed in the domain of its next consumer. */
#include "inlay/check.h"
#include "inlay/plugin.h"
#include "partition/offers/offers.h"
#include "partition/cost/cost.h"
#include <string.h>

static bool is_op(const graph_node *node, const char *op_type)
{
    return strcmp(node->info.op_type.data, op_type) == 0;
}

/* The carried and stacked values of a Loop, or of a Scan of version 9 and later. */
typedef struct loop_layout {
    /* first_input, first_output: of the body; first_input also of the node */
    uint32_t carried, first_input, first_output;
    bool stacks; /* results are stacked forwards along the first axis, and can stay where they are computed */
} loop_layout;

static bool has_non_zero(const graph_node *node, const char *name)
{
    const inlay_attr_info *attribute = graph_attr(node, name);

    for (uint32_t i = 0; attribute != NULL && attribute->kind == INLAY_ATTR_INTS && i < attribute->count; i++)
        if (attribute->ints[i] != 0)
            return true;
    return false;
}

static bool find_layout(const graph_node *node, loop_layout *out)
{
    const inlay_attr_info *scans = graph_attr(node, "num_scan_inputs");

    *out = (loop_layout){ .stacks = true };
    if (is_op(node, "Loop")) {
        out->first_input = 2;
        out->first_output = 1;
        out->carried = node->info.input_count > 2 ? node->info.input_count - 2 : 0;
        return true;
    }
    if (!is_op(node, "Scan") || node->info.since_version < 9 || scans == NULL || scans->i < 0 ||
        scans->i > node->info.input_count)
        return false;
    out->carried = node->info.input_count - (uint32_t)scans->i;
    out->stacks = !has_non_zero(node, "scan_output_axes") && !has_non_zero(node, "scan_output_directions");
    return true;
}

bool partition_passes_to_bodies(const graph_node *node, uint32_t value)
{
    loop_layout form;
    const bool loops = node->body_count > 0 && find_layout(node, &form);

    if (node->body_count == 0 || is_op(node, "SequenceMap"))
        return false;
    for (uint32_t i = 0; i < node->info.input_count; i++)
        if (node->info.inputs[i] == value && !(loops && i >= form.first_input && i - form.first_input < form.carried))
            return false;
    return true;
}

/* Reads a scalar int64 that is known before the run. */
static bool known_scalar(const struct partition *partition, uint32_t value, int64_t *out)
{
    const inlay_value_state *state = value == INLAY_NONE ? NULL : &partition->profile[value];

    if (state == NULL || state->data == NULL || state->dtype != INLAY_INT64 || state->data_bytes != sizeof *out)
        return false;
    memcpy(out, state->data, sizeof *out);
    return true;
}

/* Larger trip counts mean "until the condition is false". */
static const int64_t MAX_TRIPS = INT32_MAX;

double partition_iterations(const struct partition *partition, const graph_node *node, bool *out_known)
{
    const inlay_attr_info *scans = graph_attr(node, "num_scan_inputs");
    int64_t times;

    *out_known = true;
    if (is_op(node, "Loop") && node->info.input_count > 0 && known_scalar(partition, node->info.inputs[0], &times) &&
        times >= 0 && times < MAX_TRIPS)
        return (double)times;
    /* Scan-9 and later scan along axis 0 unless scan_input_axes says otherwise. */
    if (is_op(node, "Scan") && scans != NULL && graph_attr(node, "scan_input_axes") == NULL &&
        node->info.since_version >= 9 && node->info.input_count > 0 &&
        node->info.inputs[node->info.input_count - 1] != INLAY_NONE) {
        const inlay_value_state *last = &partition->profile[node->info.inputs[node->info.input_count - 1]];
        if (last->rank != INLAY_RANK_UNKNOWN && last->rank > 0 && last->dims[0] >= 0)
            return (double)last->dims[0];
    }
    *out_known = false;
    return 1;
}

struct finder {
    graph_tree *tree;
    bool final;
};

static const partition_job *job_at(const struct finder *finder, uint32_t job)
{
    return &finder->tree->jobs[job];
}

/* The job of a body; INLAY_NONE: it has none, or is not partitioned yet. */
static uint32_t assigned(const struct finder *finder, const struct graph *body)
{
    const uint32_t job = graph_tree_job(finder->tree, body);

    return job != INLAY_NONE && job_at(finder, job)->out->regions != NULL ? job : INLAY_NONE;
}

static uint32_t producer_domain(const struct finder *finder, uint32_t job, uint32_t value)
{
    const tree_places *places = graph_tree_places(finder->tree, job);

    return places != NULL && places->made_in[value] != INLAY_NONE ? places->made_in[value]
                                                                  : (uint32_t)INLAY_DOMAIN_HOST;
}

static uint32_t domain_of_value(const struct finder *finder, uint32_t job, uint32_t value)
{
    const boundary_placement *boundaries = job_at(finder, job)->out->boundaries;
    const tree_places *places = graph_tree_places(finder->tree, job);
    uint32_t next;

    if (value == INLAY_NONE)
        return INLAY_DOMAIN_HOST;
    next = boundaries != NULL ? boundaries[value].carried_output : INLAY_NONE;
    if (next != INLAY_NONE)
        return boundaries[next].target == PLACEMENT_ANY ? producer_domain(finder, job, next)
                                                        : (uint32_t)INLAY_DOMAIN_HOST;
    return boundaries == NULL || (places != NULL && places->made_in[value] != INLAY_NONE)
               ? producer_domain(finder, job, value)
               : boundaries[value].domain;
}

static uint32_t reader_domain_of(const struct finder *finder, uint32_t job, uint32_t value);

/* The domain where the bodies of a node read a value that it passes on to them. */
static uint32_t read_in_bodies(const struct finder *finder, const graph_node *node, uint32_t value)
{
    uint32_t domain = INLAY_DOMAIN_HOST;

    for (uint32_t index = 0; index < node->body_count && domain == INLAY_DOMAIN_HOST; index++) {
        const graph_body *body = &node->bodies[index];
        const uint32_t job = assigned(finder, body->graph);

        for (uint32_t i = 0; job != INLAY_NONE && i < body->capture_count && domain == INLAY_DOMAIN_HOST; i++)
            if (body->capture_outer[i] == value)
                domain = reader_domain_of(finder, job, body->capture_inner[i]);
        for (uint32_t i = 0; job != INLAY_NONE && i < node->info.input_count && domain == INLAY_DOMAIN_HOST; i++)
            if (i < body->graph->input_count && node->info.inputs[i] == value)
                domain = reader_domain_of(finder, job, body->graph->inputs[i]);
    }
    return domain;
}

/* A domain other than the host's where the value is read, or the host's if there is none; see
 * program.uses.reader_domain. */
static uint32_t reader_domain_of(const struct finder *finder, uint32_t job, uint32_t value)
{
    const tree_places *places = graph_tree_places(finder->tree, job);
    uint32_t domain = INLAY_DOMAIN_HOST;

    for (uint32_t i = places == NULL ? 0 : places->first_read[value];
         places != NULL && i < places->first_read[value + 1]; i++) {
        const tree_read *read = &places->reads[i];
        const partition_region *region = &places->regions[read->region];
        const graph_node *node = job_at(finder, job)->request.graph->nodes[region->nodes[0]];
        uint32_t reader_domain = read->domain;

        if (region->provider == INLAY_NONE && partition_passes_to_bodies(node, value))
            reader_domain = read_in_bodies(finder, node, value);
        domain = reader_domain != INLAY_DOMAIN_HOST ? reader_domain : domain;
    }
    return domain;
}

/* The domain where a host node stores its result `value` in a run; see residency_domain() in exec/device. */
static uint32_t leaving_domain(const struct finder *finder, uint32_t job, uint32_t value)
{
    const struct graph *graph = job_at(finder, job)->request.graph;
    const boundary_placement *boundaries = job_at(finder, job)->request.boundaries;
    uint32_t domain = reader_domain_of(finder, job, value);

    for (uint32_t k = 0; domain == INLAY_DOMAIN_HOST && boundaries != NULL && k < graph->output_count; k++)
        if (graph->outputs[k] == value && boundaries[value].target != PLACEMENT_ANY)
            domain = boundaries[value].target;
    return domain;
}

static bool can_be_resident(const struct graph *graph, uint32_t value)
{
    uint32_t count = 0;

    for (uint32_t k = 0; value != INLAY_NONE && k < graph->output_count; k++)
        count += graph->outputs[k] == value;
    return count == 1 && graph->values[value].info.kind == INLAY_VALUE_TENSOR &&
           graph->values[value].info.dtype != INLAY_STRING;
}

/* The domain where slices of stacked output k of the loop are needed. */
static uint32_t stacking_domain(const struct finder *finder, uint32_t job, const graph_node *node,
                                const loop_layout *form, uint32_t k)
{
    const struct graph *graph = node->bodies[0].graph;
    const uint32_t value = graph->outputs[form->first_output + k];
    const uint32_t body = assigned(finder, graph);
    const partition_request *request = &job_at(finder, job)->request;
    uint64_t alignment = 64;
    uint32_t domain;

    if (!form->stacks || k >= node->info.output_count || node->info.outputs[k] == INLAY_NONE ||
        !can_be_resident(graph, value))
        return INLAY_DOMAIN_HOST;
    domain = leaving_domain(finder, job, node->info.outputs[k]);
    for (uint32_t provider = 0; domain != INLAY_DOMAIN_HOST && provider < request->provider_count; provider++) {
        const partition_provider *owner = &request->providers[provider];
        const uint32_t at = domain - owner->first_domain;

        while (at < owner->table->domain_count &&
               alignment <
                   INLAY_AT(inlay_domain_info, owner->table->domains, owner->table->domain_stride, at)->alignment)
            alignment *= 2;
    }
    /* Each slice must start at an address that the device can use. */
    return body != INLAY_NONE && cost_value_bytes(&job_at(finder, body)->out->profile[value]) % alignment != 0
               ? (uint32_t)INLAY_DOMAIN_HOST
               : domain;
}

static void set_loop_boundaries(const struct finder *finder, uint32_t around, const graph_node *node,
                                const struct graph *graph, boundary_placement *boundaries)
{
    loop_layout form;

    if (!find_layout(node, &form))
        return;
    for (uint32_t i = 0; i < form.carried && form.first_input + i < graph->input_count; i++) {
        boundary_placement *in = &boundaries[graph->inputs[form.first_input + i]];

        if (form.first_output + i >= graph->output_count || graph->outputs[form.first_output + i] == INLAY_NONE)
            continue;
        in->carried_output = graph->outputs[form.first_output + i];
        in->domain = domain_of_value(finder, around, node->info.inputs[form.first_input + i]);
        if (can_be_resident(graph, in->carried_output))
            boundaries[in->carried_output].target = PLACEMENT_ANY;
    }
    for (uint32_t k = form.carried; form.first_output + k < graph->output_count; k++) {
        const uint32_t value = graph->outputs[form.first_output + k];

        if (value == INLAY_NONE || boundaries[value].target != INLAY_DOMAIN_HOST)
            continue;
        boundaries[value].target = stacking_domain(finder, around, node, &form, k);
        boundaries[value].stacked = boundaries[value].target != INLAY_DOMAIN_HOST;
    }
}

/* Sets the placements of values that enter or leave a body of `node`, as far as the surrounding graph decides them. */
static void set_body_boundaries(const struct finder *finder, uint32_t around, const graph_node *node,
                                const graph_body *body, boundary_placement *boundaries)
{
    const struct graph *graph = body->graph;
    const bool is_if = is_op(node, "If");

    for (uint32_t i = 0; i < body->capture_count; i++) {
        boundaries[body->capture_inner[i]].domain = domain_of_value(finder, around, body->capture_outer[i]);
        boundaries[body->capture_inner[i]].once = !is_if;
    }
    for (uint32_t k = 0; is_if && k < graph->output_count && k < node->info.output_count; k++)
        if (node->info.outputs[k] != INLAY_NONE && can_be_resident(graph, graph->outputs[k]))
            boundaries[graph->outputs[k]].target = leaving_domain(finder, around, node->info.outputs[k]);
    if (!is_if)
        set_loop_boundaries(finder, around, node, graph, boundaries);
}

/* The domain where the If leaves its output k. */
static uint32_t if_output_domain(const struct finder *finder, uint32_t job, const graph_node *node, uint32_t k)
{
    uint32_t domain = INLAY_DOMAIN_HOST;

    for (uint32_t index = 0; index < node->body_count; index++) {
        const struct graph *graph = node->bodies[index].graph;
        const uint32_t body = assigned(finder, graph);

        if (body == INLAY_NONE)
            return INLAY_NONE;
        if (k >= graph->output_count || !can_be_resident(graph, graph->outputs[k]))
            return INLAY_DOMAIN_HOST;
        domain = domain == INLAY_DOMAIN_HOST ? producer_domain(finder, body, graph->outputs[k]) : domain;
    }
    return finder->final ? leaving_domain(finder, job, node->info.outputs[k]) : domain;
}

static uint32_t loop_output_domain(const struct finder *finder, uint32_t job, const graph_node *node,
                                   const loop_layout *form, uint32_t k)
{
    const struct graph *graph = node->bodies[0].graph;
    const uint32_t body = assigned(finder, graph);
    const uint32_t value =
        form->first_output + k < graph->output_count ? graph->outputs[form->first_output + k] : INLAY_NONE;
    uint32_t domain;

    if (body == INLAY_NONE)
        return INLAY_NONE;
    if (!can_be_resident(graph, value))
        return INLAY_DOMAIN_HOST;
    domain = producer_domain(finder, body, value);
    return k < form->carried || domain == stacking_domain(finder, job, node, form, k) ? domain
                                                                                      : (uint32_t)INLAY_DOMAIN_HOST;
}

/* The domain where the bodies of the node read the value, or need it before they start; INLAY_NONE: not partitioned
 * yet. */
static uint32_t body_input_domain(const struct finder *finder, const graph_node *node, uint32_t value)
{
    loop_layout form;
    uint32_t body;

    for (uint32_t index = 0; index < node->body_count; index++)
        if (assigned(finder, node->bodies[index].graph) == INLAY_NONE)
            return INLAY_NONE;
    if (find_layout(node, &form)) {
        const struct graph *graph = node->bodies[0].graph;

        body = assigned(finder, graph);
        for (uint32_t i = 0; i < form.carried && form.first_output + i < graph->output_count; i++)
            if (node->info.inputs[form.first_input + i] == value)
                return can_be_resident(graph, graph->outputs[form.first_output + i])
                           ? producer_domain(finder, body, graph->outputs[form.first_output + i])
                           : (uint32_t)INLAY_DOMAIN_HOST;
    }
    return read_in_bodies(finder, node, value);
}

static void set_boundaries_of_bodies(const struct finder *finder, uint32_t job, const graph_node *node,
                                     boundary_placement *boundaries)
{
    loop_layout form;
    const bool loops = find_layout(node, &form);

    for (uint32_t i = 0; i < graph_read_count(node); i++) {
        const uint32_t value = graph_read_at(node, i);
        uint32_t domain;

        if (value == INLAY_NONE || !partition_passes_to_bodies(node, value))
            continue;
        domain = body_input_domain(finder, node, value);
        if (boundaries[value].body_domain == INLAY_NONE || domain != INLAY_DOMAIN_HOST)
            boundaries[value].body_domain = domain;
    }
    for (uint32_t k = 0; k < node->info.output_count; k++) {
        if (node->info.outputs[k] == INLAY_NONE)
            continue;
        if (loops)
            boundaries[node->info.outputs[k]].domain = loop_output_domain(finder, job, node, &form, k);
        else if (is_op(node, "If"))
            boundaries[node->info.outputs[k]].domain = if_output_domain(finder, job, node, k);
    }
}

bool partition_has_boundaries(const partition_job *jobs, uint32_t count)
{
    for (uint32_t provider = 0; count > 1 && provider < jobs[0].request.provider_count; provider++)
        if (jobs[0].request.providers[provider].table->domain_count > 0)
            return true;
    return false;
}

bool partition_find_boundaries(graph_tree *tree, uint32_t job, bool final)
{
    const struct finder finder = { .tree = tree, .final = final };
    partition_job *own = &tree->jobs[job];
    const struct graph *graph = own->request.graph;
    boundary_placement *boundaries = arena_array(own->arena, (size_t)graph->value_count + 1, sizeof *boundaries);
    const uint32_t around = tree->graphs[job].around;
    bool known;

    INLAY_CHECK(job < tree->count);
    if (boundaries == NULL)
        return false;
    for (uint32_t value = 0; value < graph->value_count; value++)
        boundaries[value].carried_output = boundaries[value].body_domain = INLAY_NONE;
    own->request.boundaries = boundaries;
    own->request.iterations = 1;
    if (around != INLAY_NONE) {
        const graph_node *node = graph_tree_node(tree, job);

        set_body_boundaries(&finder, around, node, &node->bodies[tree->graphs[job].index], boundaries);
        own->request.iterations = partition_iterations(tree->jobs[around].out, node, &known);
    }
    for (uint32_t node_index = 0; node_index < graph->node_count; node_index++)
        if (graph->nodes[node_index]->body_count > 0)
            set_boundaries_of_bodies(&finder, job, graph->nodes[node_index], boundaries);
    return !tree->failed;
}
