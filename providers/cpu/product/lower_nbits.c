/* Products by weights of a few bits (nbits.h), which lie packed: few rows by their integers or floats as they come,
 * many rows by panels of weights that are unfolded into the cache, as floats or as what their integers meet. */
#include "product/dense.h"
#include "choice/kernels.h"
#include "weights/nbits_weights.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_IF_CALLED(nbits_lower);

enum {
    MANY_ROWS = 8,                 /* from so many on a panel is unfolded, where activations stay floats, */
    FINE_ROWS = 16,                /* and where two limbs for each take longer than floats, if no tile has many rows */
    GROUP = SG_WIDTH / NB_COLUMNS, /* panels whose columns are done together */
    ROW_BLOCK = 32,                /* rows whose integers stay near the core while all weights pass, */
    BLOCK_ROWS = 128               /* and those of blocks, which a part of the panel meets at once */
};
#define BYTES_PER_NS 20.0 /* packed weights, by one row */
#define INTEGERS_PER_NS 60.0
#define FLOATS_PER_NS 30.0

typedef struct nbits_call {
    const struct dense *d;
    const float *x, *scales, *zeros;
    const uint8_t *w;
    char *scratch;
    float *y;
    const float *bias;
    sg_post posts[RG_MAX_POSTS + 1];
} nbits_call;

/* Row r as kernels read it. */
static const float *row_of(const nbits_call *c, int64_t r)
{
    const nbits_plan *p = &c->d->bits;

    if (p->spreads)
        return (const float *)(void *)(c->scratch + p->rows) + r * nb_depth(&p->shape);
    return c->x + r * c->d->job.a_row;
}

/* Bytes of a row's integers. */
static int64_t limb_bytes(const nbits_plan *p)
{
    return (p->blocks ? (int64_t)p->mode : 2) * nb_depth(&p->shape);
}

static int8_t *limbs_of(const nbits_call *c, int64_t r)
{
    const nbits_plan *p = &c->d->bits;

    return (int8_t *)c->scratch + p->limbs + r * limb_bytes(p);
}

static void spread(const nbits_call *c, int64_t r)
{
    const nb_shape *s = &c->d->bits.shape;
    const float *from = c->x + r * c->d->job.a_row;
    float *to = (float *)(void *)(c->scratch + c->d->bits.rows) + r * nb_depth(s);

    for (int64_t b = 0; b < s->blocks; b++, to += s->padded) {
        const int64_t begin = b * s->block, count = s->k - begin < s->block ? s->k - begin : s->block;

        memcpy(to, from + begin, (size_t)count * sizeof *to);
        memset(to + count, 0, (size_t)(s->padded - count) * sizeof *to);
    }
}

static inlay_status prepare_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const nbits_call *c = user;
    const nbits_plan *p = &c->d->bits;
    const int64_t parts = nb_parts(&p->shape);

    (void)worker;
    for (int64_t r = begin; r < end; r++) {
        if (p->spreads)
            spread(c, r);
        if (p->mode != NB_EXACT)
            c->scratch[p->fit + (uint64_t)r] = p->kernel->prepare(
                &p->shape, p->mode, p->has_zeros ? NULL : &p->zero, row_of(c, r),
                &(nb_row){ .limbs = limbs_of(c, r),
                           .limbs_part = limb_bytes(p) / parts,
                           .factors = (float *)(void *)(c->scratch + p->factors) + r * parts,
                           .sums = (int32_t *)(void *)(c->scratch + p->sums) + r * parts,
                           .starts = p->blocks ? (int32_t *)(void *)(c->scratch + p->starts) + r * parts : NULL });
    }
    return INLAY_OK;
}

/* Rows [r, r + count) by panels from that one on. */
static nb_tile tile_of(const nbits_call *c, int64_t panel, int64_t panels, int64_t r, int64_t count)
{
    const nbits_plan *p = &c->d->bits;
    const nb_shape *s = &p->shape;
    const int64_t parts = nb_parts(s), at = panel * NB_COLUMNS, scales = s->blocks * NB_COLUMNS;

    return (nb_tile){ .shape = s,
                      .w = c->w + nb_weight_bytes(s) / s->panels * panel,
                      .scales = c->scales + scales * panel,
                      .zeros = c->zeros == NULL ? NULL : c->zeros + scales * panel,
                      .zero = p->zero,
                      .rows = count,
                      .a = row_of(c, r),
                      .a_row = p->spreads ? nb_depth(s) : c->d->job.a_row,
                      .limbs = limbs_of(c, r),
                      .limbs_row = limb_bytes(p),
                      .limbs_part = limb_bytes(p) / parts,
                      .factors = (float *)(void *)(c->scratch + p->factors) + r * parts,
                      .sums = (int32_t *)(void *)(c->scratch + p->sums) + r * parts,
                      .c = c->y + r * c->d->job.c_row + at,
                      .c_row = c->d->job.c_row,
                      .columns = s->n - at < panels * NB_COLUMNS ? s->n - at : panels * NB_COLUMNS };
}

static bool fits(const nbits_call *c, int64_t r)
{
    return c->scratch[c->d->bits.fit + (uint64_t)r] != 0;
}

/* Rows [r, r + count), as many as a tile may have, by one panel. What cannot be rounded is summed as it is; rows beside
 * it are not to notice. */
static void multiply(const nbits_call *c, int64_t panel, int64_t r, int64_t count)
{
    const nbits_plan *p = &c->d->bits;
    bool all = p->mode != NB_EXACT;

    for (int64_t i = 0; all && i < count; i++)
        all = fits(c, r + i);
    for (int64_t i = 0; i < count;) {
        const int64_t rows = all || p->mode == NB_EXACT ? count : 1;
        const nb_tile t = tile_of(c, panel, 1, r + i, rows);

        p->kernel->tile[p->mode != NB_EXACT && fits(c, r + i) ? p->mode : NB_EXACT](&t);
        i += rows;
    }
}

static void finish(const nbits_call *c, int64_t r, int64_t rows, int64_t at, int64_t columns)
{
    const sg_job *job = &c->d->job;
    float *y = c->y + r * job->c_row + at;

    if (c->bias != NULL)
        job->kernel->post(&(sg_post){ .fn = SG_ADD, .other = c->bias + at, .col = 1 }, y, job->c_row, rows, columns);
    for (uint32_t p = 0; p < job->post_count; p++) {
        sg_post post = c->posts[p];

        if (post.other != NULL)
            post.other += r * post.row + at * post.col;
        job->kernel->post(&post, y, job->c_row, rows, columns);
    }
}

static int64_t groups_of(const nb_shape *s)
{
    return (s->panels + GROUP - 1) / GROUP;
}

/* Units: groups of panels for a block of rows, then for the next. */
static inlay_status packed_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const nbits_call *c = user;
    const nb_shape *s = &c->d->bits.shape;
    const int64_t groups = groups_of(s);

    (void)worker;
    for (int64_t u = begin; u < end; u++) {
        const int64_t above = u / groups * ROW_BLOCK,
                      m = c->d->job.m < above + ROW_BLOCK ? c->d->job.m : above + ROW_BLOCK;
        const int64_t first = u % groups * GROUP, last = first + GROUP < s->panels ? first + GROUP : s->panels;
        const int64_t at = first * NB_COLUMNS, columns = s->n - at < SG_WIDTH ? s->n - at : SG_WIDTH;

        for (int64_t r = above, rows; r < m; r += rows) {
            rows = m - r < NB_ROWS ? m - r : NB_ROWS;
            for (int64_t panel = first; panel < last; panel++)
                multiply(c, panel, r, rows);
            finish(c, r, rows, at, columns);
        }
    }
    return INLAY_OK;
}

/* Units: panels side by side for a block of rows, then for the next. */
static inlay_status block_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const nbits_call *c = user;
    const nbits_plan *p = &c->d->bits;
    const nb_shape *s = &p->shape;
    const int64_t groups = (s->panels + NB_BESIDE - 1) / NB_BESIDE, parts = nb_parts(s);
    char *room = c->scratch + p->panels + worker % c->d->workers * p->panel_bytes;
    int32_t *starts = (int32_t *)(void *)(room + nb_block_bytes(p->mode));
    nb_block b = { .w = room, .w_starts = starts };

    for (int64_t u = begin; u < end; u++) {
        const int64_t above = u / groups * BLOCK_ROWS, panel = u % groups * NB_BESIDE;
        const int64_t m = c->d->job.m < above + BLOCK_ROWS ? c->d->job.m : above + BLOCK_ROWS;
        const int64_t panels = s->panels - panel < NB_BESIDE ? s->panels - panel : NB_BESIDE;

        for (int64_t first = 0; first < parts; first += NB_PARTS) {
            const int64_t count = parts - first < NB_PARTS ? parts - first : NB_PARTS;

            for (int64_t i = 0; i < NB_BESIDE; i++) { /* those that are not there are the last again */
                const nb_tile t = tile_of(c, panel + (i < panels ? i : panels - 1), 1, above, 1);

                p->kernel->spread(&t, p->mode, first, count, (int)i, room, starts);
            }
            b.first = first;
            b.parts = count;
            b.tile = tile_of(c, panel, panels, above, NB_ROWS);
            b.starts = (int32_t *)(void *)(c->scratch + p->starts) + above * parts;
            for (int64_t r = above; r < m; r += NB_ROWS) {
                b.tile.rows = m - r < NB_ROWS ? m - r : NB_ROWS;
                p->kernel->block(&b, p->mode);
                b.tile.limbs += NB_ROWS * b.tile.limbs_row;
                b.tile.factors += NB_ROWS * parts;
                b.tile.sums += NB_ROWS * parts;
                b.starts += NB_ROWS * parts;
                b.tile.c += NB_ROWS * b.tile.c_row;
            }
        }
        for (int64_t r = above; r < m; r++)
            for (int64_t i = 0; !fits(c, r) && i < panels; i++)
                multiply(c, panel + i, r, 1);
        for (int64_t r = above; r < m; r += NB_ROWS)
            finish(c, r, m - r < NB_ROWS ? m - r : NB_ROWS, panel * NB_COLUMNS, b.tile.columns);
    }
    return INLAY_OK;
}

static inlay_status unfolded_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const nbits_call *c = user;
    const nbits_plan *p = &c->d->bits;
    const nb_shape *s = &p->shape;
    const int64_t scales = s->blocks * NB_COLUMNS;
    float *panel = (float *)(void *)(c->scratch + p->panels + worker % c->d->workers * p->panel_bytes);

    for (int64_t u = begin; u < end; u++) {
        const int64_t at = u * SG_WIDTH;
        sg_post posts[RG_MAX_POSTS + 1];
        sg_job job = c->d->job;

        job.n = s->n - at < SG_WIDTH ? s->n - at : SG_WIDTH;
        for (int64_t i = u * GROUP; i < (u + 1) * GROUP && i < s->panels; i++) {
            const nb_tile t = { .shape = s,
                                .w = c->w + nb_weight_bytes(s) / s->panels * i,
                                .scales = c->scales + scales * i,
                                .zeros = c->zeros == NULL ? NULL : c->zeros + scales * i,
                                .zero = p->zero };

            p->kernel->unfold(&t, panel + (i - u * GROUP) * NB_COLUMNS, SG_WIDTH);
        }
        job.a = c->x;
        job.b = panel;
        job.width = job.b_step = SG_WIDTH;
        job.bias = c->bias == NULL ? NULL : c->bias + at;
        job.c = c->y + at;
        job.posts = posts;
        for (uint32_t i = 0; i < job.post_count; i++) {
            posts[i] = c->posts[i];
            if (posts[i].other != NULL)
                posts[i].other += at * posts[i].col;
        }
        sg_run(&job, 0, sg_units(&job));
    }
    return INLAY_OK;
}

static double estimate_ns(const struct dense *d)
{
    const double count = (double)d->job.n * (double)d->job.k, bytes = count * d->bits.shape.bits / 8;
    const double work = (double)d->job.m * count / (d->bits.mode != NB_EXACT ? INTEGERS_PER_NS : FLOATS_PER_NS);

    return bytes / BYTES_PER_NS > work ? bytes / BYTES_PER_NS : work;
}

static inlay_status share(const rg_state *state, inlay_run *run, int64_t units, double ns, uint32_t threads,
                          inlay_status (*body)(void *, int64_t, int64_t, uint32_t), nbits_call *call)
{
    int64_t grain = 1;

    if (threads <= 1 || ns < WAKE_NS || units < 2)
        return body(call, 0, units, 0);
    while (grain < units && ns * (double)grain / (double)units < WAKE_NS / 4.0)
        grain *= 2;
    return state->host->parallel_for(state->host->ctx, run, units, grain, body, call);
}

/* args: x, weights, scales, zero points if there are any, scratch, then as dense_emit has them. */
static inlay_status run_nbits(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                              uint32_t threads)
{
    const struct dense *d = (const struct dense *)(const void *)native;
    const nbits_plan *p = &d->bits;
    nbits_call call = { .d = d,
                        .x = args[0],
                        .w = args[1],
                        .scales = args[2],
                        .zeros = p->has_zeros ? args[3] : NULL,
                        .scratch = args[p->scratch_arg],
                        .y = args[d->arg_count - 1],
                        .bias = d->biased ? args[d->bias_arg] : NULL };
    const double ns = estimate_ns(d);
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < d->job.post_count; i++) {
        call.posts[i] = d->posts[i].post;
        if (d->posts[i].arg != INLAY_NONE)
            call.posts[i].other = args[d->posts[i].arg];
    }
    if (p->unfolds)
        return share(state, run, groups_of(&p->shape), ns, threads, unfolded_units, &call);
    if (p->spreads || p->mode != NB_EXACT)
        status = share(state, run, d->job.m, 2.0 * (double)(d->job.m * d->job.k), threads, prepare_rows, &call);
    if (status != INLAY_OK)
        return status;
    if (p->blocks)
        return share(state, run,
                     (p->shape.panels + NB_BESIDE - 1) / NB_BESIDE * ((d->job.m + BLOCK_ROWS - 1) / BLOCK_ROWS), ns,
                     threads, block_units, &call);
    return share(state, run, groups_of(&p->shape) * ((d->job.m + ROW_BLOCK - 1) / ROW_BLOCK), ns, threads, packed_units,
                 &call);
}

/* ------------------------------------------------------------------ lowering */

static uint64_t reserve(uint64_t *bytes, uint64_t more)
{
    const uint64_t at = *bytes;

    *bytes += (more + 63) / 64 * 64;
    return at;
}

/* A model may ask for floats or for 8 bits (accuracy_level 1 and 4 of MatMulNBits; a model that asks for less may get
 * more); what the session asks for is a bound for the rest. */
static nb_mode mode_of(const rg_build *b, const rg_op *op)
{
    const int64_t level = op->row->family == &rg_nbits_product ? op->size : 0;

    if (level == 1 || !b->state->nbits->has_limbs || b->c->as_written)
        return NB_EXACT;
    return level == 4 && b->state->by_model ? NB_FINE : (nb_mode)b->state->limbs;
}

static inlay_status read_rows(rg_build *b, struct dense *d, rg_place *x)
{
    inlay_status status = rg_read_strided(b, b->op->in[0], x);

    d->job.a_row = d->job.k;
    if (status == INLAY_OK && !rg_md_has_rows(&x->md, &d->job.a_row)) {
        d->job.a_row = d->job.k;
        status = rg_read_plain(b, b->op->in[0], x);
    }
    return status;
}

static inlay_status take_scratch(rg_build *b, struct dense *d, dense_args *args, rg_place *scratch)
{
    nbits_plan *p = &d->bits;
    const uint64_t m = (uint64_t)d->job.m, depth = (uint64_t)nb_depth(&p->shape), parts = (uint64_t)nb_parts(&p->shape);
    uint64_t bytes = 64;
    inlay_status status;
    int64_t count;
    rg_md md;

    if (p->unfolds) {
        p->panel_bytes = (uint64_t)d->job.k * SG_WIDTH * sizeof(float);
        p->panels = reserve(&bytes, p->panel_bytes * d->workers);
    } else {
        p->rows = reserve(&bytes, p->spreads ? m * depth * sizeof(float) : 0);
        p->limbs = reserve(&bytes, p->mode != NB_EXACT ? m * (uint64_t)limb_bytes(p) : 0);
        p->factors = reserve(&bytes, p->mode != NB_EXACT ? m * parts * sizeof(float) : 0);
        p->sums = reserve(&bytes, p->mode != NB_EXACT ? m * parts * sizeof(int32_t) : 0);
        p->starts = reserve(&bytes, p->blocks ? m * parts * sizeof(int32_t) : 0);
        p->fit = reserve(&bytes, m);
        p->panel_bytes = (uint64_t)nb_block_bytes(p->mode) + NB_PARTS * NB_BESIDE * NB_COLUMNS * sizeof(int32_t);
        p->panels = reserve(&bytes, p->blocks ? p->panel_bytes * d->workers : 0);
    }
    count = (int64_t)bytes;
    rg_md_plain(&md, 1, &count);
    md.data_type = DN_U8;
    status = rg_new_place(b, &md, scratch);
    p->scratch_arg = args->count;
    args->list[args->count++] = scratch;
    return status;
}

static const char *const bounds[] = {
    [NB_EXACT] = "activations stay floats",
    [NB_BYTE] = "activations of 8 bits: each is off by at most 1/254 of the largest of its 32 neighbours",
    [NB_FINE] = "activations of 16 bits: each is off by at most 2^-16 of the largest of its 32 neighbours",
};

/* C of Gemm that is no row is one more operand behind the product. */
static uint32_t take_bias(const rg_build *b, const rg_op *op, rg_group *group, int64_t n)
{
    const bool product = op->row->family == &rg_product;
    const uint32_t at = product ? 2 : 5, c = op->in_count > at ? op->in[at] : INLAY_NONE;

    if (c == INLAY_NONE)
        return group->bias;
    if (!product || (b->c->values[c].constant != INLAY_NONE && rg_count(b, c) == n && b->ranks[c] >= 1 &&
                     b->dims[c][b->ranks[c] - 1] == n))
        return c;
    memmove(group->posts + 1, group->posts, group->post_count * sizeof *group->posts);
    group->posts[0] = (rg_post){ .kind = RG_POST_BINARY, .alg = DN_BINARY_ADD, .other = c };
    group->post_count++;
    return INLAY_NONE;
}

inlay_status nbits_lower(rg_build *b, const rg_group *group)
{
    struct dense d = { .native.run = run_nbits, .batch = 1, .b_count = 1 };
    nbits_plan *p = &d.bits;
    dense_args args = { .count = 3 };
    const rg_op *op = b->op;
    rg_place x, w, scales, zeros, scratch;
    rg_group own = *group;
    inlay_status status;
    uint32_t bias;
    rg_nbits n;

    (void)nbits_weights_of(b, &n, &p->shape);
    if (b->state->nbits == NULL)
        return inlay_fail(b->diag, INLAY_UNSUPPORTED, "node '%s': there are no loops for packed weights on this CPU",
                          op->name);
    if (b->dims[op->in[0]][b->ranks[op->in[0]] - 1] != n.k)
        return inlay_fail(b->diag, INLAY_SHAPE_MISMATCH, "node '%s': rows have %lld elements, weights %lld", op->name,
                          (long long)b->dims[op->in[0]][b->ranks[op->in[0]] - 1], (long long)n.k);
    p->on = true;
    p->kernel = b->state->nbits;
    p->mode = mode_of(b, op);
    p->zero = n.all;
    p->has_zeros = n.zero != INLAY_NONE;
    p->spreads = nb_depth(&p->shape) != n.k;
    d.workers = b->instance->threads > 0 ? b->instance->threads : 1;
    d.job = (sg_job){ .kernel = sg_kernel_best(),
                      .m = rg_count(b, op->in[0]) / n.k,
                      .n = n.n,
                      .k = n.k,
                      .chain = sg_chain(n.k, b->state->strict),
                      .c_row = n.n };
    if (p->mode == NB_FINE && d.job.m >= FINE_ROWS && p->kernel->many == 0 && !b->state->reproducible)
        p->mode = NB_EXACT;
    p->blocks = p->mode != NB_EXACT && p->kernel->many > 0 && d.job.m >= p->kernel->many;
    p->unfolds = p->mode == NB_EXACT && d.job.m >= MANY_ROWS && !b->state->reproducible;
    INLAY_TRY(read_rows(b, &d, &x));
    INLAY_TRY(nbits_read(b, &n, &w, &scales, &zeros));
    args.list[0] = &x;
    args.list[1] = &w;
    args.list[2] = &scales;
    if (p->has_zeros)
        args.list[args.count++] = &zeros;
    INLAY_TRY(take_scratch(b, &d, &args, &scratch));
    bias = take_bias(b, op, &own, n.n);
    INLAY_TRY(dense_emit(b, &own, &d, &args, bias));
    status = kn_remember(b, &(kn_choice){ .op = own.op,
                                          .count = 1,
                                          .source = KN_ONLY,
                                          .why = bounds[p->mode],
                                          .kernel = { (uint8_t)(KN_BITS_EXACT + p->mode) } });
done:
    return status;
}
