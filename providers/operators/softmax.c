/* Softmax, LogSoftmax, Hardmax: ONNX 1, 11, 13. Before version 13 the tensor is flattened to a matrix at `axis`. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "simd/convert.h"
#include "operators/elementwise.h"
#include "operators/lanes.h"
#include "operators/operators.h"
#include "simd/axis.h"
#include "simd/row_set.h"
#include "simd/vecmath.h"
#include <math.h>
#include <stdlib.h>

enum { SOFTMAX, LOG_SOFTMAX, HARDMAX };
enum { SOFTMAX_GRAIN = 1 << 13, SOFTMAX_ROOM = 1 << 16 /* floats to which float16 and bfloat16 are converted */ };

#define NAME(what) what##_f64
#define T double
#define ACC double
#define INDEX int64_t
#define EXP(v) vd_exp(v)
#define LOG(v) vd_log(v)
#include "operators/softmax.inc"
#define NAME(what) what##_f32
#define T float
#define ACC float
#define INDEX int32_t
#define EXP(v) vm_exp(v)
#define LOG(v) vm_log(v)
#include "operators/softmax.inc"

/* 1 at the first maximum of a row, 0 elsewhere. */
static void hardmax_row(const float *input, float *output, int64_t count)
{
    enum { SOME = 64 };
    float top;
    int64_t at = 0;
    int found = 0;

    KERNEL_BEST(rows)->tops(input, &top, 1, count);
    if (top != top) { /* NaN; the maximum of the others counts */
        softmax_row_f32(input, output, count, HARDMAX);
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
static void row_f32(const void *input, void *output, int64_t count, uint32_t kind)
{
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

static bool is_narrow(inlay_dtype dtype)
{
    return dtype == INLAY_FLOAT16 || dtype == INLAY_BFLOAT16;
}

/* The tensor, which has elements, as [outer, axis length, inner]. float16 and bfloat16 are processed as float. */
static inlay_status cut_tensor(const softmax_state *state, const kit_tensor *input, axis_cut *cut, inlay_diag *diag)
{
    const int64_t bytes = is_narrow(input->dtype) ? (int64_t)sizeof(float) : inlay_dtype_bits(input->dtype) / 8;
    int64_t axis = state->axis < 0 ? state->axis + input->rank : state->axis, outer = 1, length = 1, inner = 1;
    int64_t width = AXIS_COLUMNS;

    if (axis < 0 || (axis >= input->rank && !(axis == input->rank && (state->flattens || input->rank == 0))))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "axis %lld is outside the input's rank %u",
                          (long long)state->axis, input->rank);
    if (input->count <= 0)
        return INLAY_OK;
    for (uint32_t index = 0; index < input->rank; index++) {
        if (index < axis)
            outer *= input->dims[index];
        else if (index == axis || state->flattens)
            length *= input->dims[index];
        else
            inner *= input->dims[index];
    }
    if (state->kind == HARDMAX && length > INT32_MAX)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "axis %lld has 2^31 elements or more", (long long)axis);
    if (is_narrow(input->dtype) && length > SOFTMAX_ROOM / AXIS_COLUMNS)
        width = length < SOFTMAX_ROOM ? SOFTMAX_ROOM / length : 1;
    *cut = axis_cut_of(outer, length, inner, bytes, bytes, false, width,
                       state->kind == SOFTMAX   ? axis_rows_from(bytes)
                       : state->kind == HARDMAX ? axis_few_rows_from(outer, 4)
                                                : AXIS_LONG);
    return INLAY_OK;
}

/* Reserves room for each worker, for the floats to which a unit of float16 or bfloat16 is converted. */
static inlay_status shape_softmax(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const kit_tensor *input = &plan->in[0];
    axis_cut cut;
    inlay_status status = cut_tensor(state, input, &cut, diag);

    if (status == INLAY_OK && input->count > 0 && is_narrow(input->dtype))
        plan->workspace_bytes = (uint64_t)axis_unit_elements(&cut) * sizeof(float) * plan->max_threads;
    return status;
}

typedef struct softmax_job {
    void (*row)(const void *input, void *output, int64_t count, uint32_t kind);
    axis_fn columns;
    const char *input;
    char *output;
    float *floats; /* of each worker, or NULL */
    axis_cut cut;
    inlay_dtype dtype;
    uint32_t kind;
} softmax_job;

static void softmax_unit(const softmax_job *job, const axis_cut *cut, int64_t unit, const char *input, char *output)
{
    const int64_t at = unit * cut->n * cut->in_bytes;

    if (axis_is_rows(cut))
        job->row(input + at, output + at, cut->n, job->kind);
    else
        axis_run(cut, unit, unit + 1, input, output, job->columns, &job->kind);
}

static inlay_status softmax_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const softmax_job *job = user;
    float *floats = job->floats == NULL ? NULL : job->floats + worker * axis_unit_elements(&job->cut);

    for (int64_t unit = begin; unit < end; unit++) {
        axis_cut part;
        int64_t first, runs, run;

        if (floats == NULL) {
            softmax_unit(job, &job->cut, unit, job->input, job->output);
            continue;
        }
        first = axis_part(&job->cut, unit, &part);
        runs = part.inner == job->cut.inner ? 1 : part.n; /* contiguous pieces */
        run = part.outer * part.n * part.inner / runs;
        for (int64_t i = 0; i < runs; i++)
            convert_to_f32(floats + i * run, job->dtype, job->input, first + i * job->cut.inner, run);
        softmax_unit(job, &part, 0, (const char *)floats, (char *)floats);
        for (int64_t i = 0; i < runs; i++)
            convert_from_f32(job->dtype, job->output, first + i * job->cut.inner, run, floats + i * run, 0);
    }
    return INLAY_OK;
}

static inlay_status run_softmax(const kit_call *call)
{
    const softmax_state *state = call->state;
    const kit_tensor *input = &call->in[0];
    const bool wide = input->dtype == INLAY_DOUBLE;
    softmax_job job = { .row = wide ? softmax_row_f64 : row_f32,
                        .columns = wide ? softmax_columns_f64 : softmax_columns_f32,
                        .input = input->data,
                        .output = call->out[0].data,
                        .floats = is_narrow(input->dtype) ? call->workspace : NULL,
                        .dtype = input->dtype,
                        .kind = state->kind };
    inlay_status status = cut_tensor(state, input, &job.cut, call->diag);

    if (status != INLAY_OK || input->count == 0)
        return status;
    return kit_parallel(call, job.cut.units, SOFTMAX_GRAIN / (input->count / job.cut.units + 1) + 1, softmax_units,
                        &job);
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
