/* check/region_graph.h - random graphs of a few connected nodes, from which group_regions.c builds regions. */
#ifndef CHECK_REGION_GRAPH_H
#define CHECK_REGION_GRAPH_H
#include "check/harness.h"
#include "check/generate.h"
#include "check/loaded.h"

enum { MAX_PARTS = 64, MAX_OFFERS = 64, MAX_POOL = 256 };

/* Shapes of an operand that broadcasts against another. */
enum { FORM_KEPT, FORM_SCALAR, FORM_ROW, FORM_COLUMN, FORM_CHANNEL, FORM_FULL, FORMS };

/* A node of the graph and its result when it runs alone. */
struct part {
    op_case entry;
    bool owns_entry; /* the arena of entry is its own, not that of a case in the pool */
    harness_result result;
    graph_node *node;
    uint32_t producer[CASE_INPUTS];        /* input i reads output producer_output[i] of part producer[i] ... */
    uint32_t producer_output[CASE_INPUTS]; /* ... INLAY_NONE: a separate value */
    uint32_t shared[CASE_INPUTS];          /* input i reads the value of input shared_input[i] of part shared[i] */
    uint32_t shared_input[CASE_INPUTS];
    uint8_t form[CASE_INPUTS]; /* FORM_* of input i; see patterns_fit() */
    uint32_t shown;            /* a bit for each output: it is an output of the graph although another part reads it */
    uint32_t index;            /* node index in the snapshot */
    bool inside;               /* belongs to the region */
};

struct region_offer {
    uint64_t cookie;
    uint32_t nodes[MAX_PARTS], node_count, flags;
    inlay_placement placements[CASE_INPUTS + CASE_OUTPUTS];
    uint32_t placement_count;
    uint32_t max_nodes, max_inputs, max_outputs; /* 0 = none */
    bool used;                                   /* covers parts of the region */
};

struct regions {
    struct check *check;
    const char *name; /* of the check in the report */
    const struct fixture *fixture;
    const loaded_provider *provider;
    op_case *pool; /* [count] cases that run alone and whose offers may be merged */
    uint32_t count;
    uint32_t source_cases; /* cases taken from the current operator */
    uint64_t state;        /* of the random numbers */
    struct part parts[MAX_PARTS];
    uint32_t part_count;
    struct region_offer offers[MAX_OFFERS];
    uint32_t offer_count;
    uint32_t tried, declined, unconnected, compared; /* regions; compared: runs with the expected results */
    uint32_t models;                                 /* of --data, with an offer */
    uint32_t failed;                                 /* failures, also several of one region */
};

/* A random number below `sides`, from regions->state. */
uint32_t region_roll(struct regions *regions, uint32_t sides);

/* Callback for generate_sources(); user is a struct regions. Adds cases of the source to the pool if they run alone and
 * their offers may be merged. False once the pool is full. */
bool region_take_source(void *user, const case_source *source);

/* Runs a case by itself on the provider. False: it is invalid, refused, or fails; then *out needs no
 * deinitialisation. */
bool region_run_alone(struct regions *regions, const op_case *entry, harness_result *out, uint32_t *out_flags);

/* A part without links that owns its entry, which the caller fills in. */
void region_part_init(struct part *part);
/* Adds a random part and runs it alone for its result. False: none of the cases tried runs. */
bool region_add_part(struct regions *regions);
void region_drop_parts(struct regions *regions);

/* Builds a model of the parts, with shape inference and snapshot. False: the model is invalid, or no memory. Call
 * case_instance_deinit() in both cases. */
bool region_make_model(struct regions *regions, case_instance *built);
/* Sets the shapes of all values, as in an execution plan. False: no memory. */
bool region_make_states(case_instance *built);

#endif
