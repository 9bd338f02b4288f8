/* CumSum (ONNX 11, 14) and CumProd (26). Integers wrap; float16 and bfloat16 accumulate in float. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/args.h"
#include "simd/convert.h"
#include "operators/elementwise.h"
#include "operators/lanes.h"
#include "operators/operators.h"
#include "operators/strided.h"
#include "simd/axis.h"

enum { CUMULATE_EXCLUSIVE = 1u << 0, CUMULATE_REVERSE = 1u << 1 };
/* FEW_COLUMNS: fewer of 16-bit types are transposed, and all that are together are one tile (GROUPED). */
enum { FEW_ROWS = 4, FEW_COLUMNS = 16, WIDE = 2048, GROUPED = 1 << 20 };

#define ADD(a, b) ((a) + (b))
#define MUL(a, b) ((a) * (b))
#define PLAIN(x) (x)

#define ROWS_ADD
#define T float
#define ACC float
#define LOAD PLAIN
#define STORE PLAIN
#define NAME(x) x##_add_f32
#define OP ADD
#define START 0
#include "operators/cumulative.inc"
#define NAME(x) x##_mul_f32
#define OP MUL
#define START 1
#include "operators/cumulative.inc"
#undef T
#undef ACC
#define T double
#define ACC double
#define NAME(x) x##_add_f64
#define OP ADD
#define START 0
#include "operators/cumulative.inc"
#define NAME(x) x##_mul_f64
#define OP MUL
#define START 1
#include "operators/cumulative.inc"
#undef T
#undef ACC
#define T uint32_t
#define ACC uint32_t
#define NAME(x) x##_add_u32
#define OP ADD
#define START 0
#include "operators/cumulative.inc"
#define NAME(x) x##_mul_u32
#define OP MUL
#define START 1
#include "operators/cumulative.inc"
#undef T
#undef ACC
#define T uint64_t
#define ACC uint64_t
#define NAME(x) x##_add_u64
#define OP ADD
#define START 0
#include "operators/cumulative.inc"
#define NAME(x) x##_mul_u64
#define OP MUL
#define START 1
#include "operators/cumulative.inc"
#undef T
#undef ACC
#undef ROWS_ADD
#undef LOAD
#undef STORE
#define T uint16_t
#define ACC float
#define DTYPE INLAY_FLOAT16
#define LOAD f16_to_f32
#define STORE f32_to_f16
#define NAME(x) x##_add_f16
#define OP ADD
#define START 0
#include "operators/cumulative.inc"
#define NAME(x) x##_mul_f16
#define OP MUL
#define START 1
#include "operators/cumulative.inc"
#undef DTYPE
#undef LOAD
#undef STORE
#define DTYPE INLAY_BFLOAT16
#define LOAD bf16_to_f32
#define STORE f32_to_bf16
#define NAME(x) x##_add_bf16
#define OP ADD
#define START 0
#include "operators/cumulative.inc"
#define NAME(x) x##_mul_bf16
#define OP MUL
#define START 1
#include "operators/cumulative.inc"

typedef void (*cumulate_fn)(const void *in, void *out, int64_t count, int64_t inner, int64_t begin, int64_t end,
                            uint32_t how);
static const cumulate_fn by_dtype[INLAY_DTYPE_COUNT][2] = {
    [INLAY_FLOAT] = { cumulate_add_f32, cumulate_mul_f32 },
    [INLAY_DOUBLE] = { cumulate_add_f64, cumulate_mul_f64 },
    [INLAY_FLOAT16] = { cumulate_add_f16, cumulate_mul_f16 },
    [INLAY_BFLOAT16] = { cumulate_add_bf16, cumulate_mul_bf16 },
    [INLAY_INT32] = { cumulate_add_u32, cumulate_mul_u32 },
    [INLAY_UINT32] = { cumulate_add_u32, cumulate_mul_u32 },
    [INLAY_INT64] = { cumulate_add_u64, cumulate_mul_u64 },
    [INLAY_UINT64] = { cumulate_add_u64, cumulate_mul_u64 },
};

typedef struct cumulate_state {
    uint32_t how;
    uint32_t product;
} cumulate_state;

static inlay_status prepare_cumulate(const kit_node *node, void **out_state, inlay_diag *diag)
{
    inlay_status status = arg_allocate_state(sizeof(cumulate_state), out_state, diag);

    if (status == INLAY_OK)
        *(cumulate_state *)*out_state = (cumulate_state){
            .how = (kit_attr_int(node->info, "exclusive", 0) != 0 ? CUMULATE_EXCLUSIVE : 0) |
                   (kit_attr_int(node->info, "reverse", 0) != 0 ? CUMULATE_REVERSE : 0),
            .product = strcmp(kit_op_type(node), "CumProd") == 0,
        };
    return status;
}

typedef struct cumulate_job {
    const void *in;
    void *out;
    cumulate_fn run;
    int64_t count, inner, columns;
    int64_t width; /* columns of a unit of work */
    axis_cut cut;  /* of columns that are transposed */
    uint32_t how;
} cumulate_job;

/* An axis_fn for transposed tiles; ctx: a cumulate_job. */
static void cumulate_columns(const void *ctx, const void *input, void *output, const axis_tile *tile)
{
    const cumulate_job *job = ctx;

    INLAY_CHECK(tile->columns == tile->stride);
    job->run(input, output, tile->rows, tile->columns, 0, tile->columns, job->how);
}

static inlay_status cumulate_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const cumulate_job *job = user;

    (void)worker;
    axis_run(&job->cut, begin, end, job->in, job->out, cumulate_columns, job);
    return INLAY_OK;
}

static inlay_status cumulate_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const cumulate_job *job = user;
    const int64_t past = end * job->width;

    (void)worker;
    INLAY_CHECK(job->count > 0 && job->inner > 0 && job->width > 0);
    job->run(job->in, job->out, job->count, job->inner, begin * job->width, past < job->columns ? past : job->columns,
             job->how);
    return INLAY_OK;
}

/* The columns of a unit, of `columns` in rows of `inner`, if threads take at least `grain` columns. Narrow parts of
 * long rows would be read from other pages than those that the processor fetches by itself, so there are no more parts
 * than threads, up to WIDE columns each. */
static int64_t width_of(int64_t inner, int64_t columns, int64_t grain, int64_t threads)
{
    const int64_t most = columns / grain < threads ? columns / grain : threads;
    int64_t width = most > 1 ? (columns + most - 1) / most : columns;

    width = width < inner ? width : inner;
    width = width < WIDE ? width : WIDE;
    return inner == 1 ? 1 : width;
}

static inlay_status run_cumulate(const kit_call *call)
{
    const cumulate_state *state = call->state;
    const kit_tensor *input = &call->in[0], *output = &call->out[0];
    cumulate_job job = { input->data, output->data, by_dtype[input->dtype][state->product], .how = state->how };
    inlay_status status = INLAY_OK;
    int64_t grain, bytes;
    uint32_t axis;

    if (job.run == NULL)
        return inlay_fail(call->diag, INLAY_UNSUPPORTED, "elements of type %s", inlay_dtype_name(input->dtype));
    if (call->in[1].count != 1)
        return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "axis must hold one value");
    INLAY_TRY(arg_axis(call->diag, arg_index(&call->in[1], 0), input->rank, "axis", &axis));
    INLAY_TRY(arg_expect_dims(call->diag, output, input->rank, input->dims));
    if (output->count == 0)
        goto done;
    job.count = input->dims[axis];
    job.inner = strided_product(input->dims, axis + 1, input->rank);
    job.columns = output->count / job.count;
    bytes = inlay_dtype_bits(input->dtype) / 8;
    job.cut = axis_cut_of(job.columns / job.inner, job.count, job.inner, bytes, bytes, false, GROUPED,
                          axis_few_rows_from(job.columns / job.inner, 2 * FEW_ROWS));
    if (job.cut.group > 0 && (job.inner == 1 || (job.inner < FEW_COLUMNS && bytes == sizeof(uint16_t)))) {
        grain = 32768 / (output->count / job.cut.units + 1) + 1;
        status = kit_parallel(call, job.cut.units, grain, cumulate_units, &job);
        goto done;
    }
    grain = 32768 / job.count + 64;
    job.width = width_of(job.inner, job.columns, grain, call->max_threads);
    INLAY_TRY(kit_parallel(call, (job.columns + job.width - 1) / job.width, (grain + job.width - 1) / job.width,
                           cumulate_range, &job));
done:
    return status;
}

/* In long contiguous rows each sum waits for the one before it; columns are computed as vectors, few of which are
 * filled. */
static void cost_cumulate(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    enum { FULL = 64 };
    const kit_tensor *input = &shapes->in[0], *axis = &shapes->in[1];
    int64_t at = axis->data != NULL && axis->count == 1 ? arg_index(axis, 0) : -1, inner;
    double each;

    (void)node;
    at += at < 0 ? (int64_t)input->rank : 0;
    if (input->count <= 0 || at < 0 || at >= (int64_t)input->rank)
        return;
    inner = strided_product(input->dims, (uint32_t)at + 1, input->rank);
    each = inner == 1 && input->dims[at] >= AXIS_LONG ? 0.4
           : inner < FULL                             ? 0.05 * strided_element_bytes(input->dtype)
                                                      : 0.02 * strided_element_bytes(input->dtype);
    cost->ns = 60 + each * (double)input->count;
}

#define CUMULATIVE(name)                                                                                               \
    {                                                                                                                  \
        .op_type = name, .flags = KIT_IN_PLACE_FIRST, .prepare = prepare_cumulate, .cost = cost_cumulate,              \
        .run = run_cumulate                                                                                            \
    }
static const kit_kernel kernels[] = {
    CUMULATIVE("CumSum"),
    CUMULATIVE("CumProd"),
};
const kit_table OPERATOR(operators_cumulative) = { kernels, KIT_COUNT(kernels) };
