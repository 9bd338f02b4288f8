/* quantize/awq.h - channels that matter get finer steps: for weights of 4 bits (Lin and others, AWQ).
 *
 * A channel of what a product reads is divided where it is made, and the weights that read it are multiplied, by a
 * power of its mean size. Which power is found value by value: the one with which the outputs of the layers that read
 * it are off least, roundings and what makes them good included; none, where that gains nothing. */
#ifndef QUANTIZE_AWQ_H
#define QUANTIZE_AWQ_H
#include "quantize/layers.h"
#include "quantize/moments.h"

typedef struct awq_how {
    uint32_t block;
    bool nbits; /* scales are floats, see narrow_how */
} awq_how;

/* Scales the model, of which list has the layers and known what they read; known follows. *out_count: values that were
 * scaled. What the model computes stays the same up to rounding. */
INLAY_NODISCARD inlay_status awq_model(graph_model *model, const layer_list *list, const awq_how *how,
                                       struct moments *known, uint32_t *out_count, inlay_diag *diag);
#endif
