/* Products by oneDNN where there are no loops of our own: blocks of rows and columns, each a call on one thread. What
 * oneDNN makes of a product as a whole depends on how many threads there are: it shares a long sum among them. */
#include "choice/kernels.h"

enum { MOST_UNITS = 64, LEAST_WORK = 1 << 20, FEW_ROWS = 48, FEW_COLUMNS = 64 };
#define NS_OF_WORK 0.02 /* a multiplication */
enum { WAKE_NS = 10000 };

struct cut {
    cpu_native native;
    int64_t batch, m, n, k;
    int64_t rows, columns; /* of a block */
    uint32_t axes;         /* that products are counted by */
    int64_t dims[CPU_MAX_RANK], a_steps[CPU_MAX_RANK], b_steps[CPU_MAX_RANK], y_steps[CPU_MAX_RANK];
    int64_t a_line, b_line, y_line; /* elements from one row to the next, of one column where it is turned */
    bool a_turned, b_turned, biased;
};

typedef struct cut_call {
    const struct cut *cut;
    void *const *args;
} cut_call;

enum { ARG_A, ARG_B, ARG_Y, ARG_BIAS };

static int64_t parts_of(int64_t count, int64_t each)
{
    return (count + each - 1) / each;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t offset(const struct cut *cut, int64_t i, const int64_t *steps)
{
    int64_t at = 0;

    for (uint32_t x = cut->axes; x-- > 0; i /= cut->dims[x])
        at += i % cut->dims[x] * steps[x];
    return at;
}

static inlay_status one_block(const cut_call *call, int64_t unit)
{
    const struct cut *cut = call->cut;
    const int64_t down = parts_of(cut->m, cut->rows), across = parts_of(cut->n, cut->columns),
                  i = unit / (down * across);
    const int64_t row = unit / across % down * cut->rows, column = unit % across * cut->columns;
    const int64_t rows = least(cut->rows, cut->m - row), columns = least(cut->columns, cut->n - column);
    const float *a =
        (const float *)call->args[ARG_A] + offset(cut, i, cut->a_steps) + row * (cut->a_turned ? 1 : cut->a_line);
    const float *b =
        (const float *)call->args[ARG_B] + offset(cut, i, cut->b_steps) + column * (cut->b_turned ? cut->b_line : 1);
    const float *bias = cut->biased ? (const float *)call->args[ARG_BIAS] + column : NULL;
    float *output = (float *)call->args[ARG_Y] + offset(cut, i, cut->y_steps) + row * cut->y_line + column;

    if (library_sgemm(cut->a_turned, cut->b_turned, rows, columns, cut->k, a, cut->a_line, b, cut->b_line, output,
                      cut->y_line) != LIBRARY_SUCCESS)
        return INLAY_INTERNAL;
    for (int64_t r = 0; bias != NULL && r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            output[r * cut->y_line + c] += bias[c];
    return INLAY_OK;
}

static inlay_status blocks(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const int before = cpu_threads_set(1); /* in a team it is one anyway */
    inlay_status status = INLAY_OK;

    (void)worker;
    for (int64_t u = begin; status == INLAY_OK && u < end; u++)
        status = one_block(user, u);
    cpu_threads_restore(before);
    return status;
}

static inlay_status run_cut(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                            uint32_t threads)
{
    const struct cut *cut = (const struct cut *)(const void *)native;
    const int64_t units = cut->batch * parts_of(cut->m, cut->rows) * parts_of(cut->n, cut->columns);
    const double ns = NS_OF_WORK * (double)cut->batch * (double)cut->m * (double)cut->n * (double)cut->k;
    cut_call call = { cut, args };

    (void)threads; /* one goes by the host, too, which ends long loops of cancelled runs */
    if (units < 2 || ns < WAKE_NS)
        return blocks(&call, 0, units, 0);
    return state->host->parallel_for(state->host->ctx, run, units, 1, blocks, &call);
}

/* By sizes alone, not by threads: the library sums in another order in other blocks. */
static void divide(struct cut *cut)
{
    cut->rows = cut->m;
    cut->columns = cut->n;
    while (cut->batch * parts_of(cut->m, cut->rows) * parts_of(cut->n, cut->columns) < MOST_UNITS &&
           (double)cut->rows * (double)cut->columns * (double)cut->k >= 2.0 * LEAST_WORK) {
        if (cut->columns > FEW_COLUMNS && (cut->columns >= cut->rows || cut->rows <= FEW_ROWS))
            cut->columns = parts_of(cut->columns / 2, FEW_COLUMNS) * FEW_COLUMNS;
        else if (cut->rows > FEW_ROWS)
            cut->rows = parts_of(cut->rows / 2, FEW_ROWS / 2) * (FEW_ROWS / 2);
        else
            break;
    }
}

/* How an operand lies: its steps along the axes that count products, its lines. */
static void describe(const memory_desc *md, uint32_t axes, int64_t *steps, int64_t *line, bool *turned)
{
    const int64_t *s = md->strides;

    for (uint32_t x = 0; x < axes; x++)
        steps[x] = md->dims[x] > 1 ? s[x] : 0;
    *turned = s[axes + 1] != 1;
    *line = s[axes + (*turned ? 1 : 0)];
}

static inlay_status emit(cpu_build *build, const struct cut *cut, const cpu_place *const *places, uint32_t count)
{
    struct cut whole = *cut;

    divide(&whole);
    return cpu_emit_step(build, &whole.native, sizeof whole, places, count);
}

/* Results that lie one after the other. */
static void describe_rows(struct cut *cut)
{
    int64_t step = cut->m * cut->n;

    cut->y_line = cut->n;
    for (uint32_t x = cut->axes; x-- > 0; step *= cut->dims[x])
        cut->y_steps[x] = step;
}

inlay_status cpu_emit_cut(cpu_build *build, const cpu_place *place, const cpu_place *weights, int64_t batch,
                          int64_t groups, int64_t m, int64_t k, int64_t n, const cpu_place *output)
{
    const struct cut cut = { .native.run = run_cut,
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

    return emit(build, &cut, (const cpu_place *const[]){ place, weights, output }, 3);
}

inlay_status cpu_emit_cut_matrices(cpu_build *build, const cpu_place *place, const cpu_place *weights,
                                   const cpu_place *output)
{
    const uint32_t axes = (uint32_t)output->md.ndims - 2;
    struct cut cut = { .native.run = run_cut,
                       .batch = 1,
                       .axes = axes,
                       .m = place->md.dims[axes],
                       .k = place->md.dims[axes + 1],
                       .n = weights->md.dims[axes + 1] };

    for (uint32_t x = 0; x < axes; x++)
        cut.batch *= cut.dims[x] = output->md.dims[x];
    describe(&place->md, axes, cut.a_steps, &cut.a_line, &cut.a_turned);
    describe(&weights->md, axes, cut.b_steps, &cut.b_line, &cut.b_turned);
    describe_rows(&cut);
    return emit(build, &cut, (const cpu_place *const[]){ place, weights, output }, 3);
}

inlay_status cpu_lower_cut(cpu_build *build, const cpu_group *group, uint32_t bias_value)
{
    const cpu_op *op = build->op;
    const uint32_t y_value = op->out[0], rank = build->ranks[y_value] < 2 ? 2 : build->ranks[y_value];
    const bool packed = cpu_is_packed(build, op);
    struct cut cut = { .native.run = run_cut, .batch = 1, .biased = bias_value != INLAY_NONE };
    cpu_place place, weights, output, bias;
    inlay_status status;
    memory_desc md;

    if (packed) { /* all rows are one matrix */
        const uint32_t rows = build->ranks[op->in[1]];

        INLAY_TRY(cpu_read_plain(build, op->in[0], &place));
        INLAY_TRY(cpu_read_matrix(build, op->in[1], rows, op->product.trans_b, &weights));
        cut.k = weights.md.dims[0];
        cut.n = weights.md.dims[1];
        cut.m = cpu_count(build, op->in[0]) / cut.k;
        cut.a_line = cut.k;
        describe(&weights.md, 0, cut.b_steps, &cut.b_line, &cut.b_turned);
    } else {
        INLAY_TRY(cpu_read_matrix(build, op->in[0], rank, op->product.trans_a, &place));
        INLAY_TRY(cpu_read_matrix(build, op->in[1], rank, op->product.trans_b, &weights));
        cut.axes = rank - 2;
        memcpy(cut.dims, build->dims[y_value], cut.axes * sizeof *cut.dims);
        for (uint32_t x = 0; x < cut.axes; x++)
            cut.batch *= cut.dims[x];
        cut.m = place.md.dims[rank - 2];
        cut.k = place.md.dims[rank - 1];
        cut.n = weights.md.dims[rank - 1];
        describe(&place.md, cut.axes, cut.a_steps, &cut.a_line, &cut.a_turned);
        describe(&weights.md, cut.axes, cut.b_steps, &cut.b_line, &cut.b_turned);
    }
    describe_rows(&cut);
    memory_desc_plain(&md, 1, &cut.n);
    if (cut.biased)
        INLAY_TRY(cpu_read_constant(build, bias_value, &md, &md, &bias));
    memory_desc_plain(&md, build->ranks[group->out], build->dims[group->out]);
    INLAY_TRY(cpu_made_place(build, group, 0, &md, &output));
    INLAY_TRY(emit(build, &cut, (const cpu_place *const[]){ &place, &weights, &output, &bias }, cut.biased ? 4 : 3));
    output.md = md;
    status = cpu_finish(build, group, 0, &output, true);
done:
    return status;
}
