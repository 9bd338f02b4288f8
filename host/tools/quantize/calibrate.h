/* quantize/calibrate.h - calibration: finds the ranges of activations by running the float model.
 *
 * Two passes over the samples: the first finds minimum and maximum, the second fills a histogram between them. Memory
 * is one histogram for each tensor, independent of the number of samples. */
#ifndef QUANTIZE_CALIBRATE_H
#define QUANTIZE_CALIBRATE_H
#include "quantize/evaluate.h"

enum { CALIBRATE_BINS = 2048 };

/* A value to calibrate. */
typedef struct calibrate_value {
    const char *name;
    int axis; /* channel axis: 1, or -1 for the last; 0: no channel means */
} calibrate_value;

typedef struct tensor_range {
    const char *name;     /* name of the value */
    float low, high;      /* minimum and maximum of all finite elements; low > high: there were none */
    uint64_t broken;      /* number of NaN and infinite elements */
    uint64_t *bins;       /* [CALIBRATE_BINS] between low and high; NULL before the second pass */
    uint64_t count;       /* elements in bins */
    int axis;             /* see calibrate_value */
    int64_t channels;     /* channels along the axis; 0: no such axis, or the number varies between samples */
    double *means;        /* [channels] means of finite elements, after the second pass; NULL: none */
    uint64_t per_channel; /* elements of each channel */
} tensor_range;

struct calibration {
    struct arena arena;
    tensor_range *ranges; /* [count] */
    uint32_t count;
};

/* Runs the model at path on all samples. The values are inputs or values of its main graph. progress: see
 * quantize_args. INLAY_INVALID_ARGUMENT: a value is not a float tensor. End *out with calibration_end(), also after a
 * failure. */
INLAY_NODISCARD inlay_status calibrate(const char *path, const inlay_options *options, const struct samples *set,
                                       const calibrate_value *values, uint32_t count,
                                       int (*progress)(void *user, double fraction, const char *what), void *user,
                                       struct calibration *out, inlay_diag *diag);
void calibration_end(struct calibration *calibration);

/* The range by one method; low <= 0 <= high. percentile is the share of elements inside, for example 0.99999. */
void calibrate_minmax(const tensor_range *range, float *low, float *high);
void calibrate_percentile(const tensor_range *range, double percentile, float *low, float *high);
void calibrate_entropy(const tensor_range *range, float *low, float *high); /* smallest Kullback-Leibler divergence */
void calibrate_mse(const tensor_range *range, float *low, float *high);     /* smallest squared error with 255 steps */
#endif
