/* Parts shared by all tiled convolutions: layouts of images and weights, and the epilogue. */
#include "cpu/convolution/tiles.h"
#include "cpu/elementwise/elementwise.h"
#include "inlay/check.h"
#include "simd/optional.h"
#include <math.h>

/* Programs of `inlay bundle` omit these. */
OPTIONAL_WITH(tiles_of_cpu, "cpu_conv cpu_conv_transpose");

const tile_set *tiles_of_cpu(void)
{
    return KERNEL_BEST(tiles);
}

bool tiles_panel_layout(const tensor_layout *weights, tensor_layout *layout)
{
    return layout_blocks(layout, (uint32_t)weights->rank, weights->dims, weights->rank == 4 ? "Acdb32a" : "Acb32a");
}

bool tiles_fuse_clamp(const cpu_unary *unary, tile_epilogue *epilogue)
{
    bool relu = unary->function == FUNCTION_RELU && unary->alpha == 0;

    if (!relu && unary->function != FUNCTION_CLIP)
        return false;
    epilogue->clamp = true;
    epilogue->low = relu ? 0 : unary->alpha;
    epilogue->high = relu ? INFINITY : unary->beta;
    return true;
}

uint32_t tiles_fuse_unary(const cpu_group *group, tile_epilogue *out)
{
    uint32_t post = 0;

    *out = (tile_epilogue){ .bias = INLAY_NONE, .add = INLAY_NONE };
    for (; post < group->post_count; post++) {
        tile_post *fused = &out->posts[out->post_count];
        INLAY_CHECK(out->post_count < CPU_MAX_POSTS);

        if (group->posts[post].kind != CPU_POST_UNARY)
            break;
        if (post == 0 && tiles_fuse_clamp(&group->posts[post].unary, out))
            continue;
        if (!cpu_function_of(&group->posts[post].unary, &fused->post))
            break;
        fused->arg = INLAY_NONE;
        out->post_count++;
    }
    return post;
}

bool tiles_unary_epilogue(const cpu_group *group, tile_epilogue *out)
{
    return tiles_fuse_unary(group, out) == group->post_count;
}

void tiles_apply_epilogue(const tile_set *set, const sgemm_kernel *kernel, const tile_epilogue *epilogue,
                          void *const *args, float *c, int64_t c_pixel, int64_t pixel, int64_t rows, int64_t column,
                          int64_t columns)
{
    for (uint32_t post_index = 0; post_index < epilogue->post_count; post_index++) {
        sgemm_post post = epilogue->posts[post_index].post;
        /* Pixels without gaps are one row for a function of one operand: few channels would not fill a vector. */
        const bool contiguous = epilogue->posts[post_index].arg == INLAY_NONE && c_pixel == columns;
        const int64_t count = contiguous ? 1 : rows, width = contiguous ? rows * columns : columns;

        if (epilogue->posts[post_index].arg != INLAY_NONE)
            post.other = (const float *)args[epilogue->posts[post_index].arg] + pixel * post.row + column * post.col;
        if (!set->function(&post, c, c_pixel, count, width))
            kernel->post(&post, c, c_pixel, count, width);
    }
}
