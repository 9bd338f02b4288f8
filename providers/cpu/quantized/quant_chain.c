/* Functions of dequantized values that are quantized again: one loop over bytes, a tile at a time, in floats as ONNX
 * has it. What DequantizeLinear makes for them alone is never stored. */
#include "quantized/bytes.h"
#include "quantized/quant.h"
#include "simd/optional.h"
#include <math.h>

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_WITH(rg_quant_chains, RG_BYTE_FAMILIES);
OPTIONAL_IF_CALLED(q_lower_chain);

enum { MOST_LEAVES = 4, MOST_STEPS = 8, TILE = 512, CHAIN_GRAIN = 16384, PAIR_GRAIN = 32768 };

struct leaf {
    uint32_t value; /* of the region: bytes, or floats */
    bool bytes, is_signed, scalar;
    float scale, zero;
};

/* y = f(slot a, slot b); slots are leaves, then the steps before. */
typedef struct chain_step {
    dn_alg alg;
    uint32_t a, b;
    float alpha, beta;
} chain_step;

struct chain {
    rg_native native;
    struct leaf leaves[MOST_LEAVES];
    chain_step steps[MOST_STEPS];
    uint32_t leaf_count, step_count;
    int64_t count;
    float scale, zero;
    bool is_signed;
    uint32_t root;       /* slot */
    const byte_set *set; /* NULL: it is no pair */
    byte_pair pair;      /* all of it, where it is a function of two tensors of bytes */
};

enum { STEP = 16 }; /* slots from here on are steps */

/* ------------------------------------------------------------------ finding */

static uint32_t maker_of(const rg_build *b, uint32_t value)
{
    if (value == INLAY_NONE || b->c->values[value].constant != INLAY_NONE || b->c->values[value].input != INLAY_NONE)
        return INLAY_NONE;
    for (uint32_t o = 0; o < b->c->op_count; o++)
        if (b->c->ops[o].out_count > 0 && b->c->ops[o].out[0] == value)
            return o;
    return INLAY_NONE;
}

static bool known_function(const rg_op *op)
{
    for (uint32_t f = 0; f < op->eltwise_count; f++) {
        dn_alg alg = op->eltwise[f].alg;

        if (alg != DN_ELTWISE_RELU && alg != DN_ELTWISE_CLIP_V2 && alg != DN_ELTWISE_LINEAR &&
            alg != DN_ELTWISE_HARDSWISH && alg != DN_ELTWISE_LOGISTIC && alg != DN_ELTWISE_SWISH &&
            alg != DN_ELTWISE_TANH)
            return false;
    }
    return op->eltwise_count > 0;
}

static bool same_dims(const rg_build *b, uint32_t x, uint32_t y)
{
    return b->ranks[x] == b->ranks[y] && memcmp(b->dims[x], b->dims[y], b->ranks[x] * sizeof(int64_t)) == 0;
}

/* A leaf that is read as it is, or through DequantizeLinear. */
static bool add_leaf(const rg_build *b, uint32_t value, uint32_t like, struct chain *c, uint32_t *out_slot)
{
    uint32_t maker = maker_of(b, value);
    struct leaf l = { .value = value, .scalar = rg_count(b, value) == 1 && b->c->values[value].constant != INLAY_NONE };

    if (maker != INLAY_NONE && b->c->ops[maker].row->family == &rg_dequantize) {
        const rg_op *back = &b->c->ops[maker];

        l = (struct leaf){ .value = back->in[0],
                           .bytes = true,
                           .is_signed = rg_type(b, back->in[0]) == DN_S8,
                           .scale = back->quantized.scale,
                           .zero = (float)back->quantized.zero };
    } else if (rg_type(b, value) != DN_F32) {
        return false;
    }
    if (!l.scalar && !same_dims(b, l.value, like))
        return false;
    for (uint32_t i = 0; i < c->leaf_count; i++) {
        if (c->leaves[i].value == l.value && c->leaves[i].bytes == l.bytes && c->leaves[i].scale == l.scale &&
            c->leaves[i].zero == l.zero) {
            *out_slot = i;
            return true;
        }
    }
    if (c->leaf_count == MOST_LEAVES)
        return false;
    *out_slot = c->leaf_count;
    c->leaves[c->leaf_count++] = l;
    return true;
}

static bool add_step(struct chain *c, chain_step s, uint32_t *out_slot)
{
    if (c->step_count == MOST_STEPS)
        return false;
    *out_slot = STEP + c->step_count;
    c->steps[c->step_count++] = s;
    return true;
}

/* The value as a slot: what makes it if that is a function that only the chain reads, otherwise a leaf.
 * inner: [MOST_STEPS] ops that become part of the chain. */
static bool collect(const rg_build *b, uint32_t value, uint32_t like, struct chain *c, uint32_t *inner,
                    uint32_t *inner_count, uint32_t *out_slot)
{
    uint32_t maker = maker_of(b, value), x, y;
    const rg_op *op = maker == INLAY_NONE ? NULL : &b->c->ops[maker];
    bool binary = op != NULL && op->row->family == &rg_binary && op->alg != RG_PRELU;
    bool single = op != NULL && op->row->family == &rg_eltwise_family && known_function(op);

    if ((!binary && !single) || b->c->values[value].uses != 1 || b->c->values[value].output != INLAY_NONE ||
        *inner_count == MOST_STEPS || !same_dims(b, value, like))
        return add_leaf(b, value, like, c, out_slot);
    inner[(*inner_count)++] = maker;
    if (!collect(b, op->in[0], like, c, inner, inner_count, &x))
        return false;
    if (binary)
        return collect(b, op->in[1], like, c, inner, inner_count, &y) &&
               add_step(c, (chain_step){ .alg = op->alg, .a = x, .b = y }, out_slot);
    for (uint32_t f = 0; f < op->eltwise_count; f++) {
        if (!add_step(c, (chain_step){ op->eltwise[f].alg, x, x, op->eltwise[f].alpha, op->eltwise[f].beta }, &x))
            return false;
    }
    *out_slot = x;
    return true;
}

/* The chain that ends in QuantizeLinear `op`; false: there is nothing to join. */
static bool find_chain(const rg_build *b, const rg_op *op, struct chain *c, uint32_t *inner, uint32_t *inner_count)
{
    bool bytes = false;

    memset(c, 0, sizeof *c);
    *inner_count = 0;
    if (!collect(b, op->in[0], op->out[0], c, inner, inner_count, &c->root))
        return false;
    for (uint32_t i = 0; i < c->leaf_count; i++)
        bytes |= c->leaves[i].bytes;
    return bytes;
}

inlay_status rg_quant_chains(rg_build *b, uint8_t *taken, rg_group *at)
{
    uint32_t n = b->c->op_count, inner[MOST_STEPS], count;
    uint8_t *reads = NULL; /* [value_count] by chains */
    struct chain c;

    for (uint32_t o = 0; o < n; o++) {
        const rg_op *op = &b->c->ops[o];

        if (op->row->family != &rg_quantize || !find_chain(b, op, &c, inner, &count))
            continue;
        if (reads == NULL && (reads = rg_scratch_take_zeroed(b->scratch, b->c->value_count + 1u, 1)) == NULL)
            return inlay_fail(b->diag, INLAY_OUT_OF_MEMORY, "no memory to prepare a region of %u nodes", n);
        taken[o] = 1;
        for (uint32_t i = 0; i < count; i++)
            taken[inner[i]] = 1;
        at[o] = (rg_group){ .op = o, .last = o, .bias = INLAY_NONE, .out = op->out[0] };
        for (uint32_t i = 0; i <= count; i++) {
            const rg_op *reader = &b->c->ops[i == count ? o : inner[i]];

            for (uint32_t k = 0; k < reader->in_count; k++)
                if (reader->in[k] != INLAY_NONE && reads[reader->in[k]] < UINT8_MAX)
                    reads[reader->in[k]]++;
        }
    }
    /* What is dequantized for chains alone. */
    for (uint32_t o = 0; reads != NULL && o < n; o++) {
        const rg_op *op = &b->c->ops[o];
        const rg_value *y = &b->c->values[op->out[0]];

        if (op->row->family == &rg_dequantize && y->output == INLAY_NONE && y->uses == reads[op->out[0]])
            taken[o] = 1;
    }
    return INLAY_OK;
}

/* ------------------------------------------------------------------ running */

/* Is it a sum or product of two tensors of bytes, perhaps with bounds, and do numbers stay in the range of floats? */
static bool find_pair(struct chain *c)
{
    const chain_step *f = &c->steps[0], *g = c->step_count == 2 ? &c->steps[1] : NULL;
    byte_pair *p = &c->pair;

    if (c->leaf_count > 2 || c->step_count < 1 || c->step_count > 2 || c->root != STEP + c->step_count - 1 ||
        (f->alg != DN_BINARY_ADD && f->alg != DN_BINARY_MUL) || !quantize_divides(c->scale) || f->a >= STEP ||
        f->b >= STEP)
        return false;
    *p = (byte_pair){ .product = f->alg == DN_BINARY_MUL,
                      .y_scale = c->scale,
                      .y_zero = c->zero,
                      .low = -INFINITY,
                      .high = INFINITY,
                      .y_signed = c->is_signed };
    if (g != NULL && g->alg == DN_ELTWISE_RELU && g->alpha == 0) {
        p->low = 0;
    } else if (g != NULL && g->alg == DN_ELTWISE_CLIP_V2) {
        p->low = g->alpha;
        p->high = g->beta;
    } else if (g != NULL) {
        return false;
    }
    for (uint32_t i = 0; i < 2; i++) {
        const struct leaf *l = &c->leaves[i == 0 ? f->a : f->b];

        if (!l->bytes || l->scalar || !(l->scale < 1e15f)) /* a product of two */
            return false;
        p->scale[i] = l->scale;
        p->zero[i] = l->zero;
        p->is_signed[i] = l->is_signed;
    }
    return true;
}

typedef struct chain_call {
    const struct chain *c;
    void *const *args; /* the leaves, then the result */
} chain_call;

static inlay_status run_tiles(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const chain_call *call = user;
    const byte_loops *const loops = KERNEL_BEST(byte_loops);
    const struct chain *c = call->c;
    float leaves[MOST_LEAVES][TILE], steps[MOST_STEPS][TILE];

    (void)worker;
    if (c->set != NULL) {
        c->set->pair(&c->pair, (uint8_t *)call->args[c->leaf_count] + begin,
                     (const uint8_t *)call->args[c->steps[0].a] + begin,
                     (const uint8_t *)call->args[c->steps[0].b] + begin, end - begin);
        return INLAY_OK;
    }
    for (uint32_t l = 0; l < c->leaf_count; l++)
        for (int64_t i = 0; c->leaves[l].scalar && i < TILE; i++)
            leaves[l][i] = *(const float *)call->args[l];
    for (int64_t at = begin; at < end; at += TILE) {
        int64_t n = end - at < TILE ? end - at : TILE;
        const float *slots[STEP + MOST_STEPS] = { NULL };

        for (uint32_t l = 0; l < c->leaf_count; l++) {
            const struct leaf *f = &c->leaves[l];

            slots[l] = leaves[l];
            if (f->bytes)
                q_dequantize(leaves[l], (const char *)call->args[l] + at, f->is_signed, n, f->scale, f->zero);
            else if (!f->scalar)
                slots[l] = (const float *)call->args[l] + at;
        }
        for (uint32_t s = 0; s < c->step_count; s++) {
            const chain_step *step = &c->steps[s];

            slots[STEP + s] = steps[s];
            if (step->a == step->b && step->alg != DN_BINARY_ADD && step->alg != DN_BINARY_MUL &&
                step->alg != DN_BINARY_SUB && step->alg != DN_BINARY_DIV && step->alg != DN_BINARY_MAX &&
                step->alg != DN_BINARY_MIN)
                loops->one_function(steps[s], slots[step->a], n, step->alg, step->alpha, step->beta);
            else
                loops->two_function(steps[s], slots[step->a], slots[step->b], n, step->alg);
        }
        q_quantize((char *)call->args[c->leaf_count] + at, slots[c->root], c->is_signed, n, c->scale, c->zero);
    }
    return INLAY_OK;
}

static inlay_status run_chain(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                              uint32_t threads)
{
    const struct chain *c = (const struct chain *)(const void *)native;
    const int64_t grain = c->set != NULL ? PAIR_GRAIN : CHAIN_GRAIN;
    chain_call call = { c, args };

    if (threads <= 1 || c->count <= grain)
        return run_tiles(&call, 0, c->count, 0);
    return state->host->parallel_for(state->host->ctx, run, c->count, grain, run_tiles, &call);
}

/* ------------------------------------------------------------------ lowering */

/* Emits the chain that ends in the group's QuantizeLinear; *out_done = false: it is no chain. */
inlay_status q_lower_chain(rg_build *b, const rg_group *group, bool *out_done)
{
    const rg_op *op = b->op;
    uint32_t inner[MOST_STEPS], count, first = 0;
    const rg_place *places[MOST_LEAVES + 1];
    rg_place at[MOST_LEAVES], y;
    inlay_status status = INLAY_OK;
    struct chain c;
    rg_md md;

    *out_done = false;
    if (!find_chain(b, op, &c, inner, &count))
        return INLAY_OK;
    *out_done = true;
    while (c.leaves[first].scalar)
        first++;
    /* All lie as the first does that has channels last, or as the first one. */
    for (uint32_t l = 0; l < c.leaf_count; l++) {
        INLAY_TRY(rg_read(b, c.leaves[l].value, &at[l]));
        if (!c.leaves[l].scalar && !rg_md_is_image(&at[first].md) && rg_md_is_image(&at[l].md))
            first = l;
    }
    INLAY_TRY(q_read_dense(b, c.leaves[first].value, NULL, &at[first]));
    md = at[first].md;
    for (uint32_t l = 0; l < c.leaf_count; l++) {
        if (!c.leaves[l].scalar && l != first)
            INLAY_TRY(q_read_dense(b, c.leaves[l].value, &md, &at[l]));
        places[l] = &at[l];
    }
    md.data_type = rg_type(b, group->out);
    INLAY_TRY(rg_result_place(b, group->out, &md, &y));
    places[c.leaf_count] = &y;
    c.native.run = run_chain;
    c.count = rg_md_count(&md);
    c.scale = op->quantized.scale;
    c.zero = (float)op->quantized.zero;
    c.is_signed = md.data_type == DN_S8;
    c.set = b->state->bytes != NULL && find_pair(&c) ? b->state->bytes : NULL;
    INLAY_TRY(rg_emit_step(b, &c.native, sizeof c, places, c.leaf_count + 1));
    status = rg_set_place(b, group->out, &y);
done:
    return status;
}
