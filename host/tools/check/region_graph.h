/* check/region_graph.h - graphs of a few nodes, drawn at random, of which some read what others make: group_regions.c
 * has a provider make regions of them. */
#ifndef CHECK_REGION_GRAPH_H
#define CHECK_REGION_GRAPH_H
#include "check/harness.h"
#include "check/generate.h"
#include "check/loaded.h"

enum { PARTS = 7, OFFERS = 64, POOL = 256 };

/* A node that runs alone; what it makes. */
struct part {
    op_case entry; /* shares the arena of one in the pool */
    harness_result made;
    graph_node *node;
    uint32_t from[CASE_INPUTS], of[CASE_INPUTS]; /* input i is output of[i] of part from[i]; INLAY_NONE = its own */
    uint32_t shared[CASE_INPUTS],
        shared_input[CASE_INPUTS]; /* ... or the same value as input shared_input[i] of part twin[i] */
    uint32_t index;                /* of the node in the snapshot */
    bool inside;
};

struct region_offer {
    uint64_t cookie;
    uint32_t nodes[PARTS], node_count, flags;
    inlay_placement placements[CASE_INPUTS + CASE_OUTPUTS];
    uint32_t placement_count;
    bool used;
};

struct regions {
    struct check *check;
    const struct fixture *fixture;
    const loaded_provider *provider;
    op_case *pool; /* [count] */
    uint32_t count, of_source;
    uint64_t state;
    struct part parts[PARTS];
    uint32_t part_count;
    struct region_offer offers[OFFERS];
    uint32_t offer_count;
    uint32_t tried, declined, unconnected, failed;
};

/* A number below `sides`, the next one of regions->state. */
uint32_t region_roll(struct regions *regions, uint32_t sides);

/* Takes cases of a source into the pool (user is a regions): those that run alone, by offers that may be merged. False
 * once it is full; for generate_sources. */
bool region_take_source(void *user, const case_source *source);

/* Draws one more part, and runs it for what it makes. False: none of those tried runs. */
bool region_add_part(struct regions *regions);
void region_drop_parts(struct regions *regions);

/* Makes a model of the parts, checked and with its snapshot; false: it is none, or no memory. case_instance_deinit
 * frees what it holds, in both cases. */
bool region_make_model(struct regions *regions, case_instance *built);
/* Adds the shapes of all values, as a plan knows them. False: no memory. */
bool region_make_states(case_instance *built);
bool region_sizes_known(const inlay_value_info *value);

#endif
