/* moves.h - copies between layouts: transposes, slices, and images whose channels move to another axis order.
 *
 * The loops transpose squares of 16 x 16 in registers and reach the bandwidth of the caches. */
#ifndef CPU_MOVES_H
#define CPU_MOVES_H
#include "cpu/layout/layout.h"
#include "simd/move_set.h"

/* The axes of a copy, ordered by the target's strides, outermost first. Axes of size 1 are dropped, and axes that are
 * contiguous on both sides are merged. Strides count elements. */
typedef struct move_axes {
    uint32_t rank; /* at least 1 */
    int64_t dims[TENSOR_MAX_RANK], from[TENSOR_MAX_RANK], to[TENSOR_MAX_RANK];
} move_axes;

/* The kernels for this CPU. */
const move_set *moves_of_cpu(void);

/* The axes of a copy between two layouts of the same dims. One axis may be blocked without padding. false: elements are
 * not of 1, 2 or 4 bytes, or more axes are blocked. */
bool move_axes_of(const tensor_layout *from, const tensor_layout *to, move_axes *out);
#endif
