/* quantize/search_parts.h - what the files of the search share; private to search*.c. */
#ifndef QUANTIZE_SEARCH_PARTS_H
#define QUANTIZE_SEARCH_PARTS_H
#include "base/memory.h"
#include "quantize/calibrate.h"
#include "quantize/qdq.h"
#include "quantize/search.h"
#include "quantize/stats.h"

/* How ranges come from histograms. */
typedef struct search_method {
    const char *name;
    quantize_method kind;
    double percentile;
} search_method;
enum { SEARCH_METHODS = 6 };
extern const search_method search_methods[SEARCH_METHODS];

/* One model to try. */
typedef struct candidate {
    qdq_placement placement;
    const uint8_t *method; /* [ranges] of each value */
    const bool *stays;     /* [layers] that are floats, or NULL */
    bool corrects;         /* see qdq_how */
} candidate;

typedef struct search {
    const quantize_args *args;
    const scratch *scratch;
    subject *before; /* rests while other models with weights of floats are run */
    inlay_options *plain;
    char base[PATH_MAX];
    calibration c;
    uint32_t layer_count;
    uint32_t *reads;   /* [layers] the range of what each reads; INLAY_NONE: it has none */
    stats *known;      /* see quantize_args.stats; or NULL */
    uint32_t compared; /* samples that a candidate is run on */
    uint32_t *telling; /* [telling_count] samples that tell most, see search_find_telling(); NULL before */
    uint32_t telling_count;
    arena *a;
    search_result *out;
    uint32_t tried;
    double done; /* for the progress */
    inlay_diag *diag;
} search;

/* Opens the model as it is, with its outputs kept from then on. */
INLAY_NODISCARD inlay_status search_wake(search *x);

/* The range of value i by a method. */
qdq_range search_range(const search *x, uint32_t i, uint32_t method);
/* Writes the candidate; keep: it is the one that the result is about. path is [PATH_MAX]. */
INLAY_NODISCARD inlay_status search_build(search *x, const candidate *c, bool keep, char *path);
/* Builds it, and says how well it agrees on as many samples (SEARCH_TELLING: on those that tell most, or the first
 * few), and what a run takes: out and ms may be NULL. */
enum { SEARCH_TELLING = 0x7fffffff };
INLAY_NODISCARD inlay_status search_attempt(search *x, const candidate *c, uint32_t most_samples, verdict *out,
                                            double ms[2]);
/* Finds the samples on which the candidate is off most, and as many others: few that tell of ranges and layers what all
 * of them would. From then on search_attempt() knows them. */
INLAY_NODISCARD inlay_status search_find_telling(search *x, const candidate *c);
/* Does the agreement hold? While sets are chosen, with some room: what suits the samples suits others less. */
bool search_is_good(const search *x, const verdict *v);
bool search_holds(const search *x, const verdict *v);
/* "the inputs of layers, ranges by mse" */
const char *search_describe(const search *x, const candidate *c);
/* Layers that are floats in the candidate though they need not be. */
uint32_t search_floats(const search *x, const candidate *c);

/* Keeps what was seen of a candidate for the report; false: no memory. */
bool search_note_point(search *x, const char *what, const verdict *v, double ms);

/* ------------------------------------------------------------------ search_ranges.c */

/* The method that suits all values best, and whether corrected biases do; c->method is new memory, the search's. */
INLAY_NODISCARD inlay_status search_ranges(search *x, candidate *c, verdict *out);
/* ------------------------------------------------------------------ search_tables.c */

/* Tables of the result in bytes, where the agreement holds with them and no run takes longer. */
INLAY_NODISCARD inlay_status search_tables(search *x);

/* ------------------------------------------------------------------ search_layers.c */

/* What a layer with integers costs in agreement, and brings in time. */
typedef struct layer_worth {
    uint32_t layer;
    double error;   /* of the outputs when it alone has integers */
    double gain_ns; /* of a run; more than 0 */
} layer_worth;

typedef struct ranking {
    layer_worth *items; /* [count], those that had better be floats first */
    uint32_t count;
} ranking;

/* Tries each layer of the candidate alone. */
INLAY_NODISCARD inlay_status search_rank(search *x, const candidate *c, ranking *out);
/* The ranges of what the layers at the front of the ranking read, each by the method with which the outputs of the
 * whole are off least. c->method is new memory where that is much less. */
INLAY_NODISCARD inlay_status search_refine(search *x, const ranking *r, candidate *c);
/* Makes floats of as few layers from the front of the ranking as the agreement takes; then those with the largest gain
 * are tried as integers again. c->stays is new memory. */
INLAY_NODISCARD inlay_status search_mix(search *x, const ranking *r, candidate *c);
/* Candidates with shares of the ranking as floats, run and timed: points of the report. */
INLAY_NODISCARD inlay_status search_front(search *x, const ranking *r, const candidate *c);
/* A few more of them; false: all are floats. */
bool search_mix_more(const search *x, const ranking *r, candidate *c);
#endif
