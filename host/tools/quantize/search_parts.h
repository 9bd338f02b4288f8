/* quantize/search_parts.h - declarations shared by search*.c; private to them. */
#ifndef QUANTIZE_SEARCH_PARTS_H
#define QUANTIZE_SEARCH_PARTS_H
#include "base/memory.h"
#include "quantize/calibrate.h"
#include "quantize/qdq.h"
#include "quantize/search.h"
#include "quantize/stats.h"

/* A method that computes ranges from histograms. */
typedef struct search_method {
    const char *name;
    quantize_method kind;
    double percentile;
} search_method;
enum { SEARCH_METHODS = 6 };
extern const search_method search_methods[SEARCH_METHODS];

/* One candidate model. */
struct candidate {
    qdq_placement placement;
    const uint8_t *method;   /* [ranges] index into search_methods for each value */
    const bool *stays_float; /* [layers] true: stays float; or NULL */
    bool corrects_bias;      /* see qdq_options */
};

struct search {
    const quantize_args *args;
    const struct scratch *scratch;
    struct subject *before; /* unloaded while other models with float weights are run */
    inlay_options *plain;
    char base[PATH_MAX];
    struct calibration calibration;
    uint32_t layer_count;
    uint32_t *input_ranges; /* [layers] index of the range of each layer's input; INLAY_NONE: it has none */
    struct stats *known;    /* see quantize_args.stats; or NULL */
    uint32_t compared;      /* number of samples for each candidate */
    uint32_t *subset;       /* [subset_count] most informative samples, see search_select_subset(); NULL before */
    uint32_t subset_count;
    struct arena *arena;
    search_result *out;
    uint32_t tried;
    double done; /* progress, 0 to 1 */
    inlay_diag *diag;
};

/* Opens the original model and caches its outputs from then on. */
INLAY_NODISCARD inlay_status search_reopen_original(struct search *search);

/* The range of value i by a method of search_methods. */
qdq_range search_range(const struct search *search, uint32_t i, uint32_t method);
/* Writes the candidate to the scratch folder; keep: as the current result. path is [PATH_MAX]. */
INLAY_NODISCARD inlay_status search_build(struct search *search, const struct candidate *candidate, bool keep,
                                          char *path);
/* Builds the candidate, evaluates its agreement on at most `most_samples` samples (SEARCH_SUBSET: on the informative
 * subset, or the first few) and times a run. out and ms may be NULL. */
enum { SEARCH_SUBSET = 0x7fffffff };
INLAY_NODISCARD inlay_status search_attempt(struct search *search, const struct candidate *candidate,
                                            uint32_t most_samples, struct verdict *out, double ms[2]);
/* Selects the samples with the largest errors of the candidate, and as many others: a small subset that ranks ranges
 * and layers as all samples would. search_attempt() uses it from then on. */
INLAY_NODISCARD inlay_status search_select_subset(struct search *search, const struct candidate *candidate);
/* Does the verdict reach the goal? search_is_good() also demands a margin, because choices made on the samples fit
 * other data less. */
bool search_is_good(const struct search *search, const struct verdict *verdict);
bool search_holds(const struct search *search, const struct verdict *verdict);
/* "the inputs of layers, ranges by mse" */
const char *search_describe(const struct search *search, const struct candidate *candidate);
/* Number of layers that the candidate deliberately keeps as floats. */
uint32_t search_count_floats(const struct search *search, const struct candidate *candidate);

/* Records a candidate for the report; false: out of memory. */
bool search_note_point(struct search *search, const char *what, const struct verdict *verdict, double ms);

/* Finds the best method for all values together, and whether bias correction helps; candidate->method is allocated from
 * the search's arena. */
INLAY_NODISCARD inlay_status search_ranges(struct search *search, struct candidate *candidate, struct verdict *out);

/* Quantizes the embedding tables of the result to 8 bits where the agreement holds and runs do not get slower. */
INLAY_NODISCARD inlay_status search_tables(struct search *search);

/* Cost in agreement and gain in time of a layer with integers. */
typedef struct layer_cost {
    uint32_t layer;
    double error;   /* of the outputs when only this layer has integers */
    double gain_ns; /* nanoseconds of a run; > 0 */
} layer_cost;

struct ranking {
    layer_cost *items; /* [count], layers that should become floats first */
    uint32_t count;
};

/* Evaluates each layer of the candidate alone. */
INLAY_NODISCARD inlay_status search_rank(struct search *search, const struct candidate *candidate, struct ranking *out);
/* Chooses the method for the inputs of the layers at the front of the ranking one by one, by the output error of the
 * whole model. candidate->method is replaced if that reduces the error clearly. */
INLAY_NODISCARD inlay_status search_refine_ranges(struct search *search, const struct ranking *ranking,
                                                  struct candidate *candidate);
/* Keeps as few layers from the front of the ranking in float as the agreement allows; then tries those with the largest
 * gain as integers again. candidate->stays_float is new memory. */
INLAY_NODISCARD inlay_status search_choose_floats(struct search *search, const struct ranking *ranking,
                                                  struct candidate *candidate);
/* Runs and times candidates with growing shares of the ranking in float: points of the report. */
INLAY_NODISCARD inlay_status search_pareto(struct search *search, const struct ranking *ranking,
                                           const struct candidate *candidate);
/* Keeps a few more layers in float; false: all are floats already. */
bool search_add_floats(const struct search *search, const struct ranking *ranking, struct candidate *candidate);
#endif
