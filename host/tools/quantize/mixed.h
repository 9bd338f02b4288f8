/* quantize/mixed.h - chooses 4-bit or 8-bit weights for each matrix multiplication, by the measured effect on the
 * outputs.
 *
 * Each large matrix multiplication forms one set, or shares a set with neighbours of the same size where there are
 * many; small ones of one size form one set. A set is stored in 4 bits while all other weights stay float, and the
 * model is run. The output error is divided among the layers of the set in proportion to their own rounding errors;
 * that is the cost of a layer. The layers with the highest cost per extra bit get 8 bits, as long as the average allows
 * it. */
#ifndef QUANTIZE_MIXED_H
#define QUANTIZE_MIXED_H
#include "quantize/low_bit.h"
#include "quantize/quantize.h"
#include "data/scratch.h"

typedef struct mixed_options {
    const quantize_args *args;
    const struct scratch *scratch;
    const struct subject *before;  /* the original model */
    const inlay_options *plain;    /* session options */
    const char *base;              /* the model to store in fewer bits, in the scratch folder */
    const low_bit_options *narrow; /* known must not be NULL */
} mixed_options;

/* Fills bits_of, [list->count], with 4 or 8. */
INLAY_NODISCARD inlay_status mixed_choose(const mixed_options *how, const layer_list *list, uint8_t *bits_of,
                                          inlay_diag *diag);
#endif
