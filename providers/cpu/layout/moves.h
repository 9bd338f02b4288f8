/* moves.h - copies between layouts: transposes, parts of tensors, and images that change where their channels lie.
 *
 * oneDNN's reorders are made for every type and blocking; of two layouts that only order their axes otherwise they move
 * some 20 GB/s a core, where squares of 16 x 16 that are turned in registers move as much as the caches give. */
#ifndef CPU_MOVES_H
#define CPU_MOVES_H
#include "region/build.h"
#include "simd/move_set.h"

/* Axes of both sides from the outermost of the target to its innermost; none has one element, neighbours that lie
 * together on both sides are one. Strides count elements. */
typedef struct move_axes {
    uint32_t rank; /* at least 1 */
    int64_t dims[LIBRARY_MAX_NDIMS], from[LIBRARY_MAX_NDIMS], to[LIBRARY_MAX_NDIMS];
} move_axes;

/* NULL: this CPU has none that are faster than the library's. */
const move_set *moves_of_cpu(void);

/* The axes of a copy between layouts of the same dims, in which one axis may lie in blocks that it fills; false: it is
 * not one of 1, 2 or 4 bytes, or more is blocked. */
bool move_axes_of(const memory_desc *from, const memory_desc *to, move_axes *out);
#endif
