/* What all steps of tiles share: how images and weights lie, and what is done with the sums of a tile. */
#include "convolution/tiles.h"
#include "simd/optional.h"
#include <math.h>

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_WITH(tiles_of_cpu, "cpu_conv cpu_conv_transpose");

const tile_set *tiles_of_cpu(void)
{
    return KERNEL_BEST(tiles);
}

/* ------------------------------------------------------------------ layouts */

bool tiles_panel_layout(const memory_desc *weights, memory_desc *md)
{
    return memory_desc_blocks(md, (uint32_t)weights->ndims, weights->dims, weights->ndims == 4 ? "Acdb32a" : "Acb32a");
}

/* ------------------------------------------------------------------ functions behind the sums */

bool tiles_clamps(const cpu_eltwise *eltwise, tile_ending *ending)
{
    bool relu = eltwise->alg == LIBRARY_ELTWISE_RELU && eltwise->alpha == 0;

    if (!relu && eltwise->alg != LIBRARY_ELTWISE_CLIP_V2)
        return false;
    ending->clamp = true;
    ending->low = relu ? 0 : eltwise->alpha;
    ending->high = relu ? INFINITY : eltwise->beta;
    return true;
}

bool tiles_functions(const cpu_group *group, tile_ending *out)
{
    *out = (tile_ending){ .bias = INLAY_NONE, .add = INLAY_NONE };
    for (uint32_t post = 0; post < group->post_count; post++) {
        tile_post *t = &out->posts[out->post_count];

        if (group->posts[post].kind != CPU_POST_ELTWISE)
            return false;
        if (post == 0 && tiles_clamps(&group->posts[post].eltwise, out))
            continue;
        if (!cpu_function_of(&group->posts[post].eltwise, &t->post))
            return false;
        t->arg = INLAY_NONE;
        out->post_count++;
    }
    return true;
}

void tiles_end(const tile_set *set, const sgemm_kernel *kernel, const tile_ending *ending, void *const *args, float *c,
               int64_t c_pixel, int64_t pixel, int64_t rows, int64_t column, int64_t columns)
{
    for (uint32_t post_index = 0; post_index < ending->post_count; post_index++) {
        sgemm_post post = ending->posts[post_index].post;
        /* Pixels without gaps are one row to a function of one operand: few channels would fill no vector. */
        const bool one = ending->posts[post_index].arg == INLAY_NONE && c_pixel == columns;
        const int64_t count = one ? 1 : rows, width = one ? rows * columns : columns;

        if (ending->posts[post_index].arg != INLAY_NONE)
            post.other = (const float *)args[ending->posts[post_index].arg] + pixel * post.row + column;
        if (!set->function(&post, c, c_pixel, count, width))
            kernel->post(&post, c, c_pixel, count, width);
    }
}
