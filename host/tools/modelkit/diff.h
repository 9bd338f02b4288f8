/* modelkit/diff.h - what differs between two models: lines that only one has, in their order, and weights by numbers.
 */
#ifndef MODELKIT_DIFF_H
#define MODELKIT_DIFF_H
#include "modelkit/lines.h"

typedef enum diff_side { DIFF_BOTH, DIFF_A, DIFF_B } diff_side;

typedef struct diff_line {
    diff_side side;
    const char *text;
} diff_line;

/* A part of the models, with all its lines; `changed` counts those that one side alone has. */
typedef struct diff_part {
    const char *title;
    diff_line *lines;
    uint32_t count, changed;
} diff_part;

/* A constant of the main graph that both have, of the same type and shape and with other elements. */
typedef struct diff_weight {
    const char *name;
    int64_t elements, differing;
    double largest;  /* difference; of types that are no numbers 0 */
    double relative; /* root of sum of squares of the differences, over that of a's elements */
} diff_weight;

struct diff {
    struct arena arena;
    struct lines text[2];
    diff_part *parts;     /* [part_count] */
    diff_weight *weights; /* [weight_count] */
    uint32_t part_count, weight_count;
    uint64_t changed; /* lines of all parts */
};

/* Compares two models as they stand in their files; they must outlive *out, which diff_deinit() releases whatever comes
 * of it. */
INLAY_NODISCARD inlay_status diff_models(graph_model *a, graph_model *b, struct diff *out, inlay_diag *diag);
void diff_deinit(struct diff *diff);
#endif
