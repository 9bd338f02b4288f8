/* GEMM by oneDNN where no built-in kernel runs, divided into blocks of rows and columns that each run on one thread.
 * If oneDNN gets a whole GEMM, its result depends on the number of threads, because it divides long sums among them. */
#include "cpu/choice/kernels.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/product/product.h"
#include "cpu/weights/read.h"
#include "inlay/check.h"

enum { MAX_UNITS = 64, MIN_WORK = 1 << 20, FEW_ROWS = 48, FEW_COLUMNS = 64 };
#define NS_OF_WORK 0.02 /* for one multiplication */
enum { WAKE_NS = 10000 };

typedef struct blocked_gemm {
    cpu_native native;
    int64_t batch, m, n, k;
    int64_t rows, columns; /* of a block */
    uint32_t axes;         /* batch axes */
    int64_t dims[CPU_MAX_RANK], a_steps[CPU_MAX_RANK], b_steps[CPU_MAX_RANK], y_steps[CPU_MAX_RANK];
    /* elements from one row to the next, or from one column to the next if transposed */
    int64_t a_line, b_line, y_line;
    bool a_transposed, b_transposed, biased;
} blocked_gemm;

typedef struct gemm_call {
    const blocked_gemm *gemm;
    void *const *args;
} gemm_call;

enum { ARG_A, ARG_B, ARG_Y, ARG_BIAS };

static int64_t parts_of(int64_t count, int64_t each)
{
    return (count + each - 1) / each;
}

static int64_t smaller(int64_t first, int64_t second)
{
    return first < second ? first : second;
}

static int64_t offset(const blocked_gemm *gemm, int64_t i, const int64_t *steps)
{
    int64_t at = 0;

    for (uint32_t axis = gemm->axes; axis-- > 0; i /= gemm->dims[axis])
        at += i % gemm->dims[axis] * steps[axis];
    return at;
}

static inlay_status one_block(const gemm_call *call, int64_t unit)
{
    const blocked_gemm *gemm = call->gemm;
    const int64_t down = parts_of(gemm->m, gemm->rows), across = parts_of(gemm->n, gemm->columns),
                  i = unit / (down * across);
    const int64_t row = unit / across % down * gemm->rows, column = unit % across * gemm->columns;
    const int64_t rows = smaller(gemm->rows, gemm->m - row), columns = smaller(gemm->columns, gemm->n - column);
    const float *a = (const float *)call->args[ARG_A] + offset(gemm, i, gemm->a_steps) +
                     row * (gemm->a_transposed ? 1 : gemm->a_line);
    const float *b = (const float *)call->args[ARG_B] + offset(gemm, i, gemm->b_steps) +
                     column * (gemm->b_transposed ? gemm->b_line : 1);
    const float *bias = gemm->biased ? (const float *)call->args[ARG_BIAS] + column : NULL;
    float *output = (float *)call->args[ARG_Y] + offset(gemm, i, gemm->y_steps) + row * gemm->y_line + column;

    INLAY_CHECK(i >= 0 && i < gemm->batch && rows > 0 && columns > 0);
    if (library_sgemm(gemm->a_transposed, gemm->b_transposed, rows, columns, gemm->k, a, gemm->a_line, b, gemm->b_line,
                      output, gemm->y_line) != LIBRARY_SUCCESS)
        return INLAY_INTERNAL;
    for (int64_t r = 0; bias != NULL && r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            output[r * gemm->y_line + c] += bias[c];
    return INLAY_OK;
}

static inlay_status blocks(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const int before = cpu_threads_set(1); /* inside a parallel loop there is one thread already */
    inlay_status status = INLAY_OK;

    (void)worker;
    for (int64_t unit = begin; status == INLAY_OK && unit < end; unit++)
        status = one_block(user, unit);
    cpu_threads_restore(before);
    return status;
}

static inlay_status run_cut(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                            uint32_t threads)
{
    const blocked_gemm *gemm = (const blocked_gemm *)(const void *)native;
    const int64_t units = gemm->batch * parts_of(gemm->m, gemm->rows) * parts_of(gemm->n, gemm->columns);
    const double ns = NS_OF_WORK * (double)gemm->batch * (double)gemm->m * (double)gemm->n * (double)gemm->k;
    gemm_call call = { gemm, args };

    (void)threads; /* a single thread, too, runs by parallel_for, which ends early if the run is cancelled */
    if (units < 2 || ns < WAKE_NS)
        return blocks(&call, 0, units, 0);
    return state->host->parallel_for(state->host->ctx, run, units, 1, blocks, &call);
}

/* Divides the GEMM by sizes alone, not by threads, because oneDNN's order of additions depends on the blocks. */
static void divide(blocked_gemm *gemm)
{
    gemm->rows = gemm->m;
    gemm->columns = gemm->n;
    while (gemm->batch * parts_of(gemm->m, gemm->rows) * parts_of(gemm->n, gemm->columns) < MAX_UNITS &&
           (double)gemm->rows * (double)gemm->columns * (double)gemm->k >= 2.0 * MIN_WORK) {
        if (gemm->columns > FEW_COLUMNS && (gemm->columns >= gemm->rows || gemm->rows <= FEW_ROWS))
            gemm->columns = parts_of(gemm->columns / 2, FEW_COLUMNS) * FEW_COLUMNS;
        else if (gemm->rows > FEW_ROWS)
            gemm->rows = parts_of(gemm->rows / 2, FEW_ROWS / 2) * (FEW_ROWS / 2);
        else
            break;
    }
}

/* Layout of an operand: its strides along the batch axes, and between lines. */
static void describe(const memory_desc *md, uint32_t axes, int64_t *steps, int64_t *line, bool *transposed)
{
    const int64_t *strides = md->strides;

    for (uint32_t axis = 0; axis < axes; axis++)
        steps[axis] = md->dims[axis] > 1 ? strides[axis] : 0;
    *transposed = strides[axes + 1] != 1;
    *line = strides[axes + (*transposed ? 1 : 0)];
}

static inlay_status emit(cpu_build *build, const blocked_gemm *gemm, const cpu_place *const *places, uint32_t count)
{
    blocked_gemm whole = *gemm;

    divide(&whole);
    return cpu_emit_step(build, &whole.native, sizeof whole, places, count);
}

/* Strides of a contiguous result. */
static void describe_rows(blocked_gemm *gemm)
{
    int64_t step = gemm->m * gemm->n;

    gemm->y_line = gemm->n;
    for (uint32_t axis = gemm->axes; axis-- > 0; step *= gemm->dims[axis])
        gemm->y_steps[axis] = step;
}

inlay_status cpu_emit_cut(cpu_build *build, const cpu_place *place, const cpu_place *weights, int64_t batch,
                          int64_t groups, int64_t m, int64_t k, int64_t n, const cpu_place *output)
{
    const blocked_gemm gemm = { .native.run = run_cut,
                                .batch = batch * groups,
                                .m = m,
                                .n = n,
                                .k = k,
                                .axes = 2,
                                .dims = { batch, groups },
                                .a_steps = { 0, k },
                                .b_steps = { groups * k * n, k * n },
                                .y_steps = { m * groups * n, n },
                                .a_line = groups * k,
                                .b_line = n,
                                .y_line = groups * n };

    return emit(build, &gemm, (const cpu_place *const[]){ place, weights, output }, 3);
}

inlay_status cpu_emit_cut_matrices(cpu_build *build, const cpu_place *place, const cpu_place *weights,
                                   const cpu_place *output)
{
    const uint32_t axes = (uint32_t)output->md.ndims - 2;
    blocked_gemm gemm = { .native.run = run_cut,
                          .batch = 1,
                          .axes = axes,
                          .m = place->md.dims[axes],
                          .k = place->md.dims[axes + 1],
                          .n = weights->md.dims[axes + 1] };

    for (uint32_t axis = 0; axis < axes; axis++)
        gemm.batch *= gemm.dims[axis] = output->md.dims[axis];
    describe(&place->md, axes, gemm.a_steps, &gemm.a_line, &gemm.a_transposed);
    describe(&weights->md, axes, gemm.b_steps, &gemm.b_line, &gemm.b_transposed);
    describe_rows(&gemm);
    return emit(build, &gemm, (const cpu_place *const[]){ place, weights, output }, 3);
}

inlay_status cpu_lower_cut(cpu_build *build, const cpu_group *group, uint32_t bias_value)
{
    const cpu_op *op = build->op;
    const uint32_t y_value = op->out[0], rank = build->ranks[y_value] < 2 ? 2 : build->ranks[y_value];
    const bool packed = cpu_is_packed(build, op);
    blocked_gemm gemm = { .native.run = run_cut, .batch = 1, .biased = bias_value != INLAY_NONE };
    cpu_place place, weights, output, bias;
    inlay_status status;
    memory_desc md;

    if (packed) { /* all rows form one matrix */
        const uint32_t rows = build->ranks[op->in[1]];

        INLAY_TRY(cpu_read_plain(build, op->in[0], &place));
        INLAY_TRY(cpu_read_matrix(build, op->in[1], rows, op->product.trans_b, &weights));
        gemm.k = weights.md.dims[0];
        gemm.n = weights.md.dims[1];
        gemm.m = cpu_count(build, op->in[0]) / gemm.k;
        gemm.a_line = gemm.k;
        describe(&weights.md, 0, gemm.b_steps, &gemm.b_line, &gemm.b_transposed);
    } else {
        INLAY_TRY(cpu_read_matrix(build, op->in[0], rank, op->product.trans_a, &place));
        INLAY_TRY(cpu_read_matrix(build, op->in[1], rank, op->product.trans_b, &weights));
        gemm.axes = rank - 2;
        memcpy(gemm.dims, build->dims[y_value], gemm.axes * sizeof *gemm.dims);
        for (uint32_t axis = 0; axis < gemm.axes; axis++)
            gemm.batch *= gemm.dims[axis];
        gemm.m = place.md.dims[rank - 2];
        gemm.k = place.md.dims[rank - 1];
        gemm.n = weights.md.dims[rank - 1];
        describe(&place.md, gemm.axes, gemm.a_steps, &gemm.a_line, &gemm.a_transposed);
        describe(&weights.md, gemm.axes, gemm.b_steps, &gemm.b_line, &gemm.b_transposed);
    }
    describe_rows(&gemm);
    memory_desc_plain(&md, 1, &gemm.n);
    if (gemm.biased)
        INLAY_TRY(cpu_read_constant(build, bias_value, &md, &md, &bias));
    memory_desc_plain(&md, build->ranks[group->out], build->dims[group->out]);
    INLAY_TRY(cpu_step_result_place(build, group, 0, &md, &output));
    INLAY_TRY(emit(build, &gemm, (const cpu_place *const[]){ &place, &weights, &output, &bias }, gemm.biased ? 4 : 3));
    output.md = md;
    status = cpu_finish(build, group, 0, &output, true);
done:
    return status;
}
