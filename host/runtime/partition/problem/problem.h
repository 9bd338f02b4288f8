/* partition/problem/problem.h - the input of the search, and the cost of a choice.
 *
 * - problem.c: domains, graph and offers, with their prices
 * - objective.c: converts times and bytes to prices: time, energy or memory
 * - price.c: the price of a choice
 * - schedule.c: the order of a choice, and merged regions
 * - region_limits.c: limits that offers set for their regions
 * - groups.c: offers of several nodes: cycles, families that do not overlap
 * - flow.c: minimum cuts; prices are scaled to its integers */
#ifndef PARTITION_PROBLEM_H
#define PARTITION_PROBLEM_H
#include "base/device_link.h"
#include "partition/cost/cost.h"
#include "partition/offers/offers.h"
#include "inlay/plugin.h"

/* Marks of a value while a region is divided: numbers of parts, and of visits of nodes. */
typedef struct partition_limited_value {
    uint32_t made_in, enters, read_by;
    uint32_t readers_outside; /* of a value that the part computes */
} partition_limited_value;

/* Scratch for dividing regions; NULL if no offer limits its region. */
typedef struct partition_limited {
    partition_limited_value *values; /* [values] */
    uint32_t *region_of;             /* [units] */
    uint32_t stamp;                  /* the latest number of a part or visit */
} partition_limited;

/* The order in which a choice is executed, and its cost. A unit is scheduled as a whole before merging: a node with its
 * offer, a group, or a host node. */
typedef struct partition_schedule {
    uint32_t *unit_of;                   /* [nodes] */
    uint32_t *head;                      /* [units] first node of the unit */
    uint32_t *order;                     /* [units] */
    uint32_t *region_of;                 /* [units] in the sequence of `order`: entry i belongs to unit order[i] */
    uint32_t *pending, *initial_pending; /* [units] scratch */
    uint32_t *heap;                      /* [nodes] scratch */
    uint32_t *root;                      /* [nodes] scratch: representative of the unit's connected part of a region */
    bool *sources;                       /* [units] directly before the first reader of its results, see schedule.c */
    uint32_t *heap_at;                   /* [classes + 1] into heap */
    uint32_t *heap_count;                /* [classes] */
    uint32_t unit_count, region_count;
    uint32_t partitions; /* sequences of one provider; host nodes do not count, but end a sequence */
    double launch_price; /* of regions with several offers; other offers include it in their price */
    bool splits;         /* some offer requires connected regions */
    partition_limited limited;
} partition_schedule;

/* The evaluation of a choice. The price does not depend on `feasible`. */
typedef struct partition_verdict {
    double price; /* in units of the objective (objective.c), with margins and multipliers */
    bool runs;    /* no cycle */
    bool feasible;
} partition_verdict;

/* A label: a provider, with the k-th of its offers for a node that has a custom placement; 0 = the cheapest one with
 * the usual placement. */
typedef struct partition_label {
    uint32_t provider, variant;
} partition_label;

/* A transfer of a value between two memory domains, or between a layout and the memory that it is in. */
typedef struct partition_transfer {
    uint32_t from, to;
    bool once;            /* partition_copy.once */
    double border_ns;     /* of a transfer from or to a layout: its time, ... */
    double border_factor; /* ... and partition_offer.border_factor */
} partition_transfer;

/* The domains of values, and the cost of transfers. */
typedef struct partition_domains {
    uint32_t count;        /* memory domains, then the layouts of providers */
    uint32_t memory_count; /* number of memory domains */
    uint32_t *layout_of;   /* [providers] the "domain" of values within its regions; the host's = row-major */
    uint32_t *owner;       /* [count] provider; NONE = the host */
    uint32_t *memory_of;   /* [count] the memory domain that the layout is in; of a memory domain: itself */
    /* [values * memory_count] prices of copies from the domain to the host, and from the host to the domain */
    double *to_host, *from_host;
    double *to_host_ns, *from_host_ns; /* the same as times; the same memory if prices are times */
    uint8_t *links;   /* [memory_count * memory_count] LINK_* from one to another; NULL: all are LINK_HOST */
    uint32_t *marked; /* [count] scratch of partition_list_transfers */
    uint32_t mark;
    partition_transfer *transfers; /* [2 * count] likewise */
} partition_domains;

/* The edges of the graph. */
typedef struct partition_links {
    uint32_t *reader_at; /* [values + 1] into readers */
    uint32_t *readers;   /* nodes, each at most once per value */
    uint8_t *leaves;     /* [values] 1 = an output of the graph */
    uint32_t *parent;    /* [nodes] the node whose region the node would most likely join; NONE: none */
} partition_links;

/* Prices have the unit of the objective (objective.c): nanoseconds, nanojoules or bytes. */
typedef struct partition_prices {
    double *base;      /* [offers] price, margin, and launch if it runs alone */
    double *margin;    /* [offers] the margin in base */
    double *offer;     /* [offers] base plus the multipliers for memory */
    double *launch;    /* [providers] */
    double *launch_ns; /* [providers] the same as times */
    double scale;      /* converts prices to the integers of flow */
    double boundary;   /* price of a change of provider, for max_partitions */
} partition_prices;

/* The offers to choose from. */
typedef struct partition_options {
    uint32_t *cheapest;     /* [providers * nodes] cheapest single offer with the usual placement; NONE: none */
    uint32_t *first_single; /* [nodes + 1] into singles */
    uint32_t *singles;      /* usable offers of one node, by node */
    uint32_t *groups;       /* [group_count] usable offers of several nodes */
    uint32_t group_count;
    partition_label *labels;
    uint32_t label_count;
    uint32_t *rank; /* [providers] the user's order: rank[p] = p */
} partition_options;

/* The bounds that a choice must keep. */
typedef struct partition_bounds {
    uint32_t max_partitions; /* 0 = unlimited */
    uint32_t required;       /* a provider that must run at least one node; NONE */
    uint64_t *limit;         /* [providers] bytes; UINT64_MAX = none */
    bool limited;            /* some limit is set */
} partition_bounds;

/* The search problem, created from the offers. Prices change when memory or partitions get a multiplier. */
struct problem {
    const partition_request *request;
    const struct graph *graph;
    struct partition *partition;
    struct arena *scratch;
    uint32_t nodes, values, providers, offers;
    const uint8_t *candidates; /* [nodes] 1 = a provider must run it */
    uint8_t *usable;           /* [offers] allowed by the rules, and forms no cycle by itself */
    uint8_t *custom_placement; /* [offers] places a value outside its provider's default domain */
    partition_domains domains;
    partition_links links;
    partition_prices prices;
    partition_options options;
    partition_bounds bounds;
    uint32_t exact_steps;        /* budget of the exact search of small graphs */
    partition_memory *memory;    /* [providers] of the choice that was evaluated last, if limits are set */
    partition_schedule schedule; /* of the choice that was evaluated last */
    struct grouping *grouping;
    struct fusion *fusion;
    bool ordered;      /* the price depends on the order */
    bool final_order;  /* the order is the final one, from which regions are formed */
    bool lists_copies; /* copies are listed; copies made within bodies belong to the bodies */
    bool failed;       /* out of memory: results are invalid */
};

/* The origin of a value: it is in the domain where the offer of `node` computes the value `made`. `made` is the value
 * itself, or for a carried input of a body the output that becomes this input in the next iteration. */
typedef struct partition_source {
    uint32_t node, made; /* node INLAY_NONE: the value is in `domain` for every assignment */
    uint32_t domain;     /* INLAY_NONE: not known yet */
} partition_source;

/* The memory domain that a domain is in. */
static inline uint32_t partition_memory_of(const struct problem *problem, uint32_t domain)
{
    return problem->domains.memory_of[domain];
}

/* The link between domains of two providers: LINK_HOST unless they share memory. */
static inline uint32_t partition_link_of(const struct problem *problem, uint32_t from, uint32_t to)
{
    const partition_domains *domains = &problem->domains;

    return domains->links != NULL && from < domains->memory_count && to < domains->memory_count
               ? domains->links[(size_t)from * domains->memory_count + to]
               : (uint32_t)LINK_HOST;
}

/* Without boundary placements, all values that cross the boundary are in host memory. */
static inline boundary_placement boundary_placement_of(const struct problem *problem, uint32_t value)
{
    return problem->partition->boundaries != NULL
               ? problem->partition->boundaries[value]
               : (boundary_placement){ INLAY_DOMAIN_HOST, INLAY_NONE, INLAY_DOMAIN_HOST, INLAY_NONE, 0, 0 };
}

/* Provider of an offer; NONE for the host. */
static inline uint32_t partition_provider_of(const struct problem *problem, uint32_t offer)
{
    return offer == INLAY_NONE ? INLAY_NONE : problem->partition->offers[offer].provider;
}
/* Returns whether the offer can be merged with its neighbours. Offers with custom placements cannot. */
static inline bool partition_merges(const struct problem *problem, uint32_t offer)
{
    return offer != INLAY_NONE && (problem->partition->offers[offer].flags & INLAY_OFFER_MERGE) != 0 &&
           !problem->custom_placement[offer];
}

/* The time that the values of an offer without neighbours in its region add, as all of them enter and leave; 0 for
 * offers that merge, whose values have layouts. */
static inline double partition_lone_border_ns(const struct problem *problem, uint32_t offer)
{
    const inlay_cost *cost = &problem->partition->offers[offer].cost;

    return partition_merges(problem, offer) ? 0 : cost->enter_ns + cost->leave_ns;
}

/* Initialises *out from the offers of the partition; memory is from scratch. usable: [offers], from the rules. False:
 * out of memory. */
bool problem_init(struct problem *out, const partition_request *request, struct partition *partition,
                  const uint8_t *candidates, uint8_t *usable, struct arena *scratch);
/* The domain of the value in the offer; for NONE the host's domain. Merged offers hold values in a layout of their
 * provider. Entering and leaving a region costs like a copy, so the layout is treated as a domain of its own, which is
 * reached through the memory that it is in. */
uint32_t partition_domain_at(const struct problem *problem, uint32_t offer, uint32_t value);
/* Sets prices.offer from prices.base and per_byte [providers] (NULL = 0), and the scale; boundary must be set
 * before. */
void problem_set_prices(struct problem *problem, const double *per_byte);

/* The objective that the rules of the request name. */
uint32_t partition_objective(const partition_request *request);
/* The price of `ns` nanoseconds of a provider that need `bytes` of memory more. */
double objective_price(const struct problem *problem, uint32_t provider, double ns, double bytes);
/* The bytes that the offer keeps: packed weights, and the values that others read. Values between the nodes of a group
 * are not counted. */
double objective_offer_bytes(const struct problem *problem, uint32_t offer);
/* The price of a copy of the value to or from the other domain than the host's, which takes that time. */
double objective_copy_price(const struct problem *problem, uint32_t value, uint32_t domain, double ns);
/* Sets to_host and from_host of the domains from their times. False: out of memory. */
bool objective_price_copies(struct problem *problem);

/* Lists the transfers of the value under this choice (an offer per node) in domains.transfers; returns their number.
 * NONE for a candidate: not chosen yet, and not counted. */
uint32_t partition_list_transfers(struct problem *problem, const uint32_t *choice, uint32_t value);
/* The origin of the value. */
partition_source partition_source_of(const struct problem *problem, uint32_t value);
/* The domain of the value if the source's node takes the offer; INLAY_NONE: not known yet. */
uint32_t source_domain(const struct problem *problem, partition_source source, uint32_t value, uint32_t offer);
/* The domain in which the node reads the value if it takes the offer; INLAY_NONE: any, or not known yet. */
uint32_t reader_domain(const struct problem *problem, uint32_t node, uint32_t offer, uint32_t value);
/* The final domain of an output that is computed in `origin`. */
uint32_t home_domain(const struct problem *problem, uint32_t value, uint32_t origin);
/* The fraction of the cost of a transfer that counts for one iteration. */
double share_per_iteration(const struct problem *problem, bool once);
/* Returns whether a value gets from one domain to the other without passing through host memory. */
bool partition_bypasses_host(const struct problem *problem, uint32_t from, uint32_t to);
/* The time that the value adds as it enters the region of the offer, or leaves it; 0 if the domain is not a layout. */
double partition_border_ns(const struct problem *problem, uint32_t offer, uint32_t value, uint32_t domain, bool enters);
/* The price of bringing a value from the memory of one domain to the memory of another. */
double partition_copies_price(const struct problem *problem, uint32_t value, uint32_t from, uint32_t to);
/* The price of a transfer, and its time. */
double partition_transfer_price(const struct problem *problem, uint32_t value, partition_transfer transfer);
double partition_transfer_ns(const struct problem *problem, uint32_t value, partition_transfer transfer);
/* Offers and copies: the part of the price that does not depend on the order, and thus a lower bound of the price. */
double partition_base_price(struct problem *problem, const uint32_t *choice);
/* Returns whether the required provider runs a node, if a rule requires one. */
bool partition_has_required(const struct problem *problem, const uint32_t *choice);
/* Evaluates the objective. The choice must be complete. Afterwards problem->schedule and problem->memory are those of
 * the choice if limits need them. */
partition_verdict partition_evaluate(struct problem *problem, const uint32_t *choice);
/* Returns whether the scheduled choice keeps the memory limits. */
bool partition_keeps_memory(struct problem *problem, const uint32_t *choice);
/* Computes the memory of the choice for all providers; requires partition_schedule_choice(). */
bool partition_measure_memory(struct problem *problem, const uint32_t *choice, partition_memory *out);

bool partition_schedule_init(struct problem *problem);
/* Orders the choice. False: groups form a cycle. thorough: tries each provider as the first one. */
bool partition_schedule_choice(struct problem *problem, const uint32_t *choice, bool thorough);

/* Allocates the scratch, if some offer limits its region. False: out of memory. */
bool partition_limits_init(struct problem *problem);
/* Returns whether the offer alone keeps its own limits. */
bool partition_offer_keeps_limits(struct problem *problem, uint32_t offer);
/* Divides the regions of the schedule that exceed the limits of their offers, and adds the launches. Returns whether
 * there were any. */
bool partition_divide_regions(struct problem *problem, const uint32_t *choice);

bool partition_groups_init(struct problem *problem);
/* Rejects groups that form a cycle by themselves, with a log message. Called before options.groups is set. */
void reject_cyclic_groups(struct problem *problem);
/* Dissolves groups of the choice until there is no cycle. False: a group has no single offers as a fallback. */
bool dissolve_cyclic_groups(struct problem *problem, uint32_t *choice);
/* A first complete choice. Each node gets its cheapest offer, or with `rank` the offer of the provider with the lowest
 * rank[provider]. Groups are chosen for nodes without single offers, and with `rank` also where they displace no
 * provider of a lower rank. Returns a node without an offer, or NONE. */
uint32_t partition_first_choice(struct problem *problem, const uint32_t *rank, uint32_t *choice);
/* Families of the provider's groups: family[i] of options.groups[i]; groups of one family do not overlap. NONE for
 * groups of other providers. Returns the number of families. */
uint32_t partition_families(struct problem *problem, uint32_t provider, uint32_t *family);
/* One family from the groups of all providers, with index 0: those that together save most compared with the cheapest
 * single offers, among groups whose intervals do not interleave. */
void partition_best_family(struct problem *problem, uint32_t *family);
/* The cheapest single offer of any provider with the usual placement; NONE: none. */
uint32_t partition_cheapest_single(const struct problem *problem, uint32_t node);
#endif
