/* LinearAttention: ONNX 27 and com.microsoft, which allows fewer heads of the key, and fewer of the query, than of the
 * value. There is one state matrix [key size, value size] for each batch and key-value head. At
 * every step the matrix is decayed, corrected, updated and read. Heads are independent. All computations are in
 * float. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "inlay/graph_view.h"
#include "operators/args.h"
#include "simd/convert.h"
#include "operators/operators.h"
#include "simd/vecmath.h"
#include <math.h>
#include <stdlib.h>

typedef struct linear_state {
    bool gated, delta, shares; /* shares: heads of the value may share a head of the key or of the query */
    int64_t q_heads, kv_heads;
    double scale;
} linear_state;

typedef struct linear_plan {
    int64_t batch, steps, key, value;
    int64_t key_heads, group; /* group: heads of the query per head of the value, at least 1 */
    uint64_t thread_bytes;
} linear_plan;

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const char *rule = kit_attr_string(node->info, "update_rule", "gated_delta");
    linear_state *state = NULL;
    inlay_status status;

    INLAY_TRY(arg_allocate_state(sizeof *state, (void **)&state, diag));
    state->gated = strcmp(rule, "gated") == 0 || strcmp(rule, "gated_delta") == 0;
    state->delta = strcmp(rule, "delta") == 0 || strcmp(rule, "gated_delta") == 0;
    state->q_heads = kit_attr_int(node->info, "q_num_heads", 0);
    state->kv_heads = kit_attr_int(node->info, "kv_num_heads", 0);
    state->scale = kit_attr_float(node->info, "scale", 0);
    state->shares = strcmp(node->info->domain.data, "com.microsoft") == 0;
    if (!state->gated && !state->delta && strcmp(rule, "linear") != 0)
        status =
            inlay_fail(diag, INLAY_INVALID_MODEL, "update_rule is '%s'; use linear, gated, delta or gated_delta", rule);
    else if (state->kv_heads < 1 || state->q_heads < 1 ||
             (state->q_heads % state->kv_heads != 0 && (!state->shares || state->kv_heads % state->q_heads != 0)))
        status =
            inlay_fail(diag, INLAY_INVALID_MODEL, "q_num_heads %lld is not a positive multiple of kv_num_heads %lld",
                       (long long)state->q_heads, (long long)state->kv_heads);
    if (status != INLAY_OK)
        goto done;
    *out_state = state;
    state = NULL;
done:
    free(state);
    return status;
}

static bool given(const kit_plan *plan, uint32_t input)
{
    return input < plan->in_count && plan->in[input].dtype != INLAY_UNDEFINED;
}

static inlay_status shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const linear_state *attributes = state;
    const kit_tensor *query = &plan->in[0], *key = &plan->in[1], *value = &plan->in[2];
    linear_plan *linear;
    const int64_t most = attributes->q_heads > attributes->kv_heads ? attributes->q_heads : attributes->kv_heads;
    int64_t rows, states, size, key_heads = 0;

    if (query->rank == 3 && key->rank == 3) {
        size = query->dims[2] / attributes->q_heads;
        key_heads = !attributes->shares || size == 0 ? attributes->kv_heads : key->dims[2] / size;
    }
    if (query->rank != 3 || key->rank != 3 || value->rank != 3 || query->dims[2] % attributes->q_heads != 0 ||
        key_heads < 1 || attributes->kv_heads % key_heads != 0 || key->dims[2] % key_heads != 0 ||
        value->dims[2] % attributes->kv_heads != 0 ||
        query->dims[2] / attributes->q_heads != key->dims[2] / key_heads || key->dims[0] != query->dims[0] ||
        value->dims[0] != query->dims[0] || key->dims[1] != query->dims[1] || value->dims[1] != query->dims[1])
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "query, key and value must be [batch, steps, heads * size] with matching sizes");
    if (attributes->gated != given(plan, 4) || attributes->delta != given(plan, 5))
        return inlay_fail(diag, INLAY_INVALID_MODEL, "this update_rule %s decay and %s beta",
                          attributes->gated ? "needs" : "forbids", attributes->delta ? "needs" : "forbids");
    plan->plan = linear = calloc(1, sizeof *linear);
    if (linear == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the plan of a LinearAttention");
    *linear = (linear_plan){ .batch = query->dims[0],
                             .steps = query->dims[1],
                             .key = key->dims[2] / key_heads,
                             .value = value->dims[2] / attributes->kv_heads,
                             .key_heads = key_heads,
                             .group = most / attributes->kv_heads };
    rows = linear->batch * linear->steps;
    states = linear->batch * attributes->kv_heads * linear->key * linear->value;
    if ((given(plan, 3) && plan->in[3].count != states) ||
        (attributes->gated && plan->in[4].count != rows * attributes->kv_heads &&
         plan->in[4].count != rows * attributes->kv_heads * linear->key) ||
        (attributes->delta && plan->in[5].count != rows * attributes->kv_heads && plan->in[5].count != rows) ||
        plan->out[0].count != rows * most * linear->value ||
        (plan->out_count > 1 && plan->out[1].dtype != INLAY_UNDEFINED && plan->out[1].count != states))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "past_state, decay, beta or an output do not match query, key and value");
    if (__builtin_mul_overflow(
            (uint64_t)(linear->key * linear->value + 2 * linear->key + 3 * linear->value) * sizeof(float) + 64,
            (uint64_t)plan->max_threads, &plan->workspace_bytes))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the workspace of this attention exceeds the address space");
    linear->thread_bytes =
        ((uint64_t)(linear->key * linear->value + 2 * linear->key + 3 * linear->value) * sizeof(float) + 63) &
        ~UINT64_C(63);
    return INLAY_OK;
}

/* Scratch memory for one head. */
typedef struct head_room {
    float *state, *q, *k, *v, *predicted, *output;
} head_room;

static void load(const kit_call *call, uint32_t input, int64_t at, int64_t count, float *to)
{
    convert_to_f32(to, call->in[input].dtype, call->in[input].data, at, count);
}

/* Multiplies the state by exp(decay); there is one decay per head, or one per row of the state. */
static void decay_state(const kit_call *call, const linear_state *state, const linear_plan *plan, int64_t row,
                        int64_t head, head_room room)
{
    bool by_row = call->in[4].count != plan->batch * plan->steps * state->kv_heads;

    for (int64_t i = 0; i < plan->key; i++) {
        float factor, *line = room.state + i * plan->value;
        load(call, 4, by_row ? (row * state->kv_heads + head) * plan->key + i : row * state->kv_heads + head, 1,
             &factor);
        factor = vm_exp(factor);
        for (int64_t j = 0; j < plan->value; j++)
            line[j] *= factor;
    }
}

/* out = transpose(state) * input. */
static void read_state(const linear_plan *plan, const float *state, const float *input, float *out)
{
    memset(out, 0, (size_t)plan->value * sizeof(float));
    for (int64_t i = 0; i < plan->key; i++)
        for (int64_t j = 0; j < plan->value; j++)
            out[j] += state[i * plan->value + j] * input[i];
}

static void run_step(const kit_call *call, const linear_state *state, const linear_plan *plan, int64_t row,
                     int64_t head, head_room room)
{
    float scale = state->scale != 0 ? (float)state->scale : 1 / sqrtf((float)(plan->key > 0 ? plan->key : 1));

    load(call, 1, (row * plan->key_heads + head * plan->key_heads / state->kv_heads) * plan->key, plan->key, room.k);
    load(call, 2, (row * state->kv_heads + head) * plan->value, plan->value, room.v);
    if (state->gated)
        decay_state(call, state, plan, row, head, room);
    if (state->delta) {
        float beta;
        bool one = call->in[5].count == plan->batch * plan->steps;
        load(call, 5, one ? row : row * state->kv_heads + head, 1, &beta);
        read_state(plan, room.state, room.k, room.predicted);
        for (int64_t j = 0; j < plan->value; j++)
            room.v[j] = beta * (room.v[j] - room.predicted[j]);
    }
    for (int64_t i = 0; i < plan->key; i++)
        for (int64_t j = 0; j < plan->value; j++)
            room.state[i * plan->value + j] += room.k[i] * room.v[j];
    for (int64_t group_head = 0; group_head < plan->group; group_head++) {
        const int64_t heads = state->kv_heads * plan->group, out_head = head * plan->group + group_head;

        load(call, 0, (row * state->q_heads + out_head * state->q_heads / heads) * plan->key, plan->key, room.q);
        read_state(plan, room.state, room.q, room.output);
        for (int64_t j = 0; j < plan->value; j++)
            room.output[j] *= scale;
        convert_from_f32(call->out[0].dtype, call->out[0].data, (row * heads + out_head) * plan->value, plan->value,
                         room.output, 0);
    }
}

static inlay_status run_heads(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const linear_state *state = call->state;
    const linear_plan *plan = call->plan;
    int64_t size = plan->key * plan->value;
    head_room room = { .state = (float *)(void *)((char *)call->workspace + worker * plan->thread_bytes) };

    INLAY_CHECK(state->kv_heads > 0 && end <= plan->batch * state->kv_heads);
    room.q = room.state + size;
    room.k = room.q + plan->key;
    room.v = room.k + plan->key;
    room.predicted = room.v + plan->value;
    room.output = room.predicted + plan->value;
    for (int64_t index = begin; index < end; index++) {
        int64_t batch = index / state->kv_heads;
        if (kit_has_input(call, 3))
            load(call, 3, index * size, size, room.state);
        else
            memset(room.state, 0, (size_t)size * sizeof(float));
        for (int64_t step = 0; step < plan->steps; step++)
            run_step(call, state, plan, batch * plan->steps + step, index % state->kv_heads, room);
        if (kit_has_output(call, 1))
            convert_from_f32(call->out[1].dtype, call->out[1].data, index * size, size, room.state, 0);
    }
    return INLAY_OK;
}

static inlay_status run(const kit_call *call)
{
    const linear_state *state = call->state;
    const linear_plan *plan = call->plan;

    return kit_parallel(call, plan->batch * state->kv_heads, 1, run_heads, (void *)(uintptr_t)call);
}

static const kit_kernel kernels[] = {
    { .op_type = "LinearAttention", .since_max = 27, .prepare = prepare, .shape = shape, .run = run },
    { .domain = "com.microsoft",
      .op_type = "LinearAttention",
      .since_max = 1,
      .prepare = prepare,
      .shape = shape,
      .run = run },
};
const kit_table OPERATOR(operators_linear_attention) = { kernels, KIT_COUNT(kernels) };
