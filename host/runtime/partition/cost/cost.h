/* partition/cost/cost.h - what running and copying is expected to take on this machine, in nanoseconds.
 *
 * A price comes from the best source there is: a measurement of the real executable (`inlay tune`, an earlier run), the
 * provider's own model scaled by the machine profile (`inlay calibrate`), the provider's model as it is. Which one it
 * was stays with the price, for `inlay explain`. */
#ifndef PARTITION_COST_H
#define PARTITION_COST_H
#include "partition/partition.h"

/* The machine profile and the measurements at hand. Immutable while sessions read it; NULL = neither, so that
 * providers' own models and fixed link costs decide. */
typedef struct cost_book cost_book;

/* What to open a book with. */
typedef struct cost_book_request {
    const char *folder; /* with measured.bin, and machine.json unless another is named; NULL = none */
    const char *profile_folder, *profile_name; /* where the machine profile is; both NULL = in folder; a name alone =
                                                * none */
    const partition_provider *providers;
    uint32_t provider_count;
    uint32_t max_threads;                                     /* of a run */
    void (*log)(void *ctx, uint32_t level, const char *text); /* or NULL */
    void *log_ctx;
    struct cost_record *fresh; /* [fresh_count] sorted: measurements that the folder does not have yet; NULL = none */
    uint32_t fresh_count;
} cost_book_request;

/* Reads what is there for these providers. *out_book is NULL when there is nothing; damaged files are as none. Only out
 * of memory fails. The providers outlive the book. */
INLAY_NODISCARD inlay_status cost_book_open(const cost_book_request *request, cost_book **out_book, inlay_diag *diag);
void cost_book_close(cost_book *book); /* NULL is a no-op */

/* Where a price comes from, worst first. Claimed: the provider says that it has measured; measured: this host has. */
enum { COST_NONE = 0, COST_GUESS = 1, COST_MODEL = 2, COST_CLAIMED = 3, COST_PROFILE = 4, COST_MEASURED = 5 };
/* "measured", "calibrated", "claimed", "model", "guess", "none". */
const char *cost_source_name(uint32_t source);

/* What a price from that source is multiplied by where it is told as a time: prices of the reference core
 * (INLAY_PROVIDER_REFERENCE_CORE) by what this machine's is slower (base/pace.h), all others by 1. Prices are compared
 * without it, so that nothing that is measured anew in each process decides who runs what. Any thread. */
double displayed_time_factor(const partition_provider *provider, uint32_t source);

/* Nanoseconds that the provider measured of a variant of a kernel and keeps under a key of its own (inlay.timings/1,
 * see cost_key.h); negative: none. Any thread. */
double cost_timing(const cost_book *book, const partition_provider *provider, const void *key, uint64_t key_bytes);

/* What is to be priced. */
typedef struct cost_question {
    const inlay_graph *graph;
    const partition_provider *provider;
    const partition_offer *offer;
    const inlay_value_state *values; /* [graph->value_count] the concrete shapes */
    uint32_t max_threads;            /* of a run: what was measured is looked up by it */
    uint32_t priced_threads;         /* what the provider is asked for; 0 = max_threads */
    uint64_t weight_bytes;           /* of the whole graph: see cost_weight_bytes */
    bool runs;                       /* it is known to be executed: neither computed while planning nor a mere view */
} cost_question;

/* The number of threads for which providers are asked what their offers take, whatever a run has: another provider adds
 * terms in another order, and results are to be the same bits on any number of threads, also with a device in use.
 *
 * A limit: on a machine of many cores, a provider that scales badly is preferred as if there were two. Following the
 * session's intra_threads would give one model different assignments, and so different bits, on different machines, and
 * would tie saved plans to them. What was measured or calibrated here is looked up by the threads of the run, so that
 * inlay tune lifts the limit where that is wanted. */
enum { COST_THREADS = 2 };

/* Fills *out and returns the source; COST_NONE, with a price so high that it is taken last, when the provider can't
 * say. *out_error: how far the price may be off beside others, relative (0.1 = a tenth): of a measurement its spread,
 * of a calibrated price what its line is off by, of the rest what is usual. Any thread. */
uint32_t cost_of_offer(const cost_book *book, const cost_question *question, inlay_cost *out, double *out_error);
/* The constants of a graph; and what a node reads of its own ones, of a table only what it picks. It finds them in the
 * caches when those of the graph all fit there. */
uint64_t cost_weight_bytes(const inlay_graph *graph);
double cost_cold_bytes(const inlay_graph *graph, const inlay_node_info *node, const inlay_cost *cost);
/* Of the cache next to one core, and of the one that cores share; what is assumed where the system does not say. */
uint64_t cost_near_bytes(void);
uint64_t cost_shared_bytes(void);
/* Where the weights of a graph of so many are when a kernel of it starts. */
enum { COST_NEAR, COST_SHARED, COST_FAR };
uint32_t cost_weights_in(uint64_t weight_bytes);
/* The same as a share of what weights cost that come from memory, 0 ... 1. */
double cost_cold_share(uint64_t weight_bytes);
/* Bringing bytes from one memory domain to another, of the given providers; 0 when they are the same. */
double cost_copy_ns(const cost_book *book, const partition_provider *providers, uint32_t provider_count, uint32_t from,
                    uint32_t to, uint64_t bytes);
/* What an offer asks for one value that enters (or leaves) its region: a share by bytes of what it asks for all of
 * them. */
double cost_border_ns(const inlay_graph *graph, const partition_offer *offer, const inlay_value_state *values,
                      uint32_t value, bool enters);
/* Starting one region of the provider: 0 where that is no more than a call, whose time is in the price of each node. */
double cost_launch_ns(const cost_book *book, const partition_provider *provider);

/* ------------------------------------------------------------------ shapes (cost_shapes.c)
 *
 * Prices need sizes where a model has symbols. They come, in this order, from: the shapes of real inputs, where
 * somebody has them; what the user assumes (option assume, NAME=N); the symbol's bounds, when they leave one size;
 * names that say what a symbol is ("batch" is 1); the place: the first dimension of an input is 1, the last two of an
 * image (no integers, rank 4, or rank 3 with 3 channels first) are 224 and the one before is 3, every other one is 64.
 * A guess is then moved into the symbol's bounds. From the inputs on, shapes are inferred node by node at these sizes,
 * as a plan does it. What depends on data has the size that a run found, where there was one; or that inference gives
 * elsewhere to the same symbol; or a share of what it can be at most (cost_bounds.c); or else 16, within the
 * bounds. */

/* An input as it will be. rank INLAY_RANK_UNKNOWN: not said. */
typedef struct cost_input {
    uint32_t rank;
    const int64_t *dims; /* [rank] */
} cost_input;

/* NAME=N; the name need not end in NUL. */
typedef struct cost_assumption {
    const char *name;
    size_t name_bytes;
    int64_t size;
} cost_assumption;

/* What is assumed for one model, and what that gave its symbols: the bodies of a graph are priced at the sizes that
 * pricing the graph has found. Zero is a good start; used by one thread at a time. */
typedef struct cost_sizes {
    const cost_assumption *assumed; /* [assumed_count] borrowed */
    uint32_t assumed_count;
    const cost_input *inputs; /* [input_count] of the main graph, borrowed; NULL = not said */
    uint32_t input_count;
    const cost_input *seen; /* [value_count] of the graph that is priced next, as a run found them; NULL = nothing */
    int64_t *symbols;       /* [symbol_count] by number, -1 = not met yet; owned */
    uint32_t symbol_count;
    bool conflict; /* set where sizes that were guessed do not go together */
    bool ones;     /* what nobody has said is 1, which goes together with most */
} cost_sizes;
void cost_sizes_deinit(cost_sizes *sizes);

/* The shapes that costs are asked for, and the elements of what is known before the run (constants, and shape
 * arithmetic that the sizes settle): [snapshot->value_count] from the arena, NULL: no memory. No dimension is unknown
 * but those of values of unknown rank. sizes may be NULL: defaults. */
inlay_value_state *cost_shapes(const struct graph *graph, const inlay_graph *snapshot, cost_sizes *sizes,
                               struct arena *arena);
/* The bytes of a value at its shape; unknown sizes count as 1. */
uint64_t cost_value_bytes(const inlay_value_state *state);
#endif
