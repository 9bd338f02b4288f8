/* Which ops run as one primitive: a convolution, product, normalisation or function, and the functions behind it.
 *
 * A group runs where its last op stands: everything that the ops in it read has been made by then, and nothing outside
 * reads what is in between. */
#include "region/build.h"
#include <math.h>

struct readers {
    uint32_t op[2];
    uint32_t count; /* may be above 2 */
};

static bool is_family(const cpu_build *build, uint32_t op, const cpu_family *family)
{
    return op != INLAY_NONE && build->compiled->ops[op].row->family == family;
}

static void find_readers(const cpu_build *build, struct readers *of)
{
    for (uint32_t o = 0; o < build->compiled->op_count; o++) {
        const cpu_op *op = &build->compiled->ops[o];

        for (uint32_t i = 0; i < op->in_count; i++) {
            struct readers *readers = op->in[i] == INLAY_NONE ? NULL : &of[op->in[i]];

            if (readers == NULL)
                continue;
            if (readers->count < 2)
                readers->op[readers->count] = o;
            readers->count++;
        }
    }
}

static bool same_dims(const cpu_build *build, uint32_t x, uint32_t y)
{
    return build->ranks[x] == build->ranks[y] &&
           memcmp(build->dims[x], build->dims[y], build->ranks[x] * sizeof(int64_t)) == 0;
}

static bool add_post(cpu_group *group, cpu_post post)
{
    if (group->post_count >= group->room)
        return false;
    group->posts[group->post_count++] = post;
    return true;
}

/* x * sigmoid(x), x * hardsigmoid(x): two readers of cur, of which the second multiplies it by what the first makes. */
static uint32_t match_swish(const cpu_build *build, const struct readers *of, uint32_t cur, cpu_eltwise *out)
{
    const struct readers *readers = &of[cur];
    const cpu_op *gate, *product;
    uint32_t s;

    if (readers->count != 2 || !is_family(build, readers->op[0], &cpu_eltwise_family) ||
        !is_family(build, readers->op[1], &cpu_binary))
        return INLAY_NONE;
    gate = &build->compiled->ops[readers->op[0]];
    product = &build->compiled->ops[readers->op[1]];
    s = gate->out[0];
    if (product->alg != LIBRARY_BINARY_MUL || of[s].count != 1 || of[s].op[0] != readers->op[1] ||
        build->compiled->values[s].output != INLAY_NONE)
        return INLAY_NONE;
    if (gate->eltwise_count == 1 && gate->eltwise[0].alg == LIBRARY_ELTWISE_LOGISTIC)
        *out = (cpu_eltwise){ LIBRARY_ELTWISE_SWISH, 1, 0 };
    else if (gate->eltwise_count == 2 && gate->eltwise[0].alg == LIBRARY_ELTWISE_LINEAR &&
             gate->eltwise[1].alg == LIBRARY_ELTWISE_CLIP_V2 && fabsf(gate->eltwise[0].alpha - 1.0f / 6) <= 0x1p-26f &&
             gate->eltwise[0].beta == 0.5f)
        *out = (cpu_eltwise){ LIBRARY_ELTWISE_HARDSWISH, 0, 0 };
    else
        return INLAY_NONE;
    return readers->op[1];
}

/* Adds what binary op `next` does with cur; false: it stays on its own. */
static bool take_binary(const cpu_build *build, cpu_group *group, const cpu_op *next, uint32_t cur)
{
    bool first = next->in[0] == cur;
    uint32_t other = next->in[first ? 1 : 0];
    library_alg alg = next->alg;
    uint32_t count = group->post_count;

    if (other == cur || !same_dims(build, cur, next->out[0]))
        return false;
    if (!first && (alg == LIBRARY_BINARY_DIV || alg == CPU_PRELU))
        return false;
    if (!first && alg == LIBRARY_BINARY_SUB) { /* other - cur */
        if (!add_post(group, (cpu_post){ .kind = CPU_POST_ELTWISE, .eltwise = { LIBRARY_ELTWISE_LINEAR, -1, 0 } }))
            return false;
        alg = LIBRARY_BINARY_ADD;
    }
    if (!add_post(group, (cpu_post){ .kind = CPU_POST_BINARY, .alg = alg, .other = other })) {
        group->post_count = count;
        return false;
    }
    return true;
}

/* Is `other` a constant with one element for each output channel of the op? */
static bool is_bias(const cpu_build *build, const cpu_op *op, uint32_t y, uint32_t other)
{
    uint32_t rank = build->ranks[y], own = build->ranks[other];
    bool bits = op->row->family == &cpu_nbits_product, product = bits || op->row->family == &cpu_product;
    uint32_t channel = product ? rank - 1 : 1;

    if (build->compiled->values[other].constant == INLAY_NONE || own > rank || rank < 2)
        return false;
    if (bits && op->in_count > 5 && op->in[5] != INLAY_NONE)
        return false;
    if (!bits && op->in_count > 2 && op->in[2] != INLAY_NONE)
        return false;
    if (product && !bits &&
        ((build->compiled->values[op->in[1]].constant == INLAY_NONE &&
          build->compiled->values[op->in[1]].weights == INLAY_NONE) ||
         build->ranks[op->in[1]] != 2))
        return false;
    for (uint32_t d = 0; d < rank; d++) {
        int64_t size = d + own < rank ? 1 : build->dims[other][d + own - rank];

        if (size != (d == channel ? build->dims[y][channel] : 1))
            return false;
    }
    return true;
}

static bool takes_posts(const cpu_op *op)
{
    const cpu_family *family = op->row->family;

    return family == &cpu_conv || family == &cpu_conv_transpose || family == &cpu_conv_computed ||
           family == &cpu_product || family == &cpu_eltwise_family || family == &cpu_binary ||
           family == &cpu_normalize || family == &cpu_int8_product || family == &cpu_int8_conv ||
           family == &cpu_nbits_product;
}

/* Follows the only reader of what the group makes, as long as it is a function. taken: [op_count]. */
static void extend(const cpu_build *build, const struct readers *of, uint8_t *taken, cpu_group *group)
{
    const cpu_op *op = &build->compiled->ops[group->op];
    bool may_bias = op->row->family == &cpu_conv || op->row->family == &cpu_conv_transpose ||
                    op->row->family == &cpu_conv_computed || op->row->family == &cpu_product ||
                    op->row->family == &cpu_nbits_product;

    while (build->compiled->values[group->out].output == INLAY_NONE) {
        uint32_t next = of[group->out].count == 1 ? of[group->out].op[0] : INLAY_NONE;
        cpu_eltwise swish;

        if (of[group->out].count == 2 && (next = match_swish(build, of, group->out, &swish)) != INLAY_NONE &&
            !taken[next]) {
            if (!add_post(group, (cpu_post){ .kind = CPU_POST_ELTWISE, .eltwise = swish }))
                return;
            taken[of[group->out].op[0]] = 1;
            /* NOLINTNEXTLINE(bugprone-branch-clone): asked in this order */
        } else if (next == INLAY_NONE || taken[next]) { /* the other operand's maker has it */
            return;
        } else if (is_family(build, next, &cpu_eltwise_family)) {
            const cpu_op *f = &build->compiled->ops[next];

            if (group->post_count + f->eltwise_count > group->room)
                return;
            for (uint32_t i = 0; i < f->eltwise_count; i++)
                (void)add_post(group, (cpu_post){ .kind = CPU_POST_ELTWISE, .eltwise = f->eltwise[i] });
        } else if (is_family(build, next, &cpu_binary)) {
            const cpu_op *f = &build->compiled->ops[next];
            uint32_t other = f->in[f->in[0] == group->out ? 1 : 0];

            if (may_bias && group->post_count == 0 && group->bias == INLAY_NONE && f->alg == LIBRARY_BINARY_ADD &&
                same_dims(build, group->out, f->out[0]) && is_bias(build, op, group->out, other))
                group->bias = other;
            else if (!take_binary(build, group, f, group->out))
                return;
        } else {
            return;
        }
        taken[next] = 1;
        group->last = next;
        group->out = build->compiled->ops[next].out[0];
    }
}

inlay_status cpu_fuse(cpu_build *build)
{
    uint32_t n = build->compiled->op_count;
    struct readers *of = cpu_scratch_take_zeroed(build->scratch, build->compiled->value_count + 1u, sizeof *of);
    uint8_t *taken = cpu_scratch_take_zeroed(build->scratch, n + 1u, 1);
    cpu_group *at = cpu_scratch_take(build->scratch, n + 1u, sizeof *at); /* by last op */
    inlay_status status = INLAY_OK;

    if (of == NULL || taken == NULL || at == NULL) {
        status = inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory to prepare a region of %u nodes", n);
        goto done;
    }
    find_readers(build, of);
    for (uint32_t o = 0; o < n; o++)
        at[o].op = INLAY_NONE;
    INLAY_TRY(cpu_quant_chains(build, taken, at));
    for (uint32_t o = 0; o < n; o++) {
        cpu_group group = { .op = o,
                            .last = o,
                            .bias = INLAY_NONE,
                            .out = build->compiled->ops[o].out[cpu_first_out(&build->compiled->ops[o])] };
        const bool adds = is_family(build, o, &cpu_product) && build->compiled->ops[o].in_count > 2 &&
                          build->compiled->ops[o].in[2] != INLAY_NONE;

        if (taken[o])
            continue;
        group.room = adds ? CPU_MAX_POSTS - 1 : CPU_MAX_POSTS;
        if (of[group.out].count == 1)
            cpu_quant_take(build, of[group.out].op[0], taken, &group);
        if (takes_posts(&build->compiled->ops[o]) && cpu_type(build, group.out) == LIBRARY_F32)
            extend(build, of, taken, &group);
        if (of[group.out].count == 1)
            cpu_quant_end(build, of[group.out].op[0], taken, &group);
        at[group.last] = group;
    }
    for (uint32_t o = 0; o < n; o++)
        if (at[o].op != INLAY_NONE)
            build->groups[build->group_count++] = at[o];
done:
    return status;
}
