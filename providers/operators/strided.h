/* strided.h - copying N-dimensional blocks with any byte step per axis on either side.
 *
 * Transpose, Slice, Expand, Tile, Concat, Split, DepthToSpace and every other operator that only rearranges elements
 * use this code. Each axis has a count and the byte distance between neighbors in the source and in the target. Step 0
 * in the source repeats an element, a negative step reverses the axis. The planner drops and merges axes, so that
 * [N, H, W, C] -> [N, C, H, W] becomes a batch of 2-D transpositions, and a slice of whole rows becomes a few calls of
 * memcpy.
 *
 *     int64_t from[INLAY_MAX_RANK], to[INLAY_MAX_RANK];
 *     strided_row_major(rank, in_dims, bytes, from);          // then permute, offset or scale the steps
 *     strided_row_major(rank, out_dims, bytes, to);
 *     strided_plan plan;
 *     strided_plan_init(&plan, bytes, rank, out_dims, from, to);
 *     return strided_copy(call, &plan, in, out);
 *
 * Elements are moved as 1, 2, 4, 8 or 16 bytes, independent of their type; a string element moves as its inlay_str.
 * Types smaller than a byte are unpacked to bytes first (strided_unpack) and packed again. */
#ifndef STRIDED_H
#define STRIDED_H
#include "operators/instance.h"
#include "inlay/check.h"
#include "inlay/kit_table.h"

/* Bytes of one element as strided_copy moves it: 1, 2, 4, 8 or 16; sub-byte types count 1, as unpacked. */
static inline uint32_t strided_element_bytes(inlay_dtype dtype)
{
    uint32_t bits = inlay_dtype_bits(dtype);
    return bits < 8 ? 1 : bits / 8;
}
static inline bool strided_is_packed(inlay_dtype dtype)
{
    return inlay_dtype_bits(dtype) < 8;
}

/* steps[i] = bytes from one index of axis i to the next in a dense tensor. steps has `rank` elements. For a tensor
 * without elements, whose other dimensions may have any size, the steps may wrap and must not be used. */
static inline void strided_row_major(uint32_t rank, const int64_t *dims, int64_t element_bytes, int64_t *steps)
{
    int64_t step = element_bytes;
    INLAY_CHECK(element_bytes > 0);

    for (uint32_t i = rank; i-- > 0;) {
        steps[i] = step;
        step = (int64_t)((uint64_t)step * (uint64_t)dims[i]);
    }
}

/* The product of dims[begin] ... dims[end - 1]. The caller guarantees that it fits, or that there are no elements. */
static inline int64_t strided_product(const int64_t *dims, uint32_t begin, uint32_t end)
{
    int64_t product = 1;

    for (uint32_t i = begin; i < end; i++)
        product = (int64_t)((uint64_t)product * (uint64_t)dims[i]);
    return product;
}

/* Maximum axes of a plan: some operators (Tile, DepthToSpace) describe one axis of a tensor by two. */
enum { STRIDED_MAX_AXES = 2 * INLAY_MAX_RANK + 4 };

typedef struct strided_axis {
    int64_t count;
    int64_t in, out; /* bytes from one index to the next */
} strided_axis;

/* A copy, ready to run: loops over axes[0 .. rank - 1], with an inner kernel over `major` and `minor`. */
typedef struct strided_plan {
    uint32_t kind;    /* internal: the inner kernel */
    uint32_t element; /* bytes that the kernel moves at a time: 1, 2, 4, 8, 16 */
    uint32_t rank;
    uint32_t reserved;
    int64_t outer; /* product of axes[].count; 0 = nothing to copy */
    int64_t chunk; /* indices of `major` in one unit of parallel work */
    strided_axis major, minor;
    strided_axis axes[STRIDED_MAX_AXES];
} strided_plan;

/* Plans the copy of dims[0] x ... x dims[rank - 1] elements of element_bytes (1, 2, 4, 8 or 16). Element i moves from
 * in + sum i[k] * in_steps[k] to out + sum i[k] * out_steps[k]. rank <= STRIDED_MAX_AXES, dims >= 0. Planning takes
 * well under a microsecond and allocates nothing: keep the struct in kit_plan.plan, or create it in each run. */
void strided_plan_init(strided_plan *plan, uint32_t element_bytes, uint32_t rank, const int64_t *dims,
                       const int64_t *in_steps, const int64_t *out_steps);

/* Runs the plan, on the thread pool if it is large enough. in and out are the addresses of element (0, 0, ...); source
 * and target must not overlap. Fails only as kit_parallel does. */
inlay_status strided_copy(const kit_call *call, const strided_plan *plan, const void *in, void *out);

/* memcpy of any size, on the thread pool if large. */
inlay_status strided_memcpy(const kit_call *call, void *out, const void *in, uint64_t bytes);

/* Writes `count` copies of the element (1, 2, 4, 8 or 16 bytes) to out. */
void strided_fill(void *out, const void *element, uint32_t element_bytes, int64_t count);

/* Conversion between packed elements (2 or 4 bits, low bits first) and one byte each. Values are not sign-extended.
 * strided_pack clears the unused bits of the last byte. */
void strided_unpack(inlay_dtype dtype, const void *packed, int64_t count, uint8_t *out_bytes);
void strided_pack(inlay_dtype dtype, const uint8_t *bytes, int64_t count, void *out_packed);

/* Indexes.
 *
 * Iterates over the indexes of a box in row-major order, with a byte (or element) offset for up to two tensors:
 *
 *     strided_walk w;
 *     strided_walk_init(&w, rank, dims, steps_a, steps_b);
 *     strided_walk_seek(&w, begin);
 *     for (int64_t i = begin; i < end; i++, strided_walk_next(&w))
 *         use(a + w.offset[0], b + w.offset[1]);
 */
typedef struct strided_walk {
    uint32_t rank;
    int64_t dims[INLAY_MAX_RANK];
    int64_t index[INLAY_MAX_RANK];
    int64_t step[2][INLAY_MAX_RANK];
    int64_t offset[2];
} strided_walk;

/* steps_b may be NULL. rank <= INLAY_MAX_RANK. Starts at index 0. */
static inline void strided_walk_init(strided_walk *walk, uint32_t rank, const int64_t *dims, const int64_t *steps_a,
                                     const int64_t *steps_b)
{
    INLAY_CHECK(rank <= INLAY_MAX_RANK);
    walk->rank = rank;
    walk->offset[0] = walk->offset[1] = 0;
    for (uint32_t i = 0; i < rank; i++) {
        walk->dims[i] = dims[i];
        walk->index[i] = 0;
        walk->step[0][i] = steps_a[i];
        walk->step[1][i] = steps_b != NULL ? steps_b[i] : 0;
    }
}
/* Moves to the position-th index; every dim must be positive. */
static inline void strided_walk_seek(strided_walk *walk, int64_t position)
{
    walk->offset[0] = walk->offset[1] = 0;
    for (uint32_t i = walk->rank; i-- > 0;) {
        walk->index[i] = position % walk->dims[i];
        position /= walk->dims[i];
        walk->offset[0] += walk->index[i] * walk->step[0][i];
        walk->offset[1] += walk->index[i] * walk->step[1][i];
    }
}
static inline void strided_walk_next(strided_walk *walk)
{
    for (uint32_t i = walk->rank; i-- > 0;) {
        walk->offset[0] += walk->step[0][i];
        walk->offset[1] += walk->step[1][i];
        if (++walk->index[i] < walk->dims[i])
            return;
        walk->offset[0] -= walk->dims[i] * walk->step[0][i];
        walk->offset[1] -= walk->dims[i] * walk->step[1][i];
        walk->index[i] = 0;
    }
}
#endif
