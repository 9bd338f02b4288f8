/* Functions of two whole tensors that lie alike, and what follows them, by one loop: oneDNN would generate code for
 * each size, which takes longer than small tensors do. */
#include "region/build.h"

enum { PIECE = 2048, GRAIN = 16384 }; /* elements that stay in the first-level cache; that are worth another thread */

/* One function behind it. */
struct behind {
    cpu_row_fn row; /* NULL: a function of two */
    cpu_eltwise eltwise;
    library_alg alg;
    int64_t step; /* of the other operand: 1, or 0 for one number */
};

struct whole {
    cpu_native native;
    library_alg alg;
    int64_t count;
    uint32_t behind_count;
    struct behind behinds[CPU_MAX_POSTS];
};

typedef struct whole_call {
    const struct whole *whole;
    void *const *args; /* both operands, the result, then the other operands of those behind it */
} whole_call;

static inlay_status whole_some(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const whole_call *call = user;
    const struct whole *whole = call->whole;
    const float *p = call->args[0], *q = call->args[1];
    float *output = call->args[2];

    (void)worker;
    for (int64_t i = begin; i < end; i += PIECE) {
        const int64_t n = end - i < PIECE ? end - i : PIECE;
        uint32_t arg = 3;

        cpu_binary_row(whole->alg, p + i, q + i, output + i, n, 1);
        for (uint32_t k = 0; k < whole->behind_count; k++) {
            const struct behind *behind = &whole->behinds[k];

            if (behind->row != NULL)
                behind->row(output + i, output + i, n, behind->eltwise.alpha, behind->eltwise.beta);
            else
                cpu_binary_row(behind->alg, output + i, (const float *)call->args[arg++] + i * behind->step, output + i,
                               n, behind->step);
        }
    }
    return INLAY_OK;
}

static inlay_status run_whole(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                              uint32_t threads)
{
    const struct whole *whole = (const struct whole *)(const void *)native;
    whole_call call = { whole, args };

    if (threads <= 1 || whole->count <= GRAIN)
        return whole_some(&call, 0, whole->count, 0);
    return state->host->parallel_for(state->host->ctx, run, whole->count, GRAIN, whole_some, &call);
}

/* Adds post post_index if the loop knows it, and its operand to others; *out_taken says so. */
static inlay_status take_post(cpu_build *build, const cpu_group *group, uint32_t post_index, const memory_desc *md,
                              struct whole *whole, cpu_place *others, uint32_t *count, bool *out_taken)
{
    const cpu_post *post = &group->posts[post_index];
    struct behind *behind = &whole->behinds[whole->behind_count];
    inlay_status status = INLAY_OK;
    memory_desc plain;

    *out_taken = false;
    if (post->kind == CPU_POST_ELTWISE) {
        if (!cpu_row_is_best(build->state, &post->eltwise, whole->count) || cpu_row_of(&post->eltwise) == NULL)
            return INLAY_OK;
        *behind = (struct behind){ .row = cpu_row_of(&post->eltwise), .eltwise = post->eltwise };
    } else {
        const bool one = cpu_count(build, post->other) == 1;

        if (cpu_type(build, post->other) != LIBRARY_F32 || post->alg == CPU_PRELU)
            return INLAY_OK;
        if (one) {
            memory_desc_plain(&plain, build->ranks[post->other], build->dims[post->other]);
            INLAY_TRY(cpu_read_as(build, post->other, &plain, &others[*count]));
        } else if (build->ranks[post->other] == build->ranks[group->out] &&
                   memcmp(build->dims[post->other], build->dims[group->out],
                          build->ranks[group->out] * sizeof(int64_t)) == 0) {
            INLAY_TRY(cpu_read_as(build, post->other, md, &others[*count]));
        } else {
            return INLAY_OK;
        }
        (*count)++;
        *behind = (struct behind){ .alg = post->alg, .step = !one };
    }
    whole->behind_count++;
    *out_taken = true;
done:
    return status;
}

inlay_status cpu_lower_whole(cpu_build *build, const cpu_group *group, const cpu_place *x0, const cpu_place *x1,
                             bool overwrite)
{
    cpu_place others[CPU_MAX_POSTS], out;
    const cpu_place *places[3 + CPU_MAX_POSTS];
    struct whole whole = { .native.run = run_whole, .alg = build->op->alg, .count = memory_desc_count(&x0->md) };
    uint32_t count = 0, taken = 0;
    inlay_status status = INLAY_OK;

    for (bool more = true; more && taken < group->post_count; taken += more)
        INLAY_TRY(take_post(build, group, taken, &x0->md, &whole, others, &count, &more));
    if (taken < group->post_count)
        INLAY_TRY(cpu_new_place(build, &x0->md, &out));
    else if (overwrite && build->compiled->values[group->out].output == INLAY_NONE)
        out = *x0;
    else
        INLAY_TRY(cpu_result_place(build, group->out, &x0->md, &out));
    places[0] = x0;
    places[1] = x1;
    places[2] = &out;
    for (uint32_t i = 0; i < count; i++)
        places[3 + i] = &others[i];
    status = cpu_emit_step(build, &whole.native, sizeof whole, places, 3 + count);
    if (status == INLAY_OK)
        status = cpu_finish(build, group, taken, &out, true);
done:
    return status;
}
