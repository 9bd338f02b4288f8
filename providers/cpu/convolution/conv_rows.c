/* Convolutions of images that lie row by row, in one or two dimensions, whose results nobody wants otherwise: weights
 * as they lie by the windows of some rows of the output, laid out in panels of neighbours (sgemm.h). The product of one
 * element of the window with all of a panel is a row of the image, cut where panels end, and of columns that are a
 * stride apart where windows are; so a unit first copies the rows that it sees, with their border. */
#include "layout/plane_copy.h"
#include "convolution/tiles.h"
#include "simd/optional.h"

enum {
    ARG_X,
    ARG_W,
    ARG_Y,
    ARG_BIAS,
    PANEL_FLOATS = 96 * 1024,
    COPY_FLOATS = 64 * 1024,
    ALONE_FLOPS = 200000,
    LEAST_CHANNELS = 48
};

typedef struct conv_rows {
    rg_native native;
    const sg_kernel *kernel;
    plane_copy copy; /* of the rows that a unit sees of one channel */
    kn_window w;
    int64_t in, out, chain; /* channels of a group; terms in a row */
    int64_t rows, blocks;   /* of the output in a unit; units of an image's group */
    bool copied;            /* otherwise rows are read where they lie: no border, no strides */
    int64_t panel_floats, copy_floats;
    uint32_t workers, scratch;
    bool biased, clamp;
    float low, high;
} conv_rows;

typedef struct conv_rows_call {
    const conv_rows *r;
    void *const *args;
    int64_t parts; /* of a unit's channels of the output, each of them work for a thread */
} conv_rows_call;

/* The panels of `rows` rows of the output. x: a channel's rows from the first that is seen on, x_row apart. */
static void lay_out(const conv_rows *r, const float *x, int64_t x_row, int64_t channel, int64_t rows, float *panels)
{
    const kn_window *w = &r->w;
    const plane_set *set = r->copy.set;
    const int64_t taps = w->kernel[0] * w->kernel[1], depth = r->in * taps;
    const bool joined = w->out_width == x_row && w->stride[0] == 1; /* rows run on into each other */

    for (int64_t a = 0; a < w->kernel[0]; a++)
        for (int64_t c = 0; c < w->kernel[1]; c++) {
            const int64_t k = channel * taps + a * w->kernel[1] + c;
            const float *from = x + a * w->dilation[0] * x_row + plane_offset(&r->copy, w, c);

            if (joined) {
                set->put(from, rows * w->out_width, panels + k * SG_WIDTH, SG_WIDTH * depth, 0);
                continue;
            }
            for (int64_t i = 0; i < rows; i++)
                set->put(from + i * w->stride[0] * x_row, w->out_width, panels + k * SG_WIDTH, SG_WIDTH * depth,
                         i * w->out_width);
        }
}

static void one_unit(const conv_rows_call *call, int64_t unit, int64_t part, float *panels, float *copy)
{
    const conv_rows *r = call->r;
    const kn_window *w = &r->w;
    const int64_t image = unit / r->blocks / w->group, group = unit / r->blocks % w->group;
    const int64_t first = unit % r->blocks * r->rows;
    const int64_t low = r->out * part / call->parts, high = r->out * (part + 1) / call->parts;
    const int64_t channel = group * r->out + low; /* the first that is made */
    const int64_t rows = w->out_height - first < r->rows ? w->out_height - first : r->rows;
    const int64_t depth = r->in * w->kernel[0] * w->kernel[1], places = w->out_height * w->out_width;
    const int64_t top = first * w->stride[0] - w->begin[0];
    const int64_t seen = plane_rows_seen(w, rows);
    sg_post posts[2];
    sg_job job = { .kernel = r->kernel,
                   .m = high - low,
                   .n = rows * w->out_width,
                   .k = depth,
                   .chain = r->chain,
                   .a = (const float *)call->args[ARG_W] + channel * depth,
                   .a_row = depth,
                   .b = panels,
                   .width = SG_WIDTH,
                   .b_panel = SG_WIDTH * depth,
                   .b_step = SG_WIDTH,
                   .c_row = places,
                   .c = (float *)call->args[ARG_Y] + (image * w->group * r->out + channel) * places +
                        first * w->out_width,
                   .posts = posts };

    for (int64_t c = 0; c < r->in; c++) {
        const float *x =
            (const float *)call->args[ARG_X] + ((image * w->group + group) * r->in + c) * w->height * w->width;

        if (r->copied) {
            for (int64_t i = 0; i < seen; i++)
                plane_copy_row(&r->copy, top + i >= 0 && top + i < w->height ? x + (top + i) * w->width : NULL,
                               copy + i * r->copy.row);
            lay_out(r, copy, r->copy.row, c, rows, panels);
        } else {
            lay_out(r, x + top * w->width, w->width, c, rows, panels);
        }
    }
    if (r->biased)
        posts[job.post_count++] =
            (sg_post){ .fn = SG_ADD, .other = (const float *)call->args[ARG_BIAS] + channel, .row = 1 };
    if (r->clamp)
        posts[job.post_count++] = (sg_post){ .fn = SG_CLIP, .alpha = r->low, .beta = r->high };
    sg_run(&job, 0, sg_units(&job));
}

static inlay_status conv_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const conv_rows_call *call = user;
    const conv_rows *r = call->r;
    float *panels = (float *)call->args[r->scratch] + worker % r->workers * (r->panel_floats + r->copy_floats);
    float *copy = panels + r->panel_floats;

    memset(copy, 0, (size_t)r->copy_floats * sizeof *copy);
    for (int64_t u = begin; u < end; u++)
        one_unit(call, u / call->parts, u % call->parts, panels, copy);
    return INLAY_OK;
}

static inlay_status run_conv_rows(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                                  uint32_t threads)
{
    const conv_rows *r = (const conv_rows *)(const void *)native;
    conv_rows_call call = { r, args, 1 };
    int64_t units = r->w.images * r->w.group * r->blocks;

    if (threads <= 1 || r->w.flops < ALONE_FLOPS)
        return conv_units(&call, 0, units, 0);
    /* Few units, as of a row of sound: their channels are shared, too, though each part lays the panels out again. */
    for (; units * call.parts < threads && r->out / (2 * call.parts) >= LEAST_CHANNELS;)
        call.parts *= 2;
    units *= call.parts;
    return units < 2 ? conv_units(&call, 0, units, 0)
                     : state->host->parallel_for(state->host->ctx, run, units, 1, conv_units, &call);
}

/* ------------------------------------------------------------------ the choice, and lowering */

/* Rows of the output in a unit, and what that needs; false: one row has no room. */
static bool cut(conv_rows *r)
{
    const kn_window *w = &r->w;
    const int64_t depth = r->in * w->kernel[0] * w->kernel[1];
    /* enough for two threads and more, whatever there are: a unit reads all weights */
    const int64_t most = w->out_height >= 8 ? (w->out_height + 7) / 8 : w->out_height;

    for (r->rows = most; r->rows > 0; r->rows--) {
        r->panel_floats = depth * ((r->rows * w->out_width + SG_WIDTH - 1) / SG_WIDTH * SG_WIDTH);
        r->copy_floats = r->copied ? plane_rows_seen(w, r->rows) * r->copy.row : 0;
        if (r->panel_floats <= PANEL_FLOATS && r->copy_floats <= COPY_FLOATS)
            break;
    }
    if (r->rows < 1)
        return false;
    r->blocks = (w->out_height + r->rows - 1) / r->rows;
    return true;
}

static bool measure(const rg_build *b, const kn_case *c, conv_rows *r)
{
    const kn_window *w = &c->w;

    *r = (conv_rows){ .kernel = b->state->sgemm,
                      .w = *w,
                      .in = w->in / w->group,
                      .out = w->out / w->group,
                      .copied = w->padded || w->stride[1] > 1 };
    if (w->stride[1] > PL_LANES)
        return false;
    plane_copy_plan(&r->copy, w);
    return cut(r);
}

bool conv_rows_run(const rg_build *b, const rg_group *group, const kn_case *c)
{
    const kn_window *w = &c->w;
    conv_rows r;

    return b->state->sgemm != NULL && w->flat && !w->home && kn_is_whole(b) && rg_md_is_plain(&c->x.md) &&
           !rg_md_is_image(&c->x.md) && c->x.md.data_type == DN_F32 && b->c->values[group->out].uses == 0 &&
           w->in > w->group && w->out_width > 0 && w->out_height > 0 && measure(b, c, &r);
}

inlay_status conv_rows_lower(rg_build *b, const rg_group *group, const kn_case *c)
{
    const rg_op *op = b->op;
    tile_ending ending = { 0 };
    rg_place x, w, y, bias, scratch;
    const rg_place *places[ARG_BIAS + 2];
    uint32_t count = ARG_BIAS, posts;
    inlay_status status;
    int64_t floats;
    conv_rows r;
    rg_md md;

    if (!measure(b, c, &r))
        return inlay_fail(b->diag, INLAY_INTERNAL, "node '%s': no room for its rows", op->name);
    r.native.run = run_conv_rows;
    r.chain = sg_chain(r.in * r.w.kernel[0] * r.w.kernel[1], b->state->strict);
    r.workers = b->instance->threads > 0 ? b->instance->threads : 1;
    INLAY_TRY(rg_read_plain(b, op->in[0], &x));
    rg_md_plain(&md, (uint32_t)c->weights.ndims, c->weights.dims);
    INLAY_TRY(rg_read_constant(b, op->in[1], &c->weights, &md, &w));
    posts = group->post_count > 0 && group->posts[0].kind == RG_POST_ELTWISE &&
            tiles_clamps(&group->posts[0].eltwise, &ending);
    r.clamp = ending.clamp;
    r.low = ending.low;
    r.high = ending.high;
    rg_md_plain(&md, b->ranks[op->out[0]], b->dims[op->out[0]]);
    INLAY_TRY(rg_made_place(b, group, posts, &md, &y));
    places[ARG_X] = &x;
    places[ARG_W] = &w;
    places[ARG_Y] = &y;
    r.biased = c->bias_value != INLAY_NONE;
    if (r.biased) {
        INLAY_TRY(rg_read_floats(b, c->bias_value, r.w.out, &bias));
        places[count++] = &bias;
    }
    floats = (r.panel_floats + r.copy_floats) * r.workers;
    INLAY_TRY(rg_new_floats(b, floats, &scratch));
    r.scratch = count;
    places[count++] = &scratch;
    INLAY_TRY(rg_emit_step(b, &r.native, sizeof r, places, count));
    status = rg_finish(b, group, posts, &y, true);
done:
    return status;
}

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_IF_CALLED(conv_rows_lower);
