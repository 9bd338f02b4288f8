/* quantize/prune.h - prunes weights: sets blocks to zero that runtimes can skip, and removes channels that are zero.
 *
 * A block is one input by 16 outputs of a matrix multiplication (1x16), the width of a vector. In each matrix the
 * blocks that contribute least to its outputs are removed first: their squared weights, times the mean square of the
 * input if samples are available. */
#ifndef QUANTIZE_PRUNE_H
#define QUANTIZE_PRUNE_H
#include "quantize/layers.h"
#include "quantize/low_bit.h"

enum { PRUNE_WIDTH = 16 }; /* outputs of a block */

typedef struct prune_options {
    double share;                /* share of the blocks of each matrix, below 1; 0: remove channels only */
    const weight_inputs *inputs; /* [list.count], or NULL */
} prune_options;

/* Changes the layers of the list that are not excluded, and records in forms, [list->count], the bytes of their weights
 * without zeros. *out_channels: number of removed channels. The model is consistent again afterwards. */
INLAY_NODISCARD inlay_status prune_model(graph_model *model, const layer_list *list, const prune_options *how,
                                         layer_form *forms, uint64_t *out_channels, inlay_diag *diag);
#endif
