/* Attention: ONNX 23, 24, 25, and ai.inlay 1 (ops/inlay/attention.c). A task is a block of query rows of one head, so
 * that the scores, the softmax and the result of a block stay in the cache. float16 and bfloat16 are computed in float.
 * The result of a query without visible keys is zeros according to ONNX, and NaN for inlay's operator unless it is
 * guarded. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "operators/args.h"
#include "simd/convert.h"
#include "operators/gemm/set.h"
#include "operators/operators.h"
#include "simd/vecmath.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { SCORE_BYTES = 256 * 1024, MAX_BLOCK = 64, VISIBLE_COLUMNS = 16, SINK = 5 /* an input of ai.inlay's */ };

/* The results for a query whose keys are all hidden: 0, NaN, or guarded. */
typedef enum blank_rows { BLANK_ZERO, BLANK_NAN, BLANK_GUARDED /* 0, also where a score is NaN */ } blank_rows;

typedef struct attention_state {
    bool own; /* the operator of domain ai.inlay, whose inputs 3 and 4 are bias and hidden */
    blank_rows blank;
    bool causal;
    int64_t q_heads, kv_heads, output_mode, left, right;
    double scale, softcap; /* scale 0: 1 / sqrt(head size) */
} attention_state;

/* Distances in elements from one batch, head or row to the next. */
struct strides {
    int64_t batch, head, row;
};

typedef struct mask_plan {
    int64_t stride[3], keys; /* strides of batch, head and query; number of elements in a row */
} mask_plan;

typedef struct attention_plan {
    int64_t batch, q_heads, kv_heads, queries, keys, past, size, v_size; /* keys: including the past */
    struct strides strides, k, v, y;
    mask_plan mask, hidden, sink;
    gemm_job qk, pv, visible; /* visible: pv for one query and c_stride columns, with copied values */
    double scale;             /* of the scores; ONNX: 1, because the queries are scaled */
    int64_t block;            /* query rows per task */
    bool hides;               /* a mask, a length or a limit may hide keys */
    uint64_t scores_at, result_at, mask_at, values_at, thread_bytes;
    /* Offsets in the workspace of keys and values including the past, used if these are not outputs. They precede the
     * scratch memory of the threads. */
    uint64_t k_at, v_at;
    uint64_t shared_bytes;
    bool k_copied, v_copied; /* copied into an output or the workspace, together with the past */
} attention_plan;

typedef struct attention_call {
    const kit_call *call;
    const attention_state *state;
    const attention_plan *plan;
    const void *k, *v;
} attention_call;

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    attention_state *state = NULL;
    inlay_status status;

    INLAY_TRY(arg_allocate_state(sizeof *state, (void **)&state, diag));
    state->own = strcmp(node->info->domain.data, "ai.inlay") == 0;
    state->blank = !state->own ? BLANK_ZERO : kit_attr_int(node->info, "guarded", 0) != 0 ? BLANK_GUARDED : BLANK_NAN;
    state->causal = kit_attr_int(node->info, "is_causal", 0) != 0;
    state->q_heads = kit_attr_int(node->info, "q_num_heads", 0);
    state->kv_heads = kit_attr_int(node->info, "kv_num_heads", 0);
    state->output_mode = kit_attr_int(node->info, "qk_matmul_output_mode", 0);
    state->left = kit_attr_int(node->info, "left_window_size", -1);
    state->right = kit_attr_int(node->info, "right_window_size", -1);
    state->scale = kit_attr_float(node->info, "scale", 0);
    state->softcap = kit_attr_float(node->info, "softcap", 0);
    *out_state = state;
done:
    return status;
}

static bool supports(const kit_node *node, kit_refusal *why)
{
    inlay_dtype query_dtype = kit_input_dtype(node, 0), value_dtype = kit_input_dtype(node, 2);
    bool wide = query_dtype == INLAY_DOUBLE || value_dtype == INLAY_DOUBLE;

    if (wide && (gemm_strided_pack(GEMM_F64, query_dtype) == NULL || gemm_strided_pack(GEMM_F64, value_dtype) == NULL))
        return kit_refuse(why, INLAY_REFUSE_DTYPE, "cast both to double",
                          "Q is %s and V %s; double can be combined with float only", inlay_dtype_name(query_dtype),
                          inlay_dtype_name(value_dtype));
    return true;
}

/* Reads the number of heads and rows, the head size and the strides of Q, K or V: [batch, heads, rows, size] or [batch,
 * rows, heads * size]. */
static inlay_status split_heads(const kit_tensor *tensor, int64_t heads_attr, const char *name, int64_t *heads,
                                int64_t *rows, int64_t *size, struct strides *out, inlay_diag *diag)
{
    if (tensor->rank == 4) {
        *heads = tensor->dims[1];
        *rows = tensor->dims[2];
        *size = tensor->dims[3];
        *out = (struct strides){ *heads * *rows * *size, *rows * *size, *size };
    } else if (tensor->rank == 3 && heads_attr > 0 && tensor->dims[2] % heads_attr == 0) {
        *heads = heads_attr;
        *rows = tensor->dims[1];
        *size = tensor->dims[2] / heads_attr;
        *out = (struct strides){ *rows * tensor->dims[2], *size, tensor->dims[2] };
    } else {
        return inlay_fail(
            diag, INLAY_SHAPE_MISMATCH,
            "%s has rank %u; it must be 4, or 3 with a number of heads (here %lld) that divides its last dim", name,
            tensor->rank, (long long)heads_attr);
    }
    return INLAY_OK;
}

static bool given(const kit_plan *plan, uint32_t input)
{
    return input < plan->in_count && plan->in[input].dtype != INLAY_UNDEFINED;
}

/* Plans the strides of a mask. The mask must have at least min_columns columns, or a single one. */
static inlay_status place_mask(const kit_tensor *tensor, const attention_plan *plan, int64_t min_columns,
                               mask_plan *out, inlay_diag *diag)
{
    const int64_t whole[3] = { plan->batch, plan->q_heads, plan->queries };
    int64_t step;

    if (tensor->rank < 1 || tensor->rank > 4 || tensor->dims[tensor->rank - 1] > plan->keys ||
        (tensor->dims[tensor->rank - 1] < min_columns && tensor->dims[tensor->rank - 1] != 1))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "a mask has rank %u; it must broadcast to batch, heads, queries, keys", tensor->rank);
    step = out->keys = tensor->dims[tensor->rank - 1];
    for (uint32_t d = tensor->rank - 1, axis = 3; d-- > 0;) {
        axis--;
        if (tensor->dims[d] != 1 && tensor->dims[d] != whole[axis])
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "dim %u of a mask is %lld, not 1 or %lld", d,
                              (long long)tensor->dims[d], (long long)whole[axis]);
        out->stride[axis] = tensor->dims[d] == 1 ? 0 : step;
        step *= tensor->dims[d];
    }
    return INLAY_OK;
}

static inlay_status check_past(const kit_plan *plan, const attention_plan *attention, uint32_t input, int64_t size,
                               inlay_diag *diag)
{
    const kit_tensor *tensor = &plan->in[input];

    if (!given(plan, input) ||
        (tensor->rank == 4 && tensor->dims[0] == attention->batch && tensor->dims[1] == attention->kv_heads &&
         tensor->dims[2] == attention->past && tensor->dims[3] == size))
        return INLAY_OK;
    return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "%s must be [%lld, %lld, %lld, %lld]",
                      input == 4 ? "past_key" : "past_value", (long long)attention->batch,
                      (long long)attention->kv_heads, (long long)attention->past, (long long)size);
}

static inlay_status read_shapes(const attention_state *state, const kit_plan *plan, attention_plan *attention,
                                inlay_diag *diag)
{
    const kit_tensor *query = &plan->in[0], *key = &plan->in[1], *value = &plan->in[2];
    int64_t keys = 0, values = 0, heads = 0, size = 0;
    bool packed = query->rank == 3;
    inlay_status status;

    INLAY_TRY(split_heads(query, state->q_heads, "Q", &attention->q_heads, &attention->queries, &attention->size,
                          &attention->strides, diag));
    INLAY_TRY(split_heads(key, state->kv_heads, "K", &attention->kv_heads, &keys, &size, &attention->k, diag));
    INLAY_TRY(split_heads(value, state->kv_heads, "V", &heads, &values, &attention->v_size, &attention->v, diag));
    attention->batch = query->dims[0];
    if (size != attention->size || keys != values || heads != attention->kv_heads || key->dims[0] != attention->batch ||
        value->dims[0] != attention->batch ||
        (attention->kv_heads == 0 ? attention->q_heads != 0 : attention->q_heads % attention->kv_heads != 0))
        return inlay_fail(
            diag, INLAY_SHAPE_MISMATCH,
            "Q has %lld heads of %lld, K %lld of %lld over %lld positions, V %lld over %lld: the shapes do not match",
            (long long)attention->q_heads, (long long)attention->size, (long long)attention->kv_heads, (long long)size,
            (long long)keys, (long long)heads, (long long)values);
    if (!state->own) {
        if (given(plan, 4) != given(plan, 5))
            return inlay_fail(diag, INLAY_INVALID_MODEL, "past_key and past_value must be given together");
        attention->past = given(plan, 4) && plan->in[4].rank == 4 ? plan->in[4].dims[2] : 0;
        INLAY_TRY(check_past(plan, attention, 4, attention->size, diag));
        INLAY_TRY(check_past(plan, attention, 5, attention->v_size, diag));
    }
    attention->keys = keys + attention->past;
    if (given(plan, 3))
        INLAY_TRY(place_mask(&plan->in[3], attention, state->own ? attention->keys : 0, &attention->mask, diag));
    if (state->own && given(plan, 4))
        INLAY_TRY(place_mask(&plan->in[4], attention, attention->keys, &attention->hidden, diag));
    if (state->own && given(plan, SINK))
        INLAY_TRY(place_mask(&plan->in[SINK], attention, 1, &attention->sink, diag));
    if (given(plan, 6) && plan->in[6].count != attention->batch)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "nonpad_kv_seqlen has %lld elements for a batch of %lld",
                          (long long)plan->in[6].count, (long long)attention->batch);
    attention->y = packed ? (struct strides){ attention->queries * attention->q_heads * attention->v_size,
                                              attention->v_size, attention->q_heads * attention->v_size }
                          : (struct strides){ attention->q_heads * attention->queries * attention->v_size,
                                              attention->queries * attention->v_size, attention->v_size };
    const int64_t counts[4] = { attention->batch * attention->q_heads * attention->queries * attention->v_size,
                                attention->batch * attention->kv_heads * attention->keys * attention->size,
                                attention->batch * attention->kv_heads * attention->keys * attention->v_size,
                                attention->batch * attention->q_heads * attention->queries * attention->keys };
    for (uint32_t output = 0; output < plan->out_count && output < 4; output++)
        if (plan->out[output].dtype != INLAY_UNDEFINED && plan->out[output].count != counts[output])
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "output %u has %lld elements, not %lld", output,
                              (long long)plan->out[output].count, (long long)counts[output]);
done:
    return status;
}

static uint64_t align64(int64_t bytes)
{
    return ((uint64_t)bytes + 63) & ~UINT64_C(63);
}

static void describe_products(const attention_state *state, const kit_plan *plan, attention_plan *attention)
{
    uint32_t type = plan->in[0].dtype == INLAY_DOUBLE || plan->in[2].dtype == INLAY_DOUBLE ? GEMM_F64 : GEMM_F32;
    inlay_dtype sums = type == GEMM_F64 ? INLAY_DOUBLE : INLAY_FLOAT;
    int64_t bytes = type == GEMM_F64 ? 8 : 4, row = attention->keys * bytes;
    const double scale =
        state->scale != 0 ? state->scale : 1 / sqrt((double)(attention->size > 0 ? attention->size : 1));
    uint64_t gemm;

    INLAY_CHECK(attention->size >= 0 && attention->keys >= attention->past);
    attention->block = row > 0 ? SCORE_BYTES / row : MAX_BLOCK;
    attention->block = attention->block > MAX_BLOCK ? MAX_BLOCK : attention->block < 8 ? 8 : attention->block;
    attention->block = attention->block < attention->queries ? attention->block
                       : attention->queries > 0              ? attention->queries
                                                             : 1;
    attention->scale = state->own ? scale : 1;
    attention->qk = (gemm_job){ .kernel = gemm_kernel_best(type),
                                .batch = 1,
                                .m = attention->block,
                                .n = attention->keys,
                                .k = attention->size,
                                .c_stride = attention->keys };
    attention->qk.a = (gemm_operand){ .pack = gemm_strided_pack(type, plan->in[0].dtype),
                                      .line_stride = attention->strides.row,
                                      .k_stride = 1,
                                      .scale = state->own ? 1 : scale };
    attention->qk.b = (gemm_operand){ .pack = gemm_strided_pack(type, plan->in[1].dtype),
                                      .line_stride = attention->k.row,
                                      .k_stride = 1 };
    attention->pv = (gemm_job){ .kernel = attention->qk.kernel,
                                .batch = 1,
                                .m = attention->block,
                                .n = attention->v_size,
                                .k = attention->keys,
                                .c_stride = attention->v_size };
    attention->pv.a =
        (gemm_operand){ .pack = gemm_strided_pack(type, sums), .line_stride = attention->keys, .k_stride = 1 };
    attention->pv.b = (gemm_operand){ .pack = gemm_strided_pack(type, plan->in[2].dtype),
                                      .line_stride = 1,
                                      .k_stride = attention->v.row,
                                      .in_place = plan->in[2].dtype == sums };
    attention->visible = attention->pv;
    attention->visible.m = 1;
    attention->visible.n = attention->visible.c_stride =
        attention->v_size < VISIBLE_COLUMNS ? attention->v_size : VISIBLE_COLUMNS;
    attention->visible.b.pack = gemm_strided_pack(type, sums);
    attention->visible.b.k_stride = attention->visible.c_stride;
    attention->visible.b.in_place = true;
    gemm_plan(&attention->qk, 1);
    gemm_plan(&attention->pv, 1);
    gemm_plan(&attention->visible, 1);
    gemm = attention->qk.thread_bytes > attention->pv.thread_bytes ? attention->qk.thread_bytes
                                                                   : attention->pv.thread_bytes;
    gemm = gemm > attention->visible.thread_bytes ? gemm : attention->visible.thread_bytes;
    attention->scores_at = align64((int64_t)gemm);
    attention->result_at = attention->scores_at + align64(attention->block * row);
    attention->mask_at = attention->result_at + align64(attention->block * attention->v_size * bytes);
    attention->hides = state->own
                           ? given(plan, SINK) && given(plan, 3)
                           : given(plan, 3) || given(plan, 6) || state->causal || state->left >= 0 || state->right >= 0;
    attention->values_at = attention->mask_at + align64(row);
    attention->thread_bytes =
        attention->values_at + (attention->hides ? align64(attention->visible.c_stride * row) : 0);
}

static inlay_status shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const attention_state *attributes = state;
    attention_plan *attention = kit_plan_new(plan, sizeof *attention);
    inlay_status status;

    if (attention == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the plan of an Attention");
    INLAY_TRY(read_shapes(attributes, plan, attention, diag));
    attention->k_copied = attention->past > 0 || (plan->out_count > 1 && plan->out[1].dtype != INLAY_UNDEFINED);
    attention->v_copied = attention->past > 0 || (plan->out_count > 2 && plan->out[2].dtype != INLAY_UNDEFINED);
    if (attention->k_copied) {
        if (plan->out_count <= 1 || plan->out[1].dtype == INLAY_UNDEFINED) {
            attention->k_at = attention->shared_bytes;
            attention->shared_bytes += align64((int64_t)kit_bytes(
                plan->in[1].dtype, attention->batch * attention->kv_heads * attention->keys * attention->size));
        }
        attention->k = (struct strides){ attention->kv_heads * attention->keys * attention->size,
                                         attention->keys * attention->size, attention->size };
    }
    if (attention->v_copied) {
        if (plan->out_count <= 2 || plan->out[2].dtype == INLAY_UNDEFINED) {
            attention->v_at = attention->shared_bytes;
            attention->shared_bytes += align64((int64_t)kit_bytes(
                plan->in[2].dtype, attention->batch * attention->kv_heads * attention->keys * attention->v_size));
        }
        attention->v = (struct strides){ attention->kv_heads * attention->keys * attention->v_size,
                                         attention->keys * attention->v_size, attention->v_size };
    }
    describe_products(attributes, plan, attention);
    INLAY_CHECK(attention->block > 0);
    if (__builtin_mul_overflow(attention->thread_bytes, (uint64_t)plan->max_threads, &plan->workspace_bytes) ||
        __builtin_add_overflow(plan->workspace_bytes, attention->shared_bytes, &plan->workspace_bytes))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the workspace of this attention exceeds the address space");
done:
    return status;
}

/* The range of keys that a query may use: limited by causality, the window and the number of valid keys of the
 * batch. */
typedef struct key_range {
    int64_t first, end;
} key_range;

static key_range find_range(const attention_call *call, int64_t batch, int64_t query)
{
    const attention_plan *plan = call->plan;
    key_range range = { 0, plan->keys };
    int64_t at = query + plan->past; /* the position of the query among the keys */

    INLAY_CHECK(query >= 0 && query < plan->queries && batch < plan->batch);
    if (kit_has_input(call->call, 6)) {
        int64_t length = arg_index(&call->call->in[6], batch);
        length = length < 0 ? 0 : length > plan->keys ? plan->keys : length;
        range.end = length;
        if (plan->past == 0)
            at = query + length - plan->queries;
    }
    if (call->state->causal && at + 1 < range.end)
        range.end = at + 1;
    if (call->state->right >= 0 && call->state->right < plan->keys && at + call->state->right + 1 < range.end)
        range.end = at + call->state->right + 1;
    if (call->state->left >= 0 && call->state->left <= plan->keys + plan->queries &&
        at - call->state->left > range.first)
        range.first = at - call->state->left;
    return range;
}

#define T float
#define NAME(x) f32_##x
#define EXP vm_exp
#define TANH vm_tanh
#define LOAD_MASK convert_to_f32
#include "operators/attention.inc"
#undef T
#undef NAME
#undef EXP
#undef TANH
#undef LOAD_MASK
#define T double
#define NAME(x) f64_##x
#define EXP exp
#define TANH tanh
#define LOAD_MASK convert_to_f64
#include "operators/attention.inc"

static inlay_status run_blocks(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const attention_call *call = user;
    const attention_plan *plan = call->plan;
    int64_t blocks = (plan->queries + plan->block - 1) / plan->block;
    char *room = (char *)call->call->workspace + plan->shared_bytes + worker * plan->thread_bytes;

    INLAY_CHECK(plan->block > 0 && plan->q_heads > 0);
    for (int64_t index = begin; index < end; index++) {
        int64_t first = index % blocks * plan->block, head = index / blocks;
        int64_t last = first + plan->block < plan->queries ? first + plan->block : plan->queries;
        if (plan->qk.kernel->acc_bytes == 8)
            f64_rows(call, head / plan->q_heads, head % plan->q_heads, first, last, room);
        else
            f32_rows(call, head / plan->q_heads, head % plan->q_heads, first, last, room);
    }
    return INLAY_OK;
}

/* Concatenates the rows of input `past` and the new rows of input `input` to [batch, heads, keys, size]. heads_in_row:
 * number of heads in a row of a 3-D input; 0 for a 4-D input. */
static void append_to_past(const kit_call *call, const attention_plan *plan, uint32_t input, uint32_t past,
                           int64_t heads_in_row, int64_t size, char *to)
{
    const kit_tensor *tensor = &call->in[input];
    size_t row_bytes = (size_t)kit_bytes(tensor->dtype, size), past_bytes = (size_t)plan->past * row_bytes;
    int64_t new_rows = plan->keys - plan->past;
    const char *from = tensor->data, *past_data = past < call->in_count ? call->in[past].data : NULL;

    INLAY_CHECK(plan->keys >= plan->past);
    for (int64_t batch = 0; batch < plan->batch; batch++)
        for (int64_t kv_head = 0; kv_head < plan->kv_heads; kv_head++) {
            int64_t head = batch * plan->kv_heads + kv_head;
            if (past_bytes > 0)
                memcpy(to, past_data + (size_t)head * past_bytes, past_bytes);
            to += past_bytes;
            for (int64_t row = 0; row < new_rows; row++, to += row_bytes)
                memcpy(to,
                       from + (size_t)(heads_in_row > 0 ? (batch * new_rows + row) * heads_in_row + kv_head
                                                        : head * new_rows + row) *
                                  row_bytes,
                       row_bytes);
        }
}

static inlay_status run(const kit_call *call)
{
    const attention_plan *plan = call->plan;
    attention_call attention = {
        .call = call, .state = call->state, .plan = plan, .k = call->in[1].data, .v = call->in[2].data
    };
    int64_t blocks = (plan->queries + plan->block - 1) / plan->block;

    if (plan->k_copied) {
        char *to = kit_has_output(call, 1) ? call->out[1].data : (char *)call->workspace + plan->k_at;
        append_to_past(call, plan, 1, 4, call->in[1].rank == 3 ? plan->kv_heads : 0, plan->size, to);
        attention.k = to;
    }
    if (plan->v_copied) {
        char *to = kit_has_output(call, 2) ? call->out[2].data : (char *)call->workspace + plan->v_at;
        append_to_past(call, plan, 2, 5, call->in[2].rank == 3 ? plan->kv_heads : 0, plan->v_size, to);
        attention.v = to;
    }
    return kit_parallel(call, plan->batch * plan->q_heads * blocks, 1, run_blocks, &attention);
}

static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *out)
{
    enum { HEAD_FLOPS = 5000 }; /* the start of a head takes their time */
    attention_state state = { .own = strcmp(node->info->domain.data, "ai.inlay") == 0,
                              .q_heads = kit_attr_int(node->info, "q_num_heads", 0),
                              .kv_heads = kit_attr_int(node->info, "kv_num_heads", 0) };
    attention_plan plan = { 0 };

    for (uint32_t i = 0; i < 3; i++)
        if (shapes->in[i].count < 0)
            return;
    /* Sizes that are only assumed, such as those of a mask, may contradict each other. read_shapes() then fails, but
     * the sizes that it has read before are sufficient for the estimate. */
    if (read_shapes(&state, shapes, &plan, NULL) != INLAY_OK && plan.keys == 0)
        return;
    out->flops = (double)plan.batch * (double)plan.q_heads *
                 (2.0 * (double)plan.queries * (double)plan.keys * (double)(plan.size + plan.v_size + 8) + HEAD_FLOPS);
    for (uint32_t i = 0; i < shapes->in_count; i++)
        if (given(shapes, i) && shapes->in[i].count > 0)
            out->bytes_read += kit_bytes(shapes->in[i].dtype, shapes->in[i].count);
    out->bytes_written = kit_bytes(shapes->out[0].dtype, plan.batch * plan.q_heads * plan.queries * plan.v_size);
}

#define ATTENTION                                                                                                      \
    .op_type = "Attention", .supports = supports, .prepare = prepare, .shape = shape, .run = run, .cost = cost
static const kit_kernel kernels[] = {
    { ATTENTION, .since_max = 25 },
    { ATTENTION, .domain = "ai.inlay", .since_max = 1 },
};
const kit_table OPERATOR(operators_attention) = { kernels, KIT_COUNT(kernels) };
