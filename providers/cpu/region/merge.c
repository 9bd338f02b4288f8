/* Reshapes of what lies otherwise than row-major: channels that are shuffled in an image with channels last stay
 * together, so that they need not leave that layout. */
#include "region/build.h"

/* Axes of the input and of the output that have the same elements, ones left out; those of the input are
 * [old, old_end). */
struct run {
    uint32_t old, old_end;
    int64_t key; /* the smallest distance between neighbours */
};

struct axes {
    uint32_t at[CPU_MAX_RANK]; /* those of more than one element */
    uint32_t count;
};

static struct axes real_axes(uint32_t rank, const int64_t *dims)
{
    struct axes axes = { .count = 0 };

    for (uint32_t d = 0; d < rank; d++)
        if (dims[d] != 1)
            axes.at[axes.count++] = d;
    return axes;
}

/* How many; 0: the dims do not have the same elements. */
static uint32_t find_runs(const struct axes *old, const int64_t *old_dims, const struct axes *fresh,
                          const int64_t *fresh_dims, struct run *runs)
{
    uint32_t i = 0, j = 0, count = 0;

    while (i < old->count && j < fresh->count) {
        struct run *run = &runs[count++];
        int64_t a = old_dims[old->at[i]], b = fresh_dims[fresh->at[j]];

        run->old = i++;
        j++;
        while (a != b) {
            if (a < b && i < old->count)
                a *= old_dims[old->at[i++]];
            else if (b < a && j < fresh->count)
                b *= fresh_dims[fresh->at[j++]];
            else
                return 0;
        }
        run->old_end = i;
    }
    return i == old->count && j == fresh->count ? count : 0;
}

/* Do the elements of the run lie together, in whatever order? Sets its key. */
static bool lies_together(const memory_desc *input, const struct axes *old, struct run *run)
{
    const int64_t *by = input->strides;
    int64_t elements = 1, span = 0;

    run->key = by[old->at[run->old]];
    for (uint32_t i = run->old; i < run->old_end; i++) {
        int64_t size = input->dims[old->at[i]], stride = by[old->at[i]];

        elements *= size;
        span = stride * size > span ? stride * size : span;
        run->key = stride < run->key ? stride : run->key;
    }
    return run->old_end - run->old == 1 || span == elements * run->key;
}

bool memory_desc_merged(const memory_desc *input, uint32_t rank, const int64_t *dims, memory_desc *out)
{
    struct axes old, fresh = real_axes(rank, dims);
    struct run runs[CPU_MAX_RANK];
    bool done[CPU_MAX_RANK] = { false };
    library_dims strides = { 0 };
    int64_t stride = 1;
    uint32_t count;

    if (input->kind != CPU_BLOCKED || memory_desc_is_blocked(input) || input->ndims > CPU_MAX_RANK ||
        rank > CPU_MAX_RANK)
        return false;
    old = real_axes((uint32_t)input->ndims, input->dims);
    count = find_runs(&old, input->dims, &fresh, dims, runs);
    for (uint32_t run = 0; run < count; run++)
        if (!lies_together(input, &old, &runs[run]))
            return false;
    for (uint32_t n = 0; n < count; n++) { /* from the innermost run outwards */
        uint32_t next = INLAY_NONE;

        for (uint32_t run = 0; run < count; run++)
            if (!done[run] && (next == INLAY_NONE || runs[run].key <= runs[next].key))
                next = run;
        done[next] = true;
        for (uint32_t i = runs[next].old_end; i-- > runs[next].old; stride *= input->dims[old.at[i]])
            strides[old.at[i]] = stride;
    }
    for (int d = 0; d < input->ndims; d++)
        strides[d] = input->dims[d] == 1 ? stride : strides[d];
    memory_desc_strides(out, (uint32_t)input->ndims, input->dims, strides);
    out->data_type = input->data_type;
    return count > 0;
}
