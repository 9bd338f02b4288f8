/* quantize/balance.h - channels of activations made alike, so that one range suits all: the larger ones are divided
 * where they are made, and the weights that read them multiplied (SmoothQuant; between two layers, equalisation).
 *
 * Channels come from constants that multiply them: the scale of a normalisation, a Mul, or the weights of a layer with
 * nothing but Relu and the like behind it. All that reads them must be layers. What the model computes stays the same
 * up to rounding. */
#ifndef QUANTIZE_BALANCE_H
#define QUANTIZE_BALANCE_H
#include "quantize/judge.h"
#include "quantize/layers.h"

/* Balances the model at path, of which list has the layers, by the first samples; *out_count: values that were. */
INLAY_NODISCARD inlay_status balance_model(graph_model *model, const layer_list *list, const char *path,
                                           const inlay_options *options, const struct samples *set, uint32_t *out_count,
                                           inlay_diag *diag);

/* What channel c is divided by, for activations and weights of these sizes: within 1/64 and 64, 1 where either is 0. */
float balance_factor(float activation, float weight);
#endif
