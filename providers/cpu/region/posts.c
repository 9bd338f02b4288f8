/* Functions fused behind a primitive: as many as a fast kernel takes; the rest run by themselves. */
#include "region/build.h"

static bool same_dims(const rg_build *build, uint32_t x, uint32_t y)
{
    return build->ranks[x] == build->ranks[y] &&
           memcmp(build->dims[x], build->dims[y], build->ranks[x] * sizeof(int64_t)) == 0;
}

/* Images of one pixel: oneDNN 2.6 can't tell from their layout whether an operand has one element for each channel, and
 * reads the wrong ones. */
static bool is_pixel(const rg_md *dst)
{
    int64_t pixels = 1;

    for (int d = 2; d < dst->ndims; d++)
        pixels *= dst->dims[d];
    return dst->ndims > 2 && pixels == 1;
}

/* How the primitive reads operand `other` of a post. dst is the layout of its output. False: it can't. */
static bool operand_layout(const rg_build *build, const rg_group *group, uint32_t other, const rg_md *dst, rg_md *out)
{
    uint32_t rank = build->ranks[group->out], own = build->ranks[other], dst_rank = (uint32_t)dst->ndims;
    bool viewed = dst_rank != rank; /* a product that sees [.., N] as [M, N] */
    bool channel_last = build->compiled->ops[group->op].row->family == &rg_product;
    uint32_t channel = channel_last ? rank - 1 : 1;
    int64_t dims[RG_MAX_RANK];

    if (same_dims(build, other, group->out) && !(is_pixel(dst) && dst->dims[0] == 1)) {
        *out = *dst;
        return true;
    }
    if (own > rank || (rg_count(build, other) > 1 && (is_pixel(dst) || (!rg_md_is_plain(dst) && !rg_md_is_image(dst)))))
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
    rg_md_plain(out, dst_rank, dims);
    return true;
}

/* May the post be done by adding to what is in dst already? Kernels of oneDNN 2.6 leave the bias out where a
 * window lies in padding alone and there is something to add to. */
static bool can_sum(const rg_build *build, const rg_group *group, const rg_post *post)
{
    const rg_op *op = &build->compiled->ops[group->op];

    return post->kind == RG_POST_BINARY && post->alg == DN_BINARY_ADD && op->row->family != &rg_binary &&
           same_dims(build, post->other, group->out) && rg_is_last_use(build, post->other) &&
           !((op->row->family == &rg_conv || op->row->family == &rg_conv_computed) && rg_window_misses(build, op));
}

/* Is the same function there before with other parameters? Kernels of oneDNN 2.6 keep one set for each function, and
 * would compute both alike. */
static bool is_repeated(const rg_group *group, uint32_t post)
{
    const rg_eltwise *eltwise = &group->posts[post].eltwise;

    for (uint32_t i = 0; i < post; i++) {
        const rg_eltwise *other = &group->posts[i].eltwise;

        if (group->posts[i].kind == RG_POST_ELTWISE && other->alg == eltwise->alg &&
            (other->alpha != eltwise->alpha || other->beta != eltwise->beta))
            return true;
    }
    return false;
}

/* Behind a convolution oneDNN 2.6 for arm64 computes HardSwish without its limits. */
static bool is_wrong(const rg_eltwise *eltwise)
{
#if defined(__aarch64__)
    return eltwise->alg == DN_ELTWISE_HARDSWISH;
#else
    (void)eltwise;
    return false;
#endif
}

/* Does it run by itself? Some functions are always loops of our own; those that lose a NaN are, but with bfloat16. */
static bool is_apart(const rg_build *build, const rg_post *post)
{
    if (post->kind == RG_POST_ELTWISE)
        return rg_is_ours(post->eltwise.alg) || is_wrong(&post->eltwise) ||
               (build->state->strict && rg_row_of(&post->eltwise) != NULL) ||
               (rg_loses_nan(&post->eltwise) && !build->state->bf16);
    return rg_binary_loses_nan(post->alg) && !build->state->bf16;
}

/* Posts [0, *count) as attributes; *count shrinks to what can be expressed. */
static void make_attributes(const rg_build *build, const rg_group *group, const rg_md *dst, uint32_t *count,
                            rg_fused *out, dn_attr *attr)
{
    attr->post_count = 0;
    out->sums = false;
    for (uint32_t post_index = 0; post_index < *count; post_index++) {
        const rg_post *post = &group->posts[post_index];
        dn_post *made = &attr->posts[post_index];

        *made = (dn_post){
            .kind = DN_POST_ELTWISE, .alg = post->eltwise.alg, .alpha = post->eltwise.alpha, .beta = post->eltwise.beta
        };
        /* NOLINTNEXTLINE(bugprone-branch-clone): asked in this order */
        if (is_apart(build, post) || (post->kind == RG_POST_ELTWISE && is_repeated(group, post_index))) {
            *count = post_index;
        } else if (post->kind == RG_POST_ELTWISE) {
            attr->post_count++;
        } else if (!out->sums && can_sum(build, group, post)) {
            out->sums = true;
            out->sum_at = post_index;
            out->others[post_index].md = *dst;
            made->kind = DN_POST_SUM;
            attr->post_count++;
        } else if (post->alg != RG_PRELU &&
                   operand_layout(build, group, post->other, dst, &out->others[post_index].md)) {
            *made = (dn_post){ .kind = DN_POST_BINARY, .alg = post->alg, .other = out->others[post_index].md };
            attr->post_count++;
        } else {
            *count = post_index;
        }
    }
}

bool rg_is_fast(dn_const_description pd)
{
    const char *name = dn_name(pd);

    return name[0] != '\0' && strncmp(name, "ref", 3) != 0 && strncmp(name, "simple:any", 10) != 0;
}

/* The binary kernel of oneDNN 2.6 for AVX-512 takes blocks of 8 channels for blocks of 16 where functions are behind
 * it, and writes past the end. */
static bool is_overrun(const rg_build *build, const rg_md *dst)
{
    return build->op->row->family == &rg_binary && rg_md_is_blocked(dst) && dst->padded_dims[1] % 16 != 0;
}

static bool starts_with(dn_const_description pd, const char *start)
{
    return strncmp(dn_name(pd), start, strlen(start)) == 0;
}

/* A convolution with functions alone behind it, which need no layout: one descriptor instead of two, each of which
 * takes as long to make as a small model to read. false: not so, or not by a kernel that is compiled for it. */
static bool fuse_functions(rg_build *build, const rg_group *group, const dn_op *op, rg_fused *out)
{
    dn_attr attr = { .post_count = 0 };
    dn_description pd = NULL;
    uint32_t n = group->post_count;
    bool good = n > 0 && build->op->row->family == &rg_conv;

    for (uint32_t post = 0; good && post < n; post++)
        good = group->posts[post].kind == RG_POST_ELTWISE;
    if (!good)
        return false;
    make_attributes(build, group, NULL, &n, out, &attr);
    if (n < group->post_count || dn_describe(build->state->engine, op, &attr, &pd) != DN_SUCCESS ||
        !(starts_with(pd, "brg") || starts_with(pd, "brd") || starts_with(pd, "jit"))) {
        dn_destroy(pd);
        return false;
    }
    out->pd = pd;
    out->count = n;
    return true;
}

inlay_status rg_fuse_posts(rg_build *build, const rg_group *group, const dn_op *op, rg_fused *out)
{
    inlay_status status;
    rg_md dst, made;
    bool fast;

    if (fuse_functions(build, group, op, out))
        return INLAY_OK;
    status = rg_describe(build, op, &out->pd); /* without posts: what layouts there are */
    out->count = 0;
    out->sums = false;
    /* What transposed convolutions do with functions is a loop that is slower than all the rest of them. */
    if (status != INLAY_OK || group->post_count == 0 || strcmp(build->op->row->op_type, "ConvTranspose") == 0)
        return status;
    (void)dn_layout(out->pd, DN_OPERAND_DST, &dst);
    if (is_overrun(build, &dst))
        return INLAY_OK;
    fast = rg_is_fast(out->pd);
    for (uint32_t n = group->post_count; n > 0; n--) {
        dn_description pd = NULL;
        dn_attr attr = { .post_count = 0 };
        rg_fused fused = { 0 };

        make_attributes(build, group, &dst, &n, &fused, &attr);
        if (n == 0)
            break;
        if (dn_describe(build->state->engine, op, &attr, &pd) == DN_SUCCESS &&
            rg_md_equal(dn_layout(pd, DN_OPERAND_DST, &made), &dst) && rg_is_fast(pd) == fast) {
            dn_destroy(out->pd);
            *out = fused;
            out->pd = pd;
            out->count = n;
            return INLAY_OK;
        }
        dn_destroy(pd);
    }
    return INLAY_OK;
}

/* The operand of post post where and how the primitive reads it. */
static inlay_status place_operand(rg_build *build, const rg_group *group, uint32_t post, rg_place *io)
{
    const rg_md wanted = io->md;
    uint32_t other = group->posts[post].other;
    inlay_status status;

    if ((uint32_t)wanted.ndims == build->ranks[other] && rg_md_count(&wanted) == rg_count(build, other) &&
        memcmp(wanted.dims, build->dims[other], build->ranks[other] * sizeof(int64_t)) == 0)
        return rg_read_as(build, other, &wanted, io);
    status = rg_read_rows(build, other, wanted.data_type, io); /* another view of the same elements */
    io->md = wanted;
    return status;
}

inlay_status rg_emit_fused(rg_build *build, const rg_group *group, const rg_fused *fused, const rg_operand *operands,
                           uint32_t count)
{
    const rg_md *dst = dn_layout(fused->pd, DN_OPERAND_DST, &(rg_md){ 0 });
    rg_place others[RG_MAX_POSTS], out;
    rg_operand list[8 + RG_MAX_POSTS + 1];
    uint32_t n = 0;
    inlay_status status;

    memcpy(others, fused->others, sizeof others);
    for (; n < count; n++)
        list[n] = operands[n];
    for (uint32_t post = 0; post < fused->count; post++) {
        if (group->posts[post].kind == RG_POST_ELTWISE)
            continue;
        INLAY_TRY(place_operand(build, group, post, &others[post]));
        if (!(fused->sums && fused->sum_at == post))
            list[n++] = (rg_operand){ DN_ARG_POST((int)post) | DN_ARG_SRC_1, &others[post] };
    }
    if (fused->sums)
        out = others[fused->sum_at];
    else if (fused->count == group->post_count)
        INLAY_TRY(rg_result_place(build, group->out, dst, &out));
    else
        INLAY_TRY(rg_new_place(build, dst, &out));
    list[n++] = (rg_operand){ DN_ARG_DST, &out };
    INLAY_TRY(rg_emit(build, fused->pd, list, n));
    if (rg_md_is_plain(&out.md)) { /* with the axes that ONNX sees */
        rg_md_plain(&out.md, build->ranks[group->out], build->dims[group->out]);
        out.md.data_type = dst->data_type;
    }
    status = rg_finish(build, group, fused->count, &out, true);
done:
    return status;
}
