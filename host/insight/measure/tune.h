/* measure/tune.h - the state of inlay_tune(); only for tune*.c. */
#ifndef MEASURE_TUNE_H
#define MEASURE_TUNE_H
#include "base/memory.h"
#include "exec/context/run_shared.h"
#include "measure/attribute.h"
#include "measure/measure.h"
#include "partition/cost/cost_store.h"
#include "session/session.h"

/* A graph of the model and the sizes at which it is tuned. */
typedef struct tuned_graph {
    const struct program *program;
    inlay_value_state *values;
    inlay_cost *prices; /* [offer_count] as they were before this tuning */
    uint32_t *sources;  /* [offer_count] COST_*: the sources of the prices */
} tuned_graph;

/* A kernel to measure: an offer, or a region with its first offer. */
typedef struct tuned_kernel {
    cost_key key;
    const tuned_graph *graph;
    uint32_t offer;                 /* for a region its first offer */
    const partition_region *region; /* NULL: the offer alone */
    double weight;                  /* expected total time of all equal kernels */
    bool known;                     /* has been measured before */
} tuned_kernel;

struct tuning {
    inlay_session *session;
    inlay_tune_options options;
    inlay_tune_result result;
    struct arena arena;
    cost_sizes sizes;
    tuned_graph *graphs; /* [graph_count] the main graph first */
    uint32_t graph_count;
    tuned_kernel *kernels; /* [kernel_count] owned */
    uint32_t kernel_count;
    cost_list list;   /* the new measurements; owned */
    cost_list only;   /* the measurements of `list` for offers without a price; sorted; owned */
    cost_store store; /* earlier measurements */
    measure_sweep sweep;
    double begin, end;     /* seconds */
    uint32_t kernel_index; /* the current kernel */
    run_shared shared;
    struct runner *runner; /* after a run of the model; NULL: not run */
    bool has_shared;
    bool stopped;
    bool unlimited;            /* the first kernel is timed, although the time may be over */
    bool kernels_timed;        /* kernels within regions were timed, too, so regions may choose other kernels */
    struct {                   /* the comparison of whole runs (tune_prefer.c) */
        uint8_t *left_out;     /* [provider_count] 1 = later sessions leave the provider out; NULL: not compared */
        uint32_t index, count; /* assignments that were compared, and all of them */
    } runs;
    char activity[96];
    inlay_diag *diag;
};

/* Implements inlay_tune(). */
INLAY_NODISCARD inlay_status tune_session(inlay_session *session, const inlay_tune_options *options,
                                          inlay_tune_result *out_result, inlay_diag *diag);
/* Was the tuning cancelled, or is its time over? ctx: struct tuning. Reports progress. */
bool tune_stop(void *ctx);
/* As tune_stop(), but while `unlimited` only: was it cancelled? */
bool tune_stop_kernel(void *ctx);
/* The key of the offer's price. */
cost_key tune_key_of(const tuned_graph *tuned, uint32_t offer);
/* The sizes at which the model is tuned, for another assignment. Release with cost_sizes_deinit(). */
cost_sizes tune_fresh_sizes(const struct tuning *tuning);
/* Finds the kernels to measure, most expensive first. The graphs must be priced. */
INLAY_NODISCARD inlay_status tune_find_kernels(struct tuning *tuning);
/* Times the assignment that follows from the new measurements against the session's, and corrects or drops the
 * measurements if it is not faster. The list is sorted, before and after. */
INLAY_NODISCARD inlay_status tune_whole(struct tuning *tuning, const char *folder);
/* Do both programs have the same regions, in bodies too? */
bool tune_equal_regions(const struct program *a, const struct program *b);
/* Times whole runs of the model without some of the providers, and adds a measurement to the list for each provider
 * that runs are faster without. inputs: [input_count] of the main graph. */
INLAY_NODISCARD inlay_status tune_prefer(struct tuning *tuning, const char *folder, inlay_value **inputs);
/* Prices the model with the new measurements, and reports the nodes that would change their provider. */
INLAY_NODISCARD inlay_status tune_compare(struct tuning *tuning, const char *folder);
#endif
