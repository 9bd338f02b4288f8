/* Fuses the epilogue of a group into a primitive: as many posts as a fast kernel takes. The other posts become
 * steps. */
#include "cpu/elementwise/elementwise.h"
#include "cpu/region/build.h"
#include "cpu/region/window.h"
#include "cpu/weights/read.h"

static bool same_dims(const cpu_build *build, uint32_t a, uint32_t b)
{
    return build->ranks[a] == build->ranks[b] &&
           memcmp(build->dims[a], build->dims[b], build->ranks[a] * sizeof(int64_t)) == 0;
}

/* Is it an image of one pixel? For its layout, oneDNN 2.6 does not recognise an operand that has one element per
 * channel, and reads the wrong elements. */
static bool is_pixel(const memory_desc *dst)
{
    int64_t pixels = 1;

    for (int d = 2; d < dst->ndims; d++)
        pixels *= dst->dims[d];
    return dst->ndims > 2 && pixels == 1;
}

/* The layout in which the primitive reads operand `other` of a post; dst is the layout of its output. false: oneDNN 2.6
 * cannot read it. */
static bool operand_layout(const cpu_build *build, const cpu_group *group, uint32_t other, const memory_desc *dst,
                           memory_desc *out)
{
    uint32_t rank = build->ranks[group->out], own = build->ranks[other], dst_rank = (uint32_t)dst->ndims;
    bool viewed = dst_rank != rank; /* a GEMM that views [.., N] as [M, N] */
    bool channel_last = build->compiled->ops[group->op].row->family == &cpu_product;
    uint32_t channel = channel_last ? rank - 1 : 1;
    int64_t dims[CPU_MAX_RANK];

    if (same_dims(build, other, group->out) && !(is_pixel(dst) && dst->dims[0] == 1)) {
        *out = *dst;
        return true;
    }
    if (own > rank ||
        (cpu_count(build, other) > 1 && (is_pixel(dst) || (!memory_desc_is_plain(dst) && !memory_desc_is_image(dst)))))
        return false; /* oneDNN 2.6 also reads the wrong elements if dst is transposed */
    for (uint32_t d = 0; d < dst_rank; d++)
        dims[d] = 1;
    for (uint32_t d = rank - own; d < rank; d++) {
        int64_t size = build->dims[other][d + own - rank];

        if (size != 1 && d != channel)
            return false;
        if (size != 1)
            dims[viewed ? dst_rank - 1 : d] = size;
    }
    memory_desc_plain(out, dst_rank, dims);
    return true;
}

/* May the post be fused as an addition to the old contents of dst? If so, kernels of oneDNN 2.6 skip the bias of
 * outputs whose window is in the padding only; such convolutions are excluded. */
static bool can_sum(const cpu_build *build, const cpu_group *group, const cpu_post *post)
{
    const cpu_op *op = &build->compiled->ops[group->op];

    return post->kind == CPU_POST_BINARY && post->alg == LIBRARY_BINARY_ADD && op->row->family != &cpu_binary &&
           same_dims(build, post->other, group->out) && cpu_is_last_use(build, post->other) &&
           !((op->row->family == &cpu_conv || op->row->family == &cpu_conv_computed) && cpu_window_misses(build, op));
}

/* Does an earlier post have the same function with other parameters? Kernels of oneDNN 2.6 store one set of parameters
 * per function, and would use it for both. */
static bool is_repeated(const cpu_group *group, uint32_t post)
{
    const cpu_eltwise *eltwise = &group->posts[post].eltwise;

    for (uint32_t i = 0; i < post; i++) {
        const cpu_eltwise *other = &group->posts[i].eltwise;

        if (group->posts[i].kind == CPU_POST_ELTWISE && other->alg == eltwise->alg &&
            (other->alpha != eltwise->alpha || other->beta != eltwise->beta))
            return true;
    }
    return false;
}

/* As the epilogue of a convolution, oneDNN 2.6 for arm64 computes HardSwish without clamping. */
static bool is_miscomputed(const cpu_eltwise *eltwise)
{
#if defined(__aarch64__)
    return eltwise->alg == LIBRARY_ELTWISE_HARDSWISH;
#else
    (void)eltwise;
    return false;
#endif
}

/* Must the post be a separate step? It must if only the built-in loop is right or accurate enough, or, unless operands
 * are bfloat16, if oneDNN's kernel loses a NaN. */
static bool needs_own_step(const cpu_build *build, const cpu_post *post)
{
    if (post->kind == CPU_POST_ELTWISE)
        return cpu_needs_builtin_loop(post->eltwise.alg) || is_miscomputed(&post->eltwise) ||
               (build->state->strict && cpu_row_of(&post->eltwise) != NULL) ||
               (cpu_loses_nan(&post->eltwise) && !build->state->bf16);
    return cpu_binary_loses_nan(post->alg) && !build->state->bf16;
}

/* Converts posts [0, *count) to attributes; reduces *count to the posts that can be fused. */
static void make_attributes(const cpu_build *build, const cpu_group *group, const memory_desc *dst, uint32_t *count,
                            cpu_fused *out, library_attr *attr)
{
    attr->post_count = 0;
    out->sums = false;
    for (uint32_t post_index = 0; post_index < *count; post_index++) {
        const cpu_post *post = &group->posts[post_index];
        library_post *made = &attr->posts[post_index];

        *made = (library_post){ .kind = LIBRARY_POST_ELTWISE,
                                .alg = post->eltwise.alg,
                                .alpha = post->eltwise.alpha,
                                .beta = post->eltwise.beta };
        /* NOLINTNEXTLINE(bugprone-branch-clone): the order of the conditions matters */
        if (needs_own_step(build, post) || (post->kind == CPU_POST_ELTWISE && is_repeated(group, post_index))) {
            *count = post_index;
        } else if (post->kind == CPU_POST_ELTWISE) {
            attr->post_count++;
        } else if (!out->sums && can_sum(build, group, post)) {
            out->sums = true;
            out->sum_at = post_index;
            out->others[post_index].md = *dst;
            made->kind = LIBRARY_POST_SUM;
            attr->post_count++;
        } else if (post->alg != CPU_PRELU &&
                   operand_layout(build, group, post->other, dst, &out->others[post_index].md)) {
            *made =
                (library_post){ .kind = LIBRARY_POST_BINARY, .alg = post->alg, .other = out->others[post_index].md };
            attr->post_count++;
        } else {
            *count = post_index;
        }
    }
}

bool cpu_is_fast(library_const_description pd)
{
    const char *name = library_name(pd);

    return name[0] != '\0' && strncmp(name, "ref", 3) != 0 && strncmp(name, "simple:any", 10) != 0;
}

/* With posts, the binary kernel of oneDNN 2.6 for AVX-512 treats blocks of 8 channels as blocks of 16, and writes past
 * the end of the tensor. */
static bool is_overrun(const cpu_build *build, const memory_desc *dst)
{
    return build->op->row->family == &cpu_binary && memory_desc_is_blocked(dst) && dst->padded_dims[1] % 16 != 0;
}

static bool starts_with(library_const_description pd, const char *start)
{
    return strncmp(library_name(pd), start, strlen(start)) == 0;
}

/* Shortcut for a convolution whose posts are all unary functions, which do not depend on dst's layout: it creates one
 * descriptor instead of two. (A descriptor takes as long to create as a small model takes to load.) false: not such a
 * group, or oneDNN has no generated kernel for it. */
static bool fuse_functions(cpu_build *build, const cpu_group *group, const library_op *op, cpu_fused *out)
{
    library_attr attr = { .post_count = 0 };
    library_description pd = NULL;
    uint32_t fused_count = group->post_count;
    bool good = fused_count > 0 && build->op->row->family == &cpu_conv;

    for (uint32_t post = 0; good && post < fused_count; post++)
        good = group->posts[post].kind == CPU_POST_ELTWISE;
    if (!good)
        return false;
    make_attributes(build, group, NULL, &fused_count, out, &attr);
    if (fused_count < group->post_count || library_describe(build->state->engine, op, &attr, &pd) != LIBRARY_SUCCESS ||
        !(starts_with(pd, "brg") || starts_with(pd, "brd") || starts_with(pd, "jit"))) {
        library_destroy(pd);
        return false;
    }
    out->pd = pd;
    out->count = fused_count;
    return true;
}

inlay_status cpu_fuse_posts(cpu_build *build, const cpu_group *group, const library_op *op, cpu_fused *out)
{
    inlay_status status;
    memory_desc dst, made;
    bool fast;

    if (fuse_functions(build, group, op, out))
        return INLAY_OK;
    INLAY_CHECK(group->post_count <= CPU_MAX_POSTS);
    status = cpu_describe(build, op, &out->pd); /* without posts: gives dst's layout */
    out->count = 0;
    out->sums = false;
    /* Fused posts make transposed convolutions slower than the whole rest of their work. */
    if (status != INLAY_OK || group->post_count == 0 || strcmp(build->op->row->op_type, "ConvTranspose") == 0)
        return status;
    (void)library_layout(out->pd, LIBRARY_OPERAND_DST, &dst);
    if (is_overrun(build, &dst))
        return INLAY_OK;
    fast = cpu_is_fast(out->pd);
    for (uint32_t fused_count = group->post_count; fused_count > 0; fused_count--) {
        library_description pd = NULL;
        library_attr attr = { .post_count = 0 };
        cpu_fused fused = { 0 };

        make_attributes(build, group, &dst, &fused_count, &fused, &attr);
        if (fused_count == 0)
            break;
        if (library_describe(build->state->engine, op, &attr, &pd) == LIBRARY_SUCCESS &&
            memory_desc_equal(library_layout(pd, LIBRARY_OPERAND_DST, &made), &dst) && cpu_is_fast(pd) == fast) {
            library_destroy(out->pd);
            *out = fused;
            out->pd = pd;
            out->count = fused_count;
            return INLAY_OK;
        }
        library_destroy(pd);
    }
    return INLAY_OK;
}

/* Reads the operand of post `post` in the layout io->md, which the primitive expects. */
static inlay_status place_operand(cpu_build *build, const cpu_group *group, uint32_t post, cpu_place *io)
{
    const memory_desc wanted = io->md;
    uint32_t other = group->posts[post].other;
    inlay_status status;

    if ((uint32_t)wanted.ndims == build->ranks[other] && memory_desc_count(&wanted) == cpu_count(build, other) &&
        memcmp(wanted.dims, build->dims[other], build->ranks[other] * sizeof(int64_t)) == 0)
        return cpu_read_as(build, other, &wanted, io);
    status = cpu_read_rows(build, other, wanted.data_type, io); /* another view of the same elements */
    io->md = wanted;
    return status;
}

inlay_status cpu_emit_fused(cpu_build *build, const cpu_group *group, const cpu_fused *fused,
                            const cpu_operand *operands, uint32_t count)
{
    const memory_desc *dst = library_layout(fused->pd, LIBRARY_OPERAND_DST, &(memory_desc){ 0 });
    cpu_place others[CPU_MAX_POSTS], out;
    cpu_operand list[8 + CPU_MAX_POSTS + 1];
    uint32_t list_count = 0;
    inlay_status status;

    INLAY_CHECK(count <= 8 && fused->count <= group->post_count);
    memcpy(others, fused->others, sizeof others);
    for (; list_count < count; list_count++)
        list[list_count] = operands[list_count];
    for (uint32_t post = 0; post < fused->count; post++) {
        if (group->posts[post].kind == CPU_POST_ELTWISE)
            continue;
        INLAY_TRY(place_operand(build, group, post, &others[post]));
        if (!(fused->sums && fused->sum_at == post))
            list[list_count++] = (cpu_operand){ LIBRARY_ARG_POST((int)post) | LIBRARY_ARG_SRC_1, &others[post] };
    }
    if (fused->sums)
        out = others[fused->sum_at];
    else if (fused->count == group->post_count)
        INLAY_TRY(cpu_result_place(build, group->out, dst, &out));
    else
        INLAY_TRY(cpu_new_place(build, dst, &out));
    list[list_count++] = (cpu_operand){ LIBRARY_ARG_DST, &out };
    INLAY_TRY(cpu_emit(build, fused->pd, list, list_count));
    if (memory_desc_is_plain(&out.md)) { /* restore ONNX's axes */
        memory_desc_plain(&out.md, build->ranks[group->out], build->dims[group->out]);
        out.md.data_type = dst->data_type;
    }
    status = cpu_finish(build, group, fused->count, &out, true);
done:
    return status;
}
