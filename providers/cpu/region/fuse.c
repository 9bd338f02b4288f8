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

static bool is_family(const rg_build *b, uint32_t op, const rg_family *family)
{
    return op != INLAY_NONE && b->c->ops[op].row->family == family;
}

static void find_readers(const rg_build *b, struct readers *of)
{
    for (uint32_t o = 0; o < b->c->op_count; o++) {
        const rg_op *op = &b->c->ops[o];

        for (uint32_t i = 0; i < op->in_count; i++) {
            struct readers *r = op->in[i] == INLAY_NONE ? NULL : &of[op->in[i]];

            if (r == NULL)
                continue;
            if (r->count < 2)
                r->op[r->count] = o;
            r->count++;
        }
    }
}

static bool same_dims(const rg_build *b, uint32_t x, uint32_t y)
{
    return b->ranks[x] == b->ranks[y] && memcmp(b->dims[x], b->dims[y], b->ranks[x] * sizeof(int64_t)) == 0;
}

static bool add_post(rg_group *g, rg_post post)
{
    if (g->post_count >= g->room)
        return false;
    g->posts[g->post_count++] = post;
    return true;
}

/* x * sigmoid(x), x * hardsigmoid(x): two readers of cur, of which the second multiplies it by what the first makes. */
static uint32_t match_swish(const rg_build *b, const struct readers *of, uint32_t cur, rg_eltwise *out)
{
    const struct readers *r = &of[cur];
    const rg_op *gate, *product;
    uint32_t s;

    if (r->count != 2 || !is_family(b, r->op[0], &rg_eltwise_family) || !is_family(b, r->op[1], &rg_binary))
        return INLAY_NONE;
    gate = &b->c->ops[r->op[0]];
    product = &b->c->ops[r->op[1]];
    s = gate->out[0];
    if (product->alg != DN_BINARY_MUL || of[s].count != 1 || of[s].op[0] != r->op[1] ||
        b->c->values[s].output != INLAY_NONE)
        return INLAY_NONE;
    if (gate->eltwise_count == 1 && gate->eltwise[0].alg == DN_ELTWISE_LOGISTIC)
        *out = (rg_eltwise){ DN_ELTWISE_SWISH, 1, 0 };
    else if (gate->eltwise_count == 2 && gate->eltwise[0].alg == DN_ELTWISE_LINEAR &&
             gate->eltwise[1].alg == DN_ELTWISE_CLIP_V2 && fabsf(gate->eltwise[0].alpha - 1.0f / 6) <= 0x1p-26f &&
             gate->eltwise[0].beta == 0.5f)
        *out = (rg_eltwise){ DN_ELTWISE_HARDSWISH, 0, 0 };
    else
        return INLAY_NONE;
    return r->op[1];
}

/* Adds what binary op `next` does with cur; false: it stays on its own. */
static bool take_binary(const rg_build *b, rg_group *g, const rg_op *next, uint32_t cur)
{
    bool first = next->in[0] == cur;
    uint32_t other = next->in[first ? 1 : 0];
    dn_alg alg = next->alg;
    uint32_t count = g->post_count;

    if (other == cur || !same_dims(b, cur, next->out[0]))
        return false;
    if (!first && (alg == DN_BINARY_DIV || alg == RG_PRELU))
        return false;
    if (!first && alg == DN_BINARY_SUB) { /* other - cur */
        if (!add_post(g, (rg_post){ .kind = RG_POST_ELTWISE, .eltwise = { DN_ELTWISE_LINEAR, -1, 0 } }))
            return false;
        alg = DN_BINARY_ADD;
    }
    if (!add_post(g, (rg_post){ .kind = RG_POST_BINARY, .alg = alg, .other = other })) {
        g->post_count = count;
        return false;
    }
    return true;
}

/* Is `other` a constant with one element for each output channel of the op? */
static bool is_bias(const rg_build *b, const rg_op *op, uint32_t y, uint32_t other)
{
    uint32_t rank = b->ranks[y], own = b->ranks[other];
    bool bits = op->row->family == &rg_nbits_product, product = bits || op->row->family == &rg_product;
    uint32_t channel = product ? rank - 1 : 1;

    if (b->c->values[other].constant == INLAY_NONE || own > rank || rank < 2)
        return false;
    if (bits && op->in_count > 5 && op->in[5] != INLAY_NONE)
        return false;
    if (!bits && op->in_count > 2 && op->in[2] != INLAY_NONE)
        return false;
    if (product && !bits &&
        ((b->c->values[op->in[1]].constant == INLAY_NONE && b->c->values[op->in[1]].weights == INLAY_NONE) ||
         b->ranks[op->in[1]] != 2))
        return false;
    for (uint32_t d = 0; d < rank; d++) {
        int64_t size = d + own < rank ? 1 : b->dims[other][d + own - rank];

        if (size != (d == channel ? b->dims[y][channel] : 1))
            return false;
    }
    return true;
}

static bool takes_posts(const rg_op *op)
{
    const rg_family *f = op->row->family;

    return f == &rg_conv || f == &rg_conv_transpose || f == &rg_conv_computed || f == &rg_product ||
           f == &rg_eltwise_family || f == &rg_binary || f == &rg_normalize || f == &rg_int8_product ||
           f == &rg_int8_conv || f == &rg_nbits_product;
}

/* Follows the only reader of what the group makes, as long as it is a function. taken: [op_count]. */
static void extend(const rg_build *b, const struct readers *of, uint8_t *taken, rg_group *g)
{
    const rg_op *op = &b->c->ops[g->op];
    bool may_bias = op->row->family == &rg_conv || op->row->family == &rg_conv_transpose ||
                    op->row->family == &rg_conv_computed || op->row->family == &rg_product ||
                    op->row->family == &rg_nbits_product;

    while (b->c->values[g->out].output == INLAY_NONE) {
        uint32_t next = of[g->out].count == 1 ? of[g->out].op[0] : INLAY_NONE;
        rg_eltwise swish;

        if (of[g->out].count == 2 && (next = match_swish(b, of, g->out, &swish)) != INLAY_NONE && !taken[next]) {
            if (!add_post(g, (rg_post){ .kind = RG_POST_ELTWISE, .eltwise = swish }))
                return;
            taken[of[g->out].op[0]] = 1;
            /* NOLINTNEXTLINE(bugprone-branch-clone): asked in this order */
        } else if (next == INLAY_NONE || taken[next]) { /* the other operand's maker has it */
            return;
        } else if (is_family(b, next, &rg_eltwise_family)) {
            const rg_op *f = &b->c->ops[next];

            if (g->post_count + f->eltwise_count > g->room)
                return;
            for (uint32_t i = 0; i < f->eltwise_count; i++)
                (void)add_post(g, (rg_post){ .kind = RG_POST_ELTWISE, .eltwise = f->eltwise[i] });
        } else if (is_family(b, next, &rg_binary)) {
            const rg_op *f = &b->c->ops[next];
            uint32_t other = f->in[f->in[0] == g->out ? 1 : 0];

            if (may_bias && g->post_count == 0 && g->bias == INLAY_NONE && f->alg == DN_BINARY_ADD &&
                same_dims(b, g->out, f->out[0]) && is_bias(b, op, g->out, other))
                g->bias = other;
            else if (!take_binary(b, g, f, g->out))
                return;
        } else {
            return;
        }
        taken[next] = 1;
        g->last = next;
        g->out = b->c->ops[next].out[0];
    }
}

inlay_status rg_fuse(rg_build *b)
{
    uint32_t n = b->c->op_count;
    struct readers *of = rg_scratch_take_zeroed(b->scratch, b->c->value_count + 1u, sizeof *of);
    uint8_t *taken = rg_scratch_take_zeroed(b->scratch, n + 1u, 1);
    rg_group *at = rg_scratch_take(b->scratch, n + 1u, sizeof *at); /* by last op */
    inlay_status status = INLAY_OK;

    if (of == NULL || taken == NULL || at == NULL) {
        status = inlay_fail(b->diag, INLAY_OUT_OF_MEMORY, "no memory to prepare a region of %u nodes", n);
        goto done;
    }
    find_readers(b, of);
    for (uint32_t o = 0; o < n; o++)
        at[o].op = INLAY_NONE;
    INLAY_TRY(rg_quant_chains(b, taken, at));
    for (uint32_t o = 0; o < n; o++) {
        rg_group g = { .op = o, .last = o, .bias = INLAY_NONE, .out = b->c->ops[o].out[rg_first_out(&b->c->ops[o])] };
        const bool adds = is_family(b, o, &rg_product) && b->c->ops[o].in_count > 2 && b->c->ops[o].in[2] != INLAY_NONE;

        if (taken[o])
            continue;
        g.room = adds ? RG_MAX_POSTS - 1 : RG_MAX_POSTS;
        if (of[g.out].count == 1)
            rg_quant_take(b, of[g.out].op[0], taken, &g);
        if (takes_posts(&b->c->ops[o]) && rg_type(b, g.out) == DN_F32)
            extend(b, of, taken, &g);
        if (of[g.out].count == 1)
            rg_quant_end(b, of[g.out].op[0], taken, &g);
        at[g.last] = g;
    }
    for (uint32_t o = 0; o < n; o++)
        if (at[o].op != INLAY_NONE)
            b->groups[b->group_count++] = at[o];
done:
    return status;
}
