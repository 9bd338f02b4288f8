/* quantize/agree.h - how well two models agree: errors and scores, gathered output by output over many samples.
 *
 * Memory does not grow with the samples. Not thread-safe. */
#ifndef QUANTIZE_AGREE_H
#define QUANTIZE_AGREE_H
#include "graph/graph.h"

/* METRIC(name, text): scores of one sample. All but kl and psnr are shares from 0 to 1; of kl less is better. */
#define AGREE_METRICS(METRIC)                                                                                          \
    METRIC(top1, "rows along the last axis whose largest element is the same one")                                     \
    METRIC(cosine, "cosine of the angle between the two")                                                              \
    METRIC(kl, "Kullback-Leibler divergence in nats a row, of softmax where rows are no probabilities")                \
    METRIC(psnr, "peak signal to noise ratio in dB")                                                                   \
    METRIC(iou, "elements above 0.5 in both, of those above 0.5 in one")                                               \
    METRIC(text, "samples of which the most probable symbols, repeats and symbol 0 left out, are the same")
typedef enum agree_metric {
    AGREE_auto = 0, /* by the operator that makes the output, see agree_metric_of() */
#define AGREE_ENUM(name, text) AGREE_##name,
    AGREE_METRICS(AGREE_ENUM)
#undef AGREE_ENUM
        AGREE_METRIC_COUNT,
    AGREE_custom /* see agree_add_score() */
} agree_metric;

const char *agree_metric_name(agree_metric metric);
/* The metric of that name ("auto" among them); AGREE_METRIC_COUNT: there is none. */
agree_metric agree_metric_find(const char *name);
/* What suits an output of a graph: top1 for what Softmax or a product with weights makes, iou for what Sigmoid makes,
 * otherwise cosine. output is an index into graph->outputs. */
agree_metric agree_metric_of(const struct graph *graph, uint32_t output);

/* What was seen of one output. {.metric = ...} is a beginning; metric must not be auto. */
struct agree {
    agree_metric metric;
    uint64_t samples;
    uint64_t elements;
    uint64_t broken; /* elements that are a number in one alone */
    double max_error;
    double error_squares, want_squares; /* sums */
    double dot, got_squares;
    uint64_t rows, rows_same;    /* top-1; rows of one element are none */
    double divergence;           /* of kl and top1: sum over rows; of text: over samples, see agree_off() */
    double score, score_squares; /* sums over samples */
    uint64_t scored;             /* samples, of top1 rows */
};

/* Adds a sample. want and got are tensors of numbers; different shapes or strings are INLAY_SHAPE_MISMATCH with a
 * sentence that does not name the output. */
INLAY_NODISCARD inlay_status agree_add(struct agree *agree, const inlay_tensor_view *want, const inlay_tensor_view *got,
                                       inlay_diag *diag);

/* Adds a sample of which somebody else says the score; metric is AGREE_custom. */
void agree_add_score(struct agree *agree, double score);

/* The score so far and an interval that holds that of all such samples with 95 % (Wilson's for shares, the normal one
 * for means). */
typedef struct agree_score {
    double value, low, high;
} agree_score;
agree_score agree_result(const struct agree *agree);
/* What a text that differs adds to the square of agree_off(), at least: the other text is then as probable as the one
 * that was wanted, to which the logarithm of 2 belongs. Texts that nearly differ add to it, too, so that few samples
 * tell more by it than by the number of texts. */
#define AGREE_TEXT_DIFFERS (1 / 3.0)
/* The share of so many samples as one-sided 90 % of confidence bound it from below. */
double agree_share_bound(double share, uint64_t samples);
/* Is the score at least (of kl: at most) bound? */
bool agree_holds(agree_metric metric, double value, double bound);
double agree_cosine(const struct agree *agree); /* over all samples together */
double agree_rms(const struct agree *agree);    /* of the error */
/* How far the two are from each other, whatever the score says: a number that grows with the square root of what is
 * added. Of rows of probabilities the root of their mean divergence; of text of the mean square of the
 * difference that the text's probability has (its logarithm, bounded by 1); otherwise agree_relative(). */
double agree_off(const struct agree *agree);
double agree_relative(const struct agree *agree); /* root of error_squares / want_squares; 0 when both are 0 */
#endif
