/* terms_weights.h - constant matrices that are packed as terms (matrix/terms.h). */
#ifndef CPU_TERMS_WEIGHTS_H
#define CPU_TERMS_WEIGHTS_H
#include "cpu/region/build.h"

/* The layout of the pack of weights of layout `plain`: [n][k], or [n][channels][rows][columns] of a convolution, whose
 * k runs over rows, columns and channels. */
void terms_layout(const tensor_layout *plain, tensor_layout *layout);
/* cpu_packer (packs.h). */
bool terms_pack_weights(const cpu_state *state, inlay_run *run, const tensor_layout *plain, const void *source,
                        const tensor_layout *layout, void *target);
#endif
