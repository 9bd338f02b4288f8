/* The scale of attention, and its masks: their strides, and the number of keys that they have columns for. */
#include "cpu/attention/attention.h"
#include "cpu/region/build.h"
#include "cpu/weights/read.h"
#include "inlay/check.h"
#include <math.h>

float cpu_attention_scale(const cpu_op *op, int64_t size)
{
    return op->alpha != 0 ? op->alpha : 1 / sqrtf((float)size);
}

int64_t cpu_mask_columns(const cpu_build *build)
{
    const cpu_op *op = build->op;
    const int64_t keys = build->dims[op->in[1]][2];
    int64_t columns;

    if (op->in_count < 4 || op->in[3] == INLAY_NONE)
        return keys;
    INLAY_CHECK(build->ranks[op->in[3]] > 0);
    columns = build->dims[op->in[3]][build->ranks[op->in[3]] - 1];
    return columns < keys ? columns : keys;
}

inlay_status cpu_read_mask(cpu_build *build, uint32_t input, cpu_mask *mask, cpu_place *out)
{
    const uint32_t value = input < build->op->in_count ? build->op->in[input] : INLAY_NONE;

    *mask = (cpu_mask){ .there = value != INLAY_NONE };
    if (!mask->there)
        return INLAY_OK;
    {
        const int64_t *dims = build->dims[value];
        uint32_t rank = build->ranks[value];
        int64_t stride, *const steps[] = { &mask->query, &mask->head, &mask->batch };

        INLAY_CHECK(rank > 0 && rank <= 4);
        stride = dims[rank - 1];
        mask->step = stride == 1 ? 0 : 1;
        for (uint32_t d = 2; d <= rank && d <= 4; d++) {
            *steps[d - 2] = dims[rank - d] == 1 ? 0 : stride;
            stride *= dims[rank - d];
        }
    }
    return cpu_read_plain(build, value, out);
}
