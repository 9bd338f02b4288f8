/* data.h - generates inputs and weights that stress float arithmetic, from a seed. */
#ifndef NUMERIC_DATA_H
#define NUMERIC_DATA_H
#include <stdbool.h>
#include <stdint.h>

/* The position of an element. Tensors are [outer][channels][inner]. Of a GEMM, outer are the rows of the first operand,
 * with one inner element each, and inner are the columns of the second operand. Of a convolution, inner are the pixels
 * and the filter taps. The terms of a result differ in channel and, in convolutions, in inner. */
typedef struct nm_place {
    uint64_t seed; /* of the tensor */
    int64_t outer;
    int64_t channel; /* within its group */
    int64_t inner;
} nm_place;

typedef struct nm_kind {
    const char *name;
    double (*input)(nm_place position);
    double (*weight)(nm_place position);
    bool integers; /* all sums are exact in float */
} nm_kind;

extern const nm_kind nm_kinds[];
extern const uint32_t nm_kind_count;

/* Returns noise in [-1, 1). */
double nm_noise(nm_place position);
#endif
