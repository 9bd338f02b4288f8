/* dim_sums.h - sizes as sums of products, and their texts: what dims.c computes with. */
#ifndef INFER_DIM_SUMS_H
#define INFER_DIM_SUMS_H
#include "infer.h"

enum { MAX_TERMS = 12, MAX_ATOMS = 6, MAX_TEXT = 240 };

struct atom {
    const char *text;
    size_t bytes;
};

/* factor * atoms[0] * ... * atoms[count - 1], the atoms sorted; none for the constant */
struct term {
    int64_t factor;
    struct atom atoms[MAX_ATOMS];
    uint32_t count;
};

/* A sum of terms that differ in their atoms, none with factor 0, sorted, the constant last. */
struct sum {
    struct term terms[MAX_TERMS];
    uint32_t count;
};

/* A text under construction. */
typedef struct dim_text {
    char data[MAX_TEXT + 1];
    size_t bytes;
    bool full;
} dim_text;

/* Adds a term and keeps the form; false when there is no room or a factor overflows. */
bool sum_add(struct sum *sum, const struct term *term);
/* a * b; false when it has too many atoms, or its factor overflows. out may be neither. */
bool term_multiply(const struct term *a, const struct term *b, struct term *out);
/* a / b when it leaves no rest. */
bool term_divide(const struct term *a, const struct term *b, struct term *out);
/* Writing: what does not fit makes the text full, and then nothing of it counts. */
void text_put(dim_text *text, const char *data, size_t bytes);
void text_put_string(dim_text *text, const char *data);
void text_put_sum(dim_text *text, const struct sum *sum);
/* The sum that a text says; its atoms stay in the text. False: it says none. */
bool sum_read(const char *at, struct sum *out);
/* The sum that a text says, with numbers for the names that size() knows (not below 0). False: it says none, or a
 * number becomes too large. */
bool sum_read_with(const char *text, int64_t (*size)(void *ctx, const char *name, size_t bytes), void *ctx,
                   struct sum *out);
/* What a sum of numbers comes to; -1: names are left in it, or it is below 0. */
int64_t sum_value(const struct sum *sum);
/* The sum that a dim stands for; opaque names are bracketed in scratch. False: not to be expressed. */
bool sum_of(const op_infer *infer, inlay_dim dim, dim_text *scratch, struct sum *out);
/* The dim of a sum; unknown when its text would be too long. */
inlay_dim dim_of(op_infer *infer, const struct sum *sum);
#endif
