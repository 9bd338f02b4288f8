/* base/checked.h - size arithmetic with overflow checks. */
#ifndef BASE_CHECKED_H
#define BASE_CHECKED_H
#include "inlay/types.h"
#include <stdbool.h>

static inline bool add_size(size_t *total, size_t more)
{
    return !__builtin_add_overflow(*total, more, total);
}
static inline bool mul_size(size_t *total, size_t factor)
{
    return !__builtin_mul_overflow(*total, factor, total);
}
/* *count *= dim; false if dim < 0 or on overflow. */
static inline bool mul_dim(int64_t *count, int64_t dim)
{
    return dim >= 0 && !__builtin_mul_overflow(*count, dim, count);
}
/* *out_count = the product of dims. False if a dim is negative or the product exceeds INT64_MAX / 64. A zero makes
 * *out_count 0, but the product of the other dims is still checked: kernels multiply the dims of some axes into
 * strides, and neither these products nor 16 times them (the largest element size) may overflow. */
static inline bool dims_count(const int64_t *dims, uint32_t rank, int64_t *out_count)
{
    int64_t product = 1;
    bool zero = false;

    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] == 0)
            zero = true;
        else if (!mul_dim(&product, dims[i]))
            return false;
    }
    *out_count = zero ? 0 : product;
    return product <= INT64_MAX / 64;
}
/* *out_bytes = bytes of count packed elements of dtype. False on overflow or for an unknown dtype. */
static inline bool dtype_bytes(inlay_dtype dtype, int64_t count, size_t *out_bytes)
{
    uint64_t bits = inlay_dtype_bits(dtype), total;

    if (bits == 0 || count < 0 || __builtin_mul_overflow((uint64_t)count, bits, &total) || total > UINT64_MAX - 7)
        return false;
    *out_bytes = (size_t)((total + 7) / 8);
    return true;
}
#endif
