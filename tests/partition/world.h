/* world.h - graphs and providers for the tests of this folder. A provider makes the offers that the test sets, at the
 * costs that the test sets; a random world uses every feature of the partitioner. */
#ifndef TESTS_WORLD_H
#define TESTS_WORLD_H
#include "cmocka_all.h"
#include "partition/assign/assign.h"
#include "random.h"
#include "inlay/plugin.h"

enum { WORLD_PROVIDERS = 5 };

typedef struct fake_offer {
    uint32_t *nodes, node_count, flags;
    double ns, enter_ns, leave_ns;
    uint64_t workspace, resident, max_resident;
    uint32_t max_nodes, max_inputs, max_outputs, reserved;
    inlay_placement placement; /* value INLAY_NONE: no placement */
} fake_offer;

struct fake {
    fake_offer *offers;
    uint32_t offer_count, offer_capacity;
    uint32_t refused;      /* index of the refused node; INLAY_NONE: none */
    uint32_t refused_code; /* 0: INLAY_REFUSE_DTYPE */
    uint32_t cost_calls, region_calls;
    double region_factor; /* price of a region, relative to the sum of its offers; negative: unsupported */
    uint32_t confidence;
    inlay_provider table;
    inlay_domain_info domain;
};

struct world {
    graph_model *model;
    struct graph *graph;
    inlay_graph snapshot;
    struct arena arena;
    uint32_t node_count, *made; /* [node_count] the output value of each node */
    struct fake fakes[WORLD_PROVIDERS];
    partition_provider providers[WORLD_PROVIDERS];
    partition_rules rules;
    partition_request request;
    struct partition out;
    char log[1024];
};

extern uint64_t world_seed; /* of the random numbers of all worlds */

/* Creates nodes with one output of lengths[n] floats each. Node n reads the results of nodes reads[n * 4 ...] (NONE
 * = no more), or the graph's input. Values without a consumer are outputs of the graph. */
void world_init(struct world *world, uint32_t nodes, const uint32_t *reads, const int64_t *lengths, uint32_t providers);
void world_deinit(struct world *world);
/* Turns the provider into a device with a separate domain. */
void world_device(struct world *world, uint32_t provider);
/* Lets a device export and import memory that all such devices share. */
void world_share(struct world *world, uint32_t provider, bool exports, bool imports);
/* Lets the provider price its regions: `factor` times the sum of the offers; negative: it returns UNSUPPORTED. */
void world_price_regions(struct world *world, uint32_t provider, double factor);
fake_offer *world_offer(struct world *world, uint32_t provider, double ns, uint32_t flags, uint32_t count,
                        const uint32_t *nodes);
/* Partitions the world; fails the test on an error. */
void world_partition(struct world *world);
/* Checks any choice: every node once, regions in an executable order with complete borders, no merged offers without
 * MERGE, copies where and only where needed, a total that is the sum of its parts. */
void world_check(const struct world *world, const struct partition *partition);
/* Checks the energy and the bytes of a choice, counted from its regions and copies. Layouts at borders are not counted
 * by bytes, so the world must have no costs of borders. */
void world_check_totals(const struct world *world, const struct partition *partition);

/* Features of a random world. devices: providers with a memory domain; groups: offers of several nodes; merge: offers
 * with INLAY_OFFER_MERGE; sizes: values of different sizes; odd: placements other than the default; gaps: nodes that
 * some providers refuse; borders: costs of merged offers for values that enter and leave; limits: of regions; shares:
 * devices that share memory, in one direction or both. objective: OBJECTIVE_*, with a random power of each provider
 * unless it is latency. */
typedef struct world_mix {
    uint32_t nodes, providers;
    bool devices, groups, merge, sizes, odd, gaps;
    bool borders, limits, shares;
    uint32_t objective;
} world_mix;
void world_random(struct world *world, const world_mix *mix);
#endif
