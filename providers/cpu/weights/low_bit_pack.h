/* low_bit_pack.h - the source of a low-bit constant (low_bit.h), and its packs. For low_bit.c, low_bit_pack.c and
 * recurrent.c.
 *
 * A pack holds the elements with as many bits as in the file, in the order of a kernel's layout; for each 16 elements
 * the index of a vector of scales and zero points; and each different vector once. The order is found by reordering the
 * element numbers with the code for floats, so every layout that is a permutation works. Elements of 4 and 8 bits are
 * stored as codes, for which unfold.h has vectorised kernels. */
#ifndef CPU_NARROW_PACK_H
#define CPU_NARROW_PACK_H
#include "cpu/weights/low_bit.h"
#include "cpu/weights/unfold.h"

enum { LOW_BIT_MAX_VIEWS = 3 }; /* most views between the DequantizeLinear and a reader */

/* The source of a constant. Element numbers are those of the DequantizeLinear's input; transposes permute them. */
struct low_bit_constant {
    inlay_dtype dtype;
    uint32_t q, scale, zero;    /* constants of the region; zero: INLAY_NONE = all zero points are 0 */
    uint32_t maker;             /* the DequantizeLinear, as an op */
    int64_t count, scales;      /* elements of q and of scale */
    int64_t inner, size, block; /* the axis of the scales: its stride and size, and its elements per scale */
    bool single;                /* one scale for all elements */
    uint32_t turn_count;
    uint32_t turns[LOW_BIT_MAX_VIEWS]; /* Transposes, as ops */
};
/* Is it a low-bit constant of this DequantizeLinear? */
static inline bool low_bit_is_of(const cpu_constant *constant, uint32_t maker)
{
    return constant->kind == CONSTANT_LOW_BIT && constant->stored.low_bit->maker == maker;
}

/* The kernels over codes for this CPU; NULL: none, and no pack holds codes. */
const unfold_kernel *unfold_of_cpu(void);
/* The codes of a pack, which must outlive them. false: the pack has a type for which unfold.h has no kernel. */
bool low_bit_codes(const void *pack, unfold_codes *out);
/* The size of a pack in bytes. */
uint64_t low_bit_pack_bytes(const void *pack);
/* cpu_native.run of the step that dequantizes a pack; args: the pack, the floats. */
inlay_status low_bit_run_dequantize(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                                    uint32_t threads);
#endif
