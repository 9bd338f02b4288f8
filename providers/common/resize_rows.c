/* resize_rows.c - the loops of Resize over rows, for each element type. */
#include "inlay/check.h"
#include "common/resize_loops.h"
#include "simd/vecmath.h"
#include <math.h>

/* Cached resampled input rows, by offset. */
typedef struct resize_cache {
    int64_t offsets[RESIZE_SLOTS];
    uint32_t next; /* slot to replace next */
} resize_cache;

/* Chooses a slot for another row. Slots in the bit mask `used` belong to the current output row and are kept; at
 * least one is free. */
static uint32_t resize_evict(resize_cache *cache, uint32_t used)
{
    uint32_t slot = cache->next;

    INLAY_CHECK(slot < RESIZE_SLOTS && used != (1u << RESIZE_SLOTS) - 1);
    while ((used >> slot & 1) != 0)
        slot = (slot + 1) % RESIZE_SLOTS;
    cache->next = (slot + 1) % RESIZE_SLOTS;
    return slot;
}

/* Iterates over output rows, and over the input rows of each. */
typedef struct resize_cursor {
    int64_t out[INLAY_MAX_RANK]; /* indices of the output row */
    int64_t tap[INLAY_MAX_RANK];
    int64_t offsets[INLAY_MAX_RANK + 1]; /* of the input row, in elements: the sum over the axes before each */
    double weights[INLAY_MAX_RANK + 1];  /* the same for products of weights */
    int64_t offset;                      /* offsets and weights of all axes but the last */
    double weight;
} resize_cursor;

/* Computes offset and weight; those of the axes before `first` are unchanged. This and the next functions are called,
 * because copies of them in the functions of each type were half of this file. */
static __attribute__((noinline)) void resize_locate(const resize_plan *plan, resize_cursor *cursor, uint32_t first)
{
    int64_t offset = cursor->offsets[first];
    double weight = cursor->weights[first];

    for (uint32_t d = first; d + 1 < plan->rank; d++) {
        const resize_table *table = &plan->tables[d];
        int64_t at = cursor->tap[d] * plan->axes[d].out + cursor->out[d];

        if (table->taps > 0 && table->weight != NULL)
            weight *= table->weight[at];
        offset += (table->taps > 0 ? table->index[at] : cursor->out[d]) * plan->strides[d];
        cursor->weights[d + 1] = weight;
        cursor->offsets[d + 1] = offset;
    }
    cursor->offset = offset;
    cursor->weight = weight;
}

/* Moves to output row `row`. */
static __attribute__((noinline)) void resize_seek(const resize_plan *plan, int64_t row, resize_cursor *cursor)
{
    cursor->offsets[0] = 0;
    cursor->weights[0] = 1;
    for (uint32_t d = plan->rank - 1; d-- > 0; row /= plan->axes[d].out) {
        cursor->out[d] = row % plan->axes[d].out;
        cursor->tap[d] = 0;
    }
}

/* Moves to the next output row, after the last input row of this one. */
static __attribute__((noinline)) void resize_advance(const resize_plan *plan, resize_cursor *cursor)
{
    for (uint32_t d = plan->rank - 1; d-- > 0;) {
        if (++cursor->out[d] < plan->axes[d].out)
            return;
        cursor->out[d] = 0;
    }
}

/* Moves to the first input row of the output row; false: it is outside of the input. */
static __attribute__((noinline)) bool resize_begin(const resize_plan *plan, resize_cursor *cursor)
{
    for (uint32_t d = plan->rank - 1; d-- > 0;)
        if (plan->tables[d].taps > 0 && plan->tables[d].index[cursor->out[d]] < 0)
            return false;
    resize_locate(plan, cursor, 0);
    return true;
}

/* Moves to the next input row of the output row; false: there is none, and the cursor is ready to advance. */
static __attribute__((noinline)) bool resize_next(const resize_plan *plan, resize_cursor *cursor)
{
    for (uint32_t d = plan->rank - 1; d-- > 0;) {
        if (++cursor->tap[d] < plan->tables[d].taps) {
            resize_locate(plan, cursor, d);
            return true;
        }
        cursor->tap[d] = 0;
    }
    return false;
}

#define LEVELS
#define SUFFIX f32
#define T float
#define LOAD(element) (element)
#define STORE(sum) (sum)
#define ACC float
#define PLAIN
#include "common/resize.inc"

#define SUFFIX f64
#define T double
#define LOAD(element) (element)
#define STORE(sum) (sum)
#define ACC double
#define PLAIN
#include "common/resize.inc"

#define SUFFIX f16
#define T uint16_t
#define LOAD(element) f16_to_f32(element)
#define STORE(sum) f32_to_f16(sum)
#define ACC float
#include "common/resize.inc"

#define SUFFIX bf16
#define T uint16_t
#define LOAD(element) bf16_to_f32(element)
#define STORE(sum) f32_to_bf16(sum)
#define ACC float
#include "common/resize.inc"

#define SUFFIX u8
#define T uint8_t
#define LOAD(element) ((float)(element))
#define STORE(sum) CLAMP_CAST(uint8_t, WHOLE(sum), 0.0f, 255.0f)
#define ACC float
#include "common/resize.inc"

#define SUFFIX i8
#define T int8_t
#define LOAD(element) ((float)(element))
#define STORE(sum) CLAMP_CAST(int8_t, WHOLE(sum), -128.0f, 127.0f)
#define ACC float
#include "common/resize.inc"
#undef LEVELS

#define SUFFIX u16
#define T uint16_t
#define LOAD(element) ((double)(element))
#define STORE(sum) CLAMP_CAST(uint16_t, WHOLE(sum), 0.0, 65535.0)
#define ACC double
#include "common/resize.inc"

#define SUFFIX i16
#define T int16_t
#define LOAD(element) ((double)(element))
#define STORE(sum) CLAMP_CAST(int16_t, WHOLE(sum), -32768.0, 32767.0)
#define ACC double
#include "common/resize.inc"

#define SUFFIX u32
#define T uint32_t
#define LOAD(element) ((double)(element))
#define STORE(sum) CLAMP_CAST(uint32_t, WHOLE(sum), 0.0, 4294967295.0)
#define ACC double
#include "common/resize.inc"

#define SUFFIX i32
#define T int32_t
#define LOAD(element) ((double)(element))
#define STORE(sum) CLAMP_CAST(int32_t, WHOLE(sum), -2147483648.0, 2147483647.0)
#define ACC double
#include "common/resize.inc"

#define SUFFIX u64
#define T uint64_t
#define LOAD(element) ((double)(element))
#define STORE(sum) f64_to_u64((sum) > 0 ? WHOLE(sum) : 0)
#define ACC double
#include "common/resize.inc"

#define SUFFIX i64
#define T int64_t
#define LOAD(element) ((double)(element))
#define STORE(sum) f64_to_i64(WHOLE(sum))
#define ACC double
#include "common/resize.inc"

#define SUFFIX flag
#define T uint8_t
#define LOAD(element) ((element) != 0 ? 1.0f : 0.0f)
#define STORE(sum) ((uint8_t)((sum) != 0))
#define ACC float
#include "common/resize.inc"

/* A complex number counts as two floats along an additional inner axis. */
static const resize_rows_fn resize_rows[INLAY_DTYPE_COUNT] = {
    [INLAY_FLOAT] = resize_rows_f32,     [INLAY_DOUBLE] = resize_rows_f64,    [INLAY_FLOAT16] = resize_rows_f16,
    [INLAY_BFLOAT16] = resize_rows_bf16, [INLAY_UINT8] = resize_rows_u8,      [INLAY_INT8] = resize_rows_i8,
    [INLAY_UINT16] = resize_rows_u16,    [INLAY_INT16] = resize_rows_i16,     [INLAY_UINT32] = resize_rows_u32,
    [INLAY_INT32] = resize_rows_i32,     [INLAY_UINT64] = resize_rows_u64,    [INLAY_INT64] = resize_rows_i64,
    [INLAY_BOOL] = resize_rows_flag,     [INLAY_COMPLEX64] = resize_rows_f32, [INLAY_COMPLEX128] = resize_rows_f64,
};

resize_rows_fn resize_rows_of(inlay_dtype dtype)
{
    return resize_rows[dtype];
}

bool resize_wide(inlay_dtype dtype)
{
    const uint64_t wide = KIT_BIT(DOUBLE) | KIT_BIT(COMPLEX128) | KIT_BIT(INT16) | KIT_BIT(UINT16) | KIT_BIT(INT32) |
                          KIT_BIT(INT64) | KIT_BIT(UINT32) | KIT_BIT(UINT64);
    return (wide & INLAY_DTYPE_BIT(dtype)) != 0;
}

/* Copies elements of 4 bytes, or of 1, from their indexes. Without `restrict`, the table would be read again after each
 * element. */
static void pick_words(const int32_t *restrict index, int64_t count, const char *restrict from, char *restrict to)
{
    for (int64_t o = 0; o < count; o++)
        memcpy(to + 4 * o, from + 4 * (int64_t)index[o], 4);
}

static void pick_bytes(const int32_t *restrict index, int64_t count, const char *restrict from, char *restrict to)
{
    for (int64_t o = 0; o < count; o++)
        to[o] = from[index[o]];
}

/* An output row that has the same input row as the output row before is copied from that output row. */
void resize_copy_rows(const resize_plan *plan, uint32_t elem, const void *input, void *output, const void *fill,
                      int64_t begin, int64_t end)
{
    const resize_table *last = &plan->tables[plan->rank - 1];
    int64_t out = plan->axes[plan->rank - 1].out, before = -1;
    size_t chunk = (size_t)plan->inner * elem;

    resize_cursor cursor;

    INLAY_CHECK(plan->rank > 0 && begin >= 0);
    resize_seek(plan, begin, &cursor);
    for (int64_t r = begin; r < end; r++, resize_advance(plan, &cursor)) {
        char *to = (char *)output + r * out * (int64_t)chunk;
        const char *from;

        if (!resize_begin(plan, &cursor)) {
            for (int64_t i = 0; i < out * plan->inner; i++)
                memcpy(to + i * elem, fill, elem);
            before = -1;
            continue;
        }
        from = (const char *)input + cursor.offset * elem;
        if (cursor.offset == before) {
            memcpy(to, to - out * (int64_t)chunk, (size_t)out * chunk);
            continue;
        }
        before = cursor.offset;
        if (chunk == 64 && !plan->has_outside_elements) { /* blocked channels */
            for (int64_t o = 0; o < out; o++)
                memcpy(to + 64 * o, from + 64 * (int64_t)last->index[o], 64);
            continue;
        }
        if (chunk == 4 && !plan->has_outside_elements) {
            pick_words(last->index, out, from, to);
            continue;
        }
        if (chunk == 1 && !plan->has_outside_elements) {
            pick_bytes(last->index, out, from, to);
            continue;
        }
        for (int64_t o = 0; o < out; o++, to += chunk) {
            if (last->index[o] >= 0)
                memcpy(to, from + last->index[o] * (int64_t)chunk, chunk);
            else
                for (int64_t i = 0; i < plan->inner; i++)
                    memcpy(to + i * elem, fill, elem);
        }
    }
}
