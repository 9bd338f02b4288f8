/* ops/infer/dim_sums.h - sizes as sums of products, and their texts. dims.c computes with them. */
#ifndef INFER_DIM_SUMS_H
#define INFER_DIM_SUMS_H
#include "infer.h"

enum { MAX_TERMS = 12, MAX_ATOMS = 6, MAX_TEXT = 240 };

struct atom {
    const char *text;
    size_t bytes;
};

/* factor * atoms[0] * ... * atoms[count - 1]. The atoms are sorted; a constant has none. */
struct term {
    int64_t factor;
    struct atom atoms[MAX_ATOMS];
    uint32_t count;
};

/* A sum of terms with different atoms. No factor is 0; the terms are sorted, with the constant last. */
struct sum {
    struct term terms[MAX_TERMS];
    uint32_t count;
};

/* A text under construction. `full`: something did not fit, so the text must not be used. */
typedef struct dim_text {
    char data[MAX_TEXT + 1];
    size_t bytes;
    bool full;
} dim_text;

/* Adds a term at its sorted position; false if there are too many terms or a factor overflows. */
bool sum_add(struct sum *sum, const struct term *term);
/* a * b; false if the product has too many atoms or its factor overflows. out must be another term. */
bool term_multiply(const struct term *a, const struct term *b, struct term *out);
/* a / b; false if there is a remainder. out must be another term. */
bool term_divide(const struct term *a, const struct term *b, struct term *out);
/* Append to a text; `full` is set if something does not fit. */
void text_append(dim_text *text, const char *data, size_t bytes);
void text_append_string(dim_text *text, const char *data);
void text_append_sum(dim_text *text, const struct sum *sum);
/* Parses a sum; its atoms point into the text. False if the text is not a sum, or if it names nothing, as "7". */
bool sum_read(const char *at, struct sum *out);
/* Parses a sum and replaces names by their sizes. size() returns the size of a name, or a negative number if the name
 * stays. False if the text is not a sum, or if a number overflows. */
bool sum_read_with(const char *text, int64_t (*size)(void *ctx, const char *name, size_t bytes), void *ctx,
                   struct sum *out);
/* The value of a sum without names; -1 if it has names or is negative. */
int64_t sum_value(const struct sum *sum);
/* The sum for a dimension; opaque names are written in brackets to scratch. False if the dimension is unknown or too
 * long for a sum. */
bool sum_from_dim(const op_infer *infer, inlay_dim dim, dim_text *scratch, struct sum *out);
/* The dimension for a sum; unknown if its text would be too long. */
inlay_dim dim_from_sum(op_infer *infer, const struct sum *sum);
#endif
