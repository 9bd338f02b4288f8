/* partition/problem/problem.h - what a choice is made from, and what it costs.
 *
 *     problem.c   the domains, the graph and the offers, with their prices
 *     price.c     what a choice costs: the objective, written once
 *     schedule.c  the order of a choice, and what is merged
 *     groups.c    offers of several nodes: circles, families that do not overlap
 *     flow.c      minimum cuts, whose whole numbers prices are scaled to */
#ifndef PARTITION_PROBLEM_H
#define PARTITION_PROBLEM_H
#include "partition/cost/cost.h"
#include "partition/offers/offers.h"

/* The order in which a choice is run, and what it takes. Units are what is scheduled as one before anything is merged:
 * a node with its offer, a group, a node of the host's. */
typedef struct partition_schedule {
    uint32_t *unit_of;                /* [nodes] */
    uint32_t *head;                   /* [units] first node of the unit */
    uint32_t *order;                  /* [units] */
    uint32_t *region_of;              /* [units] in `order`, so that entry i is of unit order[i] */
    uint32_t *waits, *waits_at_first; /* [units] scratch */
    uint32_t *heap;                   /* [nodes] scratch */
    uint32_t *root;                   /* [nodes] scratch: of the unit, in its connected part of a region */
    uint32_t *heap_at;                /* [classes + 1] into heap */
    uint32_t *heap_count;             /* [classes] */
    uint32_t unit_count, region_count;
    uint32_t stretches; /* rows of one provider; the host's own nodes count as none, but end a row */
    double launch_ns;   /* of regions of several offers; others pay it in their price */
    bool splits;        /* some offer asks for a connected region */
} partition_schedule;

/* What a choice comes to. Infeasible when a bound is broken; price says nothing of that. */
typedef struct partition_verdict {
    double price; /* what is minimised: ns with margins and whatever multipliers add */
    bool runs;    /* no circle */
    bool feasible;
} partition_verdict;

/* A label: one provider, with the k-th of its offers for a node that place values somewhere else than usual; 0 = the
 * cheapest of the usual ones. */
typedef struct partition_label {
    uint32_t provider, variant;
} partition_label;

/* One movement of a value. */
typedef struct partition_hop {
    uint32_t from, to;
    bool once; /* partition_copy.once */
} partition_hop;

/* Where a value can be, and what moving it costs. */
typedef struct partition_domains {
    uint32_t count;        /* memory domains, then the layouts of providers */
    uint32_t memory_count; /* how many of these are memory */
    uint32_t *layout_of;   /* [providers] the "domain" of values within its regions; the host's = row-major */
    uint32_t *owner;       /* [count] provider; NONE = the host */
    double *up, *down;     /* [values * count] copying from the domain to the host and back */
    uint32_t *marked;      /* [count] scratch of partition_hops */
    uint32_t mark;
    partition_hop *hops; /* [2 * count] likewise */
} partition_domains;

/* The graph, as choices look at it. */
typedef struct partition_links {
    uint32_t *reader_at; /* [values + 1] into readers */
    uint32_t *readers;   /* nodes, each once a value */
    uint8_t *leaves;     /* [values] an output of the graph */
    uint32_t *parent;    /* [nodes] the node whose region it would join first; NONE */
} partition_links;

typedef struct partition_prices {
    double *base;       /* [offers] ns, margin, launch when it runs alone */
    double *margin_ns;  /* [offers] the margin in it */
    double *offer;      /* [offers] and what memory adds */
    double *launch;     /* [providers] */
    double scale;       /* ns -> the whole numbers of flow */
    double boundary_ns; /* of a change of provider, for max_partitions */
} partition_prices;

/* What there is to choose. */
typedef struct partition_picks {
    uint32_t *cheapest;     /* [providers * nodes] usual single offer, NONE */
    uint32_t *first_single; /* [nodes + 1] into singles */
    uint32_t *singles;      /* usable offers of one node, by node */
    uint32_t *groups;       /* [group_count] usable offers of several nodes */
    uint32_t group_count;
    partition_label *labels;
    uint32_t label_count;
} partition_picks;

/* What a choice has to keep. */
typedef struct partition_bounds {
    uint32_t max_partitions; /* 0 = any number */
    uint32_t required;       /* a provider that must run something; NONE */
    uint64_t *limit;         /* [providers] bytes; UINT64_MAX = none */
    bool limited;            /* some limit is set */
} partition_bounds;

/* Everything the search needs, made once from the offers. Prices change when memory or partitions get a multiplier. */
struct problem {
    const partition_request *request;
    const struct graph *graph;
    struct partition *partition;
    struct arena *scratch;
    uint32_t nodes, values, providers, offers;
    const uint8_t *candidates; /* [nodes] 1 = a provider must run it */
    uint8_t *usable;           /* [offers] within the rules, and no circle by itself */
    uint8_t *odd;              /* [offers] places a value elsewhere than in its provider's domain */
    partition_domains domains;
    partition_links links;
    partition_prices prices;
    partition_picks picks;
    partition_bounds bounds;
    uint32_t exact_steps;        /* how long small graphs are searched to the end */
    partition_memory *memory;    /* [providers] of the choice judged last, where limits are set */
    partition_schedule schedule; /* of the choice judged last */
    struct grouping *grouping;
    struct fusion *fusion;
    bool ordered; /* the price depends on the order */
    bool forms;   /* the order is the one that regions are made of */
    bool lists;   /* copies are listed: those that bodies make are theirs */
    bool failed;  /* memory ran out on the way: nothing found counts */
};

/* What decides where a value lies: where the offer of `node` makes `made`. */
typedef struct partition_source {
    uint32_t node, made; /* node INLAY_NONE: nothing, it lies in ... */
    uint32_t domain;     /* INLAY_NONE: not known yet */
} partition_source;

/* The memory of a domain: a layout is one of host memory. */
static inline uint32_t partition_memory_of(const struct problem *problem, uint32_t domain)
{
    return domain < problem->domains.memory_count ? domain : INLAY_DOMAIN_HOST;
}

/* Of a graph without homes, all lies in the host's memory. */
static inline partition_home partition_home_of(const struct problem *problem, uint32_t value)
{
    return problem->partition->homes != NULL
               ? problem->partition->homes[value]
               : (partition_home){ INLAY_DOMAIN_HOST, INLAY_NONE, INLAY_DOMAIN_HOST, INLAY_NONE, 0, 0 };
}

/* Provider of an offer; NONE for the host. */
static inline uint32_t partition_provider_of(const struct problem *problem, uint32_t offer)
{
    return offer == INLAY_NONE ? INLAY_NONE : problem->partition->offers[offer].provider;
}
/* May the offer be merged with neighbours? One that lays values elsewhere than its neighbours may not. */
static inline bool partition_merges(const struct problem *problem, uint32_t offer)
{
    return offer != INLAY_NONE && (problem->partition->offers[offer].flags & INLAY_OFFER_MERGE) != 0 &&
           !problem->odd[offer];
}

/* ------------------------------------------------------------------ problem.c */

/* Makes *out from the offers of partition; memory is scratch's. False: out of memory. usable is [offers], from the
 * rules. */
bool problem_init(struct problem *out, const partition_request *request, struct partition *partition,
                  const uint8_t *candidates, uint8_t *usable, struct arena *scratch);
/* The domain in which the offer has the value; NONE is the host's. What is merged has values in a layout of its
 * provider's own, between which and row-major there is a price like that of a copy: a domain as well, in host
 * memory. */
uint32_t partition_domain_at(const struct problem *problem, uint32_t offer, uint32_t value);
/* Sets prices.offer from prices.base and per_byte [providers] (NULL = 0), and the scale; boundary_ns is set before. */
void problem_set_prices(struct problem *problem, const double *per_byte);

/* ------------------------------------------------------------------ price.c */

/* How the value travels under this choice (offer per node); hops are problem->hops. A choice of NONE at a candidate:
 * not yet made, and so not counted. */
uint32_t partition_hops(struct problem *problem, const uint32_t *choice, uint32_t value);
partition_source partition_source_of(const struct problem *problem, uint32_t value);
/* The domain in which the value lies when the source's node takes the offer; INLAY_NONE: not known yet. */
uint32_t source_domain(const struct problem *problem, partition_source source, uint32_t value, uint32_t offer);
/* The domain in which the node reads the value when it takes the offer; INLAY_NONE: it does not care, or not yet. */
uint32_t reader_domain(const struct problem *problem, uint32_t node, uint32_t offer, uint32_t value);
/* Where an output goes that lies in `home`. */
uint32_t home_domain(const struct problem *problem, uint32_t value, uint32_t home);
/* The share of a hop that one iteration pays. */
double partition_share(const struct problem *problem, bool once);
/* Nanoseconds of a hop. */
double partition_hop_ns(const struct problem *problem, uint32_t value, partition_hop hop);
/* Offers and copies: the part of the price that the order does not change, and so the least that the whole can be. */
double partition_base_price(struct problem *problem, const uint32_t *choice);
/* Has the provider that a rule requires a node, if there is such a rule? */
bool partition_has_required(const struct problem *problem, const uint32_t *choice);
/* The objective. choice is complete; problem->schedule and problem->memory are those of the choice where limits ask for
 * them. */
partition_verdict partition_judge(struct problem *problem, const uint32_t *choice);
/* Does the choice, as it is scheduled, keep the limits of memory? */
bool partition_keeps_memory(struct problem *problem, const uint32_t *choice);
/* Memory of the choice, of all providers; after partition_schedule_choice. */
bool partition_measure(struct problem *problem, const uint32_t *choice, partition_memory *out);

/* ------------------------------------------------------------------ schedule.c */

bool partition_schedule_init(struct problem *problem);
/* Orders the choice. False: groups wait for each other in a circle. thorough: tries each provider as the first. */
bool partition_schedule_choice(struct problem *problem, const uint32_t *choice, bool thorough);

/* ------------------------------------------------------------------ groups.c */

bool partition_groups_init(struct problem *problem);
/* Voids groups that close a circle by themselves, with a log line. Before that problem->groups is not set. */
void partition_void_circles(struct problem *problem);
/* Dissolves groups of the choice until none wait for each other. False: one had no single offers to fall back on. */
bool partition_untangle(struct problem *problem, uint32_t *choice);
/* A first complete choice: the cheapest offer of each node, or that of the first provider; groups where there are no
 * others, and by priority also where they displace no earlier provider. Returns a node that it found nothing for, or
 * NONE. */
uint32_t partition_first_choice(struct problem *problem, bool by_priority, uint32_t *choice);
/* Families of the provider's groups: family[i] of group problem->groups[i], such that groups of one family do not
 * overlap; NONE for other providers'. Returns how many. */
uint32_t partition_families(struct problem *problem, uint32_t provider, uint32_t *family);
/* A family of all providers' groups, as number 0: those that together save most over the cheapest single offers, among
 * groups that do not even interleave. */
void partition_best_family(struct problem *problem, uint32_t *family);
/* The cheapest usual single offer for the node, of whichever provider; NONE. */
uint32_t partition_cheapest_single(const struct problem *problem, uint32_t node);
#endif
