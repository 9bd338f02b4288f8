/* quantize/search.h - searches for the values and layers to compute with integers, and for their ranges, by running
 * candidates.
 *
 * Placements are timed first, because ranges do not change the time. For those that are faster than the float model,
 * the ranges of each method are evaluated. If none agrees enough, layers go back to floats: the smallest set, from the
 * ranking of layers by harm, with which the agreement holds. */
#ifndef QUANTIZE_SEARCH_H
#define QUANTIZE_SEARCH_H
#include "quantize/base.h"
#include "quantize/low_bit.h"
#include "data/scratch.h"
#include <limits.h>

/* A model that was run on samples and timed. */
typedef struct search_point {
    const char *what;
    double ms;
    struct verdict agreement;
    bool chosen;
} search_point;
enum { SEARCH_MOST_POINTS = 64 };

typedef struct search_result {
    layer_list list;          /* of a model that was freed: only names and counts are valid; memory is the arena's */
    layer_form *forms;        /* [list.count] */
    const char *what;         /* "integers (mse ranges, all values), 3 layers put back" */
    const char *failed;       /* why every candidate was rejected, or NULL */
    struct verdict agreement; /* of the best candidate */
    double ms_before, ms_after;
    char path[PATH_MAX];       /* of the best candidate */
    const char **names, **ops; /* [list.count] */
    search_point *points;      /* [point_count] */
    uint32_t point_count;
} search_result;

/* Candidates are stored in the scratch folder. before is the original model, open only while it is run. Memory of the
 * result is the arena's. */
INLAY_NODISCARD inlay_status search_integers(const quantize_args *args, const struct scratch *scratch,
                                             struct subject *before, struct arena *arena, search_result *out,
                                             inlay_diag *diag);
#endif
