/* world.h - graphs and providers that the tests of this folder make up: a provider offers what it is told to, at the
 * price it is told, and a random world has everything that the partitioner knows. */
#ifndef TESTS_WORLD_H
#define TESTS_WORLD_H
#include "cmocka_all.h"
#include "partition/assign/assign.h"

enum { WORLD_PROVIDERS = 5 };

typedef struct fake_offer {
    uint32_t *nodes, node_count, flags;
    double ns, enter_ns, leave_ns;
    uint64_t workspace, resident;
    inlay_placement placement; /* value NONE: none */
} fake_offer;

struct fake {
    fake_offer *offers;
    uint32_t offer_count, offer_capacity;
    uint32_t refused;      /* node, NONE */
    uint32_t refused_code; /* 0: INLAY_REFUSE_DTYPE */
    uint32_t cost_calls;
    uint32_t confidence;
    inlay_provider table;
    inlay_domain_info domain;
};

struct world {
    graph_model *model;
    struct graph *graph;
    inlay_graph snapshot;
    struct arena arena;
    uint32_t node_count, *made; /* [node_count] the value that node n makes */
    struct fake fakes[WORLD_PROVIDERS];
    partition_provider providers[WORLD_PROVIDERS];
    partition_rules rules;
    partition_request request;
    struct partition out;
    char log[1024];
};

/* Numbers in [0, sides). */
uint32_t dice(uint32_t sides);
void dice_seed(uint64_t seed);

/* Nodes of one output of lengths[n] floats; node n reads the makers reads[n * 4 ...] (NONE = no more), or the graph's
 * input. What nobody reads is an output of the graph. */
void world_init(struct world *world, uint32_t nodes, const uint32_t *reads, const int64_t *lengths, uint32_t providers);
void world_deinit(struct world *world);
/* From here on provider p is a device with a domain of its own. */
void world_device(struct world *world, uint32_t p);
fake_offer *world_offer(struct world *world, uint32_t p, double ns, uint32_t flags, uint32_t count,
                        const uint32_t *nodes);
/* Must succeed. */
void world_partition(struct world *world);
/* Whatever was chosen: every node once, regions in an order that can be executed, their borders complete, nothing
 * merged that did not ask for it, copies where they are needed and only there, the total the sum of its parts. */
void world_check(const struct world *world, const struct partition *partition);

/* What a random world has. */
typedef struct world_mix {
    uint32_t nodes, providers;
    bool devices, groups, merge, sizes, odd, gaps; /* domains; offers of several nodes; MERGE; different sizes; other
                                                      placements; nodes that not everybody runs */
    bool borders;                                  /* what merges asks for values that enter and leave */
} world_mix;
void world_random(struct world *world, const world_mix *mix);
#endif
