/* quantize/evaluate.h - evaluates two models on the same samples: do they agree, and which one is faster? */
#ifndef QUANTIZE_EVALUATE_H
#define QUANTIZE_EVALUATE_H
#include "base/memory.h"
#include "quantize/metric.h"
#include "data/samples.h"
#include "timing/models.h"

/* Cached outputs of a reference model for each sample, so that it runs once instead of once for each candidate. */
typedef struct cached_outputs cached_outputs;

/* A model under evaluation: a session that stores nothing in the cache folder, and its context. {0} is closed. */
struct subject {
    inlay_session *session;
    inlay_context *context;
    cached_outputs *cached; /* NULL: outputs are not cached */
};

/* Copies the given options without cache and progress, and sets option `name` to `value` unless name is NULL. The
 * caller destroys the copy. */
INLAY_NODISCARD inlay_status evaluate_options(const inlay_options *given, const char *name, const char *value,
                                              inlay_options **out_options, inlay_diag *diag);
/* Copies the given options without cache and progress, and without the options of these names, a list that ends with
 * NULL. */
INLAY_NODISCARD inlay_status evaluate_options_without(const inlay_options *given, const char *const *names,
                                                      inlay_options **out_options, inlay_diag *diag);
/* Copies the given options for the original model and for models that are made from it. In the latter, sizes of option
 * dim may be fixed already, so each size applies only if the model still has the dimension. */
INLAY_NODISCARD inlay_status evaluate_options_of_both(const inlay_options *given, inlay_options **out_options,
                                                      inlay_diag *diag);
/* Opens the model at path. *out is closed after a failure. */
INLAY_NODISCARD inlay_status subject_open(const char *path, const inlay_options *options, struct subject *out,
                                          inlay_diag *diag);
void subject_close(struct subject *subject); /* {0} is a no-op */
/* Drops the pages of the model's file that runs have read, until they are read again. This matters for embedding
 * tables, because each sample reads other rows of a table. */
void subject_trim(const struct subject *subject);
/* Closes session and context and frees their memory; cached outputs are kept. */
void subject_unload(struct subject *subject);
/* Opens session and context again; no-op while they are open. */
INLAY_NODISCARD inlay_status subject_reopen(struct subject *subject, const char *path, const inlay_options *options,
                                            inlay_diag *diag);
/* From now on evaluate_agreement() caches the outputs of each sample of the set, in an unnamed file of the folder, up
 * to 4 GiB in all. Outputs that are already cached are kept. */
INLAY_NODISCARD inlay_status subject_cache_outputs(struct subject *subject, const struct samples *set, const char *dir,
                                                   inlay_diag *diag);

/* The agreement that is asked for. */
typedef struct agree_demand {
    agree_metric metric; /* may be auto */
    double goal;
    bool sure; /* the goal is the default: that of the metric of each output */
} agree_demand;

/* How well the outputs agree. */
struct verdict {
    agree_metric metric; /* of the output named below */
    agree_score score;   /* score of the output that agrees least, compared with its goal */
    char output[128];
    double error;    /* agree_distance() of the output with the largest distance */
    double relative; /* the largest agree_relative_error() of an output of floats */
    uint32_t samples;
};

/* The goal of a metric unless the user names one. auto: that of shares. */
double verdict_default_goal(agree_metric metric);
/* Is the agreement at least `goal` (kl: at most)? With `sure`, the default goal of the verdict's metric applies, and if
 * the score is the share of texts that agree, it must hold for unseen texts. The number of equal texts must show this
 * with 90 % confidence (all must be equal if the samples are too few for that), and the distance of all texts must fit
 * the goal (AGREE_TEXT_DIFFERS). */
bool verdict_holds(const struct verdict *verdict, double goal, bool sure);
/* "with WHAT, output 'y' agrees to 0.97 (text, 95 %: 0.91 to 0.99) only", allocated from the arena; NULL: out of
 * memory. */
const char *verdict_describe(const struct verdict *verdict, const char *what, struct arena *arena);

/* Runs both models on at most `most` samples (0: all) and compares each output. A cancelled run is INLAY_CANCELLED. */
INLAY_NODISCARD inlay_status evaluate_agreement(const struct samples *set, uint32_t most, const agree_demand *demand,
                                                const struct subject *want, const struct subject *got,
                                                struct verdict *out, inlay_diag *diag);
/* evaluate_agreement() on `count` samples: the samples that `which` lists or, if it is NULL, the first samples.
 * distances, [count] or NULL, receives the largest output distance of each sample. */
INLAY_NODISCARD inlay_status evaluate_subset(const struct samples *set, const uint32_t *which, uint32_t count,
                                             const agree_demand *demand, const struct subject *want,
                                             const struct subject *got, struct verdict *out, double *distances,
                                             inlay_diag *diag);
/* AGREE_text if the only output holds rows of probabilities for a CTC decoder: blank symbol 0 is the most probable one
 * of more than a quarter of the rows, but not of all. Otherwise AGREE_auto. */
INLAY_NODISCARD inlay_status evaluate_metric(const struct samples *set, const struct subject *subject,
                                             agree_metric *out, inlay_diag *diag);
/* Times one run of each model on the first sample, in milliseconds: see timing_models(). */
INLAY_NODISCARD inlay_status evaluate_time(const struct samples *set, const struct subject *a, const struct subject *b,
                                           double budget_s, double *out_a_ms, double *out_b_ms, inlay_diag *diag);
/* Times one run on the first sample in milliseconds (lower quartile), in a session that is opened and closed here. No
 * other session occupies caches or memory, as when a user runs the model. */
INLAY_NODISCARD inlay_status evaluate_time_alone(const struct samples *set, const char *path,
                                                 const inlay_options *options, double budget_s, double *out_ms,
                                                 inlay_diag *diag);
/* Describes a tensor in host memory as a view; false: the value is not a tensor in host memory. */
bool evaluate_view(const inlay_value *value, inlay_tensor_view *out);
#endif
