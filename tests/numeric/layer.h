/* layer.h - a convolution or a product with what is behind it, as a model and as sums in double.
 *
 * The error of a result is measured beside the sum of the magnitudes of its own terms, |A| |B|. */
#ifndef NUMERIC_LAYER_H
#define NUMERIC_LAYER_H
#include "data.h"
#include "rig.h"

typedef enum nm_ending { NM_NONE, NM_BIAS_RELU, NM_RESIDUAL } nm_ending;

/* x: [images, in, height, width] and w: [out, in / group, kernel, kernel]; a product has x: [images, height, in] and w:
 * [in, out], or [images, in, out] if it is an input, too. */
typedef struct nm_layer {
    const char *name;
    bool product, computed; /* w is an input */
    bool turned;            /* Gemm with transB */
    int64_t images, in, out, height, width;
    int64_t kernel, stride, dilation, pad, group; /* of a convolution */
    nm_ending ending;
    int64_t copies; /* x comes from a convolution that copies it, with so many groups: in a layout of its choice */
} nm_layer;

/* A layer with data. */
typedef struct nm_case {
    const nm_layer *layer;
    const nm_kind *kind;
    int64_t terms, x_count, w_count, y_count, y_height, y_width;
    float *input, *weights, *bias, *other; /* bias: [out], other: as y */
    double *exact, *sizes;                 /* [y_count] results, and the magnitudes of their terms */
    double plain;                          /* the largest error of a float sum, beside the sizes */
} nm_case;

/* Draws the data and sums it up. Deinit it. */
void nm_case_init(nm_case *c, const nm_layer *layer, const nm_kind *kind);
void nm_case_deinit(nm_case *c);

/* The model, with inputs x, wire if computed, other if there is one. */
void nm_case_model(const nm_case *c, struct wire *wire);
void nm_case_feed(const nm_case *c, struct rig *rig);

/* The worst error of results output, beside what `factor` * eps * sqrt(terms) or four times a plain sum's allow: at
 * most 1 where they are right. Integers that are not exact are infinitely wrong. */
double nm_case_error(const nm_case *c, const float *output, double factor);
#endif
