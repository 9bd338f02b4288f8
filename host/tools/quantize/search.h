/* quantize/search.h - which values and layers become integers, and by which ranges: by what runs of the candidates say.
 *
 * Placements are timed first, for ranges do not change the time; of those that are faster than the float model, ranges
 * by each method are held beside it, and where none agrees enough, layers are put back to floats as a set: the fewest
 * of those that do most harm alone with which the agreement holds. */
#ifndef QUANTIZE_SEARCH_H
#define QUANTIZE_SEARCH_H
#include "quantize/base.h"
#include "quantize/narrow.h"
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
    layer_list list;          /* of a model that is gone: names and counts stay, memory is the arena's */
    layer_form *forms;        /* [list.count] */
    const char *what;         /* "integers (mse ranges, all values), 3 layers put back" */
    const char *failed;       /* why no candidate is good, or NULL */
    struct verdict agreement; /* of the best */
    double ms_before, ms_after;
    char path[PATH_MAX];       /* of the best */
    const char **names, **ops; /* [list.count] */
    search_point *points;      /* [point_count] */
    uint32_t point_count;
} search_result;

/* Candidates lie in the scratch folder; before is the model as it is, which is open only while it is run. Memory of the
 * result is a's. */
INLAY_NODISCARD inlay_status search_integers(const quantize_args *args, const struct scratch *scratch,
                                             struct subject *before, struct arena *arena, search_result *out,
                                             inlay_diag *diag);
#endif
