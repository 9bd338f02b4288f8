/* Products by oneDNN where there are no loops of our own: blocks of rows and columns, each a call on one thread. What
 * oneDNN makes of a product as a whole depends on how many threads there are: it shares a long sum among them. */
#include "choice/kernels.h"

enum { MOST_UNITS = 64, LEAST_WORK = 1 << 20, FEW_ROWS = 48, FEW_COLUMNS = 64 };
#define NS_OF_WORK 0.02 /* a multiplication */
enum { WAKE_NS = 10000 };

struct cut {
    rg_native native;
    int64_t batch, m, n, k;
    int64_t rows, columns; /* of a block */
    uint32_t axes;         /* that products are counted by */
    int64_t dims[RG_MAX_RANK], a_steps[RG_MAX_RANK], b_steps[RG_MAX_RANK], y_steps[RG_MAX_RANK];
    int64_t a_line, b_line, y_line; /* elements from one row to the next, of one column where it is turned */
    bool a_turned, b_turned, biased;
};

typedef struct cut_call {
    const struct cut *d;
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

static int64_t offset(const struct cut *d, int64_t i, const int64_t *steps)
{
    int64_t at = 0;

    for (uint32_t x = d->axes; x-- > 0; i /= d->dims[x])
        at += i % d->dims[x] * steps[x];
    return at;
}

static inlay_status one_block(const cut_call *call, int64_t unit)
{
    const struct cut *d = call->d;
    const int64_t down = parts_of(d->m, d->rows), across = parts_of(d->n, d->columns), i = unit / (down * across);
    const int64_t row = unit / across % down * d->rows, column = unit % across * d->columns;
    const int64_t rows = least(d->rows, d->m - row), columns = least(d->columns, d->n - column);
    const float *a = (const float *)call->args[ARG_A] + offset(d, i, d->a_steps) + row * (d->a_turned ? 1 : d->a_line);
    const float *b =
        (const float *)call->args[ARG_B] + offset(d, i, d->b_steps) + column * (d->b_turned ? d->b_line : 1);
    const float *bias = d->biased ? (const float *)call->args[ARG_BIAS] + column : NULL;
    float *y = (float *)call->args[ARG_Y] + offset(d, i, d->y_steps) + row * d->y_line + column;

    if (dn_sgemm(d->a_turned, d->b_turned, rows, columns, d->k, a, d->a_line, b, d->b_line, y, d->y_line) != DN_SUCCESS)
        return INLAY_INTERNAL;
    for (int64_t r = 0; bias != NULL && r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            y[r * d->y_line + c] += bias[c];
    return INLAY_OK;
}

static inlay_status blocks(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const int before = rg_threads_set(1); /* in a team it is one anyway */
    inlay_status status = INLAY_OK;

    (void)worker;
    for (int64_t u = begin; status == INLAY_OK && u < end; u++)
        status = one_block(user, u);
    rg_threads_restore(before);
    return status;
}

static inlay_status run_cut(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                            uint32_t threads)
{
    const struct cut *d = (const struct cut *)(const void *)native;
    const int64_t units = d->batch * parts_of(d->m, d->rows) * parts_of(d->n, d->columns);
    const double ns = NS_OF_WORK * (double)d->batch * (double)d->m * (double)d->n * (double)d->k;
    cut_call call = { d, args };

    (void)threads; /* one goes by the host, too, which ends long loops of cancelled runs */
    if (units < 2 || ns < WAKE_NS)
        return blocks(&call, 0, units, 0);
    return state->host->parallel_for(state->host->ctx, run, units, 1, blocks, &call);
}

/* By sizes alone, not by threads: the library sums in another order in other blocks. */
static void divide(struct cut *d)
{
    d->rows = d->m;
    d->columns = d->n;
    while (d->batch * parts_of(d->m, d->rows) * parts_of(d->n, d->columns) < MOST_UNITS &&
           (double)d->rows * (double)d->columns * (double)d->k >= 2.0 * LEAST_WORK) {
        if (d->columns > FEW_COLUMNS && (d->columns >= d->rows || d->rows <= FEW_ROWS))
            d->columns = parts_of(d->columns / 2, FEW_COLUMNS) * FEW_COLUMNS;
        else if (d->rows > FEW_ROWS)
            d->rows = parts_of(d->rows / 2, FEW_ROWS / 2) * (FEW_ROWS / 2);
        else
            break;
    }
}

/* How an operand lies: its steps along the axes that count products, its lines. */
static void describe(const rg_md *md, uint32_t axes, int64_t *steps, int64_t *line, bool *turned)
{
    const int64_t *s = md->strides;

    for (uint32_t x = 0; x < axes; x++)
        steps[x] = md->dims[x] > 1 ? s[x] : 0;
    *turned = s[axes + 1] != 1;
    *line = s[axes + (*turned ? 1 : 0)];
}

static inlay_status emit(rg_build *b, const struct cut *d, const rg_place *const *places, uint32_t count)
{
    struct cut whole = *d;

    divide(&whole);
    return rg_emit_step(b, &whole.native, sizeof whole, places, count);
}

/* Results that lie one after the other. */
static void describe_rows(struct cut *d)
{
    int64_t step = d->m * d->n;

    d->y_line = d->n;
    for (uint32_t x = d->axes; x-- > 0; step *= d->dims[x])
        d->y_steps[x] = step;
}

inlay_status rg_emit_cut(rg_build *b, const rg_place *a, const rg_place *w, int64_t batch, int64_t groups, int64_t m,
                         int64_t k, int64_t n, const rg_place *y)
{
    const struct cut d = { .native.run = run_cut,
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

    return emit(b, &d, (const rg_place *const[]){ a, w, y }, 3);
}

inlay_status rg_emit_cut_matrices(rg_build *b, const rg_place *a, const rg_place *w, const rg_place *y)
{
    const uint32_t axes = (uint32_t)y->md.ndims - 2;
    struct cut d = { .native.run = run_cut,
                     .batch = 1,
                     .axes = axes,
                     .m = a->md.dims[axes],
                     .k = a->md.dims[axes + 1],
                     .n = w->md.dims[axes + 1] };

    for (uint32_t x = 0; x < axes; x++)
        d.batch *= d.dims[x] = y->md.dims[x];
    describe(&a->md, axes, d.a_steps, &d.a_line, &d.a_turned);
    describe(&w->md, axes, d.b_steps, &d.b_line, &d.b_turned);
    describe_rows(&d);
    return emit(b, &d, (const rg_place *const[]){ a, w, y }, 3);
}

inlay_status rg_lower_cut(rg_build *b, const rg_group *group, uint32_t bias_value)
{
    const rg_op *op = b->op;
    const uint32_t y_value = op->out[0], rank = b->ranks[y_value] < 2 ? 2 : b->ranks[y_value];
    const bool packed = rg_is_packed(b, op);
    struct cut d = { .native.run = run_cut, .batch = 1, .biased = bias_value != INLAY_NONE };
    rg_place a, w, y, bias;
    inlay_status status;
    rg_md md;

    if (packed) { /* all rows are one matrix */
        const uint32_t rows = b->ranks[op->in[1]];

        INLAY_TRY(rg_read_plain(b, op->in[0], &a));
        INLAY_TRY(rg_read_matrix(b, op->in[1], rows, op->product.trans_b, &w));
        d.k = w.md.dims[0];
        d.n = w.md.dims[1];
        d.m = rg_count(b, op->in[0]) / d.k;
        d.a_line = d.k;
        describe(&w.md, 0, d.b_steps, &d.b_line, &d.b_turned);
    } else {
        INLAY_TRY(rg_read_matrix(b, op->in[0], rank, op->product.trans_a, &a));
        INLAY_TRY(rg_read_matrix(b, op->in[1], rank, op->product.trans_b, &w));
        d.axes = rank - 2;
        memcpy(d.dims, b->dims[y_value], d.axes * sizeof *d.dims);
        for (uint32_t x = 0; x < d.axes; x++)
            d.batch *= d.dims[x];
        d.m = a.md.dims[rank - 2];
        d.k = a.md.dims[rank - 1];
        d.n = w.md.dims[rank - 1];
        describe(&a.md, d.axes, d.a_steps, &d.a_line, &d.a_turned);
        describe(&w.md, d.axes, d.b_steps, &d.b_line, &d.b_turned);
    }
    describe_rows(&d);
    rg_md_plain(&md, 1, &d.n);
    if (d.biased)
        INLAY_TRY(rg_read_constant(b, bias_value, &md, &md, &bias));
    rg_md_plain(&md, b->ranks[group->out], b->dims[group->out]);
    INLAY_TRY(rg_made_place(b, group, 0, &md, &y));
    INLAY_TRY(emit(b, &d, (const rg_place *const[]){ &a, &w, &y, &bias }, d.biased ? 4 : 3));
    y.md = md;
    status = rg_finish(b, group, 0, &y, true);
done:
    return status;
}
