/* layer.h - a convolution or matrix multiplication with its epilogue, as a model and as sums in double.
 *
 * The error of a result is relative to the sum of the magnitudes of its terms, |A| |B|. */
#ifndef NUMERIC_LAYER_H
#define NUMERIC_LAYER_H
#include "data.h"
#include "rig.h"

typedef enum nm_ending { NM_NONE, NM_BIAS_RELU, NM_RESIDUAL } nm_ending;

/* Convolution: x [images, in, height, width], w [out, in / group, kernel, kernel]. Matrix multiplication: x [images,
 * height, in], w [in, out], or [images, in, out] if w is an input of the model. */
typedef struct nm_layer {
    const char *name;
    bool is_gemm;
    bool dynamic_weights; /* w is an input of the model */
    bool transposed;      /* Gemm with transB */
    int64_t images, in, out, height, width;
    int64_t kernel, stride, dilation, pad, group; /* of a convolution */
    nm_ending ending;
    int64_t
        copies; /* > 0: number of groups of a convolution before the layer that copies x into a layout of its choice */
} nm_layer;

/* A layer with data. */
typedef struct nm_case {
    const nm_layer *layer;
    const nm_kind *kind;
    int64_t terms, x_count, w_count, y_count, y_height, y_width;
    float *input, *weights, *bias, *other; /* bias: [out]; other: a residual with the shape of y */
    double *exact, *sizes;                 /* [y_count] results, and the sums of the magnitudes of their terms */
    double plain;                          /* the largest error of a plain float sum, relative to sizes */
} nm_case;

/* Generates the data and computes the sums. Call nm_case_deinit(). */
void nm_case_init(nm_case *test_case, const nm_layer *layer, const nm_kind *kind);
void nm_case_deinit(nm_case *test_case);

/* Writes the model, with the inputs x, w if dynamic_weights, and the residual if any. */
void nm_case_model(const nm_case *test_case, struct wire *wire);
void nm_case_feed(const nm_case *test_case, struct rig *rig);

/* The largest error of the results, relative to the bound: the larger of `factor` * eps * sqrt(terms) and four times
 * the error of a plain sum. At most 1 if they are correct; infinite for integers that are not exact. */
double nm_case_error(const nm_case *test_case, const float *output, double factor);
#endif
