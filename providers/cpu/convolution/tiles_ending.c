/* What all steps of tiles share: how images and weights lie, and what is done with the sums of a tile. */
#include "convolution/tiles.h"
#include "simd/optional.h"
#include <math.h>

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_WITH(tiles_of_cpu, "rg_conv rg_conv_transpose");

const tile_set *tiles_of_cpu(void)
{
    return KERNEL_BEST(tiles);
}

/* ------------------------------------------------------------------ layouts */

bool tiles_panel_layout(const rg_md *weights, rg_md *md)
{
    return rg_md_blocks(md, (uint32_t)weights->ndims, weights->dims, weights->ndims == 4 ? "Acdb32a" : "Acb32a");
}

/* ------------------------------------------------------------------ functions behind the sums */

bool tiles_clamps(const rg_eltwise *f, tile_ending *e)
{
    bool relu = f->alg == DN_ELTWISE_RELU && f->alpha == 0;

    if (!relu && f->alg != DN_ELTWISE_CLIP_V2)
        return false;
    e->clamp = true;
    e->low = relu ? 0 : f->alpha;
    e->high = relu ? INFINITY : f->beta;
    return true;
}

bool tiles_functions(const rg_group *group, tile_ending *out)
{
    *out = (tile_ending){ .bias = INLAY_NONE, .add = INLAY_NONE };
    for (uint32_t p = 0; p < group->post_count; p++) {
        tile_post *t = &out->posts[out->post_count];

        if (group->posts[p].kind != RG_POST_ELTWISE)
            return false;
        if (p == 0 && tiles_clamps(&group->posts[p].eltwise, out))
            continue;
        if (!rg_function_of(&group->posts[p].eltwise, &t->post))
            return false;
        t->arg = INLAY_NONE;
        out->post_count++;
    }
    return true;
}

void tiles_end(const tile_set *set, const sg_kernel *kernel, const tile_ending *e, void *const *args, float *c,
               int64_t c_pixel, int64_t pixel, int64_t rows, int64_t column, int64_t columns)
{
    for (uint32_t p = 0; p < e->post_count; p++) {
        sg_post post = e->posts[p].post;
        /* Pixels without gaps are one row to a function of one operand: few channels would fill no vector. */
        const bool one = e->posts[p].arg == INLAY_NONE && c_pixel == columns;
        const int64_t count = one ? 1 : rows, width = one ? rows * columns : columns;

        if (e->posts[p].arg != INLAY_NONE)
            post.other = (const float *)args[e->posts[p].arg] + pixel * post.row + column;
        if (!set->function(&post, c, c_pixel, count, width))
            kernel->post(&post, c, c_pixel, count, width);
    }
}
