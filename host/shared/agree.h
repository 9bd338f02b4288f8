/* shared/agree.h - how well two models agree: errors and scores of each output, accumulated over samples.
 *
 * Memory does not grow with the number of samples. Not thread-safe. */
#ifndef SHARED_AGREE_H
#define SHARED_AGREE_H
#include "inlay/types.h"
#include <stdbool.h>

/* METRIC(name, text): scores of one sample. All but kl and psnr are shares from 0 to 1; for kl less is better. A sample
 * for which a metric is not defined has no score: rows of one element for top1, kl and text, no element above 0.5 for
 * iou. */
#define AGREE_METRICS(METRIC)                                                                                          \
    METRIC(top1, "rows along the last axis with the same largest element")                                             \
    METRIC(cosine, "cosine of the angle between the two outputs")                                                      \
    METRIC(kl, "Kullback-Leibler divergence in nats per row; softmax is applied to rows that are not probabilities")   \
    METRIC(psnr, "peak signal to noise ratio in dB")                                                                   \
    METRIC(iou, "elements above 0.5 in both, as a share of those above 0.5 in either")                                 \
    METRIC(text, "samples with the same most probable symbols, repeats and symbol 0 removed")                          \
    METRIC(relative, "1 - relative error: of all samples together, or the mean of the samples, whichever is larger")   \
    METRIC(equal, "elements that are equal")
typedef enum agree_metric {
    AGREE_auto = 0, /* chosen by the operator that produces the output, see quantize/metric.h */
#define AGREE_ENUM(name, text) AGREE_##name,
    AGREE_METRICS(AGREE_ENUM)
#undef AGREE_ENUM
        AGREE_METRIC_COUNT,
    AGREE_custom /* see agree_add_score() */
} agree_metric;

const char *agree_metric_name(agree_metric metric);
/* The metric of that name, "auto" included; AGREE_METRIC_COUNT: no such metric. */
agree_metric agree_metric_find(const char *name);

/* Sums over the samples of one output. Start with {.metric = ...}; metric must not be auto. */
struct agree {
    agree_metric metric;
    uint64_t samples;
    uint64_t elements;
    uint64_t broken; /* elements that are finite in only one of the two outputs */
    double max_error;
    double error_squares, want_squares; /* sums */
    double dot, got_squares;
    uint64_t rows, rows_same;          /* for top-1; rows of one element are not counted */
    uint64_t same;                     /* equal elements */
    double relative, relative_squares; /* sums of the samples' relative errors, of at most 1 each */
    uint64_t relative_samples;         /* those with elements; not those of zeros alone in which the other differs */
    double divergence;                 /* kl and top1: sum over rows; text: sum over samples, see agree_distance() */
    double score, score_squares;       /* sums over samples */
    uint64_t scored;                   /* samples; rows for top1 */
};

/* Adds a sample. want and got are tensors of numbers; of texts only for the metric equal. Different shapes, and texts
 * for another metric, are INLAY_SHAPE_MISMATCH; the message does not name the output. */
INLAY_NODISCARD inlay_status agree_add(struct agree *agree, const inlay_tensor_view *want, const inlay_tensor_view *got,
                                       inlay_diag *diag);

/* Adds the samples of another comparison with the same metric. */
void agree_merge(struct agree *into, const struct agree *from);

/* Adds a sample whose score the caller computed; metric is AGREE_custom. */
void agree_add_score(struct agree *agree, double score);

/* The score so far, with its 95 % confidence interval (Wilson's for shares, the normal one for means). */
typedef struct agree_score {
    double value, low, high;
} agree_score;
agree_score agree_result(const struct agree *agree);
/* The metric of this score: `relative` if no sample has a score of the chosen one. */
agree_metric agree_used(const struct agree *agree);
/* Was anything compared? Otherwise the score is 0. */
bool agree_any(const struct agree *agree);
/* The least that a differing text adds to the square of agree_distance(). (A text that differs is at least as probable
 * as the expected one, so the log probabilities differ by at least log 2.) Texts that are equal but less probable
 * contribute as well, so that a few samples tell more by this measure than by the number of equal texts. */
#define AGREE_TEXT_DIFFERS (1 / 3.0)
/* One-sided 90 % lower confidence bound of a share observed on `samples` samples. */
double agree_share_bound(double share, uint64_t samples);
/* Is the score at least `bound` (kl: at most)? */
bool agree_holds(agree_metric metric, double value, double bound);
double agree_cosine(const struct agree *agree); /* over all samples together */
double agree_rms(const struct agree *agree);    /* of the error */
/* Distance between the outputs of the two models, independent of the score; it grows with the square root of the
 * accumulated errors. For rows of probabilities it is the root of their mean divergence; for text the root mean square
 * of the difference of the text's log probability, bounded by 1; otherwise agree_relative(). */
double agree_distance(const struct agree *agree);
/* Root of error_squares / want_squares; 0 when both are 0, infinite when an element is finite in only one output. */
double agree_relative(const struct agree *agree);
/* The relative error that metric `relative` judges: agree_relative(), or the mean of the samples if it is larger, so
 * that samples of large values do not hide the others. */
double agree_relative_error(const struct agree *agree);
#endif
