/* MatMulInteger-10 and QLinearMatMul-10..21 by a constant matrix: oneDNN's inner product of bytes into int32, and a
 * loop behind it that takes the zero points out. Where Cast and a scale follow it makes floats at once, with bias and
 * function, and for QLinearMatMul bytes.
 *
 *     sum (a - za)(w - zw) = sum a w - za * colsum(w) - zw * (rowsum(a) - K za)
 *
 * All of that is exact modulo 2^32, as int32 is. */
#include "quantized/bytes.h"
#include "quantized/quant.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_WITH(rg_quant_take, RG_BYTE_FAMILIES);
OPTIONAL_WITH(rg_quant_end, RG_BYTE_FAMILIES);

/* Where the inputs are; that of the left operand is 0. */
struct inputs {
    uint32_t w, a_zero, w_zero;
};

static bool is_linear(const rg_op *op)
{
    return strcmp(op->row->op_type, "QLinearMatMul") == 0;
}

static const struct inputs *inputs_of(const rg_op *op)
{
    static const struct inputs integer = { 1, 2, 3 }, linear = { 3, 2, 5 };

    return is_linear(op) ? &linear : &integer;
}

enum { A_SCALE = 1, W_SCALE = 4, Y_SCALE = 6, Y_ZERO = 7 }; /* of QLinearMatMul */

/* Scales of QLinearMatMul: op->scale is that of A over that of Y, op->zero the zero point of Y. */
static bool parse_scales(const kit_node *node, rg_op *op, int64_t columns, kit_refusal *why)
{
    const inlay_value_info *y = kit_output(node, 0);
    float a_scale, ignored, y_scale;

    if (!q_is_bytes(y))
        return kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "the output is not of 8 bits");
    if (!q_known_scale(kit_input(node, A_SCALE), 1, "a", &a_scale, why) ||
        !q_known_scale(kit_input(node, W_SCALE), columns, "b", &ignored, why) ||
        !q_known_scale(kit_input(node, Y_SCALE), 1, "y", &y_scale, why) ||
        !q_known_zero(kit_input(node, Y_ZERO), y, "y", &op->quantized.zero, why))
        return false;
    op->quantized.scale = a_scale / y_scale;
    return true;
}

static bool parse(const kit_node *node, rg_op *op, kit_refusal *why)
{
    const struct inputs *at = inputs_of(op);
    const inlay_value_info *a = kit_input(node, 0), *w = kit_input(node, at->w), *a_zero = kit_input(node, at->a_zero);
    const inlay_value_info *w_zero = kit_input(node, at->w_zero);
    int64_t zeros = w_zero == NULL ? 1 : rg_known_count(w_zero);

    if (!bytes_offer_product(node, at->w, why) || !rg_known_rank(a, 2, 6, "input 0", why) ||
        !rg_known_rank(w, 2, 2, "the matrix", why))
        return false;
    if (!q_is_bytes(a) || !q_is_bytes(w))
        return kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "an input is not of 8 bits");
    if (!kit_is_constant(node, at->w) || rg_known_count(w) < 1)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "make it a constant", "the matrix is not a constant");
    op->reduction.axes = w->dtype == INLAY_UINT8; /* shifted */
    if (a_zero != NULL && (rg_known_count(a_zero) != 1 || a_zero->dtype != a->dtype))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "the zero point of input 0 is not one number");
    if (w_zero != NULL && (!kit_is_constant(node, at->w_zero) || w_zero->dtype != w->dtype ||
                           (zeros != 1 && (w_zero->rank != 1 || zeros != w->dims[1].value))))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "make it a constant",
                          "the zero point of the matrix is no constant, or of each row");
    return !is_linear(op) || parse_scales(node, op, w->dims[1].value, why);
}

/* ------------------------------------------------------------------ what follows the product */

enum { ZERO_ARG = 1u << 0, ROWS_ARG = 1u << 1, SCALE_ARG = 1u << 2, BIAS_ARG = 1u << 3, ADDED_ARG = 1u << 4 };

struct tail {
    rg_native native;
    int64_t m, n, k;
    const int32_t *sums; /* [n] of the columns of the weights; the region's constant holds it */
    int32_t *w_zeros;    /* [n], in the same block of memory; NULL: all 0 */
    uint32_t args;       /* *_ARG: which there are, in this order, behind the sums and before the result */
    bool a_signed;       /* rows, and the zero point */
    bool floats;         /* the result */
    float *scales;       /* [n] behind w_zeros: of what becomes bytes; NULL: it does not */
    bool y_signed;
    float y_zero;
    int64_t scale_step;
    rg_eltwise f; /* alg 0: none */
};

typedef struct tail_call {
    const struct tail *t;
    const int32_t *acc;
    const void *rows;
    const float *scale, *bias, *added;
    void *y;
    int32_t a_zero;
} tail_call;

static void function(float *y, int64_t n, const rg_eltwise *f)
{
    const byte_loops *const loops = KERNEL_BEST(byte_loops);

    if (f->alg == DN_ELTWISE_RELU)
        loops->relu(y, n);
    else if (f->alg == DN_ELTWISE_GELU_ERF)
        loops->gelu(y, n);
}

static bool known_function(const rg_eltwise *f)
{
    return (f->alg == DN_ELTWISE_RELU && f->alpha == 0) || f->alg == DN_ELTWISE_GELU_ERF;
}

enum { TILE = 1024 };

static void one_tile(const tail_call *c, int64_t row, int64_t from, int64_t n, int32_t rest)
{
    const byte_loops *const loops = KERNEL_BEST(byte_loops);
    const struct tail *t = c->t;
    int64_t at = row * t->n + from;
    int32_t sums[TILE];
    float *y;

    loops->without_zeros(sums, c->acc + at, t->sums + from, n, c->a_zero);
    if (t->w_zeros != NULL)
        loops->without_weight_zeros(sums, t->w_zeros + from, n, rest);
    if (t->scales != NULL) {
        float values[TILE];

        loops->scaled(values, sums, n, t->scales + from, 1);
        q_quantize((char *)c->y + at, values, t->y_signed, n, 1, t->y_zero);
        return;
    }
    if (!t->floats) {
        memcpy((int32_t *)c->y + at, sums, (size_t)n * sizeof *sums);
        return;
    }
    y = (float *)c->y + at;
    if (c->scale != NULL)
        loops->scaled(y, sums, n, c->scale + from * t->scale_step, t->scale_step);
    else
        loops->as_floats(y, sums, n);
    if (c->bias != NULL)
        loops->add(y, c->bias + from, n);
    if (t->f.alg != DN_ALG_UNDEFINED)
        function(y, n, &t->f);
    if (c->added != NULL)
        loops->add(y, c->added + at, n);
}

static inlay_status run_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const byte_loops *const loops = KERNEL_BEST(byte_loops);
    const tail_call *c = user;
    const struct tail *t = c->t;

    (void)worker;
    for (int64_t row = begin; row < end; row++) {
        int32_t rest = 0;

        if (t->w_zeros != NULL)
            rest = (int32_t)((uint32_t)loops->sum((const char *)c->rows + row * t->k, t->a_signed, t->k) -
                             (uint32_t)t->k * (uint32_t)c->a_zero);
        for (int64_t from = 0; from < t->n; from += TILE)
            one_tile(c, row, from, t->n - from < TILE ? t->n - from : TILE, rest);
    }
    return INLAY_OK;
}

static inlay_status run_tail(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                             uint32_t threads)
{
    const struct tail *t = (const struct tail *)(const void *)native;
    tail_call c = { .t = t, .acc = args[0] };
    int64_t grain = 16384 / t->n + 1;
    uint32_t next = 1;

    if ((t->args & ZERO_ARG) != 0) {
        c.a_zero = t->a_signed ? *(const int8_t *)args[next] : *(const uint8_t *)args[next];
        next++;
    }
    if ((t->args & ROWS_ARG) != 0)
        c.rows = args[next++];
    if ((t->args & SCALE_ARG) != 0)
        c.scale = args[next++];
    if ((t->args & BIAS_ARG) != 0)
        c.bias = args[next++];
    if ((t->args & ADDED_ARG) != 0)
        c.added = args[next++];
    c.y = args[next];
    if (threads <= 1 || t->m <= grain)
        return run_rows(&c, 0, t->m, 0);
    return state->host->parallel_for(state->host->ctx, run, t->m, grain, run_rows, &c);
}

/* ------------------------------------------------------------------ lowering */

/* Sums of the columns of the weights, as int8; made once. */
static inlay_status column_sums(rg_build *b, const int32_t **out)
{
    const rg_op *op = b->op;
    uint32_t value = op->in[inputs_of(op)->w];
    rg_constant *k = &b->c->constants[b->c->values[value].constant];
    int64_t rows = b->dims[value][0], columns = b->dims[value][1];
    const uint8_t *w = k->data;
    uint8_t flip = op->reduction.axes != 0 ? 0x80 : 0;

    if (k->sums == NULL) {
        if (w == NULL)
            return inlay_fail(b->diag, INLAY_INTERNAL, "node '%s': its weights have gone", op->name);
        k->sums = calloc((size_t)columns, sizeof *k->sums);
        if (k->sums == NULL)
            return q_no_memory(b);
        for (int64_t r = 0; r < rows; r++)
            KERNEL_BEST(byte_loops)->add_bytes(k->sums, w + r * columns, columns, flip);
    }
    *out = k->sums;
    return INLAY_OK;
}

/* Scales of QLinearMatMul into t->scales. */
static inlay_status fill_scales(rg_build *b, struct tail *t, int64_t n)
{
    const rg_op *op = b->op;
    const char *scales = q_constant(b, op->in[W_SCALE]);
    int64_t count = rg_count(b, op->in[W_SCALE]);

    if (scales == NULL)
        return inlay_fail(b->diag, INLAY_INTERNAL, "node '%s': its scales have gone", op->name);
    t->scales = (float *)((int32_t *)(t + 1) + n);
    t->y_signed = rg_type(b, op->out[0]) == DN_S8;
    t->y_zero = (float)op->quantized.zero;
    for (int64_t i = 0; i < n; i++) {
        float w;

        memcpy(&w, scales + (size_t)(count > 1 ? i : 0) * sizeof w, sizeof w);
        t->scales[i] = op->quantized.scale * w;
    }
    return INLAY_OK;
}

/* The zero points of the weights behind *t, if any is not 0 once the weights are int8, and scales. */
static inlay_status make_tail(rg_build *b, int64_t n, struct tail **out)
{
    const rg_op *op = b->op;
    uint32_t at = inputs_of(op)->w_zero, zero = op->in_count > at ? op->in[at] : INLAY_NONE;
    const uint8_t *bytes = q_constant(b, zero);
    int64_t count = zero == INLAY_NONE ? 0 : rg_count(b, zero);
    int32_t around = op->reduction.axes != 0 ? 128 : 0;
    struct tail *t = rg_new_native(b, sizeof *t + (size_t)n * (sizeof(int32_t) + sizeof(float)));

    *out = t;
    if (t == NULL)
        return q_no_memory(b);
    if (zero != INLAY_NONE && bytes == NULL)
        return inlay_fail(b->diag, INLAY_INTERNAL, "node '%s': its zero points have gone", op->name);
    for (int64_t i = 0; i < n; i++) {
        uint8_t byte = count == 0 ? 0 : bytes[count > 1 ? i : 0];
        int32_t z = (op->reduction.axes != 0 ? byte : (int8_t)byte) - around;

        ((int32_t *)(t + 1))[i] = z;
        if (z != 0)
            t->w_zeros = (int32_t *)(t + 1);
    }
    return is_linear(op) ? fill_scales(b, t, n) : INLAY_OK;
}

/* Is the value one number, or one for each column? */
static bool along_columns(const rg_build *b, uint32_t value, int64_t n, int64_t *out_step)
{
    uint32_t rank = b->ranks[value];
    int64_t count = rg_count(b, value);

    *out_step = count > 1;
    return rg_type(b, value) == DN_F32 && (count == 1 || (count == n && b->dims[value][rank - 1] == n));
}

struct operands {
    rg_place at[6];
    const rg_place *places[8];
    uint32_t count;
};

static inlay_status read_operand(rg_build *b, uint32_t value, struct operands *o)
{
    inlay_status status = rg_read_plain(b, value, &o->at[o->count]);

    if (status == INLAY_OK) {
        o->places[o->count + 1] = &o->at[o->count];
        o->count++;
    }
    return status;
}

/* Scale, bias, function and what is added, as far as they follow in this order; returns how many posts that are. */
static inlay_status take_posts(rg_build *b, const rg_group *group, struct tail *t, struct operands *o,
                               uint32_t *out_taken)
{
    uint32_t p = 0;
    const rg_post *post = group->posts;
    int64_t step;
    inlay_status status = INLAY_OK;

    if (p < group->post_count && post[p].kind == RG_POST_BINARY && post[p].alg == DN_BINARY_MUL &&
        along_columns(b, post[p].other, t->n, &t->scale_step)) {
        INLAY_TRY(read_operand(b, post[p++].other, o));
        t->args |= SCALE_ARG;
    }
    if (p < group->post_count && post[p].kind == RG_POST_BINARY && post[p].alg == DN_BINARY_ADD &&
        along_columns(b, post[p].other, t->n, &step) && step != 0) {
        INLAY_TRY(read_operand(b, post[p++].other, o));
        t->args |= BIAS_ARG;
    }
    if (p < group->post_count && post[p].kind == RG_POST_ELTWISE && known_function(&post[p].eltwise))
        t->f = post[p++].eltwise;
    if (p < group->post_count && post[p].kind == RG_POST_BINARY && post[p].alg == DN_BINARY_ADD &&
        rg_type(b, post[p].other) == DN_F32 && rg_count(b, post[p].other) == rg_count(b, group->out) &&
        b->ranks[post[p].other] == b->ranks[group->out]) {
        INLAY_TRY(read_operand(b, post[p++].other, o));
        t->args |= ADDED_ARG;
    }
done:
    *out_taken = p;
    return status;
}

/* Where sizes change from run to run, rows are rounded up, so that few kernels serve them all: of what is behind the
 * last row nobody reads the sums. It has to be memory that may be read, and that is there. */
static int64_t padded_rows(rg_build *b, const rg_place *a, int64_t m, int64_t k)
{
    enum { KNOWN = 2 }; /* instances of whom the one that was expected and the first that was not are each their own */
    const int64_t rows = m <= 4 ? m : m <= 16 ? (m + 3) / 4 * 4 : m <= 64 ? (m + 7) / 8 * 8 : (m + 15) / 16 * 16;
    rg_buffer *x = &b->instance->buffers[a->buffer];

    if (b->c->builds < KNOWN || x->kind != RG_WORK || x->parent != INLAY_NONE || a->offset != 0)
        return m;
    if (x->bytes < (uint64_t)(rows * k))
        x->bytes = (uint64_t)(rows * k);
    return rows;
}

static inlay_status emit_product(rg_build *b, const rg_place *a, int64_t m, int64_t k, int64_t n, rg_place *out)
{
    const rg_op *op = b->op;
    const int64_t a_dims[] = { m, k }, w_dims[] = { n, k }, y_dims[] = { m, n }, w_strides[] = { 1, n };
    uint32_t weights = op->in[inputs_of(op)->w];
    dn_description pd = NULL;
    dn_op desc = { .kind = DN_INNER_PRODUCT };
    rg_md w_plain;
    rg_place x = *a, w;
    inlay_status status;

    rg_md_plain(&desc.x, 2, a_dims);
    desc.x.data_type = a->md.data_type;
    rg_md_strides(&w_plain, 2, w_dims, w_strides);
    w_plain.data_type = DN_S8;
    rg_md_any(&desc.w, 2, w_dims);
    desc.w.data_type = DN_S8;
    rg_md_plain(&desc.y, 2, y_dims);
    desc.y.data_type = DN_S32;
    x.md = desc.x;
    INLAY_TRY(rg_describe(b, &desc, &pd));
    INLAY_TRY(rg_read_constant(b, weights, &w_plain, dn_layout(pd, DN_OPERAND_WEIGHTS, &(rg_md){ 0 }), &w));
    INLAY_TRY(rg_new_place(b, &desc.y, out));
    status = rg_emit(b, pd, (const rg_operand[]){ { DN_ARG_SRC, &x }, { DN_ARG_WEIGHTS, &w }, { DN_ARG_DST, out } }, 3);
done:
    dn_destroy(pd);
    return status;
}

static inlay_status lower(rg_build *b, const rg_group *group)
{
    const rg_op *op = b->op;
    const struct inputs *at = inputs_of(op);
    int64_t k = b->dims[op->in[at->w]][0], n = b->dims[op->in[at->w]][1], m = rg_count(b, op->in[0]) / k;
    rg_place a, sums, y;
    struct operands o = { .count = 0 };
    uint32_t taken = 0;
    const int32_t *columns = NULL;
    struct tail *t = NULL;
    inlay_status status;
    rg_md md;

    INLAY_TRY(column_sums(b, &columns));
    INLAY_TRY(make_tail(b, n, &t));
    t->sums = columns;
    t->native.run = run_tail;
    t->m = m;
    t->n = n;
    t->k = k;
    t->a_signed = rg_type(b, op->in[0]) == DN_S8;
    t->floats = rg_type(b, group->out) == DN_F32;
    INLAY_TRY(rg_read_plain(b, op->in[0], &a));
    if (op->reduction.axes != 0)
        q_shift(b, op->in[at->w]);
    if (bytes_run_product(b->state, k))
        INLAY_TRY(bytes_emit_product(b, &a, op->in[at->w], m, k, n, &sums));
    else
        INLAY_TRY(emit_product(b, &a, padded_rows(b, &a, m, k), k, n, &sums));
    o.places[0] = &sums;
    if (op->in_count > at->a_zero && op->in[at->a_zero] != INLAY_NONE) {
        INLAY_TRY(read_operand(b, op->in[at->a_zero], &o));
        t->args |= ZERO_ARG;
    }
    if (t->w_zeros != NULL) {
        INLAY_TRY(read_operand(b, op->in[0], &o));
        t->args |= ROWS_ARG;
    }
    INLAY_TRY(take_posts(b, group, t, &o, &taken));
    rg_md_plain(&md, b->ranks[group->out], b->dims[group->out]);
    md.data_type = rg_type(b, group->out);
    if (taken == group->post_count)
        INLAY_TRY(rg_result_place(b, group->out, &md, &y));
    else
        INLAY_TRY(rg_new_place(b, &md, &y));
    o.places[o.count + 1] = &y;
    INLAY_TRY(rg_emit_native(b, &t->native, o.places, o.count + 2));
    INLAY_TRY(rg_finish(b, group, taken, &y, true));
    status =
        kn_remember(b, &(kn_choice){ .op = group->op,
                                     .count = 1,
                                     .source = KN_ONLY,
                                     .kernel = { bytes_run_product(b->state, k) ? KN_BYTES_ROWS : KN_BYTES_LIBRARY },
                                     .why = "activations of 8 bits as the file has them: sums are exact, what follows "
                                            "rounds as floats do" });
done:
    return status;
}

const rg_family rg_int8_product = { "product of bytes", parse, lower };

/* ------------------------------------------------------------------ Cast of what it makes */

static bool parse_cast(const kit_node *node, rg_op *op, kit_refusal *why)
{
    (void)op;
    return rg_known_rank(kit_input(node, 0), 1, 6, "input 0", why);
}

static inlay_status lower_cast(rg_build *b, const rg_group *group)
{
    rg_place x, y;
    inlay_status status;
    dn_description pd = NULL;
    rg_md md;

    INLAY_TRY(rg_read_plain(b, b->op->in[0], &x));
    rg_md_plain(&md, b->ranks[group->out], b->dims[group->out]);
    INLAY_TRY(rg_result_place(b, group->out, &md, &y));
    INLAY_TRY(
        rg_check(dn_describe_reorder(b->state->engine, &x.md, &md, &pd), b->diag, "convert integers", b->op->name));
    INLAY_TRY(rg_emit(b, pd, (const rg_operand[]){ { DN_ARG_FROM, &x }, { DN_ARG_TO, &y } }, 2));
    status = rg_set_place(b, group->out, &y);
done:
    dn_destroy(pd);
    return status;
}

const rg_family rg_int_cast = { "conversion", parse_cast, lower_cast };

static bool is_linear_conv(const rg_op *op)
{
    return strcmp(op->row->op_type, "QLinearConv") == 0;
}

void rg_quant_take(const rg_build *b, uint32_t next, uint8_t *taken, rg_group *g)
{
    const rg_op *op = &b->c->ops[g->op], *f = &b->c->ops[next];
    bool cast =
        (op->row->family == &rg_int8_product || op->row->family == &rg_int8_conv) && f->row->family == &rg_int_cast;
    bool clip = op->row->family == &rg_int8_conv && f->row->family == &rg_byte_clip && f->in[0] == g->out;

    if (taken[next] || b->c->values[g->out].output != INLAY_NONE || (!cast && !clip))
        return;
    if (clip)
        g->posts[g->post_count++] =
            (rg_post){ .kind = RG_POST_ELTWISE, .eltwise = { DN_ELTWISE_CLIP_V2, f->alpha, f->beta } };
    taken[next] = 1;
    g->last = next;
    g->out = f->out[0];
}

void rg_quant_end(const rg_build *b, uint32_t next, uint8_t *taken, rg_group *g)
{
    const rg_op *op = &b->c->ops[g->op], *q = &b->c->ops[next];

    if (taken[next] || op->row->family != &rg_int8_conv || is_linear_conv(op) || rg_type(b, g->out) != DN_F32 ||
        b->c->values[g->out].output != INLAY_NONE || q->row->family != &rg_quantize || !bytes_runs_conv(b, op) ||
        !bytes_takes_posts(b, g))
        return;
    taken[next] = 1;
    g->ends = next + 1;
    g->last = next;
    g->out = q->out[0];
}
