/* resize_plan.c - plans a Resize at concrete shapes: merges axes, and fills their tables. */
#include "inlay/check.h"
#include "common/resize_rows.h"

static bool resize_is_identity(const resize_axis *axis)
{
    return axis->in == axis->out && axis->exact && axis->roi_begin == 0 && axis->roi_end == 1;
}

void resize_plan_axes(resize_plan *plan, const resize_rule *rule, const resize_axis *axes, uint32_t rank, int64_t inner)
{
    uint32_t first = rank, last = 0, kept = 0;
    int64_t stride, outer = 1;

    for (uint32_t d = 0; d < rank; d++) {
        if (resize_is_identity(&axes[d]))
            continue;
        first = d < first ? d : first;
        last = d;
    }
    plan->rank = 0;
    plan->inner = inner;
    plan->rows = 1;
    if (first == rank)
        return;
    for (uint32_t d = 0; d < first; d++)
        outer *= axes[d].in;
    if (outer > 1) {
        plan->axes[0] = (resize_axis){ .in = outer, .out = outer, .scale = 1, .exact = true };
        kept = 1;
    }
    for (uint32_t d = last + 1; d < rank; d++)
        plan->inner *= axes[d].in;
    plan->rank = kept + last + 1 - first;
    stride = plan->inner;
    for (uint32_t d = plan->rank; d-- > 0;) {
        resize_axis *axis = &plan->axes[d];
        if (d >= kept) {
            *axis = axes[first + d - kept];
            plan->tables[d].taps = resize_taps(rule, axis);
            if (resize_is_identity(axis) && d + 1 < plan->rank)
                plan->tables[d].taps = 0;
        }
        plan->strides[d] = stride;
        stride *= axis->in;
        if (d + 1 < plan->rank)
            plan->rows *= axis->out;
    }
}

/* Returns the bytes of a worker's rows: an input row, an output row, and cached rows. Also decides whether rows are
 * cached. */
static uint64_t resize_scratch(resize_plan *plan)
{
    const resize_axis *last = &plan->axes[plan->rank - 1];
    int64_t rows_in = 1, taps = 1;
    uint64_t elements;

    for (uint32_t d = 0; d + 1 < plan->rank; d++) {
        rows_in *= plan->axes[d].in;
        taps *= plan->tables[d].taps > 0 && taps <= RESIZE_SLOTS ? plan->tables[d].taps : 1;
    }
    plan->few_input_rows = taps <= RESIZE_SLOTS;
    plan->caches_rows = plan->rows >= rows_in && plan->few_input_rows;
    elements = (uint64_t)(last->in * plan->inner) +
               (uint64_t)(last->out * plan->inner) * (plan->caches_rows ? RESIZE_SLOTS + 1 : 1);
    return (elements * sizeof(double) + 63) / 64 * 64;
}

bool resize_plan_count(resize_plan *plan, const resize_rule *rule)
{
    plan->table_bytes = plan->scratch_bytes = 0;
    for (uint32_t d = 0; d < plan->rank; d++) { /* the product cannot overflow: taps < 2^32, out < 2^31 */
        uint64_t entries = (uint64_t)plan->tables[d].taps * (uint64_t)plan->axes[d].out;

        if (entries > UINT64_MAX / 64 / INLAY_MAX_RANK)
            return false;
        plan->table_bytes += entries * (2 * sizeof(double)) + (entries * sizeof(int32_t) + 7) / 8 * 8;
    }
    if (rule->mode != RESIZE_NEAREST && plan->rank > 0)
        plan->scratch_bytes = resize_scratch(plan);
    return true;
}

/* Whether element o of `out` is a sum of elements 2 o and 2 o + 1. */
static bool adds_pairs(const resize_table *table, int64_t out)
{
    bool pairs = table->taps == 2;

    for (int64_t o = 0; o < out && pairs; o++)
        pairs = table->index[o] == 2 * o && table->index[out + o] == 2 * o + 1;
    return pairs;
}

void resize_plan_fill(resize_plan *plan, const resize_rule *rule, void *memory)
{
    char *next = memory;

    INLAY_CHECK(plan->rank == 0 || (uintptr_t)memory % sizeof(double) == 0);
    for (uint32_t d = 0; d < plan->rank; d++) {
        resize_table *table = &plan->tables[d];
        uint64_t entries = (uint64_t)(table->taps * plan->axes[d].out);
        if (rule->mode != RESIZE_NEAREST) {
            table->weight = (double *)(void *)next;
            next += entries * sizeof(double);
        }
        table->index = (int32_t *)(void *)next;
        next += (entries * sizeof(int32_t) + 7) / 8 * 8;
        if (table->taps > 0)
            resize_table_fill(rule, &plan->axes[d], table);
        plan->weights = table->weight;
        plan->pairs = adds_pairs(table, plan->axes[d].out);
        if (d + 1 == plan->rank && table->weight != NULL && !plan->wide) {
            plan->weights = next;
            for (uint64_t i = 0; i < entries; i++)
                ((float *)plan->weights)[i] = (float)table->weight[i];
        }
    }
    INLAY_CHECK((uint64_t)(next - (char *)memory) <= plan->table_bytes);
}
