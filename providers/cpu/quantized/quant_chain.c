/* Chains of functions between DequantizeLinear and QuantizeLinear: one loop over tiles, in float arithmetic as in ONNX.
 * Dequantized values that only chains read are never stored. */
#include "cpu/quantized/bytes.h"
#include "inlay/host.h"
#include "cpu/quantized/quant.h"
#include "cpu/weights/read.h"
#include "simd/optional.h"
#include <math.h>

/* Programs of `inlay bundle` omit these. */
OPTIONAL_IF_CALLED(q_lower_chain);

enum { MOST_LEAVES = 4, MOST_STEPS = 8, TILE = 512, CHAIN_GRAIN = 16384, PAIR_GRAIN = 32768 };

/* An operand of a chain. */
struct leaf {
    uint32_t value; /* a value of the region: bytes or floats */
    bool bytes, is_signed, scalar;
    float scale, zero;
};

/* The result f(slot a, slot b), or f(slot a) if a == b and f is unary. Slots below STEP are leaves, others earlier
 * steps. */
typedef struct chain_step {
    element_function function;
    uint32_t a, b;
    float alpha, beta;
} chain_step;

struct chain {
    cpu_native native;
    struct leaf leaves[MOST_LEAVES];
    chain_step steps[MOST_STEPS];
    uint32_t leaf_count, step_count;
    int64_t count;
    float scale, zero;
    bool is_signed;
    uint32_t root;       /* the slot of the result */
    const byte_set *set; /* not NULL: the whole chain is `pair` */
    byte_pair pair;
};

enum { STEP = 16 }; /* the first slot of steps */
_Static_assert((int)MOST_LEAVES <= (int)STEP, "slots of leaves precede those of steps");

static uint32_t maker_of(const cpu_build *build, uint32_t value)
{
    if (value == INLAY_NONE || build->compiled->values[value].constant != INLAY_NONE ||
        build->compiled->values[value].input != INLAY_NONE)
        return INLAY_NONE;
    for (uint32_t o = 0; o < build->compiled->op_count; o++)
        if (build->compiled->ops[o].out_count > 0 && build->compiled->ops[o].out[0] == value)
            return o;
    return INLAY_NONE;
}

static bool is_supported_function(const cpu_op *op)
{
    for (uint32_t f = 0; f < op->unary_count; f++) {
        element_function function = op->unary[f].function;

        if (function != FUNCTION_RELU && function != FUNCTION_CLIP && function != FUNCTION_LINEAR &&
            function != FUNCTION_HARDSWISH && function != FUNCTION_SIGMOID && function != FUNCTION_SWISH &&
            function != FUNCTION_TANH)
            return false;
    }
    return op->unary_count > 0;
}

/* Adds a leaf: the value itself, or the input of the DequantizeLinear that computes it. false: a chain cannot read
 * it. */
static bool add_leaf(const cpu_build *build, uint32_t value, uint32_t like, struct chain *chain, uint32_t *out_slot)
{
    uint32_t maker = maker_of(build, value);
    struct leaf leaf = { .value = value,
                         .scalar =
                             cpu_count(build, value) == 1 && build->compiled->values[value].constant != INLAY_NONE };

    if (maker != INLAY_NONE && build->compiled->ops[maker].row->family->kind == CPU_FAMILY_DEQUANTIZE) {
        const cpu_op *back = &build->compiled->ops[maker];

        leaf = (struct leaf){ .value = back->in[0],
                              .bytes = true,
                              .is_signed = cpu_type(build, back->in[0]) == ELEMENT_INT8,
                              .scale = back->quantized.scale,
                              .zero = (float)back->quantized.zero };
    } else if (cpu_type(build, value) != ELEMENT_FLOAT) {
        return false;
    }
    if (!leaf.scalar && !cpu_same_dims(build, leaf.value, like))
        return false;
    for (uint32_t i = 0; i < chain->leaf_count; i++) {
        if (chain->leaves[i].value == leaf.value && chain->leaves[i].bytes == leaf.bytes &&
            chain->leaves[i].scale == leaf.scale && chain->leaves[i].zero == leaf.zero) {
            *out_slot = i;
            return true;
        }
    }
    if (chain->leaf_count == MOST_LEAVES)
        return false;
    *out_slot = chain->leaf_count;
    chain->leaves[chain->leaf_count++] = leaf;
    return true;
}

static bool add_step(struct chain *chain, chain_step step, uint32_t *out_slot)
{
    if (chain->step_count == MOST_STEPS)
        return false;
    *out_slot = STEP + chain->step_count;
    chain->steps[chain->step_count++] = step;
    return true;
}

/* Adds the value to the chain: as steps, if a supported function computes it and only the chain reads it; otherwise as
 * a leaf. inner: [MOST_STEPS] the ops that become part of the chain. false: there are too many leaves or steps. */
static bool collect(const cpu_build *build, uint32_t value, uint32_t like, struct chain *chain, uint32_t *inner,
                    uint32_t *inner_count, uint32_t *out_slot)
{
    uint32_t maker = maker_of(build, value), x, y;
    const cpu_op *op = maker == INLAY_NONE ? NULL : &build->compiled->ops[maker];
    bool binary = op != NULL && op->row->family->kind == CPU_FAMILY_BINARY && op->function != FUNCTION_PRELU;
    bool single = op != NULL && op->row->family->kind == CPU_FAMILY_UNARY && is_supported_function(op);

    if ((!binary && !single) || build->compiled->values[value].uses != 1 ||
        build->compiled->values[value].output != INLAY_NONE || *inner_count == MOST_STEPS ||
        !cpu_same_dims(build, value, like))
        return add_leaf(build, value, like, chain, out_slot);
    inner[(*inner_count)++] = maker;
    if (!collect(build, op->in[0], like, chain, inner, inner_count, &x))
        return false;
    if (binary)
        return collect(build, op->in[1], like, chain, inner, inner_count, &y) &&
               add_step(chain, (chain_step){ .function = op->function, .a = x, .b = y }, out_slot);
    for (uint32_t f = 0; f < op->unary_count; f++) {
        if (!add_step(chain, (chain_step){ op->unary[f].function, x, x, op->unary[f].alpha, op->unary[f].beta }, &x))
            return false;
    }
    *out_slot = x;
    return true;
}

/* Finds the chain that ends in QuantizeLinear `op`; false: no leaf of it is dequantized. */
static bool find_chain(const cpu_build *build, const cpu_op *op, struct chain *chain, uint32_t *inner,
                       uint32_t *inner_count)
{
    bool bytes = false;

    memset(chain, 0, sizeof *chain);
    *inner_count = 0;
    if (!collect(build, op->in[0], op->out[0], chain, inner, inner_count, &chain->root))
        return false;
    for (uint32_t i = 0; i < chain->leaf_count; i++)
        bytes |= chain->leaves[i].bytes;
    return bytes;
}

inlay_status cpu_group_quantize_chains(cpu_build *build, uint8_t *taken, cpu_group *at)
{
    uint32_t op_count = build->compiled->op_count, inner[MOST_STEPS], count;
    uint8_t *reads = NULL; /* [value_count] by chains */
    struct chain chain;

    for (uint32_t o = 0; o < op_count; o++) {
        const cpu_op *op = &build->compiled->ops[o];

        if (op->row->family->kind != CPU_FAMILY_QUANTIZE || !find_chain(build, op, &chain, inner, &count))
            continue;
        if (reads == NULL &&
            (reads = cpu_scratch_take_zeroed(build->scratch, build->compiled->value_count + 1u, 1)) == NULL)
            return inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory to prepare a region of %u nodes", op_count);
        taken[o] = 1;
        for (uint32_t i = 0; i < count; i++)
            taken[inner[i]] = 1;
        at[o] = (cpu_group){ .op = o, .last = o, .bias = INLAY_NONE, .out = op->out[0] };
        for (uint32_t i = 0; i <= count; i++) {
            const cpu_op *reader = &build->compiled->ops[i == count ? o : inner[i]];

            for (uint32_t k = 0; k < reader->in_count; k++)
                if (reader->in[k] != INLAY_NONE && reads[reader->in[k]] < UINT8_MAX)
                    reads[reader->in[k]]++;
        }
    }
    /* A DequantizeLinear that only chains read is part of them. */
    for (uint32_t o = 0; reads != NULL && o < op_count; o++) {
        const cpu_op *op = &build->compiled->ops[o];
        const cpu_value *output = &build->compiled->values[op->out[0]];

        if (op->row->family->kind == CPU_FAMILY_DEQUANTIZE && output->output == INLAY_NONE &&
            output->uses == reads[op->out[0]])
            taken[o] = 1;
    }
    return INLAY_OK;
}

/* Is the chain a sum or product of two tensors of bytes, perhaps with bounds, without float overflow? Sets
 * chain->pair. */
static bool find_pair(struct chain *chain)
{
    const chain_step *step = &chain->steps[0], *bounds = chain->step_count == 2 ? &chain->steps[1] : NULL;
    byte_pair *pair = &chain->pair;

    if (chain->leaf_count > 2 || chain->step_count < 1 || chain->step_count > 2 ||
        chain->root != STEP + chain->step_count - 1 ||
        (step->function != FUNCTION_ADD && step->function != FUNCTION_MUL) || !quantize_divides(chain->scale) ||
        step->a >= STEP || step->b >= STEP)
        return false;
    *pair = (byte_pair){ .product = step->function == FUNCTION_MUL,
                         .y_scale = chain->scale,
                         .y_zero = chain->zero,
                         .low = -INFINITY,
                         .high = INFINITY,
                         .y_signed = chain->is_signed };
    if (bounds != NULL && bounds->function == FUNCTION_RELU && bounds->alpha == 0) {
        pair->low = 0;
    } else if (bounds != NULL && bounds->function == FUNCTION_CLIP) {
        pair->low = bounds->alpha;
        pair->high = bounds->beta;
    } else if (bounds != NULL) {
        return false;
    }
    for (uint32_t i = 0; i < 2; i++) {
        const struct leaf *leaf = &chain->leaves[i == 0 ? step->a : step->b];

        if (!leaf->bytes || leaf->scalar || !(leaf->scale < 1e15f)) /* the bound prevents overflow of scale * scale */
            return false;
        pair->scale[i] = leaf->scale;
        pair->zero[i] = leaf->zero;
        pair->is_signed[i] = leaf->is_signed;
    }
    return true;
}

typedef struct chain_call {
    const struct chain *chain;
    void *const *args; /* the leaves, then the result */
} chain_call;

static inlay_status run_tiles(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const chain_call *call = user;
    const byte_loops *const loops = KERNEL_BEST(byte_loops);
    const struct chain *chain = call->chain;
    float leaves[MOST_LEAVES][TILE], steps[MOST_STEPS][TILE];

    (void)worker;
    if (chain->set != NULL) {
        chain->set->pair(&chain->pair, (uint8_t *)call->args[chain->leaf_count] + begin,
                         (const uint8_t *)call->args[chain->steps[0].a] + begin,
                         (const uint8_t *)call->args[chain->steps[0].b] + begin, end - begin);
        return INLAY_OK;
    }
    for (uint32_t l = 0; l < chain->leaf_count; l++)
        for (int64_t i = 0; chain->leaves[l].scalar && i < TILE; i++)
            leaves[l][i] = *(const float *)call->args[l];
    for (int64_t at = begin; at < end; at += TILE) {
        int64_t n = end - at < TILE ? end - at : TILE;
        const float *slots[STEP + MOST_STEPS] = { NULL };

        for (uint32_t l = 0; l < chain->leaf_count; l++) {
            const struct leaf *leaf = &chain->leaves[l];

            slots[l] = leaves[l];
            if (leaf->bytes)
                q_dequantize(leaves[l], (const char *)call->args[l] + at, leaf->is_signed, n, leaf->scale, leaf->zero);
            else if (!leaf->scalar)
                slots[l] = (const float *)call->args[l] + at;
        }
        for (uint32_t step_index = 0; step_index < chain->step_count; step_index++) {
            const chain_step *step = &chain->steps[step_index];

            INLAY_CHECK(step->a < STEP + step_index && step->b < STEP + step_index);
            slots[STEP + step_index] = steps[step_index];
            if (step->a == step->b && step->function != FUNCTION_ADD && step->function != FUNCTION_MUL &&
                step->function != FUNCTION_SUB && step->function != FUNCTION_DIV && step->function != FUNCTION_MAX &&
                step->function != FUNCTION_MIN)
                loops->one_function(steps[step_index], slots[step->a], n, step->function, step->alpha, step->beta);
            else
                loops->two_function(steps[step_index], slots[step->a], slots[step->b], n, step->function);
        }
        q_quantize((char *)call->args[chain->leaf_count] + at, slots[chain->root], chain->is_signed, n, chain->scale,
                   chain->zero);
    }
    return INLAY_OK;
}

static inlay_status run_chain(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                              uint32_t threads)
{
    const struct chain *chain = (const struct chain *)(const void *)native;
    const int64_t grain = chain->set != NULL ? PAIR_GRAIN : CHAIN_GRAIN;
    chain_call call = { chain, args };

    if (threads <= 1 || chain->count <= grain)
        return run_tiles(&call, 0, chain->count, 0);
    return state->host->parallel_for(state->host->ctx, run, chain->count, grain, run_tiles, &call);
}

inlay_status q_lower_chain(cpu_build *build, const cpu_group *group, bool *out_done)
{
    const cpu_op *op = build->op;
    uint32_t inner[MOST_STEPS], count, first = 0;
    const cpu_place *places[MOST_LEAVES + 1];
    cpu_place at[MOST_LEAVES], output;
    inlay_status status = INLAY_OK;
    struct chain chain;
    tensor_layout layout;

    *out_done = false;
    if (!find_chain(build, op, &chain, inner, &count))
        return INLAY_OK;
    *out_done = true;
    while (chain.leaves[first].scalar)
        first++;
    INLAY_CHECK(first < chain.leaf_count); /* there is a dequantized leaf, and it is not a scalar */
    /* All leaves get the layout of the first one that is channels last, or else of the first one. */
    for (uint32_t l = 0; l < chain.leaf_count; l++) {
        INLAY_TRY(cpu_read(build, chain.leaves[l].value, &at[l]));
        if (!chain.leaves[l].scalar && !layout_is_image(&at[first].layout) && layout_is_image(&at[l].layout))
            first = l;
    }
    INLAY_TRY(q_read_dense(build, chain.leaves[first].value, NULL, &at[first]));
    layout = at[first].layout;
    for (uint32_t l = 0; l < chain.leaf_count; l++) {
        if (!chain.leaves[l].scalar && l != first)
            INLAY_TRY(q_read_dense(build, chain.leaves[l].value, &layout, &at[l]));
        places[l] = &at[l];
    }
    layout.type = cpu_type(build, group->out);
    INLAY_TRY(cpu_result_place(build, group->out, &layout, &output));
    places[chain.leaf_count] = &output;
    chain.native.run = run_chain;
    chain.count = layout_count(&layout);
    chain.scale = op->quantized.scale;
    chain.zero = (float)op->quantized.zero;
    chain.is_signed = layout.type == ELEMENT_INT8;
    chain.set = build->state->bytes != NULL && find_pair(&chain) ? build->state->bytes : NULL;
    INLAY_TRY(cpu_emit_step(build, &chain.native, sizeof chain, places, chain.leaf_count + 1));
    status = cpu_set_place(build, group->out, &output);
done:
    return status;
}
