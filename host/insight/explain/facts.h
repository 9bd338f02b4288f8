/* explain/facts.h - the data of an explanation, collected on request.
 *
 * Text, JSON and the HTML page print only this data, so their numbers agree. The sources are data that the session
 * has anyway: each program's partition (offers, refusals, regions, copies) and its compiled steps. Session creation
 * computes and stores nothing for explanations.
 *
 * A program is shown as stretches: consecutive regions, in execution order, of one provider. The text calls them
 * partitions. Times are nanoseconds of one execution of their graph; `times` is the number of executions of a body. */
#ifndef EXPLAIN_FACTS_H
#define EXPLAIN_FACTS_H
#include "base/device_link.h"
#include "measure/timings.h"
#include "partition/cost/cost.h"
#include "session/session.h"

enum {
    RUNNER_UP_NONE = 0,     /* no other provider supports any of the nodes */
    RUNNER_UP_ESTIMATE = 1, /* from the other offers alone, without the copies and region changes that would follow */
    RUNNER_UP_EXACT = 2,    /* assigned again with the winner excluded from these nodes */
    RUNNER_UP_UNPRICED = 3  /* likewise, but with offers that have no price */
};

/* Smaller differences of times are a tie. */
#define FACTS_TIE_NS 0.5

/* The result of excluding the winner from these nodes. */
typedef struct facts_runner_up {
    uint32_t kind;       /* RUNNER_UP_* */
    uint32_t provider;   /* the provider that would run most of them */
    uint32_t node_count; /* number of nodes that another provider supports; the others stay */
    double extra_ns;     /* additional time of the whole graph; negative if it is faster */
    bool offers_differ;  /* by more than 1 %: with an extra_ns of 0, other nodes move, too */
    const char *why;     /* if it is faster, or not possible: why it was not chosen; otherwise NULL */
} facts_runner_up;

typedef struct facts_graph facts_graph;

typedef struct facts_region {
    const partition_region *region;
    const program_step *step;
    double ns;          /* predicted: offers and launch; for a node that the host runs: its bodies */
    double measured_ns; /* of one execution of the graph, median; negative = not measured */
    uint32_t calls;     /* executions in the last measured run */
    uint32_t source;    /* COST_*, least reliable source of its offers' costs; COST_NONE: the host runs the node */
    bool region_price;  /* some of these costs come from the provider's price of the region */
    uint64_t bytes_in, bytes_out, resident_bytes, workspace_bytes;
    stream_sizes weights;      /* in mapped files; 0 unless the session reads weights during runs */
    double flops, bytes_moved; /* of its offers, as stated by the provider, without bodies */
    facts_graph **bodies;      /* [body_count] */
    uint32_t body_count;
} facts_region;

typedef struct facts_stretch {
    uint32_t first, count; /* regions */
    uint32_t provider;     /* INLAY_NONE: the host */
    uint32_t node_count;
    double ns, measured_ns;
    uint32_t source;              /* least reliable source of its regions */
    bool region_price;            /* of some region */
    uint64_t bytes_in, bytes_out; /* that enter and leave the stretch */
    uint64_t resident_bytes;      /* sum */
    uint64_t workspace_bytes;     /* the largest of its regions */
    facts_runner_up runner_up;
} facts_stretch;

/* The kernel that runs a node, if its provider reports it (inlay.kernels/1). */
typedef struct facts_kernel {
    const char *name, *runner_up, *why; /* runner_up, why: or NULL */
    double ns, runner_up_ns;            /* negative: not known */
    double error, error_bound;          /* relative to the largest result; 0: unknown or none */
    uint32_t reason;                    /* INLAY_KERNEL_* */
} facts_kernel;

typedef struct facts_node {
    const facts_kernel *kernel; /* NULL: not requested or not reported */
    uint32_t region;
    uint32_t offer;       /* the chosen offer; INLAY_NONE: the host runs the node */
    uint32_t first_offer; /* into facts_graph.offers_of, offer_count of them */
    uint32_t offer_count;
    uint32_t first_refusal; /* into facts_graph.refusals_of */
    uint32_t refusal_count;
} facts_node;

struct facts_graph {
    const struct program *program;
    /* The program's partition; if a saved plan was followed, a copy with prices for all offers. */
    const struct partition *parts;
    uint32_t index;      /* in facts.graphs */
    const char *path;    /* "main", "main/loop_3.body" */
    facts_graph *parent; /* NULL: the main graph */
    double times;     /* executions per execution of the node that contains it; 0: the If branch that is not counted */
    bool times_known; /* known from the model or a measured run; otherwise a guess */
    uint32_t executions; /* in the last measured run */
    double ns;           /* predicted: regions, copies, bodies */
    double bodies_ns;    /* the part of ns that is bodies */
    double copies_ns;    /* the part of ns that is copies */
    /* The part of the session's rules that applies to this graph, given the other graphs: a provider that must run a
     * node here, or NULL; partitions, 0 = any number; memory that the other graphs need, NULL = they need none */
    const char *must_run;
    uint32_t max_partitions;
    uint64_t *used_bytes;  /* [provider_count] */
    facts_node *nodes;     /* [graph->node_count] */
    uint32_t *offers_of;   /* indexes of partition.offers, by node */
    uint32_t *refusals_of; /* indexes of partition.refusals, by node */
    facts_region *regions; /* [region_count] in the order of execution */
    facts_stretch *stretches;
    uint32_t region_count, partition_count;
};

/* Nodes that one provider refused for the same reason. */
typedef struct facts_refusals {
    uint32_t provider, code;
    const char *text, *accepted_if; /* accepted_if: or NULL */
    uint32_t first, count;          /* into facts.refused */
    bool could_run; /* without the refusal; otherwise the provider has no kernel for the operator, or may not run the
                       nodes: the rules, inlay tune, or an emulated device */
} facts_refusals;
typedef struct facts_refused {
    const facts_graph *graph;
    uint32_t refusal; /* of its partition */
    bool could_run;   /* see facts_refusals */
} facts_refused;

/* Totals of one provider over all graphs, weighted by the executions of each graph. */
typedef struct facts_provider {
    const char *name;
    uint32_t node_count, region_count, partition_count;
    bool offered;                                     /* to run some node */
    double ns, measured_ns;                           /* of one run of the model */
    uint64_t resident_bytes, peak_bytes, limit_bytes; /* the partitioner's estimates; limit 0 = none */
} facts_provider;

struct facts {
    const inlay_session *session;
    const struct timings *timings; /* NULL = nothing was measured */
    /* The runner of the measured runs; predictions are then for the input sizes of the last run. NULL = none. */
    const struct runner *runner;
    /* The program that made the last run instead of the session's, because a provider declined or a device failed; NULL
     * = none. The times of steps are then not known. */
    const struct program *instead;
    struct arena arena;
    facts_graph **graphs; /* [graph_count] the main graph first, bodies after the graph that contains them */
    uint32_t graph_count;
    facts_provider *providers; /* [provider_count + 1] the last one is the host */
    uint32_t provider_count;
    facts_refusals *refusals; /* [refusals_count] most nodes first */
    facts_refused *refused;
    uint32_t refusals_count;
    uint32_t node_count, region_count, copy_count;
    uint32_t import_count;   /* values that a device reads in the memory of another one, without a copy */
    uint32_t unpriced_count; /* chosen offers without a price, whose time counts as 0 */
    double ns;               /* predicted for one run */
    double copies_ns;
    double kept_back_ns;       /* how much less a run would take without margins; see facts_find_kept_back() */
    double flops, bytes_moved; /* of one run, with all executions of bodies */
    double measured_ns;        /* median of a run; negative = not measured */
};

/* The expected time, on the session's threads, of a price of the offer, and of a whole assignment. */
double facts_displayed_ns(const partition_offer *offer, double ns);
double facts_displayed_sum(const struct partition *partition);
/* The time of a region without its launch. */
double facts_displayed_region_ns(const struct partition *partition, const partition_region *region);
/* The energy of a whole assignment in nanojoules, of its displayed times; 0 = a power is unknown. */
double facts_displayed_energy(const struct facts *facts, const struct partition *partition);

/* Collects everything except runner-ups. INLAY_OK: release with facts_destroy(). */
INLAY_NODISCARD inlay_status facts_create(const inlay_session *session, const struct timings *timings,
                                          const struct runner *runner, struct facts **out_facts, inlay_diag *diag);
void facts_destroy(struct facts *facts); /* NULL is a no-op */

/* Finds the runner-up of every stretch; runner_up.c explains which are exact. */
INLAY_NODISCARD inlay_status facts_find_runner_ups(struct facts *facts, inlay_diag *diag);

/* Why an assignment that costs less was not chosen. other: the graph assigned with `winner` excluded from some nodes,
 * which `rival` runs there. saved_ns: the saving as it is shown. A text in the arena of facts; NULL: out of memory. */
const char *facts_why_not(struct facts *facts, const facts_graph *graph, const struct partition *other, uint32_t winner,
                          uint32_t rival, double saved_ns);

/* The memory limit, max_partitions or require that the assignment of the graph does not keep; it was made without them.
 * *out_text: in the arena of facts; NULL: it keeps all. False: out of memory. */
bool facts_broken_limit(struct facts *facts, const facts_graph *graph, const struct partition *other,
                        const char **out_text);
/* The provider's reason for an offer without a price. NULL: out of memory. */
const char *facts_no_price(struct facts *facts, const facts_graph *graph, uint32_t offer);

/* Does the provider precede the other one in the order of preference? */
bool facts_precedes(const struct facts *facts, uint32_t provider, uint32_t other);

/* Queries the kernels of all regions from their providers, at the shapes of the prices. A region that cannot be
 * specialized for these shapes is skipped. */
INLAY_NODISCARD inlay_status facts_find_kernels(struct facts *facts, inlay_diag *diag);

/* Nodes that would move from one provider to another. */
typedef struct facts_move {
    uint32_t from, to; /* providers */
    uint32_t count;
    const char *names[3]; /* of the first nodes; NULL from count on */
} facts_move;

typedef struct facts_outcome {
    /* Why no assignment satisfies the rules; NULL = one exists, and the other fields describe it. */
    const char *impossible;
    double ns, copies_ns; /* predicted for one run */
    double energy_nj;     /* likewise; 0 = the power of a device is unknown */
    double kept_bytes;    /* partition.kept_bytes of all graphs */
    /* how much cheaper the graphs are than those of the session, each run once, in the prices that are compared */
    double compared_gain_ns;
    uint32_t copy_count;
    facts_move *moves; /* [move_count] most nodes first */
    uint32_t move_count, moved_count;
} facts_outcome;

/* Assigns the graph again under the session's rules changed by these, see inlay_explain_options.what_ifs. *out lives
 * in the arena of facts. INLAY_INVALID_ARGUMENT: a malformed rule, an unknown provider, a pattern that matches no
 * node. */
INLAY_NODISCARD inlay_status facts_what_if(struct facts *facts, const char *const *rules, uint32_t count,
                                           facts_outcome **out, inlay_diag *diag);

/* Finds by how much the session's assignment is more expensive than the assignment by prices alone. That one has no
 * margins for errors of prices and for the order of providers, and keeps no regions whole. 0 if prices do not decide:
 * policy priority, a saved plan, other objectives than latency. */
INLAY_NODISCARD inlay_status facts_find_kept_back(struct facts *facts, inlay_diag *diag);

/* A copy of the graph's partition with its offers priced for another number of threads, in the arena; NULL: out of
 * memory. */
const struct partition *facts_at_threads(const facts_graph *graph, uint32_t threads, struct arena *arena);

/* The assignment of the session on another number of threads, in times of one run that follow from the prices. */
typedef struct facts_scale {
    uint32_t threads;
    double ns;
    double waiting_ns; /* time of all threads less the work, which is the time on one thread */
    double alone_ns;   /* part of ns: nodes that more threads do not make faster, and copies */
    double barriers;   /* ends of parallel loops: nodes that more threads make faster */
    double chain_ns;   /* the longest chain of nodes, each of which needs the result of the one before */
} facts_scale;
enum { FACTS_SCALES = 5 };

/* out: [FACTS_SCALES] for 1, 2, 4, 8 and 16 threads. */
INLAY_NODISCARD inlay_status facts_scaling(const struct facts *facts, facts_scale *out, inlay_diag *diag);

/* The assignments that each objective would lead to: *out [OBJECTIVE_COUNT], under the session's other rules. */
INLAY_NODISCARD inlay_status facts_objectives(struct facts *facts, facts_outcome ***out, inlay_diag *diag);

/* One provider's answer for a node, and the result of running the node there. */
typedef struct facts_answer {
    uint32_t provider;
    uint32_t offer; /* the cheapest for the node alone, otherwise for a group that contains it; INLAY_NONE: none */
    const partition_refusal *refusal; /* NULL = none */
    bool chosen;
    bool evaluated;         /* the graph was assigned again with this node on the provider; the result: */
    const char *impossible; /* why no such assignment exists, or NULL and: */
    const char *obstacle;   /* the limit or rule that forbids the move at any cost; or NULL */
    const char *no_price;   /* why the offer has no price; or NULL */
    double alone_ns;        /* additional time if no other node moves; INFINITY: not possible, or not known */
    double extra_ns;        /* additional time of the whole graph; negative if it is faster */
    double here_ns;         /* part of extra_ns: this node's offer, if both offers are for the node alone */
    double copies_ns;       /* part of extra_ns: copies; the rest is other nodes and launches */
    const char *why;        /* if it is faster: why it was not chosen; otherwise NULL */
} facts_answer;

/* Lists the answers of all providers; *out is [provider_count] in the arena of facts. evaluate: also computes the
 * result of running the node on each other provider that offers it, with one run of the partitioner for each. */
INLAY_NODISCARD inlay_status facts_evaluate_node(struct facts *facts, const facts_graph *graph, uint32_t node,
                                                 bool evaluate, facts_answer **out, inlay_diag *diag);

/* INLAY_INVALID_ARGUMENT: no node of the session matches; diag has the nearest name. what, such as "node", is the
 * prefix of the message. */
INLAY_NODISCARD inlay_status facts_check_pattern(const struct facts *facts, const char *what, const char *pattern,
                                                 inlay_diag *diag);
/* Finds the next named symbol, from number *at on, for which costs have assumed a size. False: there is none. */
bool facts_assumed(const struct facts *facts, uint32_t *at, const char **out_name, int64_t *out_size);
/* Number of executions of the graph in one run of the model; graph NULL: 1. */
double facts_times_per_run(const facts_graph *graph);
/* Time of all iterations of a body in one execution of its node. ns is the time of an iteration; the part once_ns of ns
 * occurs in the first iteration only. */
double facts_repeated_ns(const facts_graph *graph, double ns, double once_ns);
/* Time of copies with these parameters in one run of the model. */
double facts_copies_per_run(const facts_graph *graph, double ns, double once_ns);
double facts_sum_of_copies(const struct partition *partition);
/* "host", or the provider's name. */
const char *facts_provider_name(const struct facts *facts, uint32_t index);
/* "host", or the domain's name. */
const char *facts_domain_name(const struct facts *facts, uint32_t domain);
/* A request to assign the graph again, with its graph, providers, rules and costs; the caller sets the other fields. */
partition_request facts_request(const facts_graph *graph);
/* May the provider run the node, as far as rules and `inlay tune` decide? */
bool facts_may_run(const facts_graph *graph, uint32_t node, uint32_t provider);
/* Bytes of a value at the shapes for which costs were queried. */
uint64_t facts_value_bytes(const facts_graph *graph, uint32_t value);
/* The node that produces the copied value, INLAY_NONE for an input; and the first node that reads the copy, INLAY_NONE
 * for an output. */
uint32_t facts_copy_producer(const facts_graph *graph, const partition_copy *copy);
uint32_t facts_copy_reader(const facts_graph *graph, const partition_copy *copy);
/* Does the node read the value, itself or in its bodies? */
bool facts_reads(const facts_graph *graph, uint32_t node, uint32_t value);
/* The cheapest offer for the node alone of any provider except `excluded`; INLAY_NONE if there is none. */
uint32_t facts_cheapest_other(const facts_graph *graph, uint32_t node, uint32_t excluded);
static inline const inlay_node_info *facts_node_info(const facts_graph *graph, uint32_t node)
{
    return &graph->program->graph->nodes[node]->info;
}
static inline const char *facts_value_name(const facts_graph *graph, uint32_t value)
{
    return graph->program->graph->values[value].info.name.data;
}
#endif
