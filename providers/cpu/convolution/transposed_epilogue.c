/* The epilogue that all kernels of ConvTranspose share. */
#include "cpu/convolution/transposed.h"
#include "cpu/convolution/sum_loops.h"
#include "cpu/elementwise/elementwise.h"

uint32_t transposed_fuse_posts(const cpu_group *group, transposed_epilogue *out)
{
    const cpu_post *next = group->post_count > 0 ? &group->posts[0] : NULL;
    uint32_t fused_count = 0;

    *out = (transposed_epilogue){ 0 };
    if (next != NULL && next->kind == CPU_POST_UNARY && next->unary.function == FUNCTION_RELU) {
        out->relu = true;
        out->slope = next->unary.alpha;
        fused_count = 1;
    }
    for (; fused_count < group->post_count && group->posts[fused_count].kind == CPU_POST_UNARY &&
           cpu_row_of(&group->posts[fused_count].unary) != NULL && out->post_count < TRANSPOSED_MAX_POSTS;
         fused_count++)
        out->posts[out->post_count++] = group->posts[fused_count].unary;
    return fused_count;
}

void transposed_apply_epilogue(const transposed_epilogue *epilogue, const struct sgemm_kernel *kernel, float *output,
                               int64_t n)
{
    if (epilogue->relu)
        KERNEL_BEST(sum_loops)->relu(output, n, epilogue->slope);
    for (uint32_t i = 0; i < epilogue->post_count; i++)
        cpu_apply(kernel, &epilogue->posts[i], output, n);
}
