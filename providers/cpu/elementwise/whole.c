/* Functions of two whole tensors that lie alike, and what follows them, by one loop: oneDNN would generate code for
 * each size, which takes longer than small tensors do. */
#include "region/build.h"

enum { PIECE = 2048, GRAIN = 16384 }; /* elements that stay in the first-level cache; that are worth another thread */

/* One function behind it. */
struct behind {
    rg_row_fn row; /* NULL: a function of two */
    rg_eltwise f;
    dn_alg alg;
    int64_t step; /* of the other operand: 1, or 0 for one number */
};

struct whole {
    rg_native native;
    dn_alg alg;
    int64_t count;
    uint32_t behind_count;
    struct behind behinds[RG_MAX_POSTS];
};

typedef struct whole_call {
    const struct whole *w;
    void *const *args; /* both operands, the result, then the other operands of those behind it */
} whole_call;

static inlay_status whole_some(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const whole_call *c = user;
    const struct whole *w = c->w;
    const float *p = c->args[0], *q = c->args[1];
    float *y = c->args[2];

    (void)worker;
    for (int64_t i = begin; i < end; i += PIECE) {
        const int64_t n = end - i < PIECE ? end - i : PIECE;
        uint32_t arg = 3;

        rg_binary_row(w->alg, p + i, q + i, y + i, n, 1);
        for (uint32_t k = 0; k < w->behind_count; k++) {
            const struct behind *f = &w->behinds[k];

            if (f->row != NULL)
                f->row(y + i, y + i, n, f->f.alpha, f->f.beta);
            else
                rg_binary_row(f->alg, y + i, (const float *)c->args[arg++] + i * f->step, y + i, n, f->step);
        }
    }
    return INLAY_OK;
}

static inlay_status run_whole(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                              uint32_t threads)
{
    const struct whole *w = (const struct whole *)(const void *)native;
    whole_call c = { w, args };

    if (threads <= 1 || w->count <= GRAIN)
        return whole_some(&c, 0, w->count, 0);
    return state->host->parallel_for(state->host->ctx, run, w->count, GRAIN, whole_some, &c);
}

/* Adds post p if the loop knows it, and its operand to others; *out_taken says so. */
static inlay_status take_post(rg_build *b, const rg_group *group, uint32_t p, const rg_md *md, struct whole *w,
                              rg_place *others, uint32_t *count, bool *out_taken)
{
    const rg_post *post = &group->posts[p];
    struct behind *f = &w->behinds[w->behind_count];
    inlay_status status = INLAY_OK;
    rg_md plain;

    *out_taken = false;
    if (post->kind == RG_POST_ELTWISE) {
        if (!rg_row_is_best(b->state, &post->eltwise, w->count) || rg_row_of(&post->eltwise) == NULL)
            return INLAY_OK;
        *f = (struct behind){ .row = rg_row_of(&post->eltwise), .f = post->eltwise };
    } else {
        const bool one = rg_count(b, post->other) == 1;

        if (rg_type(b, post->other) != DN_F32 || post->alg == RG_PRELU)
            return INLAY_OK;
        if (one) {
            rg_md_plain(&plain, b->ranks[post->other], b->dims[post->other]);
            INLAY_TRY(rg_read_as(b, post->other, &plain, &others[*count]));
        } else if (b->ranks[post->other] == b->ranks[group->out] &&
                   memcmp(b->dims[post->other], b->dims[group->out], b->ranks[group->out] * sizeof(int64_t)) == 0) {
            INLAY_TRY(rg_read_as(b, post->other, md, &others[*count]));
        } else {
            return INLAY_OK;
        }
        (*count)++;
        *f = (struct behind){ .alg = post->alg, .step = !one };
    }
    w->behind_count++;
    *out_taken = true;
done:
    return status;
}

inlay_status rg_lower_whole(rg_build *b, const rg_group *group, const rg_place *x0, const rg_place *x1, bool overwrite)
{
    rg_place others[RG_MAX_POSTS], out;
    const rg_place *places[3 + RG_MAX_POSTS];
    struct whole w = { .native.run = run_whole, .alg = b->op->alg, .count = rg_md_count(&x0->md) };
    uint32_t count = 0, taken = 0;
    inlay_status status = INLAY_OK;

    for (bool more = true; more && taken < group->post_count; taken += more)
        INLAY_TRY(take_post(b, group, taken, &x0->md, &w, others, &count, &more));
    if (taken < group->post_count)
        INLAY_TRY(rg_new_place(b, &x0->md, &out));
    else if (overwrite && b->c->values[group->out].output == INLAY_NONE)
        out = *x0;
    else
        INLAY_TRY(rg_result_place(b, group->out, &x0->md, &out));
    places[0] = x0;
    places[1] = x1;
    places[2] = &out;
    for (uint32_t i = 0; i < count; i++)
        places[3 + i] = &others[i];
    status = rg_emit_step(b, &w.native, sizeof w, places, 3 + count);
    if (status == INLAY_OK)
        status = rg_finish(b, group, taken, &out, true);
done:
    return status;
}
