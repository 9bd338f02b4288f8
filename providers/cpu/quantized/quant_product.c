/* MatMulInteger-10 and QLinearMatMul-10..21 with a constant matrix: a GEMM of bytes into int32 (quant_rows.c), followed by
 * a loop that corrects for the zero points. The loop also does a Cast and a scale,
 * with bias and function, and the requantization of QLinearMatMul.
 *
 *     sum (a - za)(w - zw) = sum a w - za * colsum(w) - zw * (rowsum(a) - K za)
 *
 * All of this is exact modulo 2^32, like int32 arithmetic. */
#include "cpu/elementwise/elementwise.h"
#include "cpu/quantized/bytes.h"
#include "cpu/quantized/quant.h"
#include "cpu/weights/read.h"

/* The indexes of inputs; the left operand is input 0. */
struct inputs {
    uint32_t w, a_zero, w_zero;
};

static bool is_linear(const cpu_op *op)
{
    return strcmp(op->row->op_type, "QLinearMatMul") == 0;
}

static const struct inputs *inputs_of(const cpu_op *op)
{
    static const struct inputs integer = { 1, 2, 3 }, linear = { 3, 2, 5 };

    return is_linear(op) ? &linear : &integer;
}

enum { A_SCALE = 1, W_SCALE = 4, Y_SCALE = 6, Y_ZERO = 7 }; /* of QLinearMatMul */

/* QLinearMatMul: sets op->quantized.scale = A's scale / Y's scale, and op->quantized.zero = Y's zero point. */
static bool parse_scales(const kit_node *node, cpu_op *op, int64_t columns, kit_refusal *why)
{
    const inlay_value_info *output = kit_output(node, 0);
    float a_scale, ignored, y_scale;

    if (!q_is_bytes(output))
        return kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "the output is not an 8-bit integer");
    if (!q_known_scale(kit_input(node, A_SCALE), 1, "a", &a_scale, why) ||
        !q_known_scale(kit_input(node, W_SCALE), columns, "b", &ignored, why) ||
        !q_known_scale(kit_input(node, Y_SCALE), 1, "y", &y_scale, why) ||
        !q_known_zero(kit_input(node, Y_ZERO), output, "y", &op->quantized.zero, why))
        return false;
    op->quantized.scale = a_scale / y_scale;
    return true;
}

static bool parse(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    const struct inputs *at = inputs_of(op);
    const inlay_value_info *info = kit_input(node, 0), *weights = kit_input(node, at->w),
                           *a_zero = kit_input(node, at->a_zero);
    const inlay_value_info *w_zero = kit_input(node, at->w_zero);
    int64_t zeros = w_zero == NULL ? 1 : cpu_known_count(w_zero);

    if (!bytes_offer_product(node, at->w, why) || !cpu_known_rank(info, 2, 6, "input 0", why) ||
        !cpu_known_rank(weights, 2, 2, "the matrix", why))
        return false;
    if (!q_is_bytes(info) || !q_is_bytes(weights))
        return kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "an input is not an 8-bit integer");
    if (!kit_is_constant(node, at->w) || cpu_known_count(weights) < 1)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "make it a constant", "the matrix is not a constant");
    op->reduction.axes = weights->dtype == INLAY_UINT8; /* not 0: the weights are packed as int8, minus 128 */
    if (a_zero != NULL && (cpu_known_count(a_zero) != 1 || a_zero->dtype != info->dtype))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "the zero point of input 0 is not one number");
    if (w_zero != NULL && (!kit_is_constant(node, at->w_zero) || w_zero->dtype != weights->dtype ||
                           (zeros != 1 && (w_zero->rank != 1 || zeros != weights->dims[1].value))))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "make it a constant",
                          "the zero point of the matrix is not a constant, or is per row");
    return !is_linear(op) || parse_scales(node, op, weights->dims[1].value, why);
}

/* ------------------------------------------------------------------ the epilogue */

enum { ZERO_ARG = 1u << 0, ROWS_ARG = 1u << 1, SCALE_ARG = 1u << 2, BIAS_ARG = 1u << 3, ADDED_ARG = 1u << 4 };

struct tail {
    cpu_native native;
    int64_t m, n, k;
    const int32_t *sums; /* [n] of the columns of the weights; in their pack */
    int32_t *w_zeros;    /* [n] after this struct; NULL: all 0 */
    uint32_t args;       /* set of *_ARG: the operands, in this order, between the sums and the result */
    bool a_signed;       /* the left operand and its zero point are signed */
    bool floats;         /* the result is float */
    float *scales;       /* [n] after w_zeros: the result is requantized; NULL: it is not */
    bool y_signed;
    float y_zero;
    int64_t scale_step;
    cpu_unary unary; /* FUNCTION_NONE: none */
};

typedef struct tail_call {
    const struct tail *tail;
    const int32_t *acc;
    const void *rows;
    const float *scale, *bias, *added;
    void *output;
    int32_t a_zero;
} tail_call;

static void apply_function(float *output, int64_t n, const cpu_unary *unary)
{
    const byte_loops *const loops = KERNEL_BEST(byte_loops);

    if (unary->function == FUNCTION_RELU)
        loops->relu(output, n);
    else if (unary->function == FUNCTION_GELU)
        loops->gelu(output, n);
}

static bool is_supported_function(const cpu_unary *unary)
{
    return (unary->function == FUNCTION_RELU && unary->alpha == 0) || unary->function == FUNCTION_GELU;
}

enum { TILE = 1024 };

static void finish_tile(const tail_call *call, int64_t row, int64_t from, int64_t n, int32_t rest)
{
    const byte_loops *const loops = KERNEL_BEST(byte_loops);
    const struct tail *tail = call->tail;
    int64_t at = row * tail->n + from;
    int32_t sums[TILE];
    float *output;

    loops->without_zeros(sums, call->acc + at, tail->sums + from, n, call->a_zero);
    if (tail->w_zeros != NULL)
        loops->without_weight_zeros(sums, tail->w_zeros + from, n, rest);
    if (tail->scales != NULL) {
        float values[TILE];

        loops->scaled(values, sums, n, tail->scales + from, 1);
        q_quantize((char *)call->output + at, values, tail->y_signed, n, 1, tail->y_zero);
        return;
    }
    if (!tail->floats) {
        memcpy((int32_t *)call->output + at, sums, (size_t)n * sizeof *sums);
        return;
    }
    output = (float *)call->output + at;
    if (call->scale != NULL)
        loops->scaled(output, sums, n, call->scale + from * tail->scale_step, tail->scale_step);
    else
        loops->as_floats(output, sums, n);
    if (call->bias != NULL)
        loops->add(output, call->bias + from, n);
    if (tail->unary.function != FUNCTION_NONE)
        apply_function(output, n, &tail->unary);
    if (call->added != NULL)
        loops->add(output, call->added + at, n);
}

static inlay_status run_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const byte_loops *const loops = KERNEL_BEST(byte_loops);
    const tail_call *call = user;
    const struct tail *tail = call->tail;

    (void)worker;
    for (int64_t row = begin; row < end; row++) {
        int32_t rest = 0;

        if (tail->w_zeros != NULL)
            rest = (int32_t)((uint32_t)loops->sum((const char *)call->rows + row * tail->k, tail->a_signed, tail->k) -
                             (uint32_t)tail->k * (uint32_t)call->a_zero);
        for (int64_t from = 0; from < tail->n; from += TILE)
            finish_tile(call, row, from, tail->n - from < TILE ? tail->n - from : TILE, rest);
    }
    return INLAY_OK;
}

static inlay_status run_tail(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                             uint32_t threads)
{
    const struct tail *tail = (const struct tail *)(const void *)native;
    tail_call call = { .tail = tail, .acc = args[0] };
    int64_t grain = 16384 / tail->n + 1;
    uint32_t next = 1;

    INLAY_CHECK(tail->sums != NULL && tail->m >= 0);
    if ((tail->args & ZERO_ARG) != 0) {
        call.a_zero = tail->a_signed ? *(const int8_t *)args[next] : *(const uint8_t *)args[next];
        next++;
    }
    if ((tail->args & ROWS_ARG) != 0)
        call.rows = args[next++];
    if ((tail->args & SCALE_ARG) != 0)
        call.scale = args[next++];
    if ((tail->args & BIAS_ARG) != 0)
        call.bias = args[next++];
    if ((tail->args & ADDED_ARG) != 0)
        call.added = args[next++];
    call.output = args[next];
    if (threads <= 1 || tail->m <= grain)
        return run_rows(&call, 0, tail->m, 0);
    return state->host->parallel_for(state->host->ctx, run, tail->m, grain, run_rows, &call);
}

/* ------------------------------------------------------------------ lowering */

/* Computes the scales of QLinearMatMul's result into tail->scales. */
static inlay_status fill_scales(cpu_build *build, struct tail *tail, int64_t n)
{
    const cpu_op *op = build->op;
    int64_t count = cpu_count(build, op->in[W_SCALE]);
    const void *scales;
    inlay_status status = INLAY_OK;

    INLAY_TRY(cpu_read_original(build, op->in[W_SCALE], &scales));
    tail->scales = (float *)((int32_t *)(tail + 1) + n);
    tail->y_signed = cpu_type(build, op->out[0]) == ELEMENT_INT8;
    tail->y_zero = (float)op->quantized.zero;
    for (int64_t i = 0; i < n; i++) {
        float w;

        memcpy(&w, (const char *)scales + (size_t)(count > 1 ? i : 0) * sizeof w, sizeof w);
        tail->scales[i] = op->quantized.scale * w;
    }
done:
    return status;
}

/* Allocates *out with the zero points of the weights as int8, and the scales, in arrays after the struct. w_zeros stays
 * NULL if all zero points are 0. */
static inlay_status make_tail(cpu_build *build, int64_t n, struct tail **out)
{
    const cpu_op *op = build->op;
    uint32_t at = inputs_of(op)->w_zero, zero = op->in_count > at ? op->in[at] : INLAY_NONE;
    const void *bytes;
    inlay_status status = INLAY_OK;
    int64_t count = zero == INLAY_NONE ? 0 : cpu_count(build, zero);
    int32_t around = op->reduction.axes != 0 ? 128 : 0;
    struct tail *tail = cpu_new_native(build, sizeof *tail + (size_t)n * (sizeof(int32_t) + sizeof(float)));

    INLAY_CHECK(n > 0);
    *out = tail;
    if (tail == NULL)
        return q_no_memory(build);
    INLAY_TRY(cpu_read_original(build, zero, &bytes));
    for (int64_t i = 0; i < n; i++) {
        uint8_t byte = count == 0 ? 0 : ((const uint8_t *)bytes)[count > 1 ? i : 0];
        int32_t zero_point = (op->reduction.axes != 0 ? byte : (int8_t)byte) - around;

        INLAY_CHECK(zero_point >= INT8_MIN && zero_point <= INT8_MAX);
        ((int32_t *)(tail + 1))[i] = zero_point;
        if (zero_point != 0)
            tail->w_zeros = (int32_t *)(tail + 1);
    }
    status = is_linear(op) ? fill_scales(build, tail, n) : INLAY_OK;
done:
    return status;
}

/* Is the value a float scalar, or a vector with one element per column? */
static bool along_columns(const cpu_build *build, uint32_t value, int64_t n, int64_t *out_step)
{
    uint32_t rank = build->ranks[value];
    int64_t count = cpu_count(build, value);

    *out_step = count > 1;
    return cpu_type(build, value) == ELEMENT_FLOAT && (count == 1 || (count == n && build->dims[value][rank - 1] == n));
}

struct operands {
    cpu_place at[6];
    const cpu_place *places[8];
    uint32_t count;
};

static inlay_status read_operand(cpu_build *build, uint32_t value, struct operands *operands)
{
    inlay_status status = cpu_read_plain(build, value, &operands->at[operands->count]);

    INLAY_CHECK(operands->count < KIT_COUNT(operands->at));
    if (status == INLAY_OK) {
        operands->places[operands->count + 1] = &operands->at[operands->count];
        operands->count++;
    }
    return status;
}

/* Moves the first posts of the group into the tail: scale, bias, function, addend, in this order. *out_taken: their
 * number. */
static inlay_status take_posts(cpu_build *build, const cpu_group *group, struct tail *tail, struct operands *operands,
                               uint32_t *out_taken)
{
    uint32_t taken = 0;
    const cpu_post *post = group->posts;
    int64_t step;
    inlay_status status = INLAY_OK;

    if (taken < group->post_count && post[taken].kind == CPU_POST_BINARY && post[taken].function == FUNCTION_MUL &&
        along_columns(build, post[taken].other, tail->n, &tail->scale_step)) {
        INLAY_TRY(read_operand(build, post[taken++].other, operands));
        tail->args |= SCALE_ARG;
    }
    if (taken < group->post_count && post[taken].kind == CPU_POST_BINARY && post[taken].function == FUNCTION_ADD &&
        along_columns(build, post[taken].other, tail->n, &step) && step != 0) {
        INLAY_TRY(read_operand(build, post[taken++].other, operands));
        tail->args |= BIAS_ARG;
    }
    if (taken < group->post_count && post[taken].kind == CPU_POST_UNARY && is_supported_function(&post[taken].unary))
        tail->unary = post[taken++].unary;
    if (taken < group->post_count && post[taken].kind == CPU_POST_BINARY && post[taken].function == FUNCTION_ADD &&
        cpu_type(build, post[taken].other) == ELEMENT_FLOAT &&
        cpu_count(build, post[taken].other) == cpu_count(build, group->out) &&
        build->ranks[post[taken].other] == build->ranks[group->out]) {
        INLAY_TRY(read_operand(build, post[taken++].other, operands));
        tail->args |= ADDED_ARG;
    }
done:
    *out_taken = taken;
    return status;
}

static inlay_status lower(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op;
    const struct inputs *at = inputs_of(op);
    int64_t k = build->dims[op->in[at->w]][0], n = build->dims[op->in[at->w]][1], m = cpu_count(build, op->in[0]) / k;
    cpu_place place, sums, output;
    struct operands operands = { .count = 0 };
    uint32_t taken = 0;
    struct tail *tail = NULL;
    inlay_status status;
    tensor_layout layout;

    INLAY_TRY(make_tail(build, n, &tail));
    tail->native.run = run_tail;
    tail->m = m;
    tail->n = n;
    tail->k = k;
    tail->a_signed = cpu_type(build, op->in[0]) == ELEMENT_INT8;
    tail->floats = cpu_type(build, group->out) == ELEMENT_FLOAT;
    INLAY_TRY(cpu_read_plain(build, op->in[0], &place));
    if (op->reduction.axes != 0)
        INLAY_TRY(q_shift(build, op->in[at->w], 128));
    INLAY_TRY(bytes_emit_product(build, &place, op->in[at->w], m, k, n, &sums, &tail->sums));
    operands.places[0] = &sums;
    if (op->in_count > at->a_zero && op->in[at->a_zero] != INLAY_NONE) {
        INLAY_TRY(read_operand(build, op->in[at->a_zero], &operands));
        tail->args |= ZERO_ARG;
    }
    if (tail->w_zeros != NULL) {
        INLAY_TRY(read_operand(build, op->in[0], &operands));
        tail->args |= ROWS_ARG;
    }
    INLAY_TRY(take_posts(build, group, tail, &operands, &taken));
    layout_plain(&layout, build->ranks[group->out], build->dims[group->out]);
    layout.type = cpu_type(build, group->out);
    if (taken == group->post_count)
        INLAY_TRY(cpu_result_place(build, group->out, &layout, &output));
    else
        INLAY_TRY(cpu_new_place(build, &layout, &output));
    operands.places[operands.count + 1] = &output;
    INLAY_TRY(cpu_emit_native(build, &tail->native, operands.places, operands.count + 2));
    INLAY_TRY(cpu_finish(build, group, taken, &output, true));
    status = kernel_remember(build,
                             &(kernel_choice){ .op = group->op,
                                               .count = 1,
                                               .source = KERNEL_ONLY,
                                               .kernel = { KERNEL_BYTES_ROWS },
                                               .why = "8-bit activations as in the model: sums are exact, the epilogue "
                                                      "rounds as floats do" });
done:
    return status;
}

const cpu_family cpu_int8_product = {
    .name = "int8 GEMM", .parse = parse, .lower = lower, .fuse = cpu_fuse_integer_reader, .takes_posts = true
};

static bool is_linear_conv(const cpu_op *op)
{
    return strcmp(op->row->op_type, "QLinearConv") == 0;
}

void cpu_fuse_integer_reader(const cpu_build *build, uint32_t next, uint8_t *taken, cpu_group *group)
{
    const cpu_op *op = &build->compiled->ops[group->op], *follower = &build->compiled->ops[next];
    bool cast = (op->row->family == &cpu_int8_product || op->row->family == &cpu_int8_conv) &&
                follower->row->family == &cpu_int_cast;
    bool clip =
        op->row->family == &cpu_int8_conv && follower->row->family == &cpu_byte_clip && follower->in[0] == group->out;

    /* The kernel of tiles adds the bias to the initial values of its sums. */
    bool bias = op->row->family == &cpu_int8_conv && follower->row->family == &cpu_int_bias &&
                group->out == op->out[0] && cpu_sums_of(follower) == group->out && op->window.group == 1 &&
                group->bias == INLAY_NONE && bytes_runs_conv(build, op);

    if (taken[next] || build->compiled->values[group->out].output != INLAY_NONE || (!cast && !clip && !bias))
        return;
    if (bias)
        group->bias = cpu_bias_of(follower);
    if (clip)
        group->posts[group->post_count++] =
            (cpu_post){ .kind = CPU_POST_UNARY, .unary = { FUNCTION_CLIP, follower->alpha, follower->beta } };
    taken[next] = 1;
    group->last = next;
    group->out = follower->out[0];
}

void cpu_fuse_final_quantize(const cpu_build *build, uint32_t next, uint8_t *taken, cpu_group *group)
{
    const cpu_op *op = &build->compiled->ops[group->op], *quantize = &build->compiled->ops[next];

    if (taken[next] || op->row->family != &cpu_int8_conv || is_linear_conv(op) ||
        cpu_type(build, group->out) != ELEMENT_FLOAT || build->compiled->values[group->out].output != INLAY_NONE ||
        quantize->row->family != &cpu_quantize || !bytes_runs_conv(build, op) || !bytes_takes_posts(build, group))
        return;
    taken[next] = 1;
    group->ends = next + 1;
    group->last = next;
    group->out = quantize->out[0];
}
