/* BatchNormalization of images that lie row-major or channels last, in one pass at the speed of memory: oneDNN 2.6 goes
 * through them several times slower. Blocked images are left to it. */
#include "normalization/row_loops.h"
#include "region/build.h"
#include <math.h>

enum { CHUNK = 1024, UNIT_ELEMENTS = 16384 }; /* channels whose factors are at hand; elements worth a thread's while */

struct batch {
    rg_native native;
    int64_t rows, channels, pixels; /* pixels > 0: rows of so many, each of one channel; 0: rows of all channels */
    float epsilon;
    bool relu;
};

typedef struct batch_call {
    const struct batch *n;
    const float *x, *scale, *shift, *mean, *variance;
    float *y;
    int64_t unit; /* rows */
} batch_call;

static float factor_of(const batch_call *c, int64_t channel)
{
    return c->scale[channel] / sqrtf(c->variance[channel] + c->n->epsilon);
}

static inlay_status run_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const batch_call *c = user;
    const struct batch *n = c->n;
    int64_t first = begin * c->unit, last = end * c->unit < n->rows ? end * c->unit : n->rows;
    float factors[CHUNK];

    (void)worker;
    if (n->pixels > 0) {
        for (int64_t r = first; r < last; r++)
            KERNEL_BEST(row_loops)->pixels_row(c->y + r * n->pixels, c->x + r * n->pixels, c->mean[r % n->channels],
                                               factor_of(c, r % n->channels), c->shift[r % n->channels], n->pixels,
                                               n->relu);
        return INLAY_OK;
    }
    for (int64_t at = 0; at < n->channels; at += CHUNK) {
        int64_t count = n->channels - at < CHUNK ? n->channels - at : CHUNK;

        for (int64_t i = 0; i < count; i++)
            factors[i] = factor_of(c, at + i);
        for (int64_t r = first; r < last; r++)
            KERNEL_BEST(row_loops)->channels_row(c->y + r * n->channels + at, c->x + r * n->channels + at, c->mean + at,
                                                 factors, c->shift + at, count, n->relu);
    }
    return INLAY_OK;
}

/* args: x, scale, shift, mean, variance, y. */
static inlay_status run_batch(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                              uint32_t threads)
{
    const struct batch *n = (const struct batch *)(const void *)native;
    int64_t length = n->pixels > 0 ? n->pixels : n->channels, units;
    batch_call call = { n, args[0], args[1], args[2], args[3], args[4], args[5], 1 };

    call.unit = length < UNIT_ELEMENTS ? (UNIT_ELEMENTS + length - 1) / length : 1;
    units = (n->rows + call.unit - 1) / call.unit;
    if (threads <= 1 || units < 2)
        return run_rows(&call, 0, units, 0);
    return state->host->parallel_for(state->host->ctx, run, units, 1, run_rows, &call);
}

inlay_status rg_lower_batch_rows(rg_build *b, const rg_group *group, bool relu, bool *out_done)
{
    const rg_op *op = b->op;
    uint32_t rank = b->ranks[op->in[0]];
    const int64_t *dims = b->dims[op->in[0]];
    rg_place x, y, parameters[4];
    const rg_place *places[6] = { &x, &parameters[0], &parameters[1], &parameters[2], &parameters[3], &y };
    bool overwrite = rg_is_last_use(b, op->in[0]), last;
    inlay_status status;
    rg_md vector, image;
    struct batch n = { 0 };

    *out_done = false;
    if (rg_type(b, op->in[0]) != DN_F32 || rg_count(b, op->in[0]) == 0)
        return INLAY_OK;
    INLAY_TRY(rg_read(b, op->in[0], &x));
    if (rank >= 3)
        rg_md_channels_last(&image, rank, dims);
    last = rank == 2 ? rg_md_is_plain(&x.md) : rg_md_equal(&x.md, &image);
    if (!last && !rg_md_is_plain(&x.md))
        return INLAY_OK;
    if (overwrite && b->c->values[group->out].output == INLAY_NONE)
        y = x;
    else
        INLAY_TRY(rg_result_place(b, group->post_count == (relu ? 1u : 0u) ? group->out : op->out[0], &x.md, &y));
    rg_md_plain(&vector, 1, &dims[1]);
    for (uint32_t i = 0; i < 4; i++)
        INLAY_TRY(rg_read_constant(b, op->in[1 + i], &vector, &vector, &parameters[i]));
    n.native.run = run_batch;
    n.channels = dims[1];
    n.pixels = last ? 0 : rg_count(b, op->in[0]) / dims[0] / dims[1];
    n.rows = last ? rg_count(b, op->in[0]) / dims[1] : dims[0] * dims[1];
    n.epsilon = op->normalization.epsilon;
    n.relu = relu;
    INLAY_TRY(rg_emit_step(b, &n.native, sizeof n, places, 6));
    *out_done = true;
    status = rg_finish(b, group, relu ? 1 : 0, &y, true);
done:
    return status;
}
