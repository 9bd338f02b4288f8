/* Attention: ONNX 23, 24, 25, and ai.inlay 1 (ops/inlay/attention.c). Blocks of query rows of each head are tasks:
 * scores, softmax and result of a block stay in the cache. float16 and bfloat16 are computed in float. A query that may
 * see no key gives zeros by ONNX's text, and NaN in inlay's operator unless that is guarded. */
#include "instance.h"
#include "args.h"
#include "simd/convert.h"
#include "gemm/set.h"
#include "reference.h"
#include "simd/vecmath.h"
#include <math.h>
#include <stdlib.h>

enum { SCORE_BYTES = 256 * 1024, MAX_BLOCK = 64 };

typedef enum blank_rows { BLANK_ZERO, BLANK_NAN, BLANK_GUARDED /* 0, also where a score is NaN */ } blank_rows;

typedef struct attention_state {
    bool own; /* of ai.inlay: inputs 3 and 4 are bias and hidden */
    blank_rows blank;
    bool causal;
    int64_t q_heads, kv_heads, output_mode, left, right;
    double scale, softcap; /* scale 0: 1 / sqrt(head size) */
} attention_state;

/* Elements from one batch, head, row to the next. */
struct strides {
    int64_t batch, head, row;
};

typedef struct mask_plan {
    int64_t stride[3], keys; /* of batch, head, query; in a row */
} mask_plan;

typedef struct attention_plan {
    int64_t batch, q_heads, kv_heads, queries, keys, past, size, v_size; /* keys: with the past */
    struct strides strides, k, v, y;
    mask_plan mask, hidden;
    gemm_job qk, pv;
    int64_t block; /* query rows of a task */
    uint64_t scores_at, result_at, mask_at, thread_bytes;
    uint64_t k_at, v_at; /* keys and values with the past, where they are no outputs; before the threads' room */
    uint64_t shared_bytes;
    bool k_copied, v_copied; /* into an output or the workspace */
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

    INLAY_TRY(arg_state(sizeof *state, (void **)&state, diag));
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
    inlay_dtype dtype = kit_input_dtype(node, 0), v = kit_input_dtype(node, 2);
    bool wide = dtype == INLAY_DOUBLE || v == INLAY_DOUBLE;

    if (wide && (gemm_strided_pack(GEMM_F64, dtype) == NULL || gemm_strided_pack(GEMM_F64, v) == NULL))
        return kit_refuse(why, INLAY_REFUSE_DTYPE, "cast both to double",
                          "Q is %s and V %s; double goes with float only", inlay_dtype_name(dtype),
                          inlay_dtype_name(v));
    return true;
}

/* ------------------------------------------------------------------ shapes */

/* Heads and head size of Q, K or V, [batch, heads, rows, size] or [batch, rows, heads * size]. */
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

static bool given(const kit_plan *plan, uint32_t i)
{
    return i < plan->in_count && plan->in[i].dtype != INLAY_UNDEFINED;
}

/* fewest: columns that the mask may have. */
static inlay_status place_mask(const kit_tensor *tensor, const attention_plan *plan, int64_t fewest, mask_plan *out,
                               inlay_diag *diag)
{
    const int64_t whole[3] = { plan->batch, plan->q_heads, plan->queries };
    int64_t step;

    if (tensor->rank < 1 || tensor->rank > 4 || tensor->dims[tensor->rank - 1] > plan->keys ||
        (tensor->dims[tensor->rank - 1] < fewest && tensor->dims[tensor->rank - 1] != 1))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "a mask has rank %u; it must broadcast to batch, heads, queries, keys", tensor->rank);
    step = out->keys = tensor->dims[tensor->rank - 1];
    for (uint32_t d = tensor->rank - 1, at = 3; d-- > 0;) {
        at--;
        if (tensor->dims[d] != 1 && tensor->dims[d] != whole[at])
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "dim %u of a mask is %lld, not 1 or %lld", d,
                              (long long)tensor->dims[d], (long long)whole[at]);
        out->stride[at] = tensor->dims[d] == 1 ? 0 : step;
        step *= tensor->dims[d];
    }
    return INLAY_OK;
}

static inlay_status check_past(const kit_plan *plan, const attention_plan *p, uint32_t input, int64_t size,
                               inlay_diag *diag)
{
    const kit_tensor *tensor = &plan->in[input];

    if (!given(plan, input) || (tensor->rank == 4 && tensor->dims[0] == p->batch && tensor->dims[1] == p->kv_heads &&
                                tensor->dims[2] == p->past && tensor->dims[3] == size))
        return INLAY_OK;
    return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "%s must be [%lld, %lld, %lld, %lld]",
                      input == 4 ? "past_key" : "past_value", (long long)p->batch, (long long)p->kv_heads,
                      (long long)p->past, (long long)size);
}

static inlay_status read_shapes(const attention_state *state, const kit_plan *plan, attention_plan *p, inlay_diag *diag)
{
    const kit_tensor *tensor = &plan->in[0], *k = &plan->in[1], *v = &plan->in[2];
    int64_t keys = 0, values = 0, heads = 0, size = 0;
    bool packed = tensor->rank == 3;
    inlay_status status;

    INLAY_TRY(split_heads(tensor, state->q_heads, "Q", &p->q_heads, &p->queries, &p->size, &p->strides, diag));
    INLAY_TRY(split_heads(k, state->kv_heads, "K", &p->kv_heads, &keys, &size, &p->k, diag));
    INLAY_TRY(split_heads(v, state->kv_heads, "V", &heads, &values, &p->v_size, &p->v, diag));
    p->batch = tensor->dims[0];
    if (size != p->size || keys != values || heads != p->kv_heads || k->dims[0] != p->batch || v->dims[0] != p->batch ||
        p->kv_heads == 0 || p->q_heads % p->kv_heads != 0)
        return inlay_fail(
            diag, INLAY_SHAPE_MISMATCH,
            "Q has %lld heads of %lld, K %lld of %lld over %lld positions, V %lld over %lld: they do not fit",
            (long long)p->q_heads, (long long)p->size, (long long)p->kv_heads, (long long)size, (long long)keys,
            (long long)heads, (long long)values);
    if (!state->own) {
        if (given(plan, 4) != given(plan, 5))
            return inlay_fail(diag, INLAY_INVALID_MODEL, "past_key and past_value come together or not at all");
        p->past = given(plan, 4) && plan->in[4].rank == 4 ? plan->in[4].dims[2] : 0;
        INLAY_TRY(check_past(plan, p, 4, p->size, diag));
        INLAY_TRY(check_past(plan, p, 5, p->v_size, diag));
    }
    p->keys = keys + p->past;
    if (given(plan, 3))
        INLAY_TRY(place_mask(&plan->in[3], p, state->own ? p->keys : 0, &p->mask, diag));
    if (state->own && given(plan, 4))
        INLAY_TRY(place_mask(&plan->in[4], p, p->keys, &p->hidden, diag));
    if (given(plan, 6) && plan->in[6].count != p->batch)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "nonpad_kv_seqlen has %lld elements for a batch of %lld",
                          (long long)plan->in[6].count, (long long)p->batch);
    p->y = packed ? (struct strides){ p->queries * p->q_heads * p->v_size, p->v_size, p->q_heads * p->v_size }
                  : (struct strides){ p->q_heads * p->queries * p->v_size, p->queries * p->v_size, p->v_size };
    const int64_t counts[4] = { p->batch * p->q_heads * p->queries * p->v_size,
                                p->batch * p->kv_heads * p->keys * p->size,
                                p->batch * p->kv_heads * p->keys * p->v_size,
                                p->batch * p->q_heads * p->queries * p->keys };
    for (uint32_t o = 0; o < plan->out_count && o < 4; o++)
        if (plan->out[o].dtype != INLAY_UNDEFINED && plan->out[o].count != counts[o])
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "output %u has %lld elements, not %lld", o,
                              (long long)plan->out[o].count, (long long)counts[o]);
done:
    return status;
}

static uint64_t align64(int64_t bytes)
{
    return ((uint64_t)bytes + 63) & ~UINT64_C(63);
}

static void describe_products(const attention_state *state, const kit_plan *plan, attention_plan *p)
{
    uint32_t type = plan->in[0].dtype == INLAY_DOUBLE || plan->in[2].dtype == INLAY_DOUBLE ? GEMM_F64 : GEMM_F32;
    inlay_dtype sums = type == GEMM_F64 ? INLAY_DOUBLE : INLAY_FLOAT;
    int64_t bytes = type == GEMM_F64 ? 8 : 4, row = p->keys * bytes;
    uint64_t gemm;

    p->block = row > 0 ? SCORE_BYTES / row : MAX_BLOCK;
    p->block = p->block > MAX_BLOCK ? MAX_BLOCK : p->block < 8 ? 8 : p->block;
    p->block = p->block < p->queries ? p->block : p->queries > 0 ? p->queries : 1;
    p->qk = (gemm_job){
        .kernel = gemm_kernel_best(type), .batch = 1, .m = p->block, .n = p->keys, .k = p->size, .c_stride = p->keys
    };
    p->qk.a =
        (gemm_operand){ .pack = gemm_strided_pack(type, plan->in[0].dtype),
                        .line_stride = p->strides.row,
                        .k_stride = 1,
                        .scale = state->scale != 0 ? state->scale : 1 / sqrt((double)(p->size > 0 ? p->size : 1)) };
    p->qk.b =
        (gemm_operand){ .pack = gemm_strided_pack(type, plan->in[1].dtype), .line_stride = p->k.row, .k_stride = 1 };
    p->pv = (gemm_job){
        .kernel = p->qk.kernel, .batch = 1, .m = p->block, .n = p->v_size, .k = p->keys, .c_stride = p->v_size
    };
    p->pv.a = (gemm_operand){ .pack = gemm_strided_pack(type, sums), .line_stride = p->keys, .k_stride = 1 };
    p->pv.b = (gemm_operand){ .pack = gemm_strided_pack(type, plan->in[2].dtype),
                              .line_stride = 1,
                              .k_stride = p->v.row,
                              .in_place = plan->in[2].dtype == sums };
    gemm_plan(&p->qk, 1);
    gemm_plan(&p->pv, 1);
    gemm = p->qk.thread_bytes > p->pv.thread_bytes ? p->qk.thread_bytes : p->pv.thread_bytes;
    p->scores_at = align64((int64_t)gemm);
    p->result_at = p->scores_at + align64(p->block * row);
    p->mask_at = p->result_at + align64(p->block * p->v_size * bytes);
    p->thread_bytes = p->mask_at + align64(row);
}

static inlay_status shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const attention_state *s = state;
    attention_plan *p = kit_plan_new(plan, sizeof *p);
    inlay_status status;

    if (p == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the plan of an Attention");
    INLAY_TRY(read_shapes(s, plan, p, diag));
    p->k_copied = p->past > 0 || (plan->out_count > 1 && plan->out[1].dtype != INLAY_UNDEFINED);
    p->v_copied = p->past > 0 || (plan->out_count > 2 && plan->out[2].dtype != INLAY_UNDEFINED);
    if (p->k_copied) {
        if (plan->out_count <= 1 || plan->out[1].dtype == INLAY_UNDEFINED) {
            p->k_at = p->shared_bytes;
            p->shared_bytes +=
                align64((int64_t)kit_bytes(plan->in[1].dtype, p->batch * p->kv_heads * p->keys * p->size));
        }
        p->k = (struct strides){ p->kv_heads * p->keys * p->size, p->keys * p->size, p->size };
    }
    if (p->v_copied) {
        if (plan->out_count <= 2 || plan->out[2].dtype == INLAY_UNDEFINED) {
            p->v_at = p->shared_bytes;
            p->shared_bytes +=
                align64((int64_t)kit_bytes(plan->in[2].dtype, p->batch * p->kv_heads * p->keys * p->v_size));
        }
        p->v = (struct strides){ p->kv_heads * p->keys * p->v_size, p->keys * p->v_size, p->v_size };
    }
    describe_products(s, plan, p);
    if (__builtin_mul_overflow(p->thread_bytes, (uint64_t)plan->max_threads, &plan->workspace_bytes) ||
        __builtin_add_overflow(plan->workspace_bytes, p->shared_bytes, &plan->workspace_bytes))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the workspace of this attention exceeds the address space");
done:
    return status;
}

/* ------------------------------------------------------------------ run */

/* The keys that query i may see for reasons of position. */
typedef struct key_range {
    int64_t first, end;
} key_range;

static key_range find_range(const attention_call *call, int64_t b, int64_t i)
{
    const attention_plan *plan = call->plan;
    key_range range = { 0, plan->keys };
    int64_t at = i + plan->past; /* the query's own position among the keys */

    if (kit_has_input(call->call, 6)) {
        int64_t length = arg_index(&call->call->in[6], b);
        length = length < 0 ? 0 : length > plan->keys ? plan->keys : length;
        range.end = length;
        if (plan->past == 0)
            at = i + length - plan->queries;
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
#include "attention.inc"
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
#include "attention.inc"

static inlay_status run_blocks(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const attention_call *call = user;
    const attention_plan *plan = call->plan;
    int64_t blocks = (plan->queries + plan->block - 1) / plan->block;
    char *room = (char *)call->call->workspace + plan->shared_bytes + worker * plan->thread_bytes;

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

/* Past and new rows one after the other, [batch, heads, keys, size]. */
static void join(const kit_call *call, const attention_plan *plan, uint32_t input, uint32_t past, int64_t heads_in_row,
                 int64_t size, char *to)
{
    const kit_tensor *tensor = &call->in[input];
    size_t row = (size_t)kit_bytes(tensor->dtype, size), old = (size_t)plan->past * row;
    int64_t fresh = plan->keys - plan->past;
    const char *from = tensor->data, *before = past < call->in_count ? call->in[past].data : NULL;

    for (int64_t b = 0; b < plan->batch; b++)
        for (int64_t h = 0; h < plan->kv_heads; h++) {
            int64_t head = b * plan->kv_heads + h;
            if (old > 0)
                memcpy(to, before + (size_t)head * old, old);
            to += old;
            for (int64_t i = 0; i < fresh; i++, to += row)
                memcpy(to,
                       from + (size_t)(heads_in_row > 0 ? (b * fresh + i) * heads_in_row + h : head * fresh + i) * row,
                       row);
        }
}

static inlay_status run(const kit_call *call)
{
    const attention_plan *plan = call->plan;
    attention_call a = {
        .call = call, .state = call->state, .plan = plan, .k = call->in[1].data, .v = call->in[2].data
    };
    int64_t blocks = (plan->queries + plan->block - 1) / plan->block;

    if (plan->k_copied) {
        char *to = kit_has_output(call, 1) ? call->out[1].data : (char *)call->workspace + plan->k_at;
        join(call, plan, 1, 4, call->in[1].rank == 3 ? plan->kv_heads : 0, plan->size, to);
        a.k = to;
    }
    if (plan->v_copied) {
        char *to = kit_has_output(call, 2) ? call->out[2].data : (char *)call->workspace + plan->v_at;
        join(call, plan, 2, 5, call->in[2].rank == 3 ? plan->kv_heads : 0, plan->v_size, to);
        a.v = to;
    }
    return kit_parallel(call, plan->batch * plan->q_heads * blocks, 1, run_blocks, &a);
}

static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *out)
{
    attention_state state = { .own = strcmp(node->info->domain.data, "ai.inlay") == 0,
                              .q_heads = kit_attr_int(node->info, "q_num_heads", 0),
                              .kv_heads = kit_attr_int(node->info, "kv_num_heads", 0) };
    attention_plan plan = { 0 };

    for (uint32_t i = 0; i < 3; i++)
        if (shapes->in[i].count < 0)
            return;
    /* Sizes that are only assumed may not fit each other, as those of a mask: what is known by then is enough. */
    if (read_shapes(&state, shapes, &plan, NULL) != INLAY_OK && plan.keys == 0)
        return;
    out->flops = 2.0 * (double)plan.batch * (double)plan.q_heads * (double)plan.queries * (double)plan.keys *
                 (double)(plan.size + plan.v_size + 8);
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
const kit_table OPERATOR(reference_attention) = { kernels, KIT_COUNT(kernels) };
