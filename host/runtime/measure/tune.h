/* measure/tune.h - the state of inlay_tune(); for tune*.c only. */
#ifndef MEASURE_TUNE_H
#define MEASURE_TUNE_H
#include "base/memory.h"
#include "exec/context/run_shared.h"
#include "measure/attribute.h"
#include "measure/measure.h"
#include "partition/cost/cost_store.h"
#include "session/session.h"

/* A graph of the model and the sizes at which it is tuned. */
struct tuned {
    const struct program *program;
    inlay_value_state *values;
    inlay_cost *prices; /* [offer_count] by what was known before */
    uint32_t *sources;  /* [offer_count] COST_* of these */
};

/* Something to measure: the first offer, or region, with its key. */
struct kernel {
    cost_key key;
    const struct tuned *in;
    uint32_t offer;                 /* of a region its first */
    const partition_region *region; /* NULL: the offer alone */
    double weight;                  /* what all of its kind are expected to take */
    bool known;                     /* has a figure already */
};

struct tuning {
    inlay_session *session;
    inlay_tune_options how;
    inlay_tune_result result;
    struct arena arena;
    cost_sizes sizes;
    struct tuned *graphs; /* [graph_count] the main one first */
    uint32_t graph_count;
    struct kernel *kernels; /* [kernel_count] owned */
    uint32_t kernel_count;
    cost_list list;   /* what came out; owned */
    cost_store store; /* what was measured before */
    measure_sweep sweep;
    double begin, end; /* seconds */
    uint32_t at;       /* kernel in hand */
    run_shared shared;
    struct runner *runner; /* after a run of the model; NULL: none */
    bool has_shared;
    bool stopped;
    bool kernels_timed; /* those within regions, too: they may be chosen anew */
    char what[96];
    inlay_diag *diag;
};

/* What inlay_tune() does. */
INLAY_NODISCARD inlay_status tune_session(inlay_session *session, const inlay_tune_options *how,
                                          inlay_tune_result *out_result, inlay_diag *diag);
/* What is worth measuring, the most expensive first; graphs are priced. */
INLAY_NODISCARD inlay_status tune_find_kernels(struct tuning *tuning);
/* Times the assignment that the figures lead to beside the session's, and corrects or drops them where that is no
 * better. The list is sorted, before and after. */
INLAY_NODISCARD inlay_status tune_whole(struct tuning *tuning, const char *folder);
/* Prices the model again with what was measured, and tells which nodes would change their provider. */
INLAY_NODISCARD inlay_status tune_compare(struct tuning *tuning, const char *folder);
#endif
