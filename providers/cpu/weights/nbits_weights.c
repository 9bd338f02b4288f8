/* Weights of a few bits: which nodes have them, where their elements lie, and their packs. DequantizeLinear-10..25 of
 * constant matrices, MatMulNBits-1 of com.microsoft. */
#include "weights/nbits_weights.h"
#include "matrix/sgemm.h"
#include "region/families.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_WITH(nbits_find, "rg_weights rg_nbits_product");
OPTIONAL_WITH(rg_takes_weights, RG_BYTE_FAMILIES " rg_weights rg_nbits_product");

enum { AXES = 2, LOOK_THROUGH = 2 /* transposes */ };

/* ------------------------------------------------------------------ which nodes */

static uint8_t bits_of(inlay_dtype t, bool *out_signed)
{
    *out_signed = t == INLAY_INT4 || t == INLAY_INT2 || t == INLAY_INT8;
    return t == INLAY_INT8 || t == INLAY_UINT8   ? 8
           : t == INLAY_INT4 || t == INLAY_UINT4 ? 4
           : t == INLAY_INT2 || t == INLAY_UINT2 ? 2
                                                 : 0;
}

static bool is_op(const inlay_node_info *n, const char *op_type)
{
    return strcmp(n->op_type.data, op_type) == 0 && strcmp(n->domain.data, "ai.onnx") == 0;
}

static bool is_constant(const inlay_value_info *v)
{
    return v != NULL && (v->flags & INLAY_VALUE_CONSTANT) != 0 && v->data != NULL;
}

static bool turns(const inlay_node_info *n)
{
    uint32_t count;
    const int64_t *perm = kit_attr_ints(n, "perm", &count);

    return perm == NULL || (count == AXES && perm[0] == 1 && perm[1] == 0);
}

/* The scales of a DequantizeLinear: along which axis (AXES: one for all), how many elements share one. */
struct layout {
    uint32_t axis;
    int64_t block;
};

static bool read_layout(const kit_node *node, struct layout *out)
{
    const inlay_value_info *x = kit_input(node, 0), *scale = kit_input(node, 1), *zero = kit_input(node, 2);
    const int64_t block = kit_attr_int(node->info, "block_size", 0);
    int64_t axis, count;
    bool is_signed;

    if (!is_constant(x) || !is_constant(scale) || bits_of(x->dtype, &is_signed) == 0 || x->rank != AXES ||
        scale->dtype != INLAY_FLOAT || kit_output_dtype(node, 0) != INLAY_FLOAT ||
        (zero != NULL &&
         (!is_constant(zero) || zero->dtype != x->dtype || rg_known_count(zero) != rg_known_count(scale))) ||
        rg_known_count(x) < 1)
        return false;
    count = rg_known_count(scale);
    *out = (struct layout){ AXES, 0 };
    if (count == 1)
        return true;
    if (!rg_axis(kit_attr_int(node->info, "axis", 1), AXES, &axis))
        return false;
    *out = (struct layout){ (uint32_t)axis, block };
    if (block == 0)
        return scale->rank == 1 && count == x->dims[axis].value;
    return block > 0 && scale->rank == AXES && scale->dims[1 - axis].value == x->dims[1 - axis].value &&
           scale->dims[axis].value == (x->dims[axis].value + block - 1) / block;
}

/* Weights are [k, n], or [n, k] if turned: one scale for a column, or for each block of k. */
static bool suits(const struct layout *l, bool turned)
{
    const uint32_t k = turned ? 1 : 0;

    return l->axis == AXES || (l->block == 0 ? l->axis != k : l->axis == k);
}

/* Do products alone read the value, each as the layout has it? */
static bool feeds_products(const inlay_graph *graph, uint32_t value, const struct layout *l, bool turned, int depth)
{
    uint32_t count = 0;

    if (depth > LOOK_THROUGH || (inlay_graph_value(graph, value)->flags & INLAY_VALUE_GRAPH_OUTPUT) != 0)
        return false;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const inlay_node_info *info = inlay_graph_node(graph, n);

        for (uint32_t i = 0; i < info->input_count; i++) {
            if (info->inputs[i] != value)
                continue;
            count++;
            if (i == 0 && is_op(info, "Transpose") && turns(info)) {
                if (!feeds_products(graph, info->outputs[0], l, !turned, depth + 1))
                    return false;
            } else if (i != 1 ||
                       !(is_op(info, "MatMul") ? suits(l, turned)
                                               : is_op(info, "Gemm") && kit_attr_int(info, "transA", 0) == 0 &&
                                                     kit_attr_float(info, "alpha", 1) == 1 &&
                                                     suits(l, turned != (kit_attr_int(info, "transB", 0) != 0)))) {
                return false;
            }
        }
    }
    return count > 0;
}

bool rg_takes_weights(const kit_node *node)
{
    struct layout l;

    return read_layout(node, &l) && feeds_products(node->graph, node->info->outputs[0], &l, false, 0);
}

bool nbits_is_weights(const inlay_graph *graph, uint32_t value, double *out_bytes)
{
    const inlay_value_info *v = inlay_graph_value(graph, value);
    const inlay_node_info *maker = NULL;

    for (int depth = 0; depth <= LOOK_THROUGH && v != NULL && v->producer < graph->node_count; depth++) {
        maker = inlay_graph_node(graph, v->producer);
        if (!is_op(maker, "Transpose") || !turns(maker))
            break;
        v = inlay_graph_value(graph, maker->inputs[0]);
        maker = NULL;
    }
    if (maker == NULL || !is_op(maker, "DequantizeLinear") ||
        !rg_takes_weights(&(kit_node){ .graph = graph, .info = maker }))
        return false;
    *out_bytes = 0;
    for (uint32_t i = 0; i < maker->input_count; i++)
        if (maker->inputs[i] != INLAY_NONE)
            *out_bytes += (double)inlay_graph_value(graph, maker->inputs[i])->data_bytes;
    return true;
}

static bool parse_weights(const kit_node *node, rg_op *op, kit_refusal *why)
{
    const inlay_value_info *x = kit_input(node, 0);
    struct layout l;

    if (!read_layout(node, &l))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "the scales are not those of a matrix");
    op->axis = l.axis;
    op->size = l.block;
    op->nbits.bits = bits_of(x->dtype, &op->nbits.is_signed);
    op->nbits.all = op->nbits.is_signed ? (float)(1 << (op->nbits.bits - 1)) : 0;
    return true;
}

/* ------------------------------------------------------------------ MatMulNBits */

static bool parse_product(const kit_node *node, rg_op *op, kit_refusal *why)
{
    const inlay_value_info *a = kit_input(node, 0), *q = kit_input(node, 1), *scale = kit_input(node, 2);
    const inlay_value_info *zero = kit_input(node, 3), *bias = kit_input(node, 5);
    const int64_t bits = kit_attr_int(node->info, "bits", 4), block = kit_attr_int(node->info, "block_size", 0);
    const int64_t k = kit_attr_int(node->info, "K", 0), n = kit_attr_int(node->info, "N", 0);
    nb_shape s;

    if (sg_kernel_best() == NULL)
        return kit_refuse(why, INLAY_REFUSE_DEVICE, "a CPU with AVX2 or NEON", "there are no loops for packed weights");
    if (block < 1 || !nb_shape_init(&s, (uint32_t)bits, k, n, block))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "K, N, bits or block_size is out of range");
    if (a->dtype != INLAY_FLOAT || scale == NULL || scale->dtype != INLAY_FLOAT)
        return kit_refuse(why, INLAY_REFUSE_DTYPE, "insert a Cast to float", "A and scales are not float");
    if (!is_constant(q) || !is_constant(scale) || (zero != NULL && !is_constant(zero)))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "make them constants", "weights are not constant");
    if (zero != NULL && zero->dtype != INLAY_UINT8)
        return kit_refuse(why, INLAY_REFUSE_DTYPE, "pack the zero points", "zero points are no integers");
    if (kit_input(node, 4) != NULL)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "leave g_idx away", "there is a g_idx");
    if (bias != NULL && (!is_constant(bias) || bias->dtype != INLAY_FLOAT))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "make it a constant", "the bias is not a float constant");
    op->nbits = (rg_nbits){ .zero = INLAY_NONE,
                            .bits = (uint8_t)bits,
                            .packed_zeros = true,
                            .all = (float)(1 << (bits - 1)),
                            .k = k,
                            .n = n,
                            .block = block };
    op->nbits.q_steps[0] = op->nbits.scale_steps[0] = op->nbits.zero_steps[0] = 1;
    op->nbits.scale_steps[1] = (k + block - 1) / block;
    op->nbits.q_steps[1] = op->nbits.scale_steps[1] * block;
    op->size = kit_attr_int(node->info, "accuracy_level", 0);
    return rg_known_rank(a, 1, 6, "input 0", why);
}

/* ------------------------------------------------------------------ in a region */

static rg_constant *constant_of(const inlay_compiled *c, uint32_t value)
{
    return value == INLAY_NONE || c->values[value].constant == INLAY_NONE ? NULL
                                                                          : &c->constants[c->values[value].constant];
}

/* Zero points that are all alike need no operand. */
static void join_zeros(const inlay_compiled *c, rg_nbits *w)
{
    const rg_constant *k = constant_of(c, w->zero);
    const int64_t blocks = (w->k + w->block - 1) / w->block;
    int32_t first = 0;

    if (k == NULL || k->data == NULL)
        return;
    for (int64_t n = 0; n < w->n; n++)
        for (int64_t b = 0; b < blocks; b++) {
            const char *row = (const char *)k->data + n * nbits_row_bytes(w);
            const int64_t at = b * w->zero_steps[0] + (w->packed_zeros ? 0 : n * w->zero_steps[1]);
            const int32_t zero = nb_element(row, at, w->bits, w->is_signed);

            if (n == 0 && b == 0)
                first = zero;
            if (zero != first)
                return;
        }
    w->zero = INLAY_NONE;
    w->all = (float)(first + (w->is_signed ? 1 << (w->bits - 1) : 0));
}

/* The weights of a DequantizeLinear as [k, n]. */
static void orient(const inlay_compiled *c, const rg_op *op, bool turned, rg_nbits *w)
{
    const int64_t *dims = c->values[op->in[0]].dims;
    const int64_t blocks = op->size > 0 ? (dims[op->axis] + op->size - 1) / op->size : 1;

    *w = op->nbits;
    w->k = dims[turned ? 1 : 0];
    w->n = dims[turned ? 0 : 1];
    w->block = op->size > 0 ? op->size : w->k;
    w->q_steps[turned ? 1 : 0] = dims[1];
    w->q_steps[turned ? 0 : 1] = 1;
    w->q = op->in[0];
    w->scale = op->in[1];
    w->zero = op->in_count > 2 ? op->in[2] : INLAY_NONE;
    w->scale_steps[0] = op->axis == AXES || op->size == 0 ? 0 : turned ? 1 : w->n;
    w->scale_steps[1] = op->axis == AXES ? 0 : op->size == 0 ? 1 : turned ? blocks : 1;
    memcpy(w->zero_steps, w->scale_steps, sizeof w->zero_steps);
    join_zeros(c, w);
}

static const rg_op *maker_of(const inlay_compiled *c, const uint32_t *makers, uint32_t value)
{
    return value == INLAY_NONE || makers[value] == INLAY_NONE ? NULL : &c->ops[makers[value]];
}

/* Of a product: the op that has its weights, past transposes. */
static void look_back(inlay_compiled *c, const uint32_t *makers, const rg_op *product)
{
    uint32_t v = product->in[1];
    bool turned = product->product.trans_b;
    const rg_op *maker = maker_of(c, makers, v);

    while (maker != NULL && maker->row->family == &rg_transpose && c->values[v].output == INLAY_NONE &&
           maker->perm[0] == 1 && maker->perm[1] == 0) {
        turned = !turned;
        v = maker->in[0];
        maker = maker_of(c, makers, v);
    }
    if (maker == NULL || maker->row->family != &rg_weights || product->product.trans_a ||
        !suits(&(struct layout){ (uint32_t)maker->axis, maker->size }, turned) || c->values[v].output != INLAY_NONE)
        return;
    c->values[product->in[1]].weights = makers[v];
    c->values[product->in[1]].turned = turned;
}

/* What nobody reads but products that have the weights already. */
static void silence(inlay_compiled *c, const uint32_t *makers)
{
    for (bool again = true; again;) {
        again = false;
        for (uint32_t o = 0; o < c->op_count; o++) {
            rg_op *op = &c->ops[o];
            uint32_t left;

            if (op->silent || (op->row->family != &rg_weights && op->row->family != &rg_transpose) ||
                c->values[op->out[0]].output != INLAY_NONE)
                continue;
            left = c->values[op->out[0]].uses;
            for (uint32_t r = 0; r < c->op_count; r++)
                for (uint32_t i = 0; i < c->ops[r].in_count; i++)
                    left -= c->ops[r].in[i] == op->out[0] &&
                            (c->ops[r].silent || (i == 1 && c->ops[r].row->family == &rg_product &&
                                                  c->values[op->out[0]].weights != INLAY_NONE));
            again |= op->silent =
                left == 0 && (op->row->family == &rg_weights ||
                              (maker_of(c, makers, op->in[0]) != NULL && c->values[op->out[0]].weights != INLAY_NONE));
        }
    }
}

inlay_status nbits_find(inlay_compiled *c, inlay_diag *diag)
{
    uint32_t *makers;
    bool any = false;

    for (uint32_t o = 0; o < c->op_count; o++) {
        rg_op *op = &c->ops[o];

        any |= op->row->family == &rg_weights;
        if (op->row->family != &rg_nbits_product)
            continue;
        op->nbits.q = op->in[1];
        op->nbits.scale = op->in[2];
        op->nbits.zero = op->in_count > 3 ? op->in[3] : INLAY_NONE;
        join_zeros(c, &op->nbits);
    }
    if (!any || c->state->nbits == NULL)
        return INLAY_OK;
    makers = malloc((c->value_count + 1u) * sizeof *makers);
    if (makers == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to read a region");
    memset(makers, 0xff, (c->value_count + 1u) * sizeof *makers);
    for (uint32_t o = 0; o < c->op_count; o++)
        for (uint32_t i = 0; i < c->ops[o].out_count; i++)
            if (c->ops[o].out[i] != INLAY_NONE)
                makers[c->ops[o].out[i]] = o;
    for (uint32_t o = 0; o < c->op_count; o++)
        if (c->ops[o].row->family == &rg_product)
            look_back(c, makers, &c->ops[o]);
    silence(c, makers);
    free(makers);
    return INLAY_OK;
}

const rg_op *nbits_weights_of(const rg_build *b, rg_nbits *out, nb_shape *shape)
{
    const rg_op *op = b->op;

    if (op->row->family == &rg_nbits_product) {
        *out = op->nbits;
    } else {
        const rg_value *v = &b->c->values[op->in[1]];

        op = &b->c->ops[v->weights];
        orient(b->c, op, v->turned, out);
    }
    (void)nb_shape_init(shape, out->bits, out->k, out->n, out->block);
    return op;
}

/* ------------------------------------------------------------------ packs */

static inlay_status read_pack(rg_build *b, const rg_nbits *w, uint32_t value, uint32_t what, const int64_t *steps,
                              int64_t bytes, rg_place *out)
{
    const int64_t all = (int64_t)constant_of(b->c, value)->bytes;
    rg_md plain, md;

    rg_md_plain(&plain, 1, &all);
    plain.data_type = DN_U8;
    nbits_describe(w, what, steps, bytes, &md);
    return rg_read_constant(b, value, &plain, &md, out);
}

inlay_status nbits_read(rg_build *b, const rg_nbits *w, rg_place *q, rg_place *scales, rg_place *zeros)
{
    inlay_status status;
    nb_shape s;

    zeros->buffer = INLAY_NONE;
    if (!nb_shape_init(&s, w->bits, w->k, w->n, w->block))
        return inlay_fail(b->diag, INLAY_LIMIT_EXCEEDED, "node '%s': its weights are too large", b->op->name);
    INLAY_TRY(read_pack(b, w, w->q, NBITS_WEIGHTS, w->q_steps, nb_weight_bytes(&s), q));
    INLAY_TRY(read_pack(b, w, w->scale, NBITS_SCALES, w->scale_steps, nb_scale_count(&s) * 4, scales));
    if (w->zero != INLAY_NONE)
        INLAY_TRY(read_pack(b, w, w->zero, NBITS_ZEROS, w->zero_steps, nb_scale_count(&s) * 4, zeros));
done:
    return status;
}

/* ------------------------------------------------------------------ weights that are unfolded after all */

struct unfolded {
    rg_native native;
    nb_shape shape;
    rg_nbits w;
};

/* args: weights, scales, zero points or what stands for them, y. */
static inlay_status unfold(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                           uint32_t threads)
{
    const struct unfolded *u = (const struct unfolded *)(const void *)native;
    const nb_shape *s = &u->shape;
    float *y = args[3];

    (void)state, (void)run, (void)threads;
    for (int64_t k = 0; k < s->k; k++)
        for (int64_t n = 0; n < s->n; n++) {
            const int64_t panel = n / NB_COLUMNS, in = n % NB_COLUMNS, block = k / s->block, e = k % s->block;
            const int64_t per = 32 / s->bits, scale = (panel * s->blocks + block) * NB_COLUMNS + in;
            const int64_t word = (panel * nb_depth(s) / per + (block * s->padded + e) / per) * NB_COLUMNS + in;
            const int64_t shift = e % per % 4 * 8 + e % per / 4 * s->bits;
            const float zero = u->w.zero != INLAY_NONE ? ((const float *)args[2])[scale] : u->w.all;
            const uint32_t q = ((const uint32_t *)args[0])[word] >> shift & ((1u << s->bits) - 1);

            y[k * s->n + n] = ((float)q - zero) * ((const float *)args[1])[scale];
        }
    return INLAY_OK;
}

/* Where what reads them is in another region, or wants floats. They are made in each run. */
static inlay_status lower_weights(rg_build *b, const rg_group *group)
{
    rg_place q, scales, zeros, y;
    inlay_status status;
    struct unfolded u;
    rg_nbits w;
    rg_md md;
    const bool turned = !suits(&(struct layout){ (uint32_t)b->op->axis, b->op->size }, false);

    orient(b->c, b->op, turned, &w);
    INLAY_TRY(nbits_read(b, &w, &q, &scales, &zeros));
    rg_md_plain(&md, AXES, b->dims[group->out]);
    if (turned)
        rg_md_strides(&md, AXES, b->dims[group->out], (const int64_t[]){ 1, w.n });
    INLAY_TRY(rg_new_place(b, &md, &y));
    u = (struct unfolded){ .native.run = unfold, .w = w };
    (void)nb_shape_init(&u.shape, w.bits, w.k, w.n, w.block);
    INLAY_TRY(rg_emit_step(b, &u.native, sizeof u,
                           (const rg_place *const[]){ &q, &scales, zeros.buffer != INLAY_NONE ? &zeros : &scales, &y },
                           4));
    status = rg_set_place(b, group->out, &y);
done:
    return status;
}

const rg_family rg_weights = { "weights", parse_weights, lower_weights };
const rg_family rg_nbits_product = { "product by packed weights", parse_product, nbits_lower };
