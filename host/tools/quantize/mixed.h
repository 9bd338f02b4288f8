/* quantize/mixed.h - which products have weights of 4 bits, and which of 8: by what each set of them does to the
 * outputs.
 *
 * Each large product is a set, or neighbours of one size where there are many; small ones of one size are one. A set is
 * made of 4 bits while all else stays float, and the model is run: how far its outputs go from those of the model,
 * divided over the set's layers by what each of them is off by itself, is what a layer costs. Those that cost most for
 * the bits that they need get 8, as long as the average allows it. */
#ifndef QUANTIZE_MIXED_H
#define QUANTIZE_MIXED_H
#include "quantize/narrow.h"
#include "quantize/quantize.h"
#include "data/scratch.h"

typedef struct mixed_how {
    const quantize_args *args;
    const struct scratch *scratch;
    const struct subject *before; /* the model as it is */
    const inlay_options *plain;   /* of sessions */
    const char *base;             /* the model to be narrowed, in the scratch folder */
    const narrow_how *narrow;     /* known must be there */
} mixed_how;

/* bits_of is [list->count]: 4 or 8. */
INLAY_NODISCARD inlay_status mixed_choose(const mixed_how *how, const layer_list *list, uint8_t *bits_of,
                                          inlay_diag *diag);
/* Bits of a weight, its share of scales and zero points included. */
double mixed_bits(const struct layer *layer, uint32_t bits, uint32_t block, bool halves);
#endif
