/* resize_plan.c - a Resize at concrete shapes: which axes the loops see, and their tables. */
#include "resize_rows.h"

static bool resize_stays(const resize_axis *a)
{
    return a->in == a->out && a->exact && a->roi_begin == 0 && a->roi_end == 1;
}

void resize_plan_axes(resize_plan *p, const resize_rule *rule, const resize_axis *axes, uint32_t rank, int64_t inner)
{
    uint32_t first = rank, last = 0, kept = 0;
    int64_t stride, outer = 1;

    for (uint32_t d = 0; d < rank; d++) {
        if (resize_stays(&axes[d]))
            continue;
        first = d < first ? d : first;
        last = d;
    }
    p->rank = 0;
    p->inner = inner;
    p->rows = 1;
    if (first == rank)
        return;
    for (uint32_t d = 0; d < first; d++)
        outer *= axes[d].in;
    if (outer > 1) {
        p->axes[0] = (resize_axis){ .in = outer, .out = outer, .scale = 1, .exact = true };
        kept = 1;
    }
    for (uint32_t d = last + 1; d < rank; d++)
        p->inner *= axes[d].in;
    p->rank = kept + last + 1 - first;
    stride = p->inner;
    for (uint32_t d = p->rank; d-- > 0;) {
        resize_axis *a = &p->axes[d];
        if (d >= kept) {
            *a = axes[first + d - kept];
            p->tables[d].taps = resize_taps(rule, a);
            if (resize_stays(a) && d + 1 < p->rank)
                p->tables[d].taps = 0;
        }
        p->strides[d] = stride;
        stride *= a->in;
        if (d + 1 < p->rank)
            p->rows *= a->out;
    }
}

/* Bytes of a worker's rows: one as the input's, one as the output's, and those that are kept. Decides what is kept. */
static uint64_t resize_scratch(resize_plan *p)
{
    const resize_axis *last = &p->axes[p->rank - 1];
    int64_t rows_in = 1, taps = 1;
    uint64_t elements;

    for (uint32_t d = 0; d + 1 < p->rank; d++) {
        rows_in *= p->axes[d].in;
        taps *= p->tables[d].taps > 0 && taps <= RESIZE_SLOTS ? p->tables[d].taps : 1;
    }
    p->few = taps <= RESIZE_SLOTS;
    p->grows = p->rows >= rows_in && p->few;
    elements = (uint64_t)(last->in * p->inner) + (uint64_t)(last->out * p->inner) * (p->grows ? RESIZE_SLOTS + 1 : 1);
    return (elements * sizeof(double) + 63) / 64 * 64;
}

bool resize_plan_count(resize_plan *p, const resize_rule *rule)
{
    p->table_bytes = p->scratch_bytes = 0;
    for (uint32_t d = 0; d < p->rank; d++) { /* bounded: taps < 2^32, out < 2^31 */
        uint64_t entries = (uint64_t)p->tables[d].taps * (uint64_t)p->axes[d].out;

        if (entries > UINT64_MAX / 64 / INLAY_MAX_RANK)
            return false;
        p->table_bytes += entries * (2 * sizeof(double)) + (entries * sizeof(int32_t) + 7) / 8 * 8;
    }
    if (rule->mode != RESIZE_NEAREST && p->rank > 0)
        p->scratch_bytes = resize_scratch(p);
    return true;
}

void resize_plan_fill(resize_plan *p, const resize_rule *rule, void *memory_)
{
    char *memory = memory_;

    for (uint32_t d = 0; d < p->rank; d++) {
        resize_table *t = &p->tables[d];
        uint64_t entries = (uint64_t)(t->taps * p->axes[d].out);
        if (rule->mode != RESIZE_NEAREST) {
            t->weight = (double *)(void *)memory;
            memory += entries * sizeof(double);
        }
        t->index = (int32_t *)(void *)memory;
        memory += (entries * sizeof(int32_t) + 7) / 8 * 8;
        if (t->taps > 0)
            resize_table_fill(rule, &p->axes[d], t);
        p->weights = t->weight;
        if (d + 1 == p->rank && t->weight != NULL && !p->wide) {
            p->weights = memory;
            for (uint64_t i = 0; i < entries; i++)
                ((float *)p->weights)[i] = (float)t->weight[i];
        }
    }
}
