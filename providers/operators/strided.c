/* The implementation of strided.h. It does not depend on types: elements have 1, 2, 4, 8 or 16 bytes. */
#include "operators/strided.h"
#include "inlay/check.h"
#include "simd/move_set.h"
#include <stdlib.h>

/* Minimum work per thread. */
enum { GRAIN_BYTES = 128 * 1024 };

enum { KIND_ROWS, KIND_FILL, KIND_TRANSPOSE, KIND_GATHER };

typedef uint8_t element1;
typedef uint16_t __attribute__((aligned(1), may_alias)) element2;
typedef uint32_t __attribute__((aligned(1), may_alias)) element4;
typedef uint64_t __attribute__((aligned(1), may_alias)) element8;
struct __attribute__((packed, may_alias)) element16 {
    uint64_t low, high;
};

#define T element1
#define NAME(x) x##_1
#include "operators/strided.inc"
#undef T
#undef NAME
#define T element2
#define NAME(x) x##_2
#include "operators/strided.inc"
#undef T
#undef NAME
#define T element4
#define NAME(x) x##_4
#include "operators/strided.inc"
#undef T
#undef NAME
#define T element8
#define NAME(x) x##_8
#include "operators/strided.inc"
#undef T
#undef NAME
#define T struct element16
#define NAME(x) x##_16
#include "operators/strided.inc"
#undef T
#undef NAME

/* Copies `block` of matrices of major rows and minor columns. */
typedef void (*kernel_fn)(const char *in, char *out, const strided_axis *block, const strided_axis *major,
                          const strided_axis *minor);

/* Copies rows of `half` to twice as many bytes. */
#define ROWS(half)                                                                                                     \
    for (int64_t b = 0; b < blocks; b++, in += in_block, out += out_block)                                             \
        for (int64_t i = 0; i < count; i++) {                                                                          \
            char first[half], last[half];                                                                              \
                                                                                                                       \
            memcpy(first, in + i * from, half);                                                                        \
            memcpy(last, in + i * from + bytes - (half), half);                                                        \
            memcpy(out + i * to, first, half);                                                                         \
            memcpy(out + i * to + bytes - (half), last, half);                                                         \
        }

/* Copies rows that are contiguous in source and target; minor->count is their length in elements. Short ones are copied
 * by two moves that overlap, without a call. */
static void rows(const char *in, char *out, const strided_axis *block, const strided_axis *major,
                 const strided_axis *minor)
{
    const int64_t count = major->count, from = major->in, to = major->out, bytes = minor->count * minor->out;
    const int64_t blocks = block->count, in_block = block->in, out_block = block->out;

    if (bytes > 32)
        for (int64_t b = 0; b < blocks; b++, in += in_block, out += out_block)
            for (int64_t i = 0; i < count; i++)
                memcpy(out + i * to, in + i * from, (size_t)bytes);
    else if (bytes >= 16)
        ROWS(16)
    else if (bytes >= 8)
        ROWS(8)
    else if (bytes >= 4)
        ROWS(4)
    else if (bytes >= 2)
        ROWS(2)
    else
        ROWS(1)
}

/* Returns the logarithm to base 2 of 1, 2, 4, 8 or 16. */
static uint32_t size_class(uint32_t element_bytes)
{
    INLAY_CHECK(element_bytes > 0 && element_bytes <= 16 && (element_bytes & (element_bytes - 1)) == 0);
    return (uint32_t)__builtin_ctz(element_bytes);
}

static kernel_fn find_kernel(uint32_t kind, uint32_t element)
{
    static const kernel_fn fills[] = { fill_1, fill_2, fill_4, fill_8, fill_16 };
    static const kernel_fn gathers[] = { gather_1, gather_2, gather_4, gather_8, gather_16 };
    const uint32_t size = size_class(element);

    return kind == KIND_ROWS ? rows : kind == KIND_FILL ? fills[size] : gathers[size];
}

/* Collects the axes with more than one index, the outermost of the target first, since sequential writes use caches
 * best. */
static uint32_t sort_axes(strided_axis *axes, uint32_t rank, const int64_t *dims, const int64_t *in_steps,
                          const int64_t *out_steps)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < rank; i++) {
        strided_axis axis = { dims[i], in_steps[i], out_steps[i] };
        uint32_t at = count;

        if (axis.count == 1)
            continue;
        for (; at > 0 && llabs(axes[at - 1].out) < llabs(axis.out); at--)
            axes[at] = axes[at - 1];
        axes[at] = axis;
        count++;
    }
    return count;
}

/* Merges adjacent axes whose indices can be combined to one index with a single step in source and target. */
static uint32_t merge_axes(strided_axis *axes, uint32_t rank)
{
    uint32_t merged = 0;

    for (uint32_t i = 0; i < rank; i++) {
        if (merged > 0 && axes[merged - 1].in == axes[i].in * axes[i].count &&
            axes[merged - 1].out == axes[i].out * axes[i].count) {
            axes[merged - 1] = (strided_axis){ axes[merged - 1].count * axes[i].count, axes[i].in, axes[i].out };
        } else {
            axes[merged++] = axes[i];
        }
    }
    return merged;
}

/* Moves an axis to position `to`. */
static void move_axis(strided_axis *axes, uint32_t from, uint32_t to)
{
    strided_axis axis = axes[from];

    for (; from < to; from++)
        axes[from] = axes[from + 1];
    for (; from > to; from--)
        axes[from] = axes[from - 1];
    axes[to] = axis;
}

/* Chooses the inner kernel for axes[0 .. rank - 1]; may reorder them so that its two axes are the last ones. */
static uint32_t choose_kind(strided_axis *axes, uint32_t rank, int64_t element)
{
    INLAY_CHECK(rank >= 1);
    const strided_axis *last = &axes[rank - 1];

    if (last->out != element)
        return KIND_GATHER;
    if (last->in == element)
        return KIND_ROWS;
    if (last->in == 0)
        return KIND_FILL;
    for (uint32_t i = rank - 1; i-- > 0;) {
        if (axes[i].in == element) {
            move_axis(axes, i, rank - 2);
            return KIND_TRANSPOSE;
        }
    }
    return KIND_GATHER;
}

void strided_plan_init(strided_plan *plan, uint32_t element_bytes, uint32_t rank, const int64_t *dims,
                       const int64_t *in_steps, const int64_t *out_steps)
{
    strided_axis *axes = plan->axes;
    uint32_t count;

    INLAY_CHECK(rank <= STRIDED_MAX_AXES);
    plan->element = element_bytes;
    plan->outer = 1;
    plan->rank = plan->reserved = 0;
    plan->kind = KIND_ROWS;
    plan->chunk = 1;
    plan->major = (strided_axis){ 1, 0, 0 };
    plan->minor = (strided_axis){ 1, element_bytes, element_bytes };
    for (uint32_t i = 0; i < rank; i++)
        if (dims[i] == 0)
            plan->outer = 0;
    if (plan->outer == 0)
        return;
    count = merge_axes(axes, sort_axes(axes, rank, dims, in_steps, out_steps));
    /* A short contiguous run becomes one element if a register has its size. */
    while (count > 1) {
        const strided_axis *last = &axes[count - 1];
        int64_t bytes = last->count * plan->element;

        if (last->in != plan->element || last->out != plan->element || bytes > 16 || (bytes & (bytes - 1)) != 0)
            break;
        plan->element = (uint32_t)bytes;
        count--;
    }
    if (count == 0)
        return;
    plan->kind = choose_kind(axes, count, plan->element);
    plan->minor = axes[count - 1];
    if (count > 1)
        plan->major = axes[count - 2];
    plan->rank = count > 2 ? count - 2 : 0;
    for (uint32_t i = 0; i < plan->rank; i++)
        plan->outer *= axes[i].count;
    /* A chunk consists of whole tiles, and has enough work for a thread. */
    plan->chunk = GRAIN_BYTES / 2 / (plan->minor.count * plan->element) + 1;
    plan->chunk = (plan->chunk + 63) / 64 * 64;
    if (plan->kind != KIND_TRANSPOSE && plan->minor.count * plan->element >= GRAIN_BYTES / 64)
        plan->chunk = GRAIN_BYTES / 2 / (plan->minor.count * plan->element) + 1;
    if (plan->chunk > plan->major.count)
        plan->chunk = plan->major.count;
}

typedef struct copy_job {
    const strided_plan *plan;
    const char *in;
    char *out;
    kernel_fn kernel;
    int64_t chunks; /* per iteration of the outer loops */
} copy_job;

/* Copies `count` blocks of `rows` majors and all minors; in, out: the first. Steps are read from the plan, not from
 * copies of its axes: a vector of two of them would wait for a store of one. */
static void copy_blocks(const copy_job *job, const char *in, char *out, int64_t count, int64_t rows_count)
{
    static const strided_axis one = { 1, 0, 0 };
    const strided_plan *plan = job->plan;
    const strided_axis *last = plan->rank > 0 ? &plan->axes[plan->rank - 1] : &one;

    if (plan->kind == KIND_TRANSPOSE)
        KERNEL_BEST(moves)->turn[size_class(plan->element)](&(move_turns){
            in, out, plan->minor.in, plan->major.out, plan->minor.count, rows_count, count, last->in, last->out });
    else
        job->kernel(in, out, &(strided_axis){ count, last->in, last->out },
                    &(strided_axis){ rows_count, plan->major.in, plan->major.out }, &plan->minor);
}

/* Processes units (outer index, chunk of major); the chunk varies fastest. Where blocks have one chunk, those along the
 * last axis are copied together. */
static inlay_status copy_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const copy_job *job = user;
    const strided_plan *plan = job->plan;
    int64_t index[STRIDED_MAX_AXES];
    int64_t chunk = begin % job->chunks, remaining = begin / job->chunks;
    const char *in = job->in;
    char *out = job->out;

    INLAY_CHECK(plan->rank <= STRIDED_MAX_AXES && job->chunks > 0);
    (void)worker;
    for (uint32_t i = plan->rank; i-- > 0;) {
        index[i] = remaining % plan->axes[i].count;
        remaining /= plan->axes[i].count;
        in += index[i] * plan->axes[i].in;
        out += index[i] * plan->axes[i].out;
    }
    for (int64_t unit = begin; unit < end;) {
        const int64_t at = chunk * plan->chunk, rows_left = plan->major.count - at;
        int64_t count = 1;

        if (job->chunks == 1 && plan->rank > 0) {
            count = plan->axes[plan->rank - 1].count - index[plan->rank - 1];
            count = count < end - unit ? count : end - unit;
        }
        copy_blocks(job, in + at * plan->major.in, out + at * plan->major.out, count,
                    rows_left < plan->chunk ? rows_left : plan->chunk);
        unit += count;
        if (++chunk < job->chunks)
            continue;
        chunk = 0;
        for (uint32_t i = plan->rank; i-- > 0;) {
            in += count * plan->axes[i].in;
            out += count * plan->axes[i].out;
            index[i] += count;
            if (index[i] < plan->axes[i].count)
                break;
            in -= plan->axes[i].count * plan->axes[i].in;
            out -= plan->axes[i].count * plan->axes[i].out;
            index[i] = 0;
            count = 1;
        }
    }
    return INLAY_OK;
}

inlay_status strided_copy(const kit_call *call, const strided_plan *plan, const void *in, void *out)
{
    copy_job job;
    int64_t unit_bytes;

    if (plan->outer == 0)
        return INLAY_OK;
    if (plan->kind == KIND_ROWS && plan->major.count == 1 && plan->outer == 1)
        return strided_memcpy(call, out, in, (uint64_t)(plan->minor.count * plan->element));
    job = (copy_job){ .plan = plan,
                      .in = in,
                      .out = out,
                      .kernel = find_kernel(plan->kind, plan->element),
                      .chunks = (plan->major.count + plan->chunk - 1) / plan->chunk };
    unit_bytes = plan->chunk * plan->minor.count * plan->element;
    return kit_parallel(call, plan->outer * job.chunks, GRAIN_BYTES / unit_bytes + 1, copy_range, &job);
}

typedef struct memcpy_job {
    const char *in;
    char *out;
} memcpy_job;

static inlay_status memcpy_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const memcpy_job *job = user;

    (void)worker;
    memcpy(job->out + begin, job->in + begin, (size_t)(end - begin));
    return INLAY_OK;
}

inlay_status strided_memcpy(const kit_call *call, void *out, const void *in, uint64_t bytes)
{
    memcpy_job job = { in, out };

    if (bytes == 0 || in == out)
        return INLAY_OK;
    if (bytes <= 2 * GRAIN_BYTES) {
        memcpy(out, in, (size_t)bytes);
        return INLAY_OK;
    }
    return kit_parallel(call, (int64_t)bytes, GRAIN_BYTES, memcpy_range, &job);
}

void strided_fill(void *out, const void *element, uint32_t element_bytes, int64_t count)
{
    static void (*const fills[])(void *, const void *, int64_t) = { fill_run_1, fill_run_2, fill_run_4, fill_run_8,
                                                                    fill_run_16 };
    enum { BLOCK = 4096 };
    const int64_t bytes = count * element_bytes;
    char *to = out;

    if (memcmp(element, (const char *)element + 1, element_bytes - 1) == 0) { /* equal bytes, mostly 0 */
        memset(out, *(const unsigned char *)element, (size_t)bytes);
        return;
    }
    fills[size_class(element_bytes)](out, element, bytes < BLOCK ? count : BLOCK / element_bytes);
    for (int64_t at = BLOCK; at < bytes; at += BLOCK) /* the C library has the widest stores of this CPU */
        memcpy(to + at, to, (size_t)(bytes - at < BLOCK ? bytes - at : BLOCK));
}

void strided_unpack(inlay_dtype dtype, const void *packed, int64_t count, uint8_t *out_bytes)
{
    const uint8_t *from = packed;

    INLAY_CHECK(inlay_dtype_bits(dtype) == 4 || inlay_dtype_bits(dtype) == 2);
    if (inlay_dtype_bits(dtype) == 4)
        for (int64_t i = 0; i < count; i++)
            out_bytes[i] = (uint8_t)(from[i / 2] >> (i % 2 * 4) & 15);
    else
        for (int64_t i = 0; i < count; i++)
            out_bytes[i] = (uint8_t)(from[i / 4] >> (i % 4 * 2) & 3);
}

void strided_pack(inlay_dtype dtype, const uint8_t *bytes, int64_t count, void *out_packed)
{
    const int64_t per_byte = inlay_dtype_bits(dtype) == 4 ? 2 : 4;
    const uint32_t bits = inlay_dtype_bits(dtype), mask = (1u << bits) - 1;
    uint8_t *to = out_packed;

    INLAY_CHECK(bits == 4 || bits == 2);
    for (int64_t i = 0; i < count; i += per_byte) {
        uint32_t byte = 0;

        for (int64_t k = 0; k < per_byte && i + k < count; k++)
            byte |= (bytes[i + k] & mask) << (uint32_t)k * bits;
        *to++ = (uint8_t)byte;
    }
}
