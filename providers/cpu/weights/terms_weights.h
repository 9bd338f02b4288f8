/* terms_weights.h - constant matrices that are packed as terms (matrix/terms.h). */
#ifndef CPU_TERMS_WEIGHTS_H
#define CPU_TERMS_WEIGHTS_H
#include "cpu/matrix/terms.h"
#include "cpu/region/build.h"

/* The number of terms of the elements of a constant: floats that are converted from a 16-bit type have fewer. */
static inline int terms_of_constant(const cpu_build *build, uint32_t value)
{
    const uint32_t index = build->compiled->values[value].constant;
    const cpu_constant *constant = index == INLAY_NONE ? NULL : &build->compiled->constants[index];
    const inlay_dtype type =
        constant == NULL || constant->kind != CONSTANT_HALVES ? INLAY_UNDEFINED : constant->stored.halves.type;

    return type == INLAY_BFLOAT16 ? 1 : type == INLAY_FLOAT16 ? 2 : TERMS;
}
/* The layout of the pack of weights of layout `plain`: [n][k], or [n][channels][rows][columns] of a convolution, whose
 * k runs over rows, columns and channels. Their elements have at most `terms` terms. */
void terms_layout(const tensor_layout *plain, int terms, tensor_layout *layout);
/* cpu_packer (packs.h). */
bool terms_pack_weights(const cpu_state *state, inlay_run *run, const tensor_layout *plain, const void *source,
                        const tensor_layout *layout, void *target);
#endif
