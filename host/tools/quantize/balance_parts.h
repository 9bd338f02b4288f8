/* quantize/balance_parts.h - values whose channels can be scaled without changing what the model computes; private to
 * balance.c and awq.c. */
#ifndef QUANTIZE_BALANCE_PARTS_H
#define QUANTIZE_BALANCE_PARTS_H
#include "modelkit/edit.h"
#include "quantize/layers.h"

enum { BALANCE_MOST_PARTS = 4 };

/* A constant with one slice for each channel of a value: it is divided to scale the value. */
typedef struct balance_part {
    uint32_t constant, axis;
} balance_part;

/* A value whose channels can be balanced. */
struct balanced {
    uint32_t value;
    int64_t channels;
    uint32_t axis; /* channel axis of the value, 1 for images; INLAY_NONE: the last */
    balance_part parts[BALANCE_MOST_PARTS];
    uint32_t part_count;
    float *largest; /* [channels] largest magnitudes of the activations; NULL before calibration */
};

struct balancing {
    struct editor editor;
    const layer_list *list;
    uint32_t *uses;         /* [value_count] */
    struct balanced *items; /* [count] */
    uint32_t count;
};

/* Finds all values of the main graph whose channels can be scaled; editor.failed: out of memory. End with
 * balancing_end(), also after a failure. */
void balancing_begin(struct balancing *balancing, graph_model *model, const layer_list *list);
/* Makes the graph consistent again. */
INLAY_NODISCARD inlay_status balancing_finish(struct balancing *balancing, inlay_diag *diag);
void balancing_end(struct balancing *balancing);
/* Divides the channels of the value by factors, [channels], and multiplies the weights that read them. */
void balancing_scale(struct balancing *balancing, const struct balanced *balanced, const float *factors);
/* The axis of the layer's weights along which it reads the value's channels; INLAY_NONE: it does not read the value. */
uint32_t balancing_axis(const struct balancing *balancing, const struct layer *layer, const struct balanced *balanced);
#endif
