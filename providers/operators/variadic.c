/* Max and Min (ONNX 1, 6, 8, 12, 13), Sum and Mean (1, 6, 8, 13) of any number of inputs, broadcast since version 8.
 * Two inputs are computed by one binary loop. More inputs are accumulated in blocks, so that intermediate sums stay in
 * the cache and, for float16 and bfloat16, in float. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "inlay/graph_view.h"
#include "operators/elementwise.h"
#include <stdlib.h>

/* NaN wins, as in numpy.maximum. */
#define MAX(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
#define MIN(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))
#define SUM(a, b) ((a) + (b))

#define T float
#define RESULT float
#define LOOP sum_f32
#define OP SUM
#include "operators/binary.inc"
#undef OP
#define LOOP max_f32
#define OP MAX
#include "operators/binary.inc"
#undef OP
#define LOOP min_f32
#define OP MIN
#include "operators/binary.inc"
#undef OP
#define LOOP div_f32
#define OP(a, b) ((a) / (b))
#include "operators/binary.inc"
#undef OP
#undef T
#undef RESULT
#define T double
#define RESULT double
#define LOOP sum_f64
#define OP SUM
#include "operators/binary.inc"
#undef OP
#define LOOP max_f64
#define OP MAX
#include "operators/binary.inc"
#undef OP
#define LOOP min_f64
#define OP MIN
#include "operators/binary.inc"
#undef OP
#define LOOP div_f64
#define OP(a, b) ((a) / (b))
#include "operators/binary.inc"
#undef OP
#undef T
#undef RESULT
#undef MAX
#undef MIN
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define BODY "variadic.inc"
#include "operators/integers.inc"

#define NUMBERS(name)                                                                                                  \
    [INLAY_FLOAT] = name##_f32, [INLAY_DOUBLE] = name##_f64, [INLAY_UINT8] = name##_u8, [INLAY_UINT16] = name##_u16,   \
    [INLAY_UINT32] = name##_u32, [INLAY_UINT64] = name##_u64, [INLAY_INT8] = name##_i8, [INLAY_INT16] = name##_i16,    \
    [INLAY_INT32] = name##_i32, [INLAY_INT64] = name##_i64
static const elementwise_binary_fn max_by_dtype[INLAY_DTYPE_COUNT] = { NUMBERS(max) };
static const elementwise_binary_fn min_by_dtype[INLAY_DTYPE_COUNT] = { NUMBERS(min) };

typedef struct variadic_state {
    elementwise_binary pair; /* the first member, because with two inputs this struct is the state of a binary kernel */
    uint32_t inputs;
    elementwise_binary_fn divide; /* Mean: divides the sum by the divisor in the type of the loop */
    union {
        float f32;
        double f64;
    } divisor;
} variadic_state;

static inlay_status prepare_variadic(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_dtype dtype = kit_input_dtype(node, 0);
    variadic_state *state = calloc(1, sizeof *state);

    *out_state = state;
    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a kernel's state");
    state->pair.compute = dtype == INLAY_FLOAT16 || dtype == INLAY_BFLOAT16 ? INLAY_FLOAT : dtype;
    state->pair.result = state->pair.compute;
    state->inputs = node->info->input_count;
    if (elementwise_is(node->info, "Mean") && state->pair.compute == INLAY_DOUBLE) {
        state->divide = div_f64;
        state->divisor.f64 = (double)state->inputs;
    } else if (elementwise_is(node->info, "Mean")) {
        state->divide = div_f32;
        state->divisor.f32 = (float)state->inputs;
    }
    if (elementwise_is(node->info, "Max"))
        state->pair.fn = max_by_dtype[state->pair.compute];
    else if (elementwise_is(node->info, "Min"))
        state->pair.fn = min_by_dtype[state->pair.compute];
    else
        state->pair.fn = state->pair.compute == INLAY_DOUBLE ? sum_f64 : sum_f32;
    return INLAY_OK;
}

static bool is_pair(const variadic_state *state)
{
    return state->inputs == 2 && state->divide == NULL;
}

static inlay_status shape_variadic(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const variadic_state *variadic = state;

    for (uint32_t input = 0; input < plan->in_count; input++)
        if (plan->in[input].dtype == INLAY_UNDEFINED)
            return inlay_fail(diag, INLAY_INVALID_MODEL, "input %u is omitted; all inputs of the operator are required",
                              (unsigned)input);
    if (is_pair(variadic))
        return elementwise_binary_shape(state, plan, diag);
    struct bcast *broadcasts = calloc(plan->in_count > 0 ? plan->in_count : 1, sizeof *broadcasts);
    if (broadcasts == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a broadcast plan");
    plan->plan = broadcasts;
    for (uint32_t input = 0; input < plan->in_count; input++)
        if (!bcast_init_tensors(&broadcasts[input], 1, &plan->in[input], &plan->out[0]))
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                              "input %u does not broadcast to the output; make its "
                              "dimensions equal or 1, counted from the last",
                              (unsigned)input);
    return INLAY_OK;
}

/* acc[i] = input[i] if `start`, otherwise fn(acc[i], input[i]), for elements [first, first + count) of the output. */
static void accumulate(const variadic_state *state, const struct bcast *bcast, const kit_tensor *input, int64_t first,
                       int64_t count, bool start, char *acc)
{
    int64_t buffer[ELEMENTWISE_BLOCK], bytes = elementwise_bytes(state->pair.compute);
    bcast_cursor cursor;
    INLAY_CHECK(count <= ELEMENTWISE_BLOCK);

    for (bcast_start(bcast, first, &cursor); bcast_row(bcast, &cursor, first + count);) {
        char *to = acc + (cursor.out - first) * bytes;
        const char *from = elementwise_load(state->pair.compute, input->dtype, input->data, cursor.at[0],
                                            bcast->step[0] != 0 ? cursor.count : 1, buffer);
        if (!start)
            state->pair.fn(to, to, 1, from, bcast->step[0], cursor.count);
        else if (bcast->step[0] != 0)
            memcpy(to, from, (size_t)(cursor.count * bytes));
        else
            for (int64_t i = 0; i < cursor.count; i++)
                memcpy(to + i * bytes, from, (size_t)bytes);
    }
}

static inlay_status variadic_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const variadic_state *state = call->state;
    const struct bcast *broadcasts = call->plan;
    const kit_tensor *output = &call->out[0];

    (void)worker;
    for (int64_t i = begin; i < end; i += ELEMENTWISE_BLOCK) {
        int64_t acc[ELEMENTWISE_BLOCK], count = end - i < ELEMENTWISE_BLOCK ? end - i : ELEMENTWISE_BLOCK;

        for (uint32_t input = 0; input < call->in_count; input++)
            accumulate(state, &broadcasts[input], &call->in[input], i, count, input == 0, (char *)acc);
        if (state->divide != NULL)
            state->divide(acc, acc, 1, &state->divisor, 0, count);
        if (output->dtype == state->pair.compute)
            memcpy((char *)output->data + i * elementwise_bytes(output->dtype), acc,
                   (size_t)(count * elementwise_bytes(output->dtype)));
        else
            elementwise_store(state->pair.compute, output->dtype, output->data, i, count, acc);
    }
    return INLAY_OK;
}

static inlay_status run_variadic(const kit_call *call)
{
    const variadic_state *state = call->state;

    if (is_pair(state))
        return elementwise_binary_run(call);
    return kit_parallel(call, call->out[0].count, ELEMENTWISE_GRAIN, variadic_range, (void *)(uintptr_t)call);
}

#define VARIADIC(name, types)                                                                                          \
    {                                                                                                                  \
        .op_type = name, .in_types = { types }, .flags = KIT_IN_PLACE, .prepare = prepare_variadic,                    \
        .shape = shape_variadic, .run = run_variadic                                                                   \
    }
static const kit_kernel kernels[] = {
    VARIADIC("Max", KIT_NUMBERS),
    VARIADIC("Min", KIT_NUMBERS),
    VARIADIC("Sum", KIT_FLOATS),
    VARIADIC("Mean", KIT_FLOATS),
};
const kit_table OPERATOR(operators_variadic) = { kernels, KIT_COUNT(kernels) };
