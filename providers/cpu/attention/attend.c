/* Attention on loops of our own: a block of queries of one head at a time, whose scores never leave the cache. Queries,
 * keys and values are read where the products before left them, whatever is transposed; the result is made as the
 * Transpose behind it wants it. */
#include "attention/score_loops.h"
#include "region/build.h"
#include "matrix/sgemm.h"
#include <float.h>
#include <math.h>

#define FLOPS_PER_NS 120.0
#define WAKE_NS 10000.0
/* A score up to here is not felt beside a mask of -1e20. */
#define ORDINARY 1e17f
enum {
    BLOCK_ROWS = 128,        /* queries at a time, at most */
    BLOCK_SCORES = 64 * 1024 /* scores of a block: a quarter of a second-level cache */
};

/* Elements from one batch, head and row to the next; those of a row are neighbours. */
struct strides {
    int64_t batch, head, row;
};

struct attend {
    rg_native native;
    const sg_kernel *kernel;
    int64_t batch, heads, shared, queries, keys, size, value_size; /* shared: query heads to a head of keys */
    struct strides q, k, v, y;
    rg_mask mask, hidden;
    float scale;
    sg_blank blank;
    int64_t reach; /* keys that the mask has columns for */
    bool causal;
    bool hinted;           /* what causal hides stands in the mask, too, and is hidden unless something is odd */
    float ordinary;        /* hinted: queries and keys up to here are not odd */
    bool few;              /* queries in all */
    int64_t blocks;        /* of queries */
    int64_t score_row;     /* elements between rows of scores */
    int64_t rows;          /* of the largest block */
    bool strict;           /* sums in short chains */
    int64_t worker_floats; /* scratch of one worker: scores, a panel of keys, factors */
    uint32_t workers;
};

struct call {
    const struct attend *a;
    const float *q, *k, *v, *mask;
    const uint8_t *hidden;
    float *scratch, *y;
};

static int64_t round_up(int64_t n)
{
    return (n + SG_LANES - 1) / SG_LANES * SG_LANES;
}

static int64_t at(const struct strides *s, int64_t batch, int64_t head, int64_t row)
{
    return batch * s->batch + head * s->head + row * s->row;
}

/* Scores of `rows` queries against `seen` keys. */
static void make_scores(const struct attend *a, const float *q, int64_t rows, const float *k, int64_t seen,
                        float *scores, float *panel)
{
    sg_job job = { .kernel = a->kernel,
                   .m = rows,
                   .k = a->size,
                   .chain = sg_chain(a->size, a->strict),
                   .a = q,
                   .a_row = a->q.row,
                   .b = panel,
                   .width = SG_WIDTH,
                   .b_step = SG_WIDTH,
                   .c_row = a->score_row };

    if (a->few || a->size == 0) {
        a->kernel->dots(q, a->q.row, rows, k, a->k.row, seen, a->size, scores, a->score_row);
        return;
    }
    for (int64_t j = 0; j < seen; j += SG_WIDTH) {
        job.n = seen - j < SG_WIDTH ? seen - j : SG_WIDTH;
        job.c = scores + j;
        a->kernel->panel(k + j * a->k.row, a->k.row, job.n, a->size, panel);
        sg_run(&job, 0, sg_units(&job));
    }
}

/* Is no element of those rows above most, infinite or NaN? */
static bool is_within(const float *x, int64_t row, int64_t rows, int64_t size, float most)
{
    for (int64_t r = 0; r < rows; r++) {
        bool odd = false;

#pragma omp simd reduction(| : odd)
        for (int64_t i = 0; i < size; i++)
            odd |= !(fabsf(x[r * row + i]) <= most);
        if (odd)
            return false;
    }
    return true;
}

/* May the block leave out the keys behind its last query? Their scores are then finite and of no weight beside the
 * mask, and 0 times their values is 0. */
static bool may_stop(const struct call *c, int64_t batch, int64_t head, int64_t r0, int64_t r1)
{
    const struct attend *a = c->a;
    int64_t kv = head / a->shared;

    return a->causal &&
           (!a->hinted || (is_within(c->q + at(&a->q, batch, head, r0), a->q.row, r1 - r0, a->size, a->ordinary) &&
                           is_within(c->k + at(&a->k, batch, kv, 0), a->k.row, a->keys, a->size, a->ordinary) &&
                           is_within(c->v + at(&a->v, batch, kv, 0), a->v.row, a->keys, a->value_size, FLT_MAX)));
}

static void one_block(const struct call *c, int64_t batch, int64_t head, int64_t r0, int64_t r1, float *scratch)
{
    const struct attend *a = c->a;
    const bool causal = may_stop(c, batch, head, r0, r1), masked = a->mask.there && !(causal && a->hinted);
    int64_t rows = r1 - r0, seen = causal && r1 < a->reach ? r1 : a->reach, kv = head / a->shared;
    float *scores = scratch, *panel = scores + a->rows * a->score_row, *factors = panel + a->size * SG_WIDTH;
    float *y = c->y + at(&a->y, batch, head, r0);
    const sg_post post = { .fn = SG_MUL, .other = factors, .row = 1, .col = 0 };
    sg_job job = { .kernel = a->kernel,
                   .m = rows,
                   .n = a->value_size,
                   .k = seen,
                   .chain = sg_chain(seen, a->strict),
                   .a = scores,
                   .a_row = a->score_row,
                   .b = c->v + at(&a->v, batch, kv, 0),
                   .width = SG_WIDTH,
                   .b_panel = SG_WIDTH,
                   .b_step = a->v.row,
                   .c = y,
                   .c_row = a->y.row,
                   .posts = &post,
                   .post_count = 1 };

    if (seen == 0) {
        for (int64_t r = 0; r < rows; r++)
            memset(y + r * a->y.row, 0, (size_t)a->value_size * sizeof *y);
        return;
    }
    make_scores(a, c->q + at(&a->q, batch, head, r0), rows, c->k + at(&a->k, batch, kv, 0), seen, scores, panel);
    for (int64_t r = 0; r < rows && a->hidden.there; r++)
        KERNEL_BEST(score_loops)
            ->hide(scores + r * a->score_row, c->hidden + rg_mask_at(&a->hidden, batch, head, r0 + r), a->hidden.step,
                   seen);
    a->kernel->softmax(&(sg_scores){ .rows = rows,
                                     .count = seen,
                                     .seen = causal ? r0 + 1 : seen,
                                     .x = scores,
                                     .x_row = a->score_row,
                                     .mask_row = a->mask.query,
                                     .scale = a->scale,
                                     .blank = a->blank,
                                     .mask = masked ? c->mask + rg_mask_at(&a->mask, batch, head, r0) : NULL,
                                     .factors = factors });
    sg_run(&job, 0, sg_units(&job));
}

static inlay_status run_some(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct call *c = user;
    const struct attend *a = c->a;
    float *scratch = c->scratch + worker % a->workers * a->worker_floats;

    for (int64_t i = begin; i < end; i++) {
        int64_t block = i % a->blocks, head = i / a->blocks % a->heads, batch = i / a->blocks / a->heads;

        one_block(c, batch, head, a->queries * block / a->blocks, a->queries * (block + 1) / a->blocks, scratch);
    }
    return INLAY_OK;
}

/* args: queries, keys, values, scratch, y, and the masks that there are. */
static inlay_status run_attend(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                               uint32_t threads)
{
    const struct attend *a = (const struct attend *)(const void *)native;
    struct call c = { .a = a,
                      .q = args[0],
                      .k = args[1],
                      .v = args[2],
                      .mask = a->mask.there ? args[5] : NULL,
                      .hidden = a->hidden.there ? args[5 + a->mask.there] : NULL,
                      .scratch = args[3],
                      .y = args[4] };
    int64_t count = a->batch * a->heads * a->blocks, grain = 1;
    double ns = 2.0 * (double)(a->batch * a->heads) * (double)a->queries * (double)a->keys *
                (double)(a->size + a->value_size) / FLOPS_PER_NS;

    if (threads <= 1 || ns < WAKE_NS)
        return run_some(&c, 0, count, 0);
    while (grain < count && ns * (double)grain / (double)count < WAKE_NS / 4)
        grain *= 2;
    return state->host->parallel_for(state->host->ctx, run, count, grain, run_some, &c);
}

/* ------------------------------------------------------------------ lowering */

/* An operand where it lies if elements of a row are neighbours there, otherwise row-major. */
static inlay_status read_rows(rg_build *b, uint32_t value, rg_place *out, struct strides *s)
{
    const int64_t *by;
    inlay_status status = rg_read_strided(b, value, out);

    if (status == INLAY_OK && (rg_md_is_blocked(&out->md) || out->md.strides[3] != 1))
        status = rg_read_plain(b, value, out);
    by = out->md.strides;
    *s = (struct strides){ by[0], by[1], by[2] };
    return status;
}

/* Does only a Transpose that moves the heads back read the value? */
static bool goes_to_rows(const rg_build *b, uint32_t value)
{
    if (b->c->values[value].output != INLAY_NONE || b->c->values[value].uses != 1)
        return false;
    for (uint32_t o = 0; o < b->c->op_count; o++) {
        const rg_op *op = &b->c->ops[o];

        if (op->in_count > 0 && op->in[0] == value)
            return op->row->family == &rg_transpose && op->perm[0] == 0 && op->perm[1] == 2 && op->perm[2] == 1 &&
                   op->perm[3] == 3;
    }
    return false;
}

enum { CAUSAL_SHARERS = 4 };

static void plan(const rg_build *b, struct attend *a)
{
    /* How far a block sees decides how its sums are cut. */
    const int64_t sharers = !a->causal ? b->instance->threads : b->state->reproducible ? 1 : CAUSAL_SHARERS;
    int64_t rows, heads = a->batch * a->heads;

    a->workers = b->instance->threads > 0 ? b->instance->threads : 1;
    a->few = a->queries <= SG_FEW && !b->state->reproducible;
    a->score_row = round_up(a->keys) + SG_LANES; /* rows that are no power of two apart */
    rows = BLOCK_SCORES / a->score_row;
    rows = rows < 12 ? 12 : rows > BLOCK_ROWS ? BLOCK_ROWS : rows;
    if (sharers > 1 && heads < 2 * sharers && a->queries > 24) { /* so that all get something */
        int64_t share = a->queries * heads / (2 * sharers) + 1;

        rows = share < 12 ? 12 : share < rows ? share : rows;
    }
    rows = rows < a->queries ? rows : a->queries;
    a->blocks = (a->queries + rows - 1) / rows;
    a->rows = (a->queries + a->blocks - 1) / a->blocks;
    a->worker_floats = round_up(a->rows * a->score_row + a->size * SG_WIDTH + a->rows);
}

/* One query of each head, several heads to one of keys and values: these are queries of that head, which is then read
 * once for all of them. */
static bool shares_keys(const rg_build *b, const struct attend *a)
{
    return a->queries == 1 && a->shared > 1 && !a->causal && !b->state->reproducible &&
           a->batch * a->heads >= a->shared * (int64_t)b->instance->threads;
}

static void by_keys(int64_t *head, int64_t *row, int64_t shared)
{
    *row = *head;
    *head *= shared;
}

inlay_status rg_lower_attend(rg_build *b, const rg_group *group, const sg_kernel *kernel)
{
    const rg_op *op = b->op;
    const int64_t *q = b->dims[op->in[0]], *k = b->dims[op->in[1]], *v = b->dims[op->in[2]];
    const int64_t transposed[] = { q[2] * q[1] * v[3], v[3], q[1] * v[3], 1 };
    struct attend a = { .native.run = run_attend,
                        .kernel = kernel,
                        .strict = b->state->strict,
                        .batch = q[0],
                        .heads = q[1],
                        .shared = q[1] / k[1],
                        .queries = q[2],
                        .keys = k[2],
                        .size = q[3],
                        .value_size = v[3],
                        .blank = rg_blank(op),
                        .scale = op->alpha != 0 ? op->alpha : 1 / sqrtf((float)q[3]),
                        .causal = op->attention.causal,
                        .hinted = op->attention.own,
                        .reach = rg_mask_reach(b) };
    rg_place queries, keys, values, mask, hidden, scratch, y;
    const rg_place *places[] = { &queries, &keys, &values, &scratch, &y, NULL, NULL };
    uint32_t count = 5;
    inlay_status status;
    int64_t floats, shared;
    rg_md md;

    INLAY_TRY(read_rows(b, op->in[0], &queries, &a.q));
    INLAY_TRY(read_rows(b, op->in[1], &keys, &a.k));
    INLAY_TRY(read_rows(b, op->in[2], &values, &a.v));
    INLAY_TRY(rg_read_mask(b, 3, &a.mask, &mask));
    INLAY_TRY(rg_read_mask(b, 4, &a.hidden, &hidden));
    if (a.mask.there)
        places[count++] = &mask;
    if (a.hidden.there)
        places[count++] = &hidden;
    a.ordinary = sqrtf(ORDINARY / (a.scale * (float)(a.size > 0 ? a.size : 1)));
    shared = shares_keys(b, &a) ? a.shared : 1;
    if (shared > 1) {
        by_keys(&a.q.head, &a.q.row, shared);
        by_keys(&a.mask.head, &a.mask.query, shared);
        by_keys(&a.hidden.head, &a.hidden.query, shared);
        a.heads /= shared;
        a.queries = shared;
        a.shared = 1;
    }
    plan(b, &a);
    floats = a.worker_floats * a.workers;
    INLAY_TRY(rg_new_floats(b, floats, &scratch));
    if (goes_to_rows(b, group->out)) {
        rg_md_strides(&md, 4, b->dims[group->out], transposed);
        INLAY_TRY(rg_new_place(b, &md, &y));
    } else {
        rg_md_plain(&md, 4, b->dims[group->out]);
        INLAY_TRY(rg_result_place(b, group->out, &md, &y));
    }
    a.y = (struct strides){ md.strides[0], md.strides[1], md.strides[2] };
    if (shared > 1)
        by_keys(&a.y.head, &a.y.row, shared);
    INLAY_TRY(rg_emit_step(b, &a.native, sizeof a, places, count));
    status = rg_set_place(b, group->out, &y);
done:
    return status;
}
