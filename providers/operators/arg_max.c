/* ArgMax and ArgMin: ONNX 1, 11, 12, 13. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/args.h"
#include "simd/convert.h"
#include "operators/operators.h"
#include "simd/axis.h"
#include "simd/row_set.h"
#include "operators/strided.h"

enum { ARG_MIN = 1u << 0, ARG_LAST = 1u << 1, ARG_BLOCK = 1024 };

#define IS_NAN(x) __builtin_isnan(x)
#define BODY "arg_max.inc"
#include "operators/floats.inc"
#undef IS_NAN

#define IS_NAN(x) false
#define ACC T
#define LOAD(x) (x)
#define BODY "arg_max.inc"
#include "operators/integers.inc"

typedef void (*arg_rows_fn)(const void *data, int64_t count, int64_t begin, int64_t end, uint32_t how, int64_t *output);
static const struct {
    arg_rows_fn rows;
    axis_fn columns;
} by_dtype[INLAY_DTYPE_COUNT] = {
    [INLAY_FLOAT] = { arg_rows_f32, arg_columns_f32 },    [INLAY_DOUBLE] = { arg_rows_f64, arg_columns_f64 },
    [INLAY_FLOAT16] = { arg_rows_f16, arg_columns_f16 },  [INLAY_BFLOAT16] = { arg_rows_bf16, arg_columns_bf16 },
    [INLAY_INT8] = { arg_rows_i8, arg_columns_i8 },       [INLAY_INT16] = { arg_rows_i16, arg_columns_i16 },
    [INLAY_INT32] = { arg_rows_i32, arg_columns_i32 },    [INLAY_INT64] = { arg_rows_i64, arg_columns_i64 },
    [INLAY_UINT8] = { arg_rows_u8, arg_columns_u8 },      [INLAY_UINT16] = { arg_rows_u16, arg_columns_u16 },
    [INLAY_UINT32] = { arg_rows_u32, arg_columns_u32 },   [INLAY_UINT64] = { arg_rows_u64, arg_columns_u64 },
};

typedef struct arg_state_data {
    int64_t axis;
    uint32_t how;
    bool keep;
} arg_state_data;

static inlay_status prepare_arg(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_status status = arg_allocate_state(sizeof(arg_state_data), out_state, diag);

    if (status == INLAY_OK) {
        const bool last = kit_attr_int(node->info, "select_last_index", 0) != 0;
        const bool smallest = strcmp(kit_op_type(node), "ArgMin") == 0;

        *(arg_state_data *)*out_state = (arg_state_data){ .axis = kit_attr_int(node->info, "axis", 0),
                                                          .how = (smallest ? ARG_MIN : 0) | (last ? ARG_LAST : 0),
                                                          .keep = kit_attr_int(node->info, "keepdims", 1) != 0 };
    }
    return status;
}

typedef struct arg_job {
    const kit_tensor *in;
    int64_t *out;
    axis_cut cut;
    uint32_t how;
} arg_job;

/* Returns the index of the first element that equals `best` or is NaN; there must be one. Blocks without such an
 * element are skipped. */
static int64_t first_of(const float *input, int64_t count, float best)
{
    enum { BLOCK = 64 };
    int64_t at = 0;
    INLAY_CHECK(count > 0);

    for (; at + BLOCK <= count; at += BLOCK) {
        int32_t any = 0;

        for (int i = 0; i < BLOCK; i++)
            any |= (input[at + i] == best) | (input[at + i] != input[at + i]);
        if (any != 0)
            break;
    }
    while (at + 1 < count && input[at] != best && (best == best || input[at] == input[at]))
        at++;
    return at;
}

/* Processes rows [begin, end) of floats with the SIMD kernel that finds the best value of a row. */
static void rows_of_floats(const void *data, int64_t count, int64_t begin, int64_t end, uint32_t how, int64_t *output)
{
    INLAY_CHECK(count > 0);
    for (int64_t row = begin; row < end; row++) {
        const float *input = (const float *)data + row * count;
        float best;

        ((how & ARG_MIN) != 0 ? KERNEL_BEST(rows)->lows : KERNEL_BEST(rows)->tops)(input, &best, 1, count);
        output[row] = first_of(input, count, best);
    }
}

static inlay_status arg_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const arg_job *job = user;
    const inlay_dtype dtype = job->in->dtype;
    const arg_rows_fn rows =
        dtype == INLAY_FLOAT && (job->how & ARG_LAST) == 0 ? rows_of_floats : by_dtype[dtype].rows;

    (void)worker;
    if (axis_is_rows(&job->cut))
        rows(job->in->data, job->cut.n, begin, end, job->how, job->out);
    else
        axis_run(&job->cut, begin, end, job->in->data, job->out, by_dtype[dtype].columns, &job->how);
    return INLAY_OK;
}

static inlay_status run_arg(const kit_call *call)
{
    const arg_state_data *state = call->state;
    const kit_tensor *input = &call->in[0], *output = &call->out[0];
    arg_job job = { .in = input, .out = output->data, .how = state->how };
    int64_t dims[INLAY_MAX_RANK], outer;
    inlay_status status = INLAY_OK;
    uint32_t axis, rank = 0;

    if (by_dtype[input->dtype].rows == NULL)
        return inlay_fail(call->diag, INLAY_UNSUPPORTED, "elements of type %s", inlay_dtype_name(input->dtype));
    INLAY_TRY(arg_axis(call->diag, state->axis, input->rank, "axis", &axis));
    for (uint32_t i = 0; i < input->rank; i++) {
        if (i != axis)
            dims[rank++] = input->dims[i];
        else if (state->keep)
            dims[rank++] = 1;
    }
    INLAY_TRY(arg_expect_dims(call->diag, output, rank, dims));
    if (output->count == 0)
        goto done;
    if (input->dims[axis] == 0)
        return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "axis %u has no elements to choose from", axis);
    if (input->dims[axis] > INT32_MAX)
        return inlay_fail(call->diag, INLAY_LIMIT_EXCEEDED, "axis %u has more than 2^31 elements", axis);
    outer = strided_product(input->dims, 0, axis);
    job.cut = axis_cut_of(outer, input->dims[axis], strided_product(input->dims, axis + 1, input->rank),
                          inlay_dtype_bits(input->dtype) / 8, sizeof *job.out, true, ARG_BLOCK,
                          axis_few_rows_from(outer, 4));
    INLAY_TRY(kit_parallel(call, job.cut.units, 32768 / (input->count / job.cut.units + 1) + 1, arg_units, &job));
done:
    return status;
}

static const kit_kernel kernels[] = {
    { .op_type = "ArgMax", .prepare = prepare_arg, .run = run_arg },
    { .op_type = "ArgMin", .prepare = prepare_arg, .run = run_arg },
};
const kit_table OPERATOR(operators_arg_max) = { kernels, KIT_COUNT(kernels) };
