/* data.h - inputs and weights that are hard on float arithmetic, from a seed. */
#ifndef NUMERIC_DATA_H
#define NUMERIC_DATA_H
#include <stdbool.h>
#include <stdint.h>

/* Where an element is. Tensors are [outer][channels][inner]: the rows of a product's first operand are outer ones of
 * one inner each, the columns of its second are inner ones; pixels and the taps of a window are inner ones. The terms
 * of a result differ in channel and, in windows, in inner. */
typedef struct nm_place {
    uint64_t seed; /* of the tensor */
    int64_t outer;
    int64_t channel; /* within its group */
    int64_t inner;
} nm_place;

typedef struct nm_kind {
    const char *name;
    double (*x)(nm_place at); /* an input */
    double (*w)(nm_place at); /* a weight */
    bool integers;            /* all sums are exact in float */
} nm_kind;

extern const nm_kind nm_kinds[];
extern const uint32_t nm_kind_count;

/* In [-1, 1). */
double nm_noise(nm_place at);
#endif
