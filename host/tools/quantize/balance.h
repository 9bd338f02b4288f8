/* quantize/balance.h - equalises the channels of activations, so that one range suits all: large channels are divided
 * where they are produced, and the weights that read them are multiplied (SmoothQuant; between two layers, cross-layer
 * equalisation).
 *
 * Channels are scaled in constants that multiply them: the scale of a normalisation, a Mul, or the weights of a layer
 * followed only by operators such as Relu. All readers must be layers. The model computes the same up to rounding. */
#ifndef QUANTIZE_BALANCE_H
#define QUANTIZE_BALANCE_H
#include "quantize/evaluate.h"
#include "quantize/layers.h"

/* Balances the model at path, whose layers list holds, using the first samples; *out_count: number of balanced
 * values. */
INLAY_NODISCARD inlay_status balance_model(graph_model *model, const layer_list *list, const char *path,
                                           const inlay_options *options, const struct samples *set, uint32_t *out_count,
                                           inlay_diag *diag);

#endif
