/* Convolutions of single channels over planes: images that lie row by row, in one or two dimensions, where nobody wants
 * channels last. A unit of work copies some rows of a plane with their border, and makes rows of the output from that
 * (cpu/convolution/planes.h). */
#include "convolution/plane_copy.h"
#include "convolution/tiles.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_IF_CALLED(planes_lower);

enum { COPY_FLOATS = 6144, MOST_TAPS = 128, UNIT_FLOPS = 20000, ARG_X = 0, ARG_W, ARG_Y, ARG_BIAS };

struct planes {
    rg_native native;
    plane_copy copy;
    kn_window w;
    int64_t count;  /* of planes */
    int64_t block;  /* rows of the output in a unit */
    int64_t blocks; /* of a plane */
    bool biased, clamp;
    float low, high;
    int64_t at[MOST_TAPS];
};

typedef struct planes_call {
    const struct planes *p;
    void *const *args;
} planes_call;

static void one_unit(const planes_call *call, int64_t plane, int64_t first, int64_t rows, float *copy)
{
    const struct planes *p = call->p;
    const kn_window *w = &p->w;
    const int64_t channel = plane % w->in, seen = plane_rows_seen(w, rows), top = first * w->stride[0] - w->begin[0];
    const float *x = (const float *)call->args[ARG_X] + plane * w->height * w->width;
    pl_rows r = { .x_row = p->copy.row,
                  .at = p->at,
                  .height = w->kernel[0],
                  .width = w->kernel[1],
                  .w = (const float *)call->args[ARG_W] + channel * w->kernel[0] * w->kernel[1],
                  .stride = w->stride[0],
                  .dilation = w->dilation[0],
                  .y_row = w->out_width,
                  .n = w->out_width,
                  .bias = p->biased ? ((const float *)call->args[ARG_BIAS])[channel] : 0,
                  .clamp = p->clamp,
                  .low = p->low,
                  .high = p->high };

    for (int64_t i = 0; i < seen; i++)
        plane_copy_row(&p->copy, top + i >= 0 && top + i < w->height ? x + (top + i) * w->width : NULL,
                       copy + i * p->copy.row);
    for (int64_t i = 0; i < rows; i += r.rows) {
        r.rows = (int32_t)(rows - i < PL_ROWS ? rows - i : PL_ROWS);
        r.x = copy + i * w->stride[0] * p->copy.row;
        r.y = (float *)call->args[ARG_Y] + (plane * w->out_height + first + i) * w->out_width;
        p->copy.set->rows(&r);
    }
}

static inlay_status planes_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const planes_call *call = user;
    const struct planes *p = call->p;
    const int64_t height = p->w.out_height;
    _Alignas(64) float copy[COPY_FLOATS];

    (void)worker;
    memset(copy, 0, sizeof copy);
    for (int64_t u = begin; u < end; u++) {
        const int64_t first = u % p->blocks * p->block;

        one_unit(call, u / p->blocks, first, height - first < p->block ? height - first : p->block, copy);
    }
    return INLAY_OK;
}

static inlay_status run_planes(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                               uint32_t threads)
{
    const struct planes *p = (const struct planes *)(const void *)native;
    planes_call call = { p, args };
    const int64_t units = p->count * p->blocks;
    const double unit = p->w.flops / (double)units;
    const int64_t grain = unit < UNIT_FLOPS ? (int64_t)(UNIT_FLOPS / (unit + 1)) + 1 : 1;

    if (threads <= 1 || units <= grain)
        return planes_units(&call, 0, units, 0);
    return state->host->parallel_for(state->host->ctx, run, units, grain, planes_units, &call);
}

/* ------------------------------------------------------------------ the choice, and lowering */

bool planes_run(const rg_build *b, const kn_case *c)
{
    const kn_window *w = &c->w;
    plane_copy copy;

    if (!depthwise_runs(b, c) || w->home || !kn_is_whole(b) || w->kernel[1] > MOST_TAPS || w->stride[1] > PL_LANES ||
        rg_md_is_image(&c->x.md) || c->x.md.kind != RG_BLOCKED || rg_md_is_blocked(&c->x.md))
        return false;
    plane_copy_plan(&copy, w);
    return copy.row * plane_rows_seen(w, 1) <= COPY_FLOATS;
}

/* As many rows as the copy has room for, alike in all units. */
static void cut(struct planes *p)
{
    const kn_window *w = &p->w;

    p->block = w->out_height;
    while (p->block > 1 && plane_rows_seen(w, p->block) * p->copy.row > COPY_FLOATS)
        p->block--;
    p->blocks = (w->out_height + p->block - 1) / p->block;
    p->block = (w->out_height + p->blocks - 1) / p->blocks;
    p->blocks = (w->out_height + p->block - 1) / p->block;
}

inlay_status planes_lower(rg_build *b, const rg_group *group, const kn_case *c)
{
    const rg_op *op = b->op;
    tile_ending ending = { 0 };
    struct planes p = {
        .native.run = run_planes, .w = c->w, .count = c->w.images * c->w.in, .biased = c->bias_value != INLAY_NONE
    };
    rg_place x, w, y, bias;
    inlay_status status;
    uint32_t posts;
    rg_md md;

    INLAY_TRY(rg_read_plain(b, op->in[0], &x));
    rg_md_plain(&md, (uint32_t)c->weights.ndims, c->weights.dims);
    INLAY_TRY(rg_read_constant(b, op->in[1], &c->weights, &md, &w));
    if (p.biased) {
        INLAY_TRY(rg_read_floats(b, c->bias_value, c->w.out, &bias));
    }
    posts = group->post_count > 0 && group->posts[0].kind == RG_POST_ELTWISE &&
            tiles_clamps(&group->posts[0].eltwise, &ending);
    p.clamp = ending.clamp;
    p.low = ending.low;
    p.high = ending.high;
    plane_copy_plan(&p.copy, &p.w);
    for (int64_t k = 0; k < p.w.kernel[1]; k++)
        p.at[k] = plane_offset(&p.copy, &p.w, k);
    cut(&p);
    rg_md_plain(&md, b->ranks[op->out[0]], b->dims[op->out[0]]);
    INLAY_TRY(rg_made_place(b, group, posts, &md, &y));
    INLAY_TRY(rg_emit_step(b, &p.native, sizeof p, (const rg_place *const[]){ &x, &w, &y, &bias },
                           p.biased ? ARG_BIAS + 1 : ARG_BIAS));
    status = rg_finish(b, group, posts, &y, true);
done:
    return status;
}
