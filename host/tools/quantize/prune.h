/* quantize/prune.h - weights become zeros, in blocks that runtimes can leave out, and channels that are zero go.
 *
 * Blocks are one input by 16 outputs of a product (1x16), for that is what a vector multiplies at once. Of each matrix
 * those go first that add least to its outputs: squares of their weights, times the mean square of the input where
 * samples have told it. */
#ifndef QUANTIZE_PRUNE_H
#define QUANTIZE_PRUNE_H
#include "quantize/layers.h"
#include "quantize/narrow.h"

enum { PRUNE_WIDTH = 16 };

typedef struct prune_how {
    double share;                /* of the blocks of each matrix, below 1; 0: channels alone */
    const weight_inputs *inputs; /* [list.count], or NULL */
} prune_how;

/* Changes the layers of the list that are not kept, and notes in forms, [list->count], what their weights take when
 * zeros are left out. *out_channels: how many have gone. The model is finished again. */
INLAY_NODISCARD inlay_status prune_model(graph_model *model, const layer_list *list, const prune_how *how,
                                         layer_form *forms, uint64_t *out_channels, inlay_diag *diag);
#endif
