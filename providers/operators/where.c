/* Where: ONNX 9, 16. Copies elements by size, independent of type; a string is copied as a reference. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/elementwise.h"
#include <stdlib.h>

#define T uint32_t
#define SUFFIX 4
#include "operators/where.inc"
#define T uint8_t
#define SUFFIX 1
#include "operators/where.inc"
#define T uint16_t
#define SUFFIX 2
#include "operators/where.inc"
#define T uint64_t
#define SUFFIX 8
#include "operators/where.inc"
#define T inlay_str
#define SUFFIX 16
#include "operators/where.inc"

typedef void (*where_fn)(void *out, const uint8_t *condition, int64_t condition_step, const void *true_data,
                         int64_t true_step, const void *false_data, int64_t false_step, int64_t count);

typedef struct where_plan {
    struct bcast bcast;
    where_fn fn;
    int64_t bytes;
} where_plan;

static inlay_status shape_where(const void *state, kit_plan *plan, inlay_diag *diag)
{
    where_plan *where = kit_plan_new(plan, sizeof *where);

    (void)state;
    if (where == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a broadcast plan");
    if (!bcast_init_tensors(&where->bcast, 3, plan->in, &plan->out[0]))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "Where: condition, X and Y do not broadcast; make their dimensions "
                          "equal or 1, counted from the last");
    where->bytes = elementwise_bytes(plan->in[1].dtype);
    where->fn = where->bytes == 4   ? where_4
                : where->bytes == 8 ? where_8
                : where->bytes == 1 ? where_1
                : where->bytes == 2 ? where_2
                                    : where_16;
    return INLAY_OK;
}

/* For short rows: expands broadcast inputs to blocks, so that the loop gets long rows. */
static void where_blocks(const kit_call *call, int64_t begin, int64_t end)
{
    const where_plan *plan = call->plan;
    int64_t expanded[3][2 * ELEMENTWISE_BLOCK]; /* 16 bytes per element: strings */

    INLAY_CHECK(plan->bcast.rank > 1);
    for (int64_t first = begin, block; first < end; first += block) {
        const char *from[3];
        int64_t step[3];

        block = end - first < ELEMENTWISE_BLOCK ? end - first : ELEMENTWISE_BLOCK;
        for (int input = 0; input < 3; input++) {
            int64_t bytes = input == 0 ? 1 : plan->bytes, element_count = call->in[input].count;

            step[input] = element_count != 1;
            from[input] = (const char *)call->in[input].data + (element_count == plan->bcast.count ? first * bytes : 0);
            if (element_count == 1 || element_count == plan->bcast.count)
                continue;
            elementwise_spread(expanded[input], from[input], bytes, &plan->bcast, input, first, block);
            from[input] = (const char *)expanded[input];
        }
        plan->fn((char *)call->out[0].data + first * plan->bytes, (const uint8_t *)from[0], step[0], from[1], step[1],
                 from[2], step[2], block);
    }
}

static inlay_status where_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const where_plan *plan = call->plan;
    const struct bcast *bcast = &plan->bcast;
    bcast_cursor cursor;

    (void)worker;
    if (bcast->rank > 1 && bcast->row < ELEMENTWISE_SMALL_ROW) {
        where_blocks(call, begin, end);
        return INLAY_OK;
    }
    for (bcast_start(bcast, begin, &cursor); bcast_row(bcast, &cursor, end);)
        plan->fn((char *)call->out[0].data + cursor.out * plan->bytes, (const uint8_t *)call->in[0].data + cursor.at[0],
                 bcast->step[0], (const char *)call->in[1].data + cursor.at[1] * plan->bytes, bcast->step[1],
                 (const char *)call->in[2].data + cursor.at[2] * plan->bytes, bcast->step[2], cursor.count);
    return INLAY_OK;
}

static inlay_status run_where(const kit_call *call)
{
    const where_plan *plan = call->plan;

    return kit_parallel(call, plan->bcast.count, ELEMENTWISE_GRAIN, where_range, (void *)(uintptr_t)call);
}

static const kit_kernel kernels[] = {
    { .op_type = "Where",
      .in_types = { KIT_BIT(BOOL), KIT_NUMBERS | KIT_BIT(BOOL) | KIT_BIT(STRING) | KIT_COMPLEX },
      .flags = KIT_IN_PLACE,
      .shape = shape_where,
      .run = run_where },
};
const kit_table OPERATOR(operators_where) = { kernels, KIT_COUNT(kernels) };
