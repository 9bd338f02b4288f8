/* partition/cost/cost.h - expected times of kernels and copies on this machine, in nanoseconds.
 *
 * A price is taken from the best available source: a measurement of the compiled kernel (`inlay tune`, an earlier run),
 * the provider's own model scaled by the machine profile (`inlay tune --machine`), or the provider's model alone. The
 * source is stored with the price, for `inlay explain`. */
#ifndef PARTITION_COST_H
#define PARTITION_COST_H
#include "partition/partition.h"
#include "inlay/execution.h"

/* The machine profile and the measurements. Immutable while sessions read it. NULL = neither exists: the providers' own
 * models and fixed copy costs are used. */
typedef struct cost_book cost_book;

/* Arguments of cost_book_open(). */
typedef struct cost_book_request {
    /* has measured.bin, and machine.json unless profile_folder or profile_name is set; NULL = none */
    const char *folder;
    /* location of the machine profile; both NULL = in folder; only a name = no profile */
    const char *profile_folder, *profile_name;
    const partition_provider *providers;
    uint32_t provider_count;
    uint32_t max_threads;                                     /* of a run */
    void (*log)(void *ctx, uint32_t level, const char *text); /* or NULL */
    void *log_ctx;
    /* [fresh_count] sorted; measurements that the folder does not contain yet; NULL = none */
    struct cost_record *fresh;
    uint32_t fresh_count;
} cost_book_request;

/* Reads the profile and the measurements for these providers. *out_book is NULL if there are none; damaged files are
 * ignored. Fails only if out of memory. The providers must outlive the book. */
INLAY_NODISCARD inlay_status cost_book_open(const cost_book_request *request, cost_book **out_book, inlay_diag *diag);
void cost_book_close(cost_book *book); /* NULL is a no-op */

/* Sources of prices, worst first. CLAIMED: the provider reports its price as measured. MEASURED: this host measured
 * it. */
enum { COST_NONE = 0, COST_GUESS = 1, COST_MODEL = 2, COST_CLAIMED = 3, COST_PROFILE = 4, COST_MEASURED = 5 };
/* "measured", "calibrated", "claimed", "model", "guess" or "none". */
const char *cost_source_name(uint32_t source);

/* Converts an estimate for the reference core (INLAY_PROVIDER_REFERENCE_CORE) to this machine's kind of CPU
 * (base/core_kind.h): ns becomes the provider's local_ns, or without it is scaled for nodes that mostly compute. Prices
 * of other providers are unchanged. */
void cost_convert_to_here(const struct inlay_provider *table, inlay_cost *cost);

/* Nanoseconds that the provider measured for a kernel variant and stored under its own key (inlay.timings/1, see
 * cost_key.h); negative: none. Any thread. */
double cost_timing(const cost_book *book, const partition_provider *provider, const void *key, uint64_t key_bytes);

/* A model as a whole, at the sizes of its inputs. */
typedef struct cost_whole_model {
    uint64_t hash; /* content hash of the main graph, as optimised before its first assignment */
    const struct graph *graph;
    const inlay_value_state *values;     /* [graph->value_count] concrete shapes */
    const partition_provider *providers; /* [provider_count] all that are in use, in the user's order */
    uint32_t provider_count;
    uint32_t max_threads; /* of a run */
} cost_whole_model;

/* Did `inlay tune` measure that runs of the model are faster without this provider, and are all providers in use that
 * ran the faster assignment? Any other providers may have been added or removed since. Any thread. */
bool cost_is_left_out(const cost_book *book, const cost_whole_model *model, uint32_t provider);

/* The offer to be priced, and the conditions. */
typedef struct cost_question {
    const inlay_graph *graph;
    const partition_provider *provider;
    const partition_offer *offer;
    const inlay_value_state *values; /* [graph->value_count] concrete shapes */
    uint32_t max_threads;            /* of a run; part of the key of measurements */
    uint32_t priced_threads;         /* thread count in the query to the provider; 0 = max_threads */
    uint64_t weight_bytes;           /* of the whole graph, see cost_weight_bytes */
    bool runs;                       /* the offer is known to be executed: neither folded nor a view */
} cost_question;

/* The least time that the offer can take on this machine's kind of CPU: of reading its weights from memory, unless
 * those of the whole graph stay in a cache, and of the multiplications of matrices of floats. 0: not known, for
 * providers that may compute elsewhere: those with domains or fences, and those that claim measured prices, unless they
 * have INLAY_PROVIDER_REFERENCE_CORE. Estimates below it are raised to it. */
double cost_roof_ns(const cost_question *question, const inlay_cost *cost);

/* Offers are compared at the mean of their prices with these numbers of threads, regardless of the threads of a run.
 * Providers differ in their order of summation, so if the thread count of the run influenced the choice, results would
 * depend on it, even if a device is in use. The mean chooses better for runs of both numbers than the prices of either
 * (tests/bench/results.md). Reports state the time at the threads of a run (partition_offer.threads_factor,
 * border_factor).
 *
 * A limitation: on a machine with many cores, a provider that scales badly is compared by its time on two. With the
 * session's intra_threads instead, one model would have different assignments, and so different bits, with each number
 * of threads, and saved plans would be tied to it. Measured and calibrated prices are looked up by the threads of
 * the run, so the limitation does not apply after `inlay tune`. */
enum { COST_FEW_THREADS = 1, COST_THREADS = 2 };

/* Prices an offer: fills *out and returns the source. If the provider has no estimate, returns COST_NONE and a price so
 * high that the offer is chosen last. *out_error: relative error compared with other prices (0.1 = 10 %): the spread of
 * a measurement, the error of the line of a calibrated price, or a default. Any thread. */
uint32_t cost_of_offer(const cost_book *book, const cost_question *question, inlay_cost *out, double *out_error);
/* Sets the offer's cost, as it is compared, with its source and error, and the factors for the threads of a run
 * (question->max_threads; question->priced_threads is not used). */
void cost_price_offer(const cost_book *book, const cost_question *question, partition_offer *offer);
/* Sets *why to the provider's reason for an offer without a price (COST_NONE). */
void cost_missing(const cost_question *question, inlay_diag *why);
/* cost_weight_bytes: the size of all constants of a graph. If they fit into the caches, its kernels find their weights
 * there. cost_cold_bytes: the bytes of constants that a node reads; of a lookup table only the rows that it
 * reads. */
uint64_t cost_weight_bytes(const inlay_graph *graph);
double cost_cold_bytes(const inlay_graph *graph, const inlay_node_info *node, const inlay_cost *cost);
/* Size of the constants that these nodes read. Packed weights are usually as large as the original ones, and those in
 * blocks of other formats as their codes, scales and zero points. */
uint64_t cost_constant_bytes(const struct graph *graph, const uint32_t *nodes, uint32_t node_count);
/* Sizes of the cache next to one core, and of the cache that cores share, of this machine's kind of CPU. */
uint64_t cost_near_bytes(void);
uint64_t cost_shared_bytes(void);
/* Where the weights of a graph of that size are when one of its kernels starts: in the core's cache, in the shared
 * cache, or in memory. */
enum { COST_NEAR, COST_SHARED, COST_FAR };
uint32_t cost_weights_in(uint64_t weight_bytes);
/* The cost of reading the weights of a graph of that size, as a fraction of the cost of reading them from memory,
 * 0 ... 1. */
double cost_cold_share(uint64_t weight_bytes);
/* How a value gets from one domain of the providers to a domain of another one: LINK_* of base/device_link.h. LINK_HOST
 * if one of them is the host's, or both belong to one provider. */
uint32_t cost_link(const partition_provider *providers, uint32_t provider_count, uint32_t from, uint32_t to);
/* Cost of copying bytes between two memory domains of the given providers; 0 if they are the same, or if the reader
 * imports the memory. */
double cost_copy_ns(const cost_book *book, const partition_provider *providers, uint32_t provider_count, uint32_t from,
                    uint32_t to, uint64_t bytes);
/* Cost of the layout change of one value that enters (or leaves) the region of the offer: its share by bytes of the
 * offer's enter_ns (or leave_ns). */
double cost_border_ns(const inlay_graph *graph, const partition_offer *offer, const inlay_value_state *values,
                      uint32_t value, bool enters);
/* Cost of launching one region of the provider; 0 if that is merely a call, whose time is part of the price of each
 * node. */
double cost_launch_ns(const cost_book *book, const partition_provider *provider);

/* Shapes (cost_shapes.c).
 *
 * Prices need sizes for symbolic dimensions. They are taken, in this order, from: the shapes of real inputs, if known;
 * the user's estimates (option dim, NAME~=N); the symbol's bounds, if they leave one size; names with a known
 * meaning ("batch" is 1); the position: the first dimension of an input is 1, the last two of an image (not integer,
 * rank 4, or rank 3 with 3 channels first) are 224 and the one before is 3, every other dimension is 64. A guess is
 * then clamped to the symbol's bounds. Shapes are then inferred from the inputs node by node, as in planning. A
 * data-dependent size is taken from an earlier run; or from the size that inference gives the same symbol elsewhere; or
 * is estimated from its upper bound (cost_bounds.c); otherwise it is 16, clamped to the bounds. */

/* The shape of an input. rank INLAY_RANK_UNKNOWN: not given. */
typedef struct cost_input {
    uint32_t rank;
    const int64_t *dims; /* [rank] */
} cost_input;

/* NAME=N; the name need not be NUL-terminated. */
typedef struct cost_assumption {
    const char *name;
    size_t name_bytes;
    int64_t size;
} cost_assumption;

/* Assumed sizes of one model, and the sizes of its symbols that follow. The bodies of a graph are priced with the
 * symbol sizes that pricing the graph produced. Initialise with zeros. Used by one thread at a time. */
typedef struct cost_sizes {
    const cost_assumption *assumed; /* [assumed_count] borrowed */
    uint32_t assumed_count;
    const cost_input *inputs; /* [input_count] of the main graph, borrowed; NULL = not given */
    uint32_t input_count;
    const cost_input *seen; /* [value_count] of the next graph, as a run observed them; NULL = none */
    int64_t *symbols;       /* [symbol_count], -1 = not known yet; owned */
    uint32_t symbol_count;
    bool conflict; /* set if guessed sizes are inconsistent */
    bool ones;     /* use 1 for unknown sizes, which is consistent in most models */
} cost_sizes;
void cost_sizes_deinit(cost_sizes *sizes);

/* Infers the shapes for pricing, and the elements of values known before the run (constants, and shape arithmetic):
 * [snapshot->value_count] from the arena; NULL: out of memory. All dimensions are known, except of values with unknown
 * rank. sizes may be NULL: defaults. */
inlay_value_state *cost_shapes(const struct graph *graph, const inlay_graph *snapshot, cost_sizes *sizes,
                               struct arena *arena);
/* The bytes of a value with its shape; unknown sizes count as 1. */
uint64_t cost_value_bytes(const inlay_value_state *state);
#endif
