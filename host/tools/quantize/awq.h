/* quantize/awq.h - gives important channels finer steps, for 4-bit weights (Lin and others, AWQ).
 *
 * A channel of a layer's input is divided where it is produced, and the weights that read it are multiplied, by a power
 * of its mean magnitude. For each value the power is chosen that gives the layers that read the value the least output
 * error, compensated rounding included; the value is not scaled if no power helps. */
#ifndef QUANTIZE_AWQ_H
#define QUANTIZE_AWQ_H
#include "quantize/layers.h"
#include "quantize/moments.h"

typedef struct awq_options {
    uint32_t block;
    bool nbits; /* scales are floats, see low_bit_options */
} awq_options;

/* Scales the model, whose layers list holds; the statistics in known are scaled as well. *out_count: number of scaled
 * values. The model computes the same up to rounding. */
INLAY_NODISCARD inlay_status awq_model(graph_model *model, const layer_list *list, const awq_options *how,
                                       struct moments *known, uint32_t *out_count, inlay_diag *diag);
#endif
