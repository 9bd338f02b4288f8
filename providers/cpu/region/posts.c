/* Functions fused behind a primitive: as many as a fast kernel takes; the rest run by themselves. */
#include "region/build.h"

static bool same_dims(const cpu_build *build, uint32_t x, uint32_t y)
{
    return build->ranks[x] == build->ranks[y] &&
           memcmp(build->dims[x], build->dims[y], build->ranks[x] * sizeof(int64_t)) == 0;
}

/* Images of one pixel: oneDNN 2.6 can't tell from their layout whether an operand has one element for each channel, and
 * reads the wrong ones. */
static bool is_pixel(const memory_desc *dst)
{
    int64_t pixels = 1;

    for (int d = 2; d < dst->ndims; d++)
        pixels *= dst->dims[d];
    return dst->ndims > 2 && pixels == 1;
}

/* How the primitive reads operand `other` of a post. dst is the layout of its output. False: it can't. */
static bool operand_layout(const cpu_build *build, const cpu_group *group, uint32_t other, const memory_desc *dst,
                           memory_desc *out)
{
    uint32_t rank = build->ranks[group->out], own = build->ranks[other], dst_rank = (uint32_t)dst->ndims;
    bool viewed = dst_rank != rank; /* a product that sees [.., N] as [M, N] */
    bool channel_last = build->compiled->ops[group->op].row->family == &cpu_product;
    uint32_t channel = channel_last ? rank - 1 : 1;
    int64_t dims[CPU_MAX_RANK];

    if (same_dims(build, other, group->out) && !(is_pixel(dst) && dst->dims[0] == 1)) {
        *out = *dst;
        return true;
    }
    if (own > rank ||
        (cpu_count(build, other) > 1 && (is_pixel(dst) || (!memory_desc_is_plain(dst) && !memory_desc_is_image(dst)))))
        return false; /* of transposed layouts it reads the wrong ones, too */
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

/* May the post be done by adding to what is in dst already? Kernels of oneDNN 2.6 leave the bias out where a
 * window lies in padding alone and there is something to add to. */
static bool can_sum(const cpu_build *build, const cpu_group *group, const cpu_post *post)
{
    const cpu_op *op = &build->compiled->ops[group->op];

    return post->kind == CPU_POST_BINARY && post->alg == LIBRARY_BINARY_ADD && op->row->family != &cpu_binary &&
           same_dims(build, post->other, group->out) && cpu_is_last_use(build, post->other) &&
           !((op->row->family == &cpu_conv || op->row->family == &cpu_conv_computed) && cpu_window_misses(build, op));
}

/* Is the same function there before with other parameters? Kernels of oneDNN 2.6 keep one set for each function, and
 * would compute both alike. */
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

/* Behind a convolution oneDNN 2.6 for arm64 computes HardSwish without its limits. */
static bool is_wrong(const cpu_eltwise *eltwise)
{
#if defined(__aarch64__)
    return eltwise->alg == LIBRARY_ELTWISE_HARDSWISH;
#else
    (void)eltwise;
    return false;
#endif
}

/* Does it run by itself? Some functions are always loops of our own; those that lose a NaN are, but with bfloat16. */
static bool is_apart(const cpu_build *build, const cpu_post *post)
{
    if (post->kind == CPU_POST_ELTWISE)
        return cpu_is_ours(post->eltwise.alg) || is_wrong(&post->eltwise) ||
               (build->state->strict && cpu_row_of(&post->eltwise) != NULL) ||
               (cpu_loses_nan(&post->eltwise) && !build->state->bf16);
    return cpu_binary_loses_nan(post->alg) && !build->state->bf16;
}

/* Posts [0, *count) as attributes; *count shrinks to what can be expressed. */
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
        /* NOLINTNEXTLINE(bugprone-branch-clone): asked in this order */
        if (is_apart(build, post) || (post->kind == CPU_POST_ELTWISE && is_repeated(group, post_index))) {
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

/* The binary kernel of oneDNN 2.6 for AVX-512 takes blocks of 8 channels for blocks of 16 where functions are behind
 * it, and writes past the end. */
static bool is_overrun(const cpu_build *build, const memory_desc *dst)
{
    return build->op->row->family == &cpu_binary && memory_desc_is_blocked(dst) && dst->padded_dims[1] % 16 != 0;
}

static bool starts_with(library_const_description pd, const char *start)
{
    return strncmp(library_name(pd), start, strlen(start)) == 0;
}

/* A convolution with functions alone behind it, which need no layout: one descriptor instead of two, each of which
 * takes as long to make as a small model to read. false: not so, or not by a kernel that is compiled for it. */
static bool fuse_functions(cpu_build *build, const cpu_group *group, const library_op *op, cpu_fused *out)
{
    library_attr attr = { .post_count = 0 };
    library_description pd = NULL;
    uint32_t n = group->post_count;
    bool good = n > 0 && build->op->row->family == &cpu_conv;

    for (uint32_t post = 0; good && post < n; post++)
        good = group->posts[post].kind == CPU_POST_ELTWISE;
    if (!good)
        return false;
    make_attributes(build, group, NULL, &n, out, &attr);
    if (n < group->post_count || library_describe(build->state->engine, op, &attr, &pd) != LIBRARY_SUCCESS ||
        !(starts_with(pd, "brg") || starts_with(pd, "brd") || starts_with(pd, "jit"))) {
        library_destroy(pd);
        return false;
    }
    out->pd = pd;
    out->count = n;
    return true;
}

inlay_status cpu_fuse_posts(cpu_build *build, const cpu_group *group, const library_op *op, cpu_fused *out)
{
    inlay_status status;
    memory_desc dst, made;
    bool fast;

    if (fuse_functions(build, group, op, out))
        return INLAY_OK;
    status = cpu_describe(build, op, &out->pd); /* without posts: what layouts there are */
    out->count = 0;
    out->sums = false;
    /* What transposed convolutions do with functions is a loop that is slower than all the rest of them. */
    if (status != INLAY_OK || group->post_count == 0 || strcmp(build->op->row->op_type, "ConvTranspose") == 0)
        return status;
    (void)library_layout(out->pd, LIBRARY_OPERAND_DST, &dst);
    if (is_overrun(build, &dst))
        return INLAY_OK;
    fast = cpu_is_fast(out->pd);
    for (uint32_t n = group->post_count; n > 0; n--) {
        library_description pd = NULL;
        library_attr attr = { .post_count = 0 };
        cpu_fused fused = { 0 };

        make_attributes(build, group, &dst, &n, &fused, &attr);
        if (n == 0)
            break;
        if (library_describe(build->state->engine, op, &attr, &pd) == LIBRARY_SUCCESS &&
            memory_desc_equal(library_layout(pd, LIBRARY_OPERAND_DST, &made), &dst) && cpu_is_fast(pd) == fast) {
            library_destroy(out->pd);
            *out = fused;
            out->pd = pd;
            out->count = n;
            return INLAY_OK;
        }
        library_destroy(pd);
    }
    return INLAY_OK;
}

/* The operand of post post where and how the primitive reads it. */
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
    uint32_t n = 0;
    inlay_status status;

    memcpy(others, fused->others, sizeof others);
    for (; n < count; n++)
        list[n] = operands[n];
    for (uint32_t post = 0; post < fused->count; post++) {
        if (group->posts[post].kind == CPU_POST_ELTWISE)
            continue;
        INLAY_TRY(place_operand(build, group, post, &others[post]));
        if (!(fused->sums && fused->sum_at == post))
            list[n++] = (cpu_operand){ LIBRARY_ARG_POST((int)post) | LIBRARY_ARG_SRC_1, &others[post] };
    }
    if (fused->sums)
        out = others[fused->sum_at];
    else if (fused->count == group->post_count)
        INLAY_TRY(cpu_result_place(build, group->out, dst, &out));
    else
        INLAY_TRY(cpu_new_place(build, dst, &out));
    list[n++] = (cpu_operand){ LIBRARY_ARG_DST, &out };
    INLAY_TRY(cpu_emit(build, fused->pd, list, n));
    if (memory_desc_is_plain(&out.md)) { /* with the axes that ONNX sees */
        memory_desc_plain(&out.md, build->ranks[group->out], build->dims[group->out]);
        out.md.data_type = dst->data_type;
    }
    status = cpu_finish(build, group, fused->count, &out, true);
done:
    return status;
}
