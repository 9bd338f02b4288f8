/* modelkit/diff.h - the differences between two models: lines that only one has, in order, and the numerical
 * differences of weights. */
#ifndef MODELKIT_DIFF_H
#define MODELKIT_DIFF_H
#include "modelkit/lines.h"

typedef enum diff_side { DIFF_BOTH, DIFF_A, DIFF_B } diff_side;

typedef struct diff_line {
    diff_side side;
    const char *text;
} diff_line;

/* A part of the models with all its lines; `changed` counts the lines that only one side has. */
typedef struct diff_part {
    const char *title;
    diff_line *lines;
    uint32_t count, changed;
} diff_part;

/* A constant of the main graph that both models have with the same type and shape, but with different elements. */
typedef struct diff_weight {
    const char *name;
    int64_t elements, differing;
    double largest;  /* largest difference; 0 for types that are not numbers */
    double relative; /* root of the sum of squared differences, relative to that of a's elements */
} diff_weight;

struct diff {
    struct arena arena;
    struct lines text[2];
    diff_part *parts;     /* [part_count] */
    diff_weight *weights; /* [weight_count] */
    uint32_t part_count, weight_count;
    uint64_t changed; /* changed lines of all parts */
};

/* Compares two models as loaded from their files; they must outlive *out. Release it with diff_deinit(), also after a
 * failure. */
INLAY_NODISCARD inlay_status diff_models(graph_model *a, graph_model *b, struct diff *out, inlay_diag *diag);
void diff_deinit(struct diff *diff);
#endif
