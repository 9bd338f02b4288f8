/* What follows a convolution of bytes by loops of our own where that is no QLinearConv: sums as int32 (ConvInteger), or
 * floats, sum * scale + shift, with the functions behind them while they are in the cache, which may become bytes again
 * in the end (QuantizeLinear). Scale and shift are a Mul and an Add by constants, each rounded as if it were alone. */
#include "quantized/bytes.h"
#include "quantized/quant.h"
#include <math.h>

/* ------------------------------------------------------------------ which posts */

/* One constant for each channel, or for all. */
static bool is_number(const rg_build *b, const rg_group *group, uint32_t other)
{
    const uint32_t rank = b->ranks[group->out], own = b->ranks[other];
    const int64_t channels = b->dims[group->out][1], count = rg_count(b, other);

    if (rg_type(b, other) != DN_F32 || own > rank)
        return false;
    return count == 1 || (own + 1 >= rank && count == channels && b->dims[other][own + 1 == rank ? 0 : 1] == channels);
}

static bool is_constant(const rg_build *b, const rg_group *group, const rg_post *post, dn_alg alg)
{
    return post->kind == RG_POST_BINARY && post->alg == alg && b->c->values[post->other].constant != INLAY_NONE &&
           is_number(b, group, post->other);
}

static bool is_linear(const rg_post *post)
{
    return post->kind == RG_POST_ELTWISE && post->eltwise.alg == DN_ELTWISE_LINEAR;
}

/* How many posts are scale and shift. */
static uint32_t scaling_posts(const rg_build *b, const rg_group *group)
{
    if (group->post_count > 0 && is_linear(&group->posts[0]))
        return 1;
    if (group->post_count == 0 || !is_constant(b, group, &group->posts[0], DN_BINARY_MUL))
        return 0;
    return group->post_count > 1 && is_constant(b, group, &group->posts[1], DN_BINARY_ADD) ? 2 : 1;
}

/* Is it a sum or product with a tensor of the same size, one number a channel, or one? */
static bool is_operand(const rg_build *b, const rg_group *group, const rg_post *post, bool *out_whole)
{
    *out_whole = b->ranks[post->other] == b->ranks[group->out] &&
                 memcmp(b->dims[post->other], b->dims[group->out], b->ranks[group->out] * sizeof(int64_t)) == 0;
    return (post->alg == DN_BINARY_ADD || post->alg == DN_BINARY_MUL) && rg_type(b, post->other) == DN_F32 &&
           (*out_whole || (is_number(b, group, post->other) &&
                           (rg_count(b, post->other) > 1 || b->c->values[post->other].constant != INLAY_NONE)));
}

static bool takes(const rg_build *b, const rg_group *group, const rg_post *post)
{
    sg_post ignored;
    bool whole;

    return post->kind == RG_POST_ELTWISE ? rg_function_of(&post->eltwise, &ignored)
                                         : is_operand(b, group, post, &whole);
}

bool bytes_takes_posts(const rg_build *b, const rg_group *group)
{
    if (b->state->tiles == NULL || b->state->sgemm == NULL)
        return false;
    for (uint32_t p = scaling_posts(b, group); p < group->post_count; p++)
        if (!takes(b, group, &group->posts[p]))
            return false;
    return true;
}

/* ------------------------------------------------------------------ lowering */

/* Number i of a constant. */
static inlay_status number_at(rg_build *b, uint32_t value, int64_t i, float *out)
{
    const char *data = q_constant(b, value);

    if (data == NULL)
        return inlay_fail(b->diag, INLAY_INTERNAL, "node '%s': its scales have gone", b->op->name);
    memcpy(out, data + (rg_count(b, value) > 1 ? i : 0) * (int64_t)sizeof *out, sizeof *out);
    return INLAY_OK;
}

static inlay_status read_scales(rg_build *b, bytes_case *c, uint32_t count)
{
    const rg_post *posts = c->group->posts;
    inlay_status status = INLAY_OK;

    c->scale = rg_scratch_take(b->scratch, 2 * (size_t)c->w.out + 1, sizeof *c->scale);
    if (c->scale == NULL)
        return q_no_memory(b);
    c->shift = c->scale + c->w.out;
    for (int64_t i = 0; i < c->w.out && status == INLAY_OK; i++) {
        const bool linear = count > 0 && is_linear(&posts[0]);

        c->scale[i] = linear ? posts[0].eltwise.alpha : 1;
        c->shift[i] = linear ? posts[0].eltwise.beta : 0;
        if (count > 0 && !linear)
            status = number_at(b, posts[0].other, i, &c->scale[i]);
        if (count > 1 && status == INLAY_OK)
            status = number_at(b, posts[1].other, i, &c->shift[i]);
    }
    return status;
}

static inlay_status read_operand(rg_build *b, bytes_case *c, const rg_post *post, tile_post *t)
{
    const bool adds = post->alg == DN_BINARY_ADD;
    bytes_floats *f = &c->floats;
    rg_place *place = &c->others[f->operand_count];
    inlay_status status = INLAY_OK;
    bool whole;
    rg_md md;

    (void)is_operand(b, c->group, post, &whole);
    if (!whole && rg_count(b, post->other) == 1) {
        t->post = (sg_post){ .fn = SG_LINEAR, .alpha = 1, .beta = 0 };
        return number_at(b, post->other, 0, adds ? &t->post.beta : &t->post.alpha);
    }
    t->post = (sg_post){ .fn = adds ? SG_ADD : SG_MUL, .col = 1 };
    t->arg = BYTES_OTHERS + f->operand_count++;
    if (!whole)
        return rg_read_plain(b, post->other, place);
    INLAY_TRY(rg_read(b, post->other, place));
    if (!tiles_lie_well(&place->md)) {
        rg_md_channels_last(&md, b->ranks[c->group->out], b->dims[c->group->out]);
        INLAY_TRY(rg_read_as(b, post->other, &md, place));
    }
    t->post.row = tiles_pixel_step(&place->md);
done:
    return status;
}

inlay_status bytes_read_posts(rg_build *b, bytes_case *c)
{
    const rg_group *group = c->group;
    bytes_floats *f = &c->floats;
    inlay_status status = INLAY_OK;
    uint32_t p = 0;

    *f = (bytes_floats){ .ending = { .bias = INLAY_NONE, .add = INLAY_NONE },
                         .set = b->state->tiles,
                         .kernel = b->state->sgemm };
    if (c->kind != BYTE_FLOATS)
        return INLAY_OK;
    p = scaling_posts(b, group);
    INLAY_TRY(read_scales(b, c, p));
    for (; f->set != NULL && f->kernel != NULL && p < group->post_count && takes(b, group, &group->posts[p]); p++) {
        tile_post *t = &f->ending.posts[f->ending.post_count++];

        t->arg = INLAY_NONE;
        if (group->posts[p].kind == RG_POST_ELTWISE)
            (void)rg_function_of(&group->posts[p].eltwise, &t->post);
        else
            INLAY_TRY(read_operand(b, c, &group->posts[p], t));
    }
    if (group->ends > 0) {
        const rg_op *last = &b->c->ops[group->ends - 1];

        f->quantizes = true;
        f->y_signed = rg_type(b, group->out) == DN_S8;
        f->y_scale = last->quantized.scale;
        f->y_zero = (float)last->quantized.zero;
    }
    c->posts = p;
done:
    return status;
}

inlay_status bytes_emit(rg_build *b, const bytes_case *c, const rg_place *w, const rg_place *y, rg_native *native)
{
    const rg_place *places[BYTES_OTHERS + RG_MAX_POSTS] = { &c->x, w, y };
    inlay_status status;

    for (uint32_t i = 0; i < c->floats.operand_count; i++)
        places[BYTES_OTHERS + i] = &c->others[i];
    status = rg_emit_native(b, native, places, BYTES_OTHERS + c->floats.operand_count);
    return status != INLAY_OK
               ? status
               : rg_finish(b, c->group, c->kind == BYTE_FLOATS ? c->posts : c->group->post_count, y, true);
}

inlay_status bytes_result(rg_build *b, const bytes_case *c, rg_place *out)
{
    const uint32_t y = b->op->out[0];
    const bool all = c->kind != BYTE_FLOATS || c->posts == c->group->post_count;
    rg_md md;

    rg_md_channels_last(&md, b->ranks[y], b->dims[y]);
    md.data_type = all ? rg_type(b, c->group->out) : DN_F32;
    return all ? rg_result_place(b, c->group->out, &md, out) : rg_new_place(b, &md, out);
}

/* ------------------------------------------------------------------ running */

void bytes_finish(const bytes_floats *f, void *const *args, float *c, int64_t pixel, int64_t rows, int64_t column,
                  int64_t columns, void *y, int64_t y_pixel)
{
    if (f->ending.post_count > 0)
        tiles_end(f->set, f->kernel, &f->ending, args, c, columns, pixel, rows, column, columns);
    if (f->quantizes && y_pixel == columns)
        q_quantize(y, c, f->y_signed, rows * columns, f->y_scale, f->y_zero);
    else if (f->quantizes)
        for (int64_t r = 0; r < rows; r++)
            q_quantize((uint8_t *)y + r * y_pixel, c + r * columns, f->y_signed, columns, f->y_scale, f->y_zero);
    else
        for (int64_t r = 0; r < rows; r++)
            memcpy((float *)y + r * y_pixel, c + r * columns, (size_t)columns * sizeof *c);
}
