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
struct candidate {
    qdq_placement placement;
    const uint8_t *method; /* [ranges] of each value */
    const bool *stays;     /* [layers] that are floats, or NULL */
    bool corrects;         /* see qdq_how */
};

struct search {
    const quantize_args *args;
    const struct scratch *scratch;
    struct subject *before; /* rests while other models with weights of floats are run */
    inlay_options *plain;
    char base[PATH_MAX];
    struct calibration calibration;
    uint32_t layer_count;
    uint32_t *reads;     /* [layers] the range of what each reads; INLAY_NONE: it has none */
    struct stats *known; /* see quantize_args.stats; or NULL */
    uint32_t compared;   /* samples that a candidate is run on */
    uint32_t *telling;   /* [telling_count] samples that tell most, see search_find_telling(); NULL before */
    uint32_t telling_count;
    struct arena *arena;
    search_result *out;
    uint32_t tried;
    double done; /* for the progress */
    inlay_diag *diag;
};

/* Opens the model as it is, with its outputs kept from then on. */
INLAY_NODISCARD inlay_status search_wake(struct search *search);

/* The range of value i by a method. */
qdq_range search_range(const struct search *search, uint32_t i, uint32_t method);
/* Writes the candidate; keep: it is the one that the result is about. path is [PATH_MAX]. */
INLAY_NODISCARD inlay_status search_build(struct search *search, const struct candidate *candidate, bool keep,
                                          char *path);
/* Builds it, and says how well it agrees on as many samples (SEARCH_TELLING: on those that tell most, or the first
 * few), and what a run takes: out and ms may be NULL. */
enum { SEARCH_TELLING = 0x7fffffff };
INLAY_NODISCARD inlay_status search_attempt(struct search *search, const struct candidate *candidate,
                                            uint32_t most_samples, struct verdict *out, double ms[2]);
/* Finds the samples on which the candidate is off most, and as many others: few that tell of ranges and layers what all
 * of them would. From then on search_attempt() knows them. */
INLAY_NODISCARD inlay_status search_find_telling(struct search *search, const struct candidate *candidate);
/* Does the agreement hold? While sets are chosen, with some room: what suits the samples suits others less. */
bool search_is_good(const struct search *search, const struct verdict *verdict);
bool search_holds(const struct search *search, const struct verdict *verdict);
/* "the inputs of layers, ranges by mse" */
const char *search_describe(const struct search *search, const struct candidate *candidate);
/* Layers that are floats in the candidate though they need not be. */
uint32_t search_floats(const struct search *search, const struct candidate *candidate);

/* Keeps what was seen of a candidate for the report; false: no memory. */
bool search_note_point(struct search *search, const char *what, const struct verdict *verdict, double ms);

/* ------------------------------------------------------------------ search_ranges.c */

/* The method that suits all values best, and whether corrected biases do; candidate->method is new memory, the
 * search's. */
INLAY_NODISCARD inlay_status search_ranges(struct search *search, struct candidate *candidate, struct verdict *out);
/* ------------------------------------------------------------------ search_tables.c */

/* Tables of the result in bytes, where the agreement holds with them and no run takes longer. */
INLAY_NODISCARD inlay_status search_tables(struct search *search);

/* ------------------------------------------------------------------ search_layers.c */

/* What a layer with integers costs in agreement, and brings in time. */
typedef struct layer_worth {
    uint32_t layer;
    double error;   /* of the outputs when it alone has integers */
    double gain_ns; /* of a run; more than 0 */
} layer_worth;

struct ranking {
    layer_worth *items; /* [count], those that had better be floats first */
    uint32_t count;
};

/* Tries each layer of the candidate alone. */
INLAY_NODISCARD inlay_status search_rank(struct search *search, const struct candidate *candidate, struct ranking *out);
/* The ranges of what the layers at the front of the ranking read, each by the method with which the outputs of the
 * whole are off least. candidate->method is new memory where that is much less. */
INLAY_NODISCARD inlay_status search_refine(struct search *search, const struct ranking *ranking,
                                           struct candidate *candidate);
/* Makes floats of as few layers from the front of the ranking as the agreement takes; then those with the largest gain
 * are tried as integers again. candidate->stays is new memory. */
INLAY_NODISCARD inlay_status search_mix(struct search *search, const struct ranking *ranking,
                                        struct candidate *candidate);
/* Candidates with shares of the ranking as floats, run and timed: points of the report. */
INLAY_NODISCARD inlay_status search_front(struct search *search, const struct ranking *ranking,
                                          const struct candidate *candidate);
/* A few more of them; false: all are floats. */
bool search_mix_more(const struct search *search, const struct ranking *ranking, struct candidate *candidate);
#endif
