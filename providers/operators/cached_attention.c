/* CachedAttention of ai.inlay: attention over keys and values in 8 or 4 bits, which are dequantized for each head. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "inlay/cost.h"
#include "common/cache_rows.h"
#include "operators/args.h"
#include "operators/operators.h"
#include <float.h>
#include <math.h>

enum { IN_Q, IN_K, IN_V, IN_BIAS, IN_HIDDEN, IN_K_SCALE, IN_V_SCALE, IN_SINK };
typedef enum blank_rows { BLANK_ZERO, BLANK_NAN, BLANK_GUARDED } blank_rows;

typedef struct cached_state {
    int32_t bits, value_bits;
    int64_t value_size;
    double scale, softcap; /* scale 0: 1 / sqrt(size); softcap 0: none */
    blank_rows blank;
} cached_state;

/* Elements of a mask from one batch, head, query and key to the next. */
typedef struct mask_steps {
    int64_t step[4];
} mask_steps;

typedef struct cached_plan {
    int64_t batch, heads, shared, queries, keys; /* shared: heads of keys */
    cache_format k, v;
    int64_t k_head, k_step, v_head, v_step; /* elements of the scales from one head, and one element, to the next */
    mask_steps bias, hidden, sink;
    double scale;
    uint64_t worker_bytes;
} cached_plan;

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const char *blank = kit_attr_string(node->info, "blank", "zero");
    const int64_t bits = kit_attr_int(node->info, "bits", 8);
    const inlay_status status = arg_allocate_state(sizeof(cached_state), out_state, diag);

    if (status == INLAY_OK)
        *(cached_state *)*out_state =
            (cached_state){ .bits = (int32_t)bits,
                            .value_bits = (int32_t)kit_attr_int(node->info, "value_bits", bits),
                            .value_size = kit_attr_int(node->info, "value_size", 0),
                            .scale = kit_attr_float(node->info, "scale", 0),
                            .softcap = kit_attr_float(node->info, "softcap", 0),
                            .blank = strcmp(blank, "guarded") == 0 ? BLANK_GUARDED
                                     : strcmp(blank, "nan") == 0   ? BLANK_NAN
                                                                   : BLANK_ZERO };
    return status;
}

static const kit_tensor *given(const kit_plan *plan, uint32_t input)
{
    return input < plan->in_count && plan->in[input].dtype != INLAY_UNDEFINED ? &plan->in[input] : NULL;
}

/* A mask that is broadcast to [batch, heads, queries, keys]. */
static inlay_status place_mask(const kit_tensor *mask, const cached_plan *plan, mask_steps *out, inlay_diag *diag)
{
    const int64_t scores[4] = { plan->batch, plan->heads, plan->queries, plan->keys };
    int64_t step = 1;

    *out = (mask_steps){ { 0 } };
    if (mask == NULL)
        return INLAY_OK;
    if (mask->rank > 4)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "a mask has rank %u, above 4", mask->rank);
    for (uint32_t d = mask->rank, axis = 4; d-- > 0; step *= mask->dims[d]) {
        axis--;
        if (mask->dims[d] != 1 && mask->dims[d] != scores[axis])
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "dim %u of a mask is %lld, not 1 or %lld", d,
                              (long long)mask->dims[d], (long long)scores[axis]);
        out->step[axis] = mask->dims[d] == 1 ? 0 : step;
    }
    return INLAY_OK;
}

static inlay_status place_scales(const kit_tensor *scales, const cached_plan *plan, cache_format *format,
                                 int64_t *head_step, int64_t *step, inlay_diag *diag)
{
    format->own = scales == NULL;
    if (scales == NULL || scales->count == 1)
        return INLAY_OK;
    *head_step = format->size;
    *step = 1;
    if (scales->count == plan->shared * format->size)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                      "there are %lld scales; expected 1, or one for each of %lld heads of %lld elements",
                      (long long)scales->count, (long long)plan->shared, (long long)format->size);
}

static inlay_status shape(const void *user, kit_plan *plan, inlay_diag *diag)
{
    const cached_state *state = user;
    const kit_tensor *q = &plan->in[IN_Q], *k = &plan->in[IN_K], *v = &plan->in[IN_V];
    cached_plan *cached = kit_plan_new(plan, sizeof *cached);
    inlay_status status;

    if (cached == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a plan");
    if (q->rank != 4 || k->rank != 4 || v->rank != 4)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "queries, keys and values have ranks %u, %u and %u, not 4",
                          q->rank, k->rank, v->rank);
    *cached = (cached_plan){ .batch = q->dims[0],
                             .heads = q->dims[1],
                             .shared = k->dims[1],
                             .queries = q->dims[2],
                             .keys = k->dims[2],
                             .k = { .size = q->dims[3], .bits = state->bits },
                             .v = { .size = state->value_size, .bits = state->value_bits },
                             .scale = state->scale != 0 ? state->scale : 1 / sqrt((double)q->dims[3]) };
    INLAY_TRY(place_scales(given(plan, IN_K_SCALE), cached, &cached->k, &cached->k_head, &cached->k_step, diag));
    INLAY_TRY(place_scales(given(plan, IN_V_SCALE), cached, &cached->v, &cached->v_head, &cached->v_step, diag));
    INLAY_TRY(place_mask(given(plan, IN_BIAS), cached, &cached->bias, diag));
    INLAY_TRY(place_mask(given(plan, IN_HIDDEN), cached, &cached->hidden, diag));
    INLAY_TRY(place_mask(given(plan, IN_SINK), cached, &cached->sink, diag));
    if (k->dims[0] != cached->batch || v->dims[0] != cached->batch || v->dims[1] != cached->shared ||
        v->dims[2] != cached->keys || cached->shared < 1 || cached->heads % cached->shared != 0 ||
        k->dims[3] != cache_row_bytes(&cached->k) || v->dims[3] != cache_row_bytes(&cached->v))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "the keys [%lld, %lld, %lld, %lld] or the values [%lld, %lld, %lld, %lld] do not fit %lld "
                          "queries of %lld heads of %lld elements",
                          (long long)k->dims[0], (long long)k->dims[1], (long long)k->dims[2], (long long)k->dims[3],
                          (long long)v->dims[0], (long long)v->dims[1], (long long)v->dims[2], (long long)v->dims[3],
                          (long long)cached->queries, (long long)cached->heads, (long long)cached->k.size);
    cached->worker_bytes =
        (uint64_t)(cached->keys * (cached->k.size + cached->v.size + 1) + 2 * cached->v.size) * sizeof(double);
    plan->workspace_bytes = cached->worker_bytes * plan->max_threads;
done:
    return status;
}

/* Turns scores into probabilities. sink: one more score, which takes part in the sum; -INFINITY: none. */
static void softmax(double *scores, int64_t count, blank_rows blank, double sink)
{
    double most = sink, sum = 0;

    for (int64_t t = 0; t < count; t++)
        most = scores[t] > most ? scores[t] : most;
    for (int64_t t = 0; t < count; t++)
        sum += scores[t] = most == -(double)INFINITY && blank == BLANK_ZERO && scores[t] == most
                               ? 0
                               : exp(scores[t] - most); /* NaN if the maximum is -infinity */
    sum += sink > -(double)INFINITY ? exp(sink - most) : 0;
    for (int64_t t = 0; t < count; t++)
        scores[t] = sum != sum ? (blank == BLANK_GUARDED ? 0 : sum) : sum > 0 ? scores[t] / sum : 0;
}

/* Returns true if the mask of ONNX's Attention hides the key, which then takes no part, see attention.inc. */
static bool hides(const cached_state *state, float bias)
{
    return state->blank == BLANK_ZERO && bias <= -FLT_MAX;
}

/* One query: keys and values are [keys, size]. */
static void attend(const kit_call *call, int64_t batch, int64_t head, int64_t query, const float *keys,
                   const float *values, double *scores, double *sums)
{
    const cached_plan *plan = call->plan;
    const cached_state *state = call->state;
    const int64_t row = (batch * plan->heads + head) * plan->queries + query, at[3] = { batch, head, query };
    const float *q = (const float *)call->in[IN_Q].data + row * plan->k.size;
    float *to = (float *)call->out[0].data + row * plan->v.size;
    int64_t bias = 0, hidden = 0, sink = 0;
    const float *masks;

    for (uint32_t axis = 0; axis < 3; axis++) {
        bias += at[axis] * plan->bias.step[axis];
        hidden += at[axis] * plan->hidden.step[axis];
        sink += at[axis] * plan->sink.step[axis];
    }
    masks = kit_has_input(call, IN_BIAS) ? (const float *)call->in[IN_BIAS].data + bias : NULL;
    for (int64_t t = 0; t < plan->keys; t++) {
        double sum = 0;

        for (int64_t i = 0; i < plan->k.size; i++)
            sum += (double)q[i] * (double)keys[t * plan->k.size + i];
        sum *= plan->scale;
        if (state->softcap > 0)
            sum = state->softcap * tanh(sum / state->softcap);
        if (kit_has_input(call, IN_HIDDEN) &&
            ((const uint8_t *)call->in[IN_HIDDEN].data)[hidden + t * plan->hidden.step[3]] != 0)
            sum = 0;
        if (masks != NULL) {
            const float mask = masks[t * plan->bias.step[3]];

            sum = hides(state, mask) ? (double)mask : sum + (double)mask;
        }
        scores[t] = sum;
    }
    softmax(scores, plan->keys, state->blank,
            kit_has_input(call, IN_SINK) ? (double)((const float *)call->in[IN_SINK].data)[sink] : -(double)INFINITY);
    memset(sums, 0, (size_t)plan->v.size * sizeof *sums);
    for (int64_t t = 0; t < plan->keys; t++)
        for (int64_t i = 0;
             i < plan->v.size && !(masks != NULL && scores[t] == 0 && hides(state, masks[t * plan->bias.step[3]])); i++)
            sums[i] += scores[t] * (double)values[t * plan->v.size + i];
    for (int64_t i = 0; i < plan->v.size; i++)
        to[i] = (float)sums[i];
}

/* Dequantizes the rows of head `head`, counted over all batches. */
static void decode_head(const kit_call *call, uint32_t input, uint32_t scale_input, const cache_format *format,
                        int64_t head, int64_t head_step, int64_t step, float *to)
{
    const cached_plan *plan = call->plan;
    const int64_t bytes = cache_row_bytes(format);
    const uint8_t *rows = (const uint8_t *)call->in[input].data + head * plan->keys * bytes;
    const float *scales =
        format->own ? NULL : (const float *)call->in[scale_input].data + head % plan->shared * head_step;

    for (int64_t t = 0; t < plan->keys; t++)
        cache_decode(format, rows + t * bytes, scales, step, to + t * format->size);
}

/* Heads [begin, end) of keys, counted over all batches, with all queries that share them. */
static inlay_status run_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const cached_plan *plan = call->plan;
    const int64_t group = plan->heads / plan->shared;
    double *scores = (double *)(void *)((char *)call->workspace + worker * plan->worker_bytes),
           *sums = scores + plan->keys;
    float *keys = (float *)(void *)(sums + plan->v.size), *values = keys + plan->keys * plan->k.size;

    for (int64_t head = begin; head < end; head++) {
        decode_head(call, IN_K, IN_K_SCALE, &plan->k, head, plan->k_head, plan->k_step, keys);
        decode_head(call, IN_V, IN_V_SCALE, &plan->v, head, plan->v_head, plan->v_step, values);
        for (int64_t i = 0; i < group * plan->queries; i++)
            attend(call, head / plan->shared, head % plan->shared * group + i / plan->queries, i % plan->queries, keys,
                   values, scores, sums);
    }
    return INLAY_OK;
}

static inlay_status run(const kit_call *call)
{
    const cached_plan *plan = call->plan;

    return plan->queries == 0 ? INLAY_OK
                              : kit_parallel(call, plan->batch * plan->shared, 1, run_range, (void *)(uintptr_t)call);
}

static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *out)
{
    const kit_tensor *q = &shapes->in[IN_Q], *k = &shapes->in[IN_K];

    (void)node;
    if (q->rank == 4 && k->rank == 4 && q->count > 0 && k->count > 0)
        out->flops = 4.0 * (double)q->count * (double)k->dims[2];
}

static const kit_kernel kernels[] = {
    { .domain = "ai.inlay",
      .op_type = "CachedAttention",
      .since_max = 1,
      .prepare = prepare,
      .shape = shape,
      .cost = cost,
      .run = run },
};
const kit_table OPERATOR(operators_cached_attention) = { kernels, KIT_COUNT(kernels) };
