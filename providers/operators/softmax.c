/* Softmax, LogSoftmax, Hardmax: ONNX 1, 11, 13. Before version 13 the tensor is flattened to a matrix at `axis`. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "simd/convert.h"
#include "operators/lanes.h"
#include "operators/operators.h"
#include "simd/row_set.h"
#include "simd/vecmath.h"
#include <math.h>
#include <stdlib.h>

enum { SOFTMAX, LOG_SOFTMAX, HARDMAX };
enum {
    SOFTMAX_TILE = 256,
    SOFTMAX_GRAIN = 1 << 13,
    SOFTMAX_NARROW = 4096,
    SOFTMAX_FEW = 16,
    SOFTMAX_ROOM = 1 << 16 /* maximum number of floats in a tile of float16 or bfloat16 elements */
};

#define NAME(what) what##_f64
#define T double
#define ACC double
#define EXP(v) vd_exp(v)
#define LOG(v) vd_log(v)
#include "operators/softmax.inc"
#define NAME(what) what##_f32
#define T float
#define ACC float
#define EXP(v) vm_exp(v)
#define LOG(v) vm_log(v)
#include "operators/softmax.inc"

typedef void (*softmax_fn)(const void *input, void *output, int64_t count, int64_t stride, int64_t columns,
                           uint32_t kind);

/* 1 at the first maximum of a row, 0 elsewhere. */
static void hardmax_row(const float *input, float *output, int64_t count)
{
    enum { SOME = 64 };
    float top;
    int64_t at = 0;
    int found = 0;

    KERNEL_BEST(rows)->tops(input, &top, 1, count);
    if (top != top) { /* NaN; the maximum of the others counts */
        softmax_row_f32(input, output, count, 1, 1, HARDMAX);
        return;
    }
    while (found == 0 && at + SOME <= count) {
        for (int64_t i = at; i < at + SOME; i++)
            found |= input[i] == top;
        at += found == 0 ? SOME : 0;
    }
    while (at < count - 1 && input[at] != top)
        at++;
    memset(output, 0, (size_t)count * sizeof *output);
    if (count > 0)
        output[at] = 1;
}

/* Processes one row of floats with SIMD kernels. */
static void rows_f32(const void *input, void *output, int64_t count, int64_t stride, int64_t columns, uint32_t kind)
{
    (void)stride;
    (void)columns;
    if (kind == HARDMAX)
        hardmax_row(input, output, count);
    else if (kind == SOFTMAX)
        KERNEL_BEST(rows)->softmax(input, output, 1, count);
    else
        KERNEL_BEST(rows)->log_softmax(input, output, 1, count);
}

typedef struct softmax_state {
    uint32_t kind;
    bool flattens;
    int64_t axis;
} softmax_state;

static inlay_status prepare_softmax(const kit_node *node, void **out_state, inlay_diag *diag)
{
    softmax_state *state = malloc(sizeof *state);
    const char *name = kit_op_type(node);

    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a softmax's attributes");
    state->kind = name[0] == 'S' ? SOFTMAX : name[0] == 'L' ? LOG_SOFTMAX : HARDMAX;
    state->flattens = kit_since_version(node) < 13;
    state->axis = kit_attr_int(node->info, "axis", state->flattens ? 1 : -1);
    *out_state = state;
    return INLAY_OK;
}

/* The tensor as [outer, axis_length, inner]. */
typedef struct softmax_cut {
    int64_t outer, axis_length, inner;
    int64_t tile; /* columns processed at once */
} softmax_cut;

static bool is_narrow(inlay_dtype dtype)
{
    return dtype == INLAY_FLOAT16 || dtype == INLAY_BFLOAT16;
}

static inlay_status cut(const softmax_state *state, const kit_tensor *input, softmax_cut *layout, inlay_diag *diag)
{
    int64_t axis = state->axis < 0 ? state->axis + input->rank : state->axis;

    *layout = (softmax_cut){ 1, 1, 1, SOFTMAX_TILE };
    if (axis < 0 || (axis >= input->rank && !(axis == input->rank && (state->flattens || input->rank == 0))))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "axis %lld is outside the input's rank %u",
                          (long long)state->axis, input->rank);
    for (uint32_t index = 0; index < input->rank; index++) {
        if (index < axis)
            layout->outer *= input->dims[index];
        else if (index == axis || state->flattens)
            layout->axis_length *= input->dims[index];
        else
            layout->inner *= input->dims[index];
    }
    if (is_narrow(input->dtype) && layout->axis_length > SOFTMAX_ROOM / SOFTMAX_TILE)
        layout->tile = layout->axis_length < SOFTMAX_ROOM ? SOFTMAX_ROOM / layout->axis_length : 1;
    layout->tile = layout->tile < layout->inner ? layout->tile : layout->inner;
    return INLAY_OK;
}

/* Reserves a tile of floats for each worker, to which float16 and bfloat16 are converted. */
static inlay_status shape_softmax(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const kit_tensor *input = &plan->in[0];
    softmax_cut layout;
    inlay_status status = cut(state, input, &layout, diag);

    if (status == INLAY_OK && input->count > 0 && is_narrow(input->dtype))
        plan->workspace_bytes = (uint64_t)(layout.axis_length * layout.tile) * sizeof(float) * plan->max_threads;
    return status;
}

typedef struct softmax_job {
    softmax_fn row, columns, narrow;
    const char *input;
    char *output;
    float *floats; /* a tile per worker, or NULL */
    softmax_cut cut;
    int64_t tiles; /* tiles of the inner elements */
    inlay_dtype dtype;
    uint32_t elem_bytes;
    uint32_t kind;
} softmax_job;

/* Processes one tile; the elements of a column are `stride` apart. */
static void softmax_tile(const softmax_job *job, const void *input, void *output, int64_t stride, int64_t columns)
{
    const int64_t count = job->cut.axis_length;
    softmax_fn fn = stride == 1 ? job->row : job->columns;
    INLAY_CHECK(columns <= SOFTMAX_TILE);

    if (stride > 1 && stride < SOFTMAX_FEW && columns == stride && count <= SOFTMAX_NARROW / stride)
        fn = job->narrow;
    fn(input, output, count, stride, columns, job->kind);
}

static inlay_status softmax_items(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const softmax_job *job = user;
    const softmax_cut *cut = &job->cut;

    INLAY_CHECK(job->tiles > 0 && cut->tile > 0);
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = i % job->tiles * cut->tile, at = i / job->tiles * cut->axis_length * cut->inner + first;
        const int64_t columns = cut->inner - first < cut->tile ? cut->inner - first : cut->tile;
        float *floats;

        if (job->floats == NULL) {
            softmax_tile(job, job->input + at * job->elem_bytes, job->output + at * job->elem_bytes, cut->inner,
                         columns);
            continue;
        }
        floats = job->floats + worker * cut->axis_length * cut->tile;
        if (columns == cut->inner) { /* the tile is contiguous */
            convert_to_f32(floats, job->dtype, job->input, at, cut->axis_length * columns);
            softmax_tile(job, floats, floats, columns, columns);
            convert_from_f32(job->dtype, job->output, at, cut->axis_length * columns, floats, 0);
            continue;
        }
        for (int64_t row = 0; row < cut->axis_length; row++)
            convert_to_f32(floats + row * columns, job->dtype, job->input, at + row * cut->inner, columns);
        softmax_tile(job, floats, floats, columns, columns);
        for (int64_t row = 0; row < cut->axis_length; row++)
            convert_from_f32(job->dtype, job->output, at + row * cut->inner, columns, floats + row * columns, 0);
    }
    return INLAY_OK;
}

static inlay_status run_softmax(const kit_call *call)
{
    const softmax_state *state = call->state;
    const kit_tensor *input = &call->in[0];
    const bool wide = input->dtype == INLAY_DOUBLE;
    softmax_job job = { .row = wide ? softmax_row_f64 : rows_f32,
                        .columns = wide ? softmax_columns_f64 : softmax_columns_f32,
                        .narrow = wide ? softmax_narrow_f64 : softmax_narrow_f32,
                        .input = input->data,
                        .output = call->out[0].data,
                        .floats = is_narrow(input->dtype) ? call->workspace : NULL,
                        .dtype = input->dtype,
                        .elem_bytes = inlay_dtype_bits(input->dtype) / 8,
                        .kind = state->kind };
    inlay_status status = cut(state, input, &job.cut, call->diag);

    if (status != INLAY_OK || input->count == 0)
        return status;
    job.tiles = (job.cut.inner + job.cut.tile - 1) / job.cut.tile;
    return kit_parallel(call, job.cut.outer * job.tiles,
                        SOFTMAX_GRAIN / (input->count / (job.cut.outer * job.tiles) + 1) + 1, softmax_items, &job);
}

#define SOFTMAX_KERNEL(name)                                                                                           \
    {                                                                                                                  \
        .op_type = name, .in_types = { KIT_FLOATS }, .flags = KIT_IN_PLACE, .prepare = prepare_softmax,                \
        .shape = shape_softmax, .run = run_softmax                                                                     \
    }

static const kit_kernel kernels[] = {
    SOFTMAX_KERNEL("Softmax"),
    SOFTMAX_KERNEL("LogSoftmax"),
    SOFTMAX_KERNEL("Hardmax"),
};
const kit_table OPERATOR(operators_softmax) = { kernels, KIT_COUNT(kernels) };
