/* Binary operators on two tensors of equal dims and layout, with their epilogue, in one loop. */
#include "cpu/elementwise/elementwise.h"
#include "cpu/region/build.h"
#include "cpu/weights/read.h"
#include "inlay/check.h"
#include "inlay/host.h"

enum { PIECE = 2048, GRAIN = 16384 }; /* elements that stay in the first-level cache; elements worth another thread */

/* A function of the epilogue. */
struct fused_function {
    cpu_row_fn row; /* NULL: a binary function */
    cpu_unary unary;
    element_function function;
    int64_t step; /* of the other operand: 1, or 0 for a scalar */
};

struct binary_chain {
    cpu_native native;
    element_function function;
    int64_t count;
    uint32_t function_count;
    struct fused_function functions[CPU_MAX_POSTS];
};

typedef struct binary_chain_call {
    const struct binary_chain *chain;
    void *const *args; /* both operands, the result, then the other operands of the epilogue */
} binary_chain_call;

static inlay_status binary_chain_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const binary_chain_call *call = user;
    const struct binary_chain *chain = call->chain;
    const float *x0 = call->args[0], *x1 = call->args[1];
    float *output = call->args[2];

    INLAY_CHECK(begin <= end && end <= chain->count);
    (void)worker;
    for (int64_t i = begin; i < end; i += PIECE) {
        const int64_t n = end - i < PIECE ? end - i : PIECE;
        uint32_t arg = 3;

        cpu_binary_row(chain->function, x0 + i, x1 + i, output + i, n, 1);
        for (uint32_t k = 0; k < chain->function_count; k++) {
            const struct fused_function *function = &chain->functions[k];

            if (function->row != NULL)
                function->row(output + i, output + i, n, function->unary.alpha, function->unary.beta);
            else
                cpu_binary_row(function->function, output + i, (const float *)call->args[arg++] + i * function->step,
                               output + i, n, function->step);
        }
    }
    return INLAY_OK;
}

static inlay_status run_binary_chain(const cpu_native *native, const cpu_state *state, inlay_run *run,
                                     void *const *args, uint32_t threads)
{
    const struct binary_chain *chain = (const struct binary_chain *)(const void *)native;
    binary_chain_call call = { chain, args };

    if (threads <= 1 || chain->count <= GRAIN)
        return binary_chain_range(&call, 0, chain->count, 0);
    return state->host->parallel_for(state->host->ctx, run, chain->count, GRAIN, binary_chain_range, &call);
}

/* Fuses post `post_index` into the loop, and adds its operand to `others`; *out_taken = false: not supported. */
static inlay_status take_post(cpu_build *build, const cpu_group *group, uint32_t post_index,
                              const tensor_layout *layout, struct binary_chain *chain, cpu_place *others,
                              uint32_t *count, bool *out_taken)
{
    const cpu_post *post = &group->posts[post_index];
    struct fused_function *function = &chain->functions[chain->function_count];
    inlay_status status = INLAY_OK;
    tensor_layout plain;

    INLAY_CHECK(chain->function_count < CPU_MAX_POSTS && post_index < group->post_count);
    *out_taken = false;
    if (post->kind == CPU_POST_UNARY) {
        *function = (struct fused_function){ .row = cpu_row_of(&post->unary), .unary = post->unary };
    } else {
        const bool scalar = cpu_count(build, post->other) == 1;

        if (cpu_type(build, post->other) != ELEMENT_FLOAT || post->function == FUNCTION_PRELU)
            return INLAY_OK;
        if (scalar) {
            layout_plain(&plain, build->ranks[post->other], build->dims[post->other]);
            INLAY_TRY(cpu_read_as(build, post->other, &plain, &others[*count]));
        } else if (build->ranks[post->other] == build->ranks[group->out] &&
                   memcmp(build->dims[post->other], build->dims[group->out],
                          build->ranks[group->out] * sizeof(int64_t)) == 0) {
            INLAY_TRY(cpu_read_as(build, post->other, layout, &others[*count]));
        } else {
            return INLAY_OK;
        }
        (*count)++;
        *function = (struct fused_function){ .function = post->function, .step = !scalar };
    }
    chain->function_count++;
    *out_taken = true;
done:
    return status;
}

inlay_status cpu_lower_binary_chain(cpu_build *build, const cpu_group *group, const cpu_place *x0, const cpu_place *x1,
                                    bool overwrite)
{
    cpu_place others[CPU_MAX_POSTS], out;
    const cpu_place *places[3 + CPU_MAX_POSTS];
    struct binary_chain chain = { .native.run = run_binary_chain,
                                  .function = build->op->function,
                                  .count = layout_count(&x0->layout) };
    uint32_t count = 0, taken = 0;
    inlay_status status = INLAY_OK;

    for (bool more = true; more && taken < group->post_count; taken += more)
        INLAY_TRY(take_post(build, group, taken, &x0->layout, &chain, others, &count, &more));
    if (taken < group->post_count)
        INLAY_TRY(cpu_new_place(build, &x0->layout, &out));
    else if (overwrite && build->compiled->values[group->out].output == INLAY_NONE)
        out = *x0;
    else
        INLAY_TRY(cpu_result_place(build, group->out, &x0->layout, &out));
    places[0] = x0;
    places[1] = x1;
    places[2] = &out;
    for (uint32_t i = 0; i < count; i++)
        places[3 + i] = &others[i];
    status = cpu_emit_step(build, &chain.native, sizeof chain, places, 3 + count);
    if (status == INLAY_OK)
        status = cpu_finish(build, group, taken, &out, true);
done:
    return status;
}
