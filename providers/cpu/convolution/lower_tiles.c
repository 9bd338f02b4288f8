/* Lowering of convolutions by tiles of every kind: their input, what is behind them, and where the result goes. */
#include "convolution/tiles.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_IF_CALLED(tiles_lower);

/* An operand [C, 1, ..] of an output [N, C, ..]. */
static bool one_a_channel(const rg_build *b, const rg_group *group, uint32_t other)
{
    uint32_t rank = b->ranks[group->out], own = b->ranks[other];
    int64_t channels = b->dims[group->out][1];

    return own <= rank && own + 1 >= rank && rg_count(b, other) == channels &&
           b->dims[other][own + 1 == rank ? 0 : 1] == channels;
}

/* The posts that tiles do, as a part of the group; *out_count says how many. Operands become places from number
 * *io_args on. */
static inlay_status take_posts(rg_build *b, const rg_group *group, tile_ending *e, rg_place *others,
                               const rg_place **places, uint32_t *io_args, uint32_t *out_count, bool *out_in_place)
{
    uint32_t p = 0;
    inlay_status status = INLAY_OK;

    *out_in_place = false;
    for (; p < group->post_count; p++) {
        const rg_post *post = &group->posts[p];
        tile_post *t = &e->posts[e->post_count];
        rg_place *other = &others[p];
        bool whole;

        if (post->kind == RG_POST_ELTWISE) {
            if (e->post_count == 0 && !e->clamp && tiles_clamps(&post->eltwise, e))
                continue;
            if (!rg_function_of(&post->eltwise, &t->post))
                break;
            t->arg = INLAY_NONE;
            e->post_count++;
            continue;
        }
        if (post->alg == RG_PRELU && one_a_channel(b, group, post->other)) {
            INLAY_TRY(rg_read_plain(b, post->other, other));
            places[*io_args] = other;
            *t = (tile_post){ .post = { .fn = SG_PRELU, .col = 1 }, .arg = (*io_args)++ };
            e->post_count++;
            continue;
        }
        if (post->alg != DN_BINARY_ADD && post->alg != DN_BINARY_MUL)
            break;
        whole = b->ranks[post->other] == b->ranks[group->out] &&
                memcmp(b->dims[post->other], b->dims[group->out], b->ranks[group->out] * sizeof(int64_t)) == 0;
        if (!whole)
            break; /* one for each channel mostly is a bias already */
        {
            bool last = rg_is_last_use(b, post->other);
            rg_md md;

            INLAY_TRY(rg_read(b, post->other, other));
            if (!tiles_lie_well(&other->md)) {
                rg_md_channels_last(&md, b->ranks[group->out], b->dims[group->out]);
                INLAY_TRY(rg_read_as(b, post->other, &md, other));
                last = false;
            }
            places[*io_args] = other;
            if (post->alg == DN_BINARY_ADD && e->add == INLAY_NONE && e->post_count == 0 && !e->clamp) {
                e->add = (*io_args)++;
                e->add_pixel = tiles_pixel_step(&other->md);
                *out_in_place = last;
                continue;
            }
            *t = (tile_post){ .post = { .fn = post->alg == DN_BINARY_ADD ? SG_ADD : SG_MUL,
                                        .col = 1,
                                        .row = tiles_pixel_step(&other->md) },
                              .arg = (*io_args)++ };
            e->post_count++;
        }
    }
    *out_count = p;
done:
    return status;
}

inlay_status tiles_lower(rg_build *b, const rg_group *group, const kn_case *c, int64_t points)
{
    const rg_op *op = b->op;
    const kn_window *g = &c->w;
    tile_ending ending = { .bias = INLAY_NONE, .add = INLAY_NONE };
    const rg_place *places[TILES_OTHERS + 1 + RG_MAX_POSTS + DW_PLACES];
    rg_place x, y, bias_place, others[RG_MAX_POSTS];
    uint32_t count = TILES_OTHERS, posts = 0;
    bool in_place = false, at_home = false;
    inlay_status status;
    rg_md md;

    if (b->ahead[op->in[0]] != NULL)
        x = b->ahead[op->in[0]]->c.x;
    else
        INLAY_TRY(rg_read(b, op->in[0], &x));
    if (!tiles_lie_well(&x.md) &&
        (points != 0 || !g->padded || rg_md_is_blocked(&x.md) || g->in > 4 || x.md.kind != RG_BLOCKED)) {
        rg_md_channels_last(&md, b->ranks[op->in[0]], b->dims[op->in[0]]);
        INLAY_TRY(rg_read_as(b, op->in[0], &md, &x));
    }
    if (c->bias_value != INLAY_NONE) {
        INLAY_TRY(rg_read_floats(b, c->bias_value, g->out, &bias_place));
        places[count] = &bias_place;
        ending.bias = count++;
    }
    INLAY_TRY(take_posts(b, group, &ending, others, places, &count, &posts, &in_place));
    rg_md_channels_last(&md, b->ranks[op->out[0]], b->dims[op->out[0]]);
    if (!in_place && posts == group->post_count)
        INLAY_TRY(tiles_home(b, group->out, &y, &at_home));
    if (in_place)
        y = *places[ending.add];
    else if (!at_home && posts == group->post_count)
        INLAY_TRY(rg_result_place(b, group->out, &md, &y));
    else if (!at_home)
        INLAY_TRY(rg_new_place(b, &md, &y));
    places[TILES_X] = &x;
    places[TILES_Y] = &y;
    if (points == TILES_GEMM || points == TILES_PAIRS)
        INLAY_TRY(tiles_lower_gemm(b, c, points == TILES_PAIRS, &x, &ending, places, count, &y));
    else if (points > TILES_DEPTHWISE)
        INLAY_TRY(tiles_lower_window(b, op, points, &x, &c->weights, &ending, places, count, &y));
    else if (points == TILES_DEPTHWISE)
        INLAY_TRY(depthwise_emit(b, c, &ending, places, count));
    else
        INLAY_TRY(tiles_lower_direct(b, op, c, &ending, places, count));
    if (rg_md_is_plain(&y.md))
        rg_md_plain(&y.md, b->ranks[group->out], b->dims[group->out]);
    status = rg_finish(b, group, posts, &y, true);
done:
    return status;
}
