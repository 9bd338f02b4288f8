/* QuantizeRows and DequantizeRows of ai.inlay: keys and values in 8 or 4 bits (common/cache_rows.h). */
#include "operators/instance.h"
#include "inlay/check.h"
#include "common/cache_rows.h"
#include "operators/args.h"
#include "operators/operators.h"

enum { WORK_GRAIN = 1 << 14 /* minimum elements per thread */ };

typedef struct rows_state {
    int32_t bits;
    int64_t size; /* elements of a row; QuantizeRows: 0 */
} rows_state;

typedef struct rows_plan {
    cache_format format;
    int64_t rows, positions, heads;
    int64_t head_step, step; /* elements of the scales from one head, and from one element, to the next */
    uint64_t row_bytes;      /* of a thread's copy of a row */
} rows_plan;

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const inlay_status status = arg_allocate_state(sizeof(rows_state), out_state, diag);

    if (status == INLAY_OK)
        *(rows_state *)*out_state = (rows_state){ .bits = (int32_t)kit_attr_int(node->info, "bits", 8),
                                                  .size = kit_attr_int(node->info, "size", 0) };
    return status;
}

/* floats: the tensor of elements; bytes: that of codes. */
static inlay_status plan_rows(kit_plan *plan, const rows_state *state, const kit_tensor *floats,
                              const kit_tensor *bytes, inlay_diag *diag)
{
    const kit_tensor *scales = plan->in_count > 1 && plan->in[1].dtype != INLAY_UNDEFINED ? &plan->in[1] : NULL;
    const uint32_t rank = floats->rank;
    rows_plan *rows = kit_plan_new(plan, sizeof *rows);

    if (rows == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a plan");
    if (rank == 0 || bytes->rank != rank)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the elements have rank %u, the codes %u", rank, bytes->rank);
    rows->format = (cache_format){ .size = floats->dims[rank - 1], .bits = state->bits, .own = scales == NULL };
    if (bytes->dims[rank - 1] != cache_row_bytes(&rows->format))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "a row of %lld elements has %lld bytes, not %lld",
                          (long long)rows->format.size, (long long)cache_row_bytes(&rows->format),
                          (long long)bytes->dims[rank - 1]);
    rows->rows = rows->format.size > 0 ? floats->count / rows->format.size : 0;
    rows->positions = rank > 1 ? floats->dims[rank - 2] : 1;
    rows->heads = rank > 2 ? floats->dims[rank - 3] : 1;
    if (scales != NULL && scales->count != 1) {
        rows->head_step = rows->format.size;
        rows->step = 1;
        if (scales->count != rows->heads * rows->format.size)
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                              "there are %lld scales; expected 1, or one for each of %lld heads of %lld elements",
                              (long long)scales->count, (long long)rows->heads, (long long)rows->format.size);
    }
    rows->row_bytes = (uint64_t)rows->format.size * sizeof(float);
    plan->workspace_bytes = rows->row_bytes * plan->max_threads;
    return INLAY_OK;
}

static inlay_status shape_quantize(const void *state, kit_plan *plan, inlay_diag *diag)
{
    return plan_rows(plan, state, &plan->in[0], &plan->out[0], diag);
}

static inlay_status shape_dequantize(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const rows_state *attributes = state;

    if (plan->out[0].rank > 0 && plan->out[0].dims[plan->out[0].rank - 1] != attributes->size)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the output has rows of %lld elements, not %lld",
                          (long long)plan->out[0].dims[plan->out[0].rank - 1], (long long)attributes->size);
    return plan_rows(plan, state, &plan->out[0], &plan->in[0], diag);
}

/* The scales of a row; NULL: it has its own. */
static const float *scales_of(const kit_call *call, int64_t row)
{
    const rows_plan *plan = call->plan;

    if (plan->format.own)
        return NULL;
    return (const float *)call->in[1].data + row / plan->positions % plan->heads * plan->head_step;
}

static inlay_status quantize_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const rows_plan *plan = call->plan;
    const int64_t bytes = cache_row_bytes(&plan->format), size = plan->format.size;
    float *room = (float *)(void *)((char *)call->workspace + worker * plan->row_bytes);

    for (int64_t row = begin; row < end; row++) {
        const float *from = (const float *)call->in[0].data + row * size, *scales = scales_of(call, row);
        uint8_t *to = (uint8_t *)call->out[0].data + row * bytes;

        if (scales == NULL) {
            memcpy(room, from, (size_t)size * sizeof *room);
            cache_encode_own(&plan->format, room, to);
            continue;
        }
        for (int64_t i = 0; i < size; i++)
            room[i] = cache_inverse(scales[i * plan->step]);
        cache_codes(&plan->format, from, room, 1, to);
    }
    return INLAY_OK;
}

static inlay_status dequantize_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const rows_plan *plan = call->plan;
    const int64_t bytes = cache_row_bytes(&plan->format), size = plan->format.size;

    (void)worker;
    for (int64_t row = begin; row < end; row++)
        cache_decode(&plan->format, (const uint8_t *)call->in[0].data + row * bytes, scales_of(call, row), plan->step,
                     (float *)call->out[0].data + row * size);
    return INLAY_OK;
}

static inlay_status run_rows(const kit_call *call,
                             inlay_status (*range)(void *user, int64_t begin, int64_t end, uint32_t worker))
{
    const rows_plan *plan = call->plan;

    INLAY_CHECK(plan->positions > 0 || plan->rows == 0);
    return plan->rows == 0 ? INLAY_OK
                           : kit_parallel(call, plan->rows, WORK_GRAIN / (plan->format.size + 1) + 1, range,
                                          (void *)(uintptr_t)call);
}

static inlay_status quantize(const kit_call *call)
{
    return run_rows(call, quantize_range);
}

static inlay_status dequantize(const kit_call *call)
{
    return run_rows(call, dequantize_range);
}

#define ROWS .domain = "ai.inlay", .since_max = 1, .prepare = prepare
static const kit_kernel kernels[] = {
    { ROWS, .op_type = "DequantizeRows", .shape = shape_dequantize, .run = dequantize },
    { ROWS, .op_type = "QuantizeRows", .shape = shape_quantize, .run = quantize },
};
const kit_table OPERATOR(operators_cache_rows) = { kernels, KIT_COUNT(kernels) };
