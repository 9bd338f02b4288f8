/* The graphs of a session as a tree, and where their values are computed and read. */
#include "partition/offers/offers.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include <stdlib.h>

/* A job and its graph, to be sorted by address. */
struct sorted_graph {
    const struct graph *graph;
    uint32_t job;
};

static int compare_graphs(const void *a, const void *b)
{
    const uintptr_t first = (uintptr_t)((const struct sorted_graph *)a)->graph,
                    second = (uintptr_t)((const struct sorted_graph *)b)->graph;

    return first < second ? -1 : first > second;
}

static bool sort_graphs(graph_tree *tree)
{
    struct sorted_graph *list = malloc(tree->count * sizeof *list);

    for (uint32_t j = 0; list != NULL && j < tree->count; j++)
        list[j] = (struct sorted_graph){ tree->jobs[j].request.graph, j };
    if (list != NULL)
        qsort(list, tree->count, sizeof *list, compare_graphs);
    for (uint32_t i = 0; list != NULL && i < tree->count; i++)
        tree->sorted[i] = list[i].job;
    free(list);
    return list != NULL;
}

uint32_t graph_tree_job(const graph_tree *tree, const struct graph *graph)
{
    uint32_t low = 0, high = tree->count;

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const struct graph *at = tree->jobs[tree->sorted[middle]].request.graph;

        if (at == graph)
            return tree->sorted[middle];
        if ((uintptr_t)at < (uintptr_t)graph)
            low = middle + 1;
        else
            high = middle;
    }
    return INLAY_NONE;
}

const graph_node *graph_tree_node(const graph_tree *tree, uint32_t job)
{
    const tree_graph *body = &tree->graphs[job];

    INLAY_CHECK(body->around != INLAY_NONE);
    return tree->jobs[body->around].request.graph->nodes[body->node];
}

static void link_bodies(graph_tree *tree, uint32_t around)
{
    const struct graph *graph = tree->jobs[around].request.graph;

    for (uint32_t node = 0; node < graph->node_count; node++)
        for (uint32_t index = 0; index < graph->nodes[node]->body_count; index++) {
            const uint32_t job = graph_tree_job(tree, graph->nodes[node]->bodies[index].graph);

            if (job == INLAY_NONE)
                continue;
            tree->graphs[job].around = around;
            tree->graphs[job].node = node;
            tree->graphs[job].index = index;
        }
}

bool graph_tree_init(graph_tree *tree, partition_job *jobs, uint32_t count)
{
    *tree = (graph_tree){ .jobs = jobs, .count = count };
    tree->graphs = arena_array(&tree->arena, count, sizeof *tree->graphs);
    tree->sorted = arena_array(&tree->arena, count, sizeof *tree->sorted);
    if (tree->graphs == NULL || tree->sorted == NULL || !sort_graphs(tree))
        return false;
    for (uint32_t j = 0; j < count; j++)
        tree->graphs[j].around = INLAY_NONE;
    for (uint32_t j = 0; j < count; j++)
        link_bodies(tree, j);
    return true;
}

void graph_tree_deinit(graph_tree *tree)
{
    arena_deinit(&tree->arena);
}

/* Where the offers of one region have values. */
struct region_domains {
    uint32_t *of;     /* [value_count] */
    uint32_t *region; /* [value_count] 1 + the region that `of` is for */
};

static uint32_t domain_in(const partition_job *job, const struct region_domains *domains, uint32_t region,
                          uint32_t value)
{
    return domains->region[value] == region + 1
               ? domains->of[value]
               : partition_default_domain(&job->request.providers[job->out->regions[region].provider]);
}

static void note_domains(const partition_job *job, uint32_t region, struct region_domains *domains)
{
    const partition_region *of = &job->out->regions[region];

    INLAY_CHECK(of->provider < job->request.provider_count);
    for (uint32_t k = 0; k < of->offer_count; k++) {
        const partition_offer *offer = &job->out->offers[of->offers[k]];

        for (uint32_t m = 0; m < offer->placement_count; m++) {
            const inlay_placement *placement = &offer->placements[m];

            if (domains->region[placement->value] == region + 1 || !partition_is_plain(placement))
                continue;
            domains->region[placement->value] = region + 1;
            domains->of[placement->value] = placement->domain;
        }
    }
}

static void note_region(const partition_job *job, uint32_t region, struct region_domains *domains, uint32_t *next,
                        tree_places *places)
{
    const partition_region *of = &job->out->regions[region];
    const bool taken = of->provider != INLAY_NONE;

    if (taken)
        note_domains(job, region, domains);
    for (uint32_t k = 0; taken && k < of->node_count; k++)
        places->taken[of->nodes[k]] = true;
    for (uint32_t k = 0; taken && k < of->output_count; k++)
        if (places->made_in[of->outputs[k]] == INLAY_NONE)
            places->made_in[of->outputs[k]] = domain_in(job, domains, region, of->outputs[k]);
    for (uint32_t k = 0; k < of->input_count; k++)
        places->reads[next[of->inputs[k]]++] =
            (tree_read){ region, taken ? domain_in(job, domains, region, of->inputs[k]) : (uint32_t)INLAY_DOMAIN_HOST };
}

static bool find_places(graph_tree *tree, uint32_t job, tree_places *places)
{
    const partition_job *of = &tree->jobs[job];
    const struct graph *graph = of->request.graph;
    const size_t values = (size_t)graph->value_count + 1;
    struct arena scratch = { 0 };
    struct region_domains domains = { arena_array(&scratch, values, sizeof *domains.of),
                                      arena_array(&scratch, values, sizeof *domains.region) };
    uint32_t *next = arena_array(&scratch, values, sizeof *next), reads = 0;
    bool ready;

    *places = (tree_places){ .parts = of->out, .regions = of->out->regions };
    for (uint32_t i = 0; i < of->out->region_count; i++)
        reads += of->out->regions[i].input_count;
    places->made_in = arena_array(&tree->arena, values, sizeof *places->made_in);
    places->first_read = arena_array(&tree->arena, values, sizeof *places->first_read);
    places->reads = arena_array(&tree->arena, (size_t)reads + 1, sizeof *places->reads);
    places->taken = arena_array(&tree->arena, (size_t)graph->node_count + 1, sizeof *places->taken);
    ready = domains.of != NULL && domains.region != NULL && next != NULL && places->made_in != NULL &&
            places->first_read != NULL && places->reads != NULL && places->taken != NULL;
    for (uint32_t i = 0; ready && i < of->out->region_count; i++)
        for (uint32_t k = 0; k < of->out->regions[i].input_count; k++)
            places->first_read[of->out->regions[i].inputs[k] + 1]++;
    for (uint32_t value = 0; ready && value < graph->value_count; value++) {
        places->made_in[value] = INLAY_NONE;
        places->first_read[value + 1] += places->first_read[value];
        next[value] = places->first_read[value];
    }
    for (uint32_t i = 0; ready && i < of->out->region_count; i++)
        note_region(of, i, &domains, next, places);
    arena_deinit(&scratch);
    return ready;
}

const tree_places *graph_tree_places(graph_tree *tree, uint32_t job)
{
    tree_places *places = &tree->graphs[job].places;
    const struct partition *parts = tree->jobs[job].out;

    if (parts->regions == NULL)
        return NULL;
    if (places->parts == parts && places->regions == parts->regions)
        return places;
    if (find_places(tree, job, places))
        return places;
    tree->failed = true;
    *places = (tree_places){ 0 };
    return NULL;
}

bool graph_tree_is_idle(graph_tree *tree, uint32_t job)
{
    const tree_graph *body = &tree->graphs[job];
    const tree_places *places = body->around == INLAY_NONE ? NULL : graph_tree_places(tree, body->around);

    return body->around != INLAY_NONE &&
           (tree->jobs[body->around].out->idle || (places != NULL && places->taken[body->node]));
}
