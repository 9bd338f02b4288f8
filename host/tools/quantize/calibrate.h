/* quantize/calibrate.h - the ranges of activations, found by runs of the float model.
 *
 * Two passes over the samples: smallest and largest first, then a histogram between them. What is kept is one histogram
 * a tensor, whatever the number of samples. */
#ifndef QUANTIZE_CALIBRATE_H
#define QUANTIZE_CALIBRATE_H
#include "quantize/judge.h"

enum { CALIBRATE_BINS = 2048 };

/* What is to be watched. */
typedef struct calibrate_value {
    const char *name;
    int axis; /* that has channels: 1, or -1 for the last; 0: their means are not asked for */
} calibrate_value;

typedef struct tensor_range {
    const char *name;     /* of the value */
    float low, high;      /* of all finite elements; low > high: there was none */
    uint64_t broken;      /* elements that were NaN or infinite */
    uint64_t *bins;       /* [CALIBRATE_BINS] between low and high; NULL before the second pass */
    uint64_t count;       /* elements in bins */
    int axis;             /* see calibrate_value */
    int64_t channels;     /* along it; 0: it has none, or not always as many */
    double *means;        /* [channels] of finite elements, after the second pass; NULL: there are none */
    uint64_t per_channel; /* elements of each */
} tensor_range;

struct calibration {
    struct arena arena;
    tensor_range *ranges; /* [count] */
    uint32_t count;
};

/* Runs the model at path on all samples. Values are those of its main graph, or inputs. progress as of quantize_args.
 * INLAY_INVALID_ARGUMENT: a value is no float tensor. End *out with calibration_end(), also after a failure. */
INLAY_NODISCARD inlay_status calibrate(const char *path, const inlay_options *options, const struct samples *set,
                                       const calibrate_value *values, uint32_t count,
                                       int (*progress)(void *user, double fraction, const char *what), void *user,
                                       struct calibration *out, inlay_diag *diag);
void calibration_end(struct calibration *calibration);

/* The range that a method gives; low <= 0 <= high. percentile is the share of elements inside, 0.99999 for instance. */
void calibrate_minmax(const tensor_range *range, float *low, float *high);
void calibrate_percentile(const tensor_range *range, double percentile, float *low, float *high);
void calibrate_entropy(const tensor_range *range, float *low, float *high); /* least Kullback-Leibler divergence */
void calibrate_mse(const tensor_range *range, float *low, float *high);     /* least squares of errors in 255 steps */
#endif
