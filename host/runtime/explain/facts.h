/* explain/facts.h - what there is to say of a session, gathered when somebody asks.
 *
 * Text, JSON and the page are printed from this and from nothing else, so their numbers agree. The sources are what the
 * session keeps anyway: each program's partition (offers, refusals, regions, copies) and its compiled steps. Nothing is
 * computed or kept for explanations while a session is created.
 *
 * A program is told as stretches: regions next to each other, in the order of execution, of one provider. Times are
 * nanoseconds of one execution of their graph; `times` says how often a body runs. */
#ifndef EXPLAIN_FACTS_H
#define EXPLAIN_FACTS_H
#include "exec/loop/watch.h"
#include "partition/cost/cost.h"
#include "session/session.h"

/* ------------------------------------------------------------------ the runner-up */

enum {
    RIVAL_NONE = 0,  /* nobody else can run any of the nodes */
    RIVAL_ABOUT = 1, /* from the others' offers alone: copies and regions that would come of it are left out */
    RIVAL_EXACT = 2  /* the choice was made again with the winner barred from these nodes */
};

/* What would be if the winner did not run these nodes. */
typedef struct facts_rival {
    uint32_t kind;       /* RIVAL_* */
    uint32_t provider;   /* who would run most of them */
    uint32_t node_count; /* how many of them somebody else can run at all; the others stay */
    double extra_ns;     /* what the whole graph would take more; negative: less (policy priority, a saved plan) */
} facts_rival;

/* ------------------------------------------------------------------ one graph */

typedef struct facts_graph facts_graph;

typedef struct facts_region {
    const partition_region *region;
    const program_step *step;
    double ns;          /* predicted: offers and launch; of a node that the host runs: its bodies */
    double measured_ns; /* of one execution of the graph, median; negative = not measured */
    uint32_t calls;     /* executions in the last measured run */
    uint32_t source;    /* COST_*, the worst of its offers'; COST_NONE: the host's */
    uint64_t bytes_in, bytes_out, resident_bytes, workspace_bytes;
    double flops, bytes_moved; /* of its offers, as the provider states them; bodies are not in it */
    facts_graph **bodies;      /* [body_count] */
    uint32_t body_count;
} facts_region;

typedef struct facts_stretch {
    uint32_t first, count; /* regions */
    uint32_t provider;     /* INLAY_NONE: the host */
    uint32_t node_count;
    double ns, measured_ns;
    uint32_t source;              /* the worst */
    uint64_t bytes_in, bytes_out; /* that cross its border */
    uint64_t resident_bytes;      /* sum */
    uint64_t workspace_bytes;     /* the largest of a region's */
    facts_rival rival;
} facts_stretch;

/* What a node is run by, where its provider says so (inlay.kernels/1). */
typedef struct facts_kernel {
    const char *name, *runner_up, *why; /* runner_up, why: or NULL */
    double ns, runner_up_ns;            /* negative: not known */
    double error, error_bound;          /* relative to the largest result; 0: not known, none */
    uint32_t reason;                    /* INLAY_KERNEL_* */
} facts_kernel;

typedef struct facts_node {
    const facts_kernel *kernel; /* NULL: not asked, or nothing said */
    uint32_t region;
    uint32_t offer;       /* that was chosen; INLAY_NONE: the host's */
    uint32_t first_offer; /* into facts_graph.offers_of, offer_count of them */
    uint32_t offer_count;
    uint32_t first_refusal; /* into facts_graph.refusals_of */
    uint32_t refusal_count;
} facts_node;

struct facts_graph {
    const struct program *program;
    const struct partition
        *parts;            /* of the program; where a saved plan was followed, a copy with prices of all offers */
    uint32_t index;        /* in facts.graphs */
    const char *path;      /* "main", "main/loop_3.body" */
    facts_graph *parent;   /* NULL: the main graph */
    double times;          /* executions per execution of the node that has it; 0: the branch of If not reckoned with */
    bool times_known;      /* from the model or a measured run; or a guess */
    uint32_t executions;   /* in the last measured run */
    double ns;             /* predicted: regions, copies, bodies */
    double bodies_ns;      /* what of it are bodies */
    double copies_ns;      /* what of it are copies */
    facts_node *nodes;     /* [graph->node_count] */
    uint32_t *offers_of;   /* indexes of partition.offers, by node */
    uint32_t *refusals_of; /* indexes of partition.refusals, by node */
    facts_region *regions; /* [region_count] in the order of execution */
    facts_stretch *stretches;
    uint32_t region_count, stretch_count;
};

/* ------------------------------------------------------------------ the session */

/* Nodes refused by one provider with the same words. */
typedef struct facts_refusals {
    uint32_t provider, code;
    const char *text, *accepted_if; /* accepted_if: or NULL */
    uint32_t first, count;          /* into facts.refused */
} facts_refusals;
typedef struct facts_refused {
    const facts_graph *graph;
    uint32_t refusal; /* of its partition */
} facts_refused;

/* One provider in all graphs, each as often as it runs. */
typedef struct facts_provider {
    const char *name;
    uint32_t node_count, region_count, stretch_count;
    double ns, measured_ns;                           /* of one run of the model */
    uint64_t resident_bytes, peak_bytes, limit_bytes; /* the partitioner's estimates; limit 0 = none */
} facts_provider;

struct facts {
    const inlay_session *session;
    const struct timings *timings; /* NULL = nothing was measured */
    const struct runner
        *runner; /* of the runs that were: predictions are for the sizes of the last; NULL = there is none */
    struct arena arena;
    facts_graph **graphs; /* [graph_count] the main one first, bodies behind the graph that holds them */
    uint32_t graph_count;
    facts_provider *providers; /* [provider_count + 1] the last is the host */
    uint32_t provider_count;
    facts_refusals *refusals; /* [refusals_count] most nodes first */
    facts_refused *refused;
    uint32_t refusals_count;
    uint32_t node_count, region_count, copy_count;
    double ns; /* predicted for one run */
    double copies_ns;
    double flops, bytes_moved; /* of one run, bodies as often as they run */
    double measured_ns;        /* median of a run; negative = not measured */
};

/* A price of the offer as a time, and all of an assignment: see displayed_time_factor(). */
double facts_told(const struct facts *facts, const partition_offer *offer, double ns);
double facts_told_sum(const struct facts *facts, const struct partition *partition);

/* Gathers all but the runner-ups. INLAY_OK: release with facts_destroy(). */
INLAY_NODISCARD inlay_status facts_create(const inlay_session *session, const struct timings *timings,
                                          const struct runner *runner, struct facts **out_facts, inlay_diag *diag);
void facts_destroy(struct facts *facts); /* NULL is a no-op */

/* Finds the runner-up of every stretch; see rivals.c for how much is exact. */
INLAY_NODISCARD inlay_status facts_find_rivals(struct facts *facts, inlay_diag *diag);

/* ------------------------------------------------------------------ kernels (kernels.c) */

/* Asks providers which kernels their regions run by, at the shapes of the prices. A region that can't be prepared at
 * these is left out. */
INLAY_NODISCARD inlay_status facts_find_kernels(struct facts *facts, inlay_diag *diag);
/* "model", "timed", "only one", "option". */
const char *facts_kernel_reason(uint32_t reason);

/* ------------------------------------------------------------------ what if (what_if.c) */

/* Nodes that would change hands. */
typedef struct facts_move {
    uint32_t from, to; /* providers */
    uint32_t count;
    const char *names[3]; /* of the first; NULL from count on */
} facts_move;

typedef struct facts_outcome {
    const char *impossible; /* why the rules can't be kept; NULL = they can, and then: */
    double ns, copies_ns;   /* predicted for one run */
    uint32_t copy_count;
    facts_move *moves; /* [move_count] most nodes first */
    uint32_t move_count, moved_count;
} facts_outcome;

/* Chooses again under the session's rules changed by these, see inlay_explain_options.what_ifs. *out is of f's arena.
 * INLAY_INVALID_ARGUMENT: a rule that says nothing, an unknown provider, a pattern that no node matches. */
INLAY_NODISCARD inlay_status facts_what_if(struct facts *facts, const char *const *rules, uint32_t count,
                                           facts_outcome **out, inlay_diag *diag);

/* ------------------------------------------------------------------ one node (answers.c) */

/* What one provider says to a node, and what would be if it ran it. */
typedef struct facts_answer {
    uint32_t provider;
    uint32_t offer; /* the cheapest for the node alone, or else of a group with it; INLAY_NONE: none */
    const partition_refusal *refusal; /* NULL = none */
    bool chosen;
    bool asked;             /* the choice was made again with this node there; then either: */
    const char *impossible; /* why it can't be, or NULL and: */
    double extra_ns;        /* the whole graph would take more; negative: less */
    double here_ns;         /* of that: this node's offer, where it is one of the node alone ... */
    double copies_ns;       /* ... and copies; the rest is other nodes' and launches */
} facts_answer;

/* The answers of all providers, [provider_count] of the arena of facts; ask: what would be, too, at one solution of the
 * graph a provider. */
INLAY_NODISCARD inlay_status facts_ask_node(struct facts *facts, const facts_graph *graph, uint32_t node, bool ask,
                                            facts_answer **out, inlay_diag *diag);

/* ------------------------------------------------------------------ questions */

/* Is the node meant by a glob on its name, or by "op:GLOB" on its operator? */
bool facts_matches(const char *pattern, const inlay_node_info *node);
/* Fails with INLAY_INVALID_ARGUMENT and the nearest names when no node of the session matches. what: "node". */
INLAY_NODISCARD inlay_status facts_check_pattern(const struct facts *facts, const char *what, const char *pattern,
                                                 inlay_diag *diag);
/* Finds the next named symbol, from number *at on, for which costs have assumed a size. False: there is none. */
bool facts_assumed(const struct facts *facts, uint32_t *at, const char **out_name, int64_t *out_size);
/* Executions of graph in one run of the model; NULL: 1. */
double facts_times_per_run(const facts_graph *graph);
/* What a body takes each time that its node runs: ns in each iteration, once_ns of it in the first alone. */
double facts_rounds(const facts_graph *graph, double ns, double once_ns);
/* What of that copies take in a run of the model. */
double facts_copies_per_run(const facts_graph *graph, double ns, double once_ns);
double facts_sum_of_copies(const struct partition *partition);
/* "host", or the provider's name. */
const char *facts_provider_name(const struct facts *facts, uint32_t index);
/* "host", or the domain's name. */
const char *facts_domain_name(const struct facts *facts, uint32_t domain);
/* What the region's provider would be asked again with: the same graph, providers and rules; fill in the rest. */
partition_request facts_request(const facts_graph *graph);
/* Bytes of value v at the shapes that costs were asked for. */
uint64_t facts_value_bytes(const facts_graph *graph, uint32_t v);
/* The region that makes value v, INLAY_NONE for inputs and constants. */
uint32_t facts_maker_region(const facts_graph *graph, uint32_t v);
/* The node that makes what is copied, INLAY_NONE for an input; the first one that the copy is for, INLAY_NONE for an
 * output. */
uint32_t facts_copy_maker(const facts_graph *graph, const partition_copy *copy);
uint32_t facts_copy_reader(const facts_graph *graph, const partition_copy *copy);
/* Does the node read the value, for itself or for its bodies? */
bool facts_reads(const facts_graph *graph, uint32_t node, uint32_t v);
/* The cheapest offer for the node alone of a provider other than `but`; INLAY_NONE if there is none. */
uint32_t facts_cheapest_other(const facts_graph *graph, uint32_t node, uint32_t but);
static inline const inlay_node_info *facts_node_info(const facts_graph *graph, uint32_t node)
{
    return &graph->program->graph->nodes[node]->info;
}
static inline const char *facts_value_name(const facts_graph *graph, uint32_t value)
{
    return graph->program->graph->values[value].info.name.data;
}
#endif
