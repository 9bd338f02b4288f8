/* MatMulInteger-10 and QLinearMatMul-10..21: a GEMM of bytes (quant_rows.c). The zero point of the left operand is in
 * the initial values of the sums, a scale and a bias in the kernel's results (byte_ending). A loop over results that
 * are in the cache corrects for zero points of the weights, and does a function, a sum, and the quantization of
 * QLinearMatMul or of a QuantizeLinear. A computed matrix, or each of a batch, is packed in the run.
 *
 *     sum (a - za)(w - zw) = sum a w - za * colsum(w) - zw * (rowsum(a) - K za)
 *
 * All of this is exact modulo 2^32, like int32 arithmetic. */
#include "cpu/elementwise/elementwise.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "inlay/host.h"
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
    const bool computed = !kit_is_constant(node, at->w);
    int64_t zeros = w_zero == NULL ? 1 : cpu_known_count(w_zero), columns;

    if (!bytes_offer_product(node, at->w, why) || !cpu_known_rank(info, 2, 6, "input 0", why) ||
        !cpu_known_rank(weights, 2, computed ? 6 : 2, "the matrix", why))
        return false;
    if (!q_is_bytes(info) || !q_is_bytes(weights))
        return kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "an input is not an 8-bit integer");
    if (!computed && cpu_known_count(weights) < 1)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "the matrix is empty");
    columns = weights->dims[weights->rank - 1].kind == INLAY_DIM_FIXED ? weights->dims[weights->rank - 1].value : -1;
    op->reduction.axes = weights->dtype == INLAY_UINT8; /* not 0: the weights are packed as int8, minus 128 */
    if (a_zero != NULL && (cpu_known_count(a_zero) != 1 || a_zero->dtype != info->dtype))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "the zero point of input 0 is not one number");
    if (w_zero != NULL && ((!computed && !kit_is_constant(node, at->w_zero)) || w_zero->dtype != weights->dtype ||
                           (zeros != 1 && (w_zero->rank != 1 || zeros < 1 || zeros != columns))))
        return kit_refuse(why, INLAY_REFUSE_SHAPE, "make it a constant",
                          "the zero point of the matrix is not a constant, or is per row");
    return !is_linear(op) || parse_scales(node, op, columns, why);
}

enum { ZERO_ARG = 1u << 0, W_ZERO_ARG = 1u << 1, SCALE_ARG = 1u << 2, BIAS_ARG = 1u << 3, ADDED_ARG = 1u << 4 };

struct tail {
    cpu_native native;
    bytes_product product;
    /* set of *_ARG: the operands, in this order, between the matrices and the result, which the arrays of a byte_ending
     * follow, and packed matrices if the matrix is computed */
    uint32_t args;
    int32_t *w_zeros; /* [n] after this struct; NULL: all 0, or computed */
    float *scales;    /* [n] after w_zeros: of QLinearMatMul; NULL: there is none */
    /* A computed matrix: a batch of products with strides of the operands along its axes, in bytes; `workers` pack
     * their own matrices. */
    bool computed, w_unsigned, w_zero_each; /* w_zero_each: a computed zero point for each column */
    uint32_t axes, workers;
    int64_t batch, dims[CPU_MAX_RANK], a_steps[CPU_MAX_RANK], w_steps[CPU_MAX_RANK];
    bool a_signed;  /* the left operand and its zero point are signed */
    bool floats;    /* the sums become floats */
    bool quantizes; /* the floats become bytes of the quantization y */
    bool y_signed;
    float y_scale, y_zero;
    int64_t scale_step;
    cpu_unary unary; /* FUNCTION_NONE: none */
};

typedef struct tail_call {
    const struct tail *tail;
    const char *rows; /* of the left operand */
    const char *matrix;
    const int32_t *w_zeros;     /* [n]; NULL: all 0 */
    const float *scales, *bias; /* operands; NULL: none */
    const float *scale, *shift; /* of all columns */
    const float *added;
    void *output;
    int32_t a_zero;
    float *arrays;
    char *packed; /* [workers] */
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

/* Finishes results of the kernel: sums if zero points of weights correct them, otherwise floats. A bytes_row_fn. */
static void finish_row(const void *user, int64_t row, int64_t from, int64_t n, void *results)
{
    const byte_loops *const loops = KERNEL_BEST(byte_loops);
    const tail_call *call = user;
    const struct tail *tail = call->tail;
    const int64_t at = row * tail->product.n + from;
    float scaled[BYTES_MOST_RESULTS], *values = results;

    INLAY_CHECK(n <= BYTES_MOST_RESULTS);
    if (call->w_zeros != NULL) {
        const int64_t k = tail->product.k;

        loops->without_weight_zeros(results, call->w_zeros + from, n,
                                    (int32_t)((uint32_t)loops->sum(call->rows + row * k, tail->a_signed, k) -
                                              (uint32_t)k * (uint32_t)call->a_zero));
        if (tail->floats) {
            loops->scaled(scaled, results, n, call->scale + from, 1);
            loops->add(scaled, call->shift + from, n);
            values = scaled;
        }
    }
    if (tail->unary.function != FUNCTION_NONE)
        apply_function(values, n, &tail->unary);
    if (call->added != NULL)
        loops->add(values, call->added + at, n);
    if (tail->quantizes)
        q_quantize((char *)call->output + at, values, tail->y_signed, n, tail->y_scale, tail->y_zero);
    else
        memcpy((float *)call->output + at, values, (size_t)n * sizeof *values);
}

/* Multiplies by packed weights. arrays: of a byte_ending, which it fills. Without a bias, the shift is -0: it changes
 * no number. */
static inlay_status multiply(tail_call *call, const cpu_state *state, inlay_run *run, uint32_t threads,
                             const void *weights, float *arrays)
{
    const struct tail *tail = call->tail;
    const bytes_product *product = &tail->product;
    const uint32_t zero = (uint32_t)call->a_zero + (uint32_t)product->offset;
    const int32_t *sums = bytes_matrix_sums(product, weights);
    int32_t *first = (int32_t *)(void *)arrays;
    float *scales = arrays + product->room, *shifts = scales + product->room;
    bytes_results results = { .user = call, .output = call->output };

    for (int64_t i = 0; i < product->n; i++)
        first[i] = (int32_t)(0 - zero * (uint32_t)sums[i]);
    if (tail->scales != NULL)
        memcpy(scales, tail->scales, (size_t)product->n * sizeof *scales);
    else
        for (int64_t i = 0; tail->floats && i < product->n; i++)
            scales[i] = call->scales != NULL ? call->scales[i * tail->scale_step] : 1;
    for (int64_t i = 0; tail->floats && i < product->n; i++)
        shifts[i] = call->bias != NULL ? call->bias[i] : -0.0f;
    call->scale = scales;
    call->shift = shifts;
    results.ending = (byte_ending){ .kind = tail->floats && call->w_zeros == NULL ? BYTE_FLOATS : BYTE_SUMS,
                                    .first = first,
                                    .scale = scales,
                                    .shift = shifts };
    if (call->w_zeros != NULL || tail->unary.function != FUNCTION_NONE || call->added != NULL || tail->quantizes)
        results.finish = finish_row;
    return bytes_run_product(product, state, run, threads, call->rows, weights, &results);
}

/* Offset of product `i` of a batch in an operand. */
static int64_t offset(const struct tail *tail, int64_t i, const int64_t *steps)
{
    return layout_offset(tail->axes, tail->dims, steps, i);
}

/* Units: panels of the matrix. */
static inlay_status pack_panels(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const tail_call *call = user;

    (void)worker;
    bytes_pack_matrix(&call->tail->product, call->matrix, call->tail->w_unsigned, begin, end, call->packed);
    return INLAY_OK;
}

/* Units: products of a batch. */
static inlay_status some_products(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const tail_call *all = user;
    const struct tail *tail = all->tail;
    const bytes_product *product = &tail->product;
    const int64_t results = product->m * product->n;

    for (int64_t i = begin; i < end; i++) {
        tail_call call = *all;
        inlay_status status;

        call.rows += offset(tail, i, tail->a_steps);
        call.matrix += offset(tail, i, tail->w_steps);
        call.packed += worker % tail->workers * (uint64_t)product->packed_bytes;
        call.added = call.added != NULL ? call.added + i * results : NULL;
        call.output = (char *)call.output + i * results * (tail->quantizes ? 1 : (int64_t)sizeof(float));
        status = pack_panels(&call, 0, product->panels, 0);
        if (status == INLAY_OK)
            status = multiply(&call, NULL, NULL, 1, call.packed,
                              call.arrays + worker % tail->workers * 3 * (uint64_t)product->room);
        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}

/* Packs computed matrices, and multiplies by them. Threads share the products of a batch, or a single product. */
static inlay_status run_computed(tail_call *call, const cpu_state *state, inlay_run *run, uint32_t threads)
{
    const struct tail *tail = call->tail;
    const bytes_product *product = &tail->product;
    const bool alone = threads <= 1 || 2.0 * (double)(product->m * product->k) * (double)(product->n * tail->batch) <=
                                           bytes_alone_flops((double)product->m);
    inlay_status status;

    if (alone || tail->batch != 1)
        return alone ? some_products(call, 0, tail->batch, 0)
                     : state->host->parallel_for(state->host->ctx, run, tail->batch, 1, some_products, call);
    status = state->host->parallel_for(state->host->ctx, run, product->panels, 1, pack_panels, call);
    return status != INLAY_OK ? status : multiply(call, state, run, threads, call->packed, call->arrays);
}

/* Converts computed zero points of the matrix; NULL: all are 0. */
static const int32_t *computed_zeros(const struct tail *tail, const void *zeros, int32_t *out)
{
    int32_t any = 0;

    for (int64_t i = 0; i < tail->product.n; i++) {
        const int64_t at = tail->w_zero_each ? i : 0;

        out[i] = tail->w_unsigned ? ((const uint8_t *)zeros)[at] - 128 : ((const int8_t *)zeros)[at];
        any |= out[i];
    }
    return any != 0 ? out : NULL;
}

static inlay_status run_tail(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                             uint32_t threads)
{
    const struct tail *tail = (const struct tail *)(const void *)native;
    tail_call call = { .tail = tail, .rows = args[0], .matrix = args[1], .w_zeros = tail->w_zeros };
    const void *w_zeros = NULL;
    uint32_t next = 2;

    if ((tail->args & ZERO_ARG) != 0) {
        call.a_zero = tail->a_signed ? *(const int8_t *)args[next] : *(const uint8_t *)args[next];
        next++;
    }
    if ((tail->args & W_ZERO_ARG) != 0)
        w_zeros = args[next++];
    if ((tail->args & SCALE_ARG) != 0)
        call.scales = args[next++];
    if ((tail->args & BIAS_ARG) != 0)
        call.bias = args[next++];
    if ((tail->args & ADDED_ARG) != 0)
        call.added = args[next++];
    call.output = args[next++];
    call.arrays = args[next++];
    if (!tail->computed)
        return multiply(&call, state, run, threads, args[1], call.arrays);
    call.packed = args[next];
    if (w_zeros != NULL)
        call.w_zeros = computed_zeros(
            tail, w_zeros, (int32_t *)(void *)(call.arrays + tail->workers * 3 * (uint64_t)tail->product.room));
    return run_computed(&call, state, run, threads);
}

/* Computes the scales of QLinearMatMul's result into tail->scales. */
static inlay_status fill_scales(cpu_build *build, struct tail *tail, int64_t n)
{
    const cpu_op *op = build->op;
    int64_t count = cpu_count(build, op->in[W_SCALE]);
    const void *scales;
    inlay_status status = INLAY_OK;

    INLAY_TRY(cpu_read_original(build, op->in[W_SCALE], &scales));
    tail->scales = (float *)((int32_t *)(tail + 1) + n);
    tail->quantizes = true;
    tail->y_scale = 1;
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

    INLAY_CHECK(n >= 0);
    *out = tail;
    if (tail == NULL)
        return q_no_memory(build);
    INLAY_TRY(cpu_read_original(build, zero, &bytes));
    for (int64_t i = 0; i < n; i++) {
        uint8_t byte = bytes == NULL ? (uint8_t)0 : ((const uint8_t *)bytes)[count > 1 ? i : 0];
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
    cpu_place at[7];
    const cpu_place *places[12];
    uint32_t count;
};

static inlay_status read_operand(cpu_build *build, uint32_t value, struct operands *operands)
{
    inlay_status status = cpu_read_plain(build, value, &operands->at[operands->count]);

    INLAY_CHECK(operands->count < KIT_COUNT(operands->at));
    if (status == INLAY_OK) {
        operands->places[operands->count + 2] = &operands->at[operands->count];
        operands->count++;
    }
    return status;
}

/* The posts of a group that the tail computes, in this order; INLAY_NONE: there is none of this kind. */
struct tail_posts {
    uint32_t scale, bias, unary, added;
};

static int64_t columns_of(const cpu_build *build, const cpu_op *op)
{
    const uint32_t w = op->in[inputs_of(op)->w];

    return build->dims[w][build->ranks[w] - 1];
}

/* The number of first posts of the group that the tail computes. */
static uint32_t match_posts(const cpu_build *build, const cpu_group *group, struct tail_posts *out)
{
    const cpu_op *op = &build->compiled->ops[group->op];
    const int64_t n = columns_of(build, op);
    const cpu_post *post = group->posts;
    uint32_t taken = 0;
    int64_t step;

    *out = (struct tail_posts){ INLAY_NONE, INLAY_NONE, INLAY_NONE, INLAY_NONE };
    if (taken < group->post_count && post[taken].kind == CPU_POST_BINARY && post[taken].function == FUNCTION_MUL &&
        along_columns(build, post[taken].other, n, &step))
        out->scale = taken++;
    if (taken < group->post_count && post[taken].kind == CPU_POST_BINARY && post[taken].function == FUNCTION_ADD &&
        along_columns(build, post[taken].other, n, &step) && step != 0)
        out->bias = taken++;
    if (taken < group->post_count && post[taken].kind == CPU_POST_UNARY && is_supported_function(&post[taken].unary))
        out->unary = taken++;
    if (taken < group->post_count && post[taken].kind == CPU_POST_BINARY && post[taken].function == FUNCTION_ADD &&
        cpu_type(build, post[taken].other) == ELEMENT_FLOAT &&
        cpu_count(build, post[taken].other) == cpu_count(build, group->out) &&
        build->ranks[post[taken].other] == build->ranks[group->out])
        out->added = taken++;
    return taken;
}

static inlay_status take_posts(cpu_build *build, const cpu_group *group, const struct tail_posts *posts,
                               struct tail *tail, struct operands *operands)
{
    inlay_status status = INLAY_OK;

    if (posts->scale != INLAY_NONE) {
        (void)along_columns(build, group->posts[posts->scale].other, tail->product.n, &tail->scale_step);
        INLAY_TRY(read_operand(build, group->posts[posts->scale].other, operands));
        tail->args |= SCALE_ARG;
    }
    if (posts->bias != INLAY_NONE) {
        INLAY_TRY(read_operand(build, group->posts[posts->bias].other, operands));
        tail->args |= BIAS_ARG;
    }
    if (posts->unary != INLAY_NONE)
        tail->unary = group->posts[posts->unary].unary;
    if (posts->added != INLAY_NONE) {
        INLAY_TRY(read_operand(build, group->posts[posts->added].other, operands));
        tail->args |= ADDED_ARG;
    }
done:
    return status;
}

/* Bytes from one matrix to the next along the batch axes of the output, of a row-major operand. */
static void set_steps(const cpu_build *build, uint32_t value, const struct tail *tail, int64_t *steps)
{
    const uint32_t axes = build->ranks[value] - 2, missing = tail->axes - axes;
    const int64_t *dims = build->dims[value];
    int64_t step = dims[axes] * dims[axes + 1];

    for (uint32_t axis = axes; axis-- > 0; step *= dims[axis])
        steps[missing + axis] = dims[axis] > 1 ? step : 0;
}

/* Sets the members for a computed matrix. The rows of all matrices of the left operand are multiplied by a single one
 * at once. Returns the number of rows of a product. */
static int64_t set_batch(const cpu_build *build, uint32_t w, struct tail *tail)
{
    const cpu_op *op = build->op;
    const uint32_t out = op->out[0];

    tail->computed = true;
    tail->w_unsigned = op->reduction.axes != 0;
    tail->workers = build->instance->threads > 0 ? build->instance->threads : 1;
    tail->batch = 1;
    if (build->ranks[w] == 2)
        return cpu_count(build, op->in[0]) / build->dims[w][0];
    tail->axes = build->ranks[out] - 2;
    for (uint32_t axis = 0; axis < tail->axes; axis++)
        tail->batch *= tail->dims[axis] = build->dims[out][axis];
    set_steps(build, op->in[0], tail, tail->a_steps);
    set_steps(build, w, tail, tail->w_steps);
    return build->dims[out][tail->axes];
}

/* Adds the zero points to the operands. */
static inlay_status read_zeros(cpu_build *build, struct tail *tail, struct operands *operands)
{
    const cpu_op *op = build->op;
    const struct inputs *at = inputs_of(op);
    inlay_status status = INLAY_OK;

    if (op->in_count > at->a_zero && op->in[at->a_zero] != INLAY_NONE) {
        INLAY_TRY(read_operand(build, op->in[at->a_zero], operands));
        tail->args |= ZERO_ARG;
    }
    if (op->in_count > at->w_zero && op->in[at->w_zero] != INLAY_NONE &&
        build->compiled->values[op->in[at->w_zero]].constant == INLAY_NONE) {
        INLAY_TRY(read_operand(build, op->in[at->w_zero], operands));
        tail->args |= W_ZERO_ARG;
        tail->w_zero_each = cpu_count(build, op->in[at->w_zero]) > 1;
    }
done:
    return status;
}

static inlay_status lower(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op;
    const uint32_t w = op->in[inputs_of(op)->w];
    const int64_t k = build->dims[w][build->ranks[w] - 2], n = columns_of(build, op);
    cpu_place place, weights, output, arrays, packed;
    struct operands operands = { .count = 0 };
    struct tail_posts posts;
    const uint32_t taken = match_posts(build, group, &posts);
    struct tail *tail = NULL;
    int64_t m;
    inlay_status status;
    tensor_layout layout;

    INLAY_TRY(make_tail(build, n, &tail));
    tail->native.run = run_tail;
    tail->a_signed = cpu_type(build, op->in[0]) == ELEMENT_INT8;
    tail->floats = cpu_type(build, group->out) != ELEMENT_INT32;
    if (group->ends > 0) {
        const cpu_op *last = &build->compiled->ops[group->ends - 1];

        tail->quantizes = true;
        tail->y_signed = cpu_type(build, group->out) == ELEMENT_INT8;
        tail->y_scale = last->quantized.scale;
        tail->y_zero = (float)last->quantized.zero;
    }
    INLAY_TRY(cpu_read_plain(build, op->in[0], &place));
    if (build->compiled->values[w].constant == INLAY_NONE) {
        m = set_batch(build, w, tail);
    } else {
        m = cpu_count(build, op->in[0]) / k;
        if (op->reduction.axes != 0)
            INLAY_TRY(q_shift(build, w, 128));
    }
    INLAY_TRY(bytes_init_product(build, &place, w, m, k, n, &weights, &tail->product));
    operands.places[0] = &place;
    operands.places[1] = &weights;
    INLAY_TRY(read_zeros(build, tail, &operands));
    INLAY_TRY(take_posts(build, group, &posts, tail, &operands));
    layout_plain(&layout, build->ranks[group->out], build->dims[group->out]);
    layout.type = cpu_type(build, group->out);
    if (taken == group->post_count)
        INLAY_TRY(cpu_result_place(build, group->out, &layout, &output));
    else
        INLAY_TRY(cpu_new_place(build, &layout, &output));
    layout_plain(&layout, 1, (const int64_t[]){ (tail->computed ? 3 * tail->workers + 1 : 3) * tail->product.room });
    INLAY_TRY(cpu_new_place(build, &layout, &arrays));
    operands.places[operands.count + 2] = &output;
    operands.places[operands.count + 3] = &arrays;
    if (tail->computed) {
        layout_plain(&layout, 1, (const int64_t[]){ tail->workers * tail->product.packed_bytes });
        layout.type = ELEMENT_INT8;
        INLAY_TRY(cpu_new_place(build, &layout, &packed));
        operands.places[operands.count + 4] = &packed;
    }
    INLAY_TRY(cpu_emit_native(build, &tail->native, operands.places, operands.count + (tail->computed ? 5 : 4)));
    INLAY_TRY(cpu_finish(build, group, taken, &output, true));
    status =
        kernel_remember(build, &(kernel_choice){ .op = group->op,
                                                 .count = 1,
                                                 .source = KERNEL_ONLY,
                                                 .kernel = { KERNEL_BYTES_ROWS },
                                                 .why = bytes_why("8-bit activations as in the model: sums are exact, "
                                                                  "the epilogue rounds as floats do") });
done:
    return status;
}

const cpu_family cpu_int8_product = { .kind = CPU_FAMILY_INT8_PRODUCT,
                                      .name = "int8 GEMM",
                                      .parse = parse,
                                      .lower = lower,
                                      .fuse = cpu_fuse_integer_reader,
                                      .fuse_last = cpu_fuse_final_quantize,
                                      .takes_posts = true };

static bool is_linear_conv(const cpu_op *op)
{
    return strcmp(op->row->op_type, "QLinearConv") == 0;
}

void cpu_fuse_integer_reader(const cpu_build *build, uint32_t next, uint8_t *taken, cpu_group *group)
{
    const cpu_op *op = &build->compiled->ops[group->op], *follower = &build->compiled->ops[next];
    bool cast = (op->row->family->kind == CPU_FAMILY_INT8_PRODUCT || op->row->family->kind == CPU_FAMILY_INT8_CONV) &&
                follower->row->family->kind == CPU_FAMILY_INT_CAST;
    bool clip = op->row->family->kind == CPU_FAMILY_INT8_CONV && follower->row->family->kind == CPU_FAMILY_BYTE_CLIP &&
                follower->in[0] == group->out;

    /* The kernel of tiles adds the bias to the initial values of its sums. */
    bool bias = op->row->family->kind == CPU_FAMILY_INT8_CONV && follower->row->family->kind == CPU_FAMILY_INT_BIAS &&
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
    struct tail_posts posts;

    if (taken[next] || cpu_type(build, group->out) != ELEMENT_FLOAT ||
        build->compiled->values[group->out].output != INLAY_NONE || quantize->row->family->kind != CPU_FAMILY_QUANTIZE)
        return;
    if (op->row->family->kind == CPU_FAMILY_INT8_PRODUCT
            ? match_posts(build, group, &posts) < group->post_count
            : is_linear_conv(op) || !bytes_runs_conv(build, op) || !bytes_takes_posts(build, group))
        return;
    taken[next] = 1;
    group->ends = next + 1;
    group->last = next;
    group->out = quantize->out[0];
}
