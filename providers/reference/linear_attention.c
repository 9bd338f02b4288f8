/* LinearAttention: ONNX 27. One state matrix [key size, value size] a batch and key-value head is decayed, corrected,
 * written to and read at every step; heads are independent. Computed in float. */
#include "instance.h"
#include "args.h"
#include "simd/convert.h"
#include "reference.h"
#include "simd/vecmath.h"
#include <math.h>
#include <stdlib.h>

typedef struct linear_state {
    bool gated, delta;
    int64_t q_heads, kv_heads;
    double scale;
} linear_state;

typedef struct linear_plan {
    int64_t batch, steps, key, value, group;
    uint64_t thread_bytes;
} linear_plan;

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const char *rule = kit_attr_string(node->info, "update_rule", "gated_delta");
    linear_state *s = NULL;
    inlay_status status;

    INLAY_TRY(arg_state(sizeof *s, (void **)&s, diag));
    s->gated = strcmp(rule, "gated") == 0 || strcmp(rule, "gated_delta") == 0;
    s->delta = strcmp(rule, "delta") == 0 || strcmp(rule, "gated_delta") == 0;
    s->q_heads = kit_attr_int(node->info, "q_num_heads", 0);
    s->kv_heads = kit_attr_int(node->info, "kv_num_heads", 0);
    s->scale = kit_attr_float(node->info, "scale", 0);
    if (!s->gated && !s->delta && strcmp(rule, "linear") != 0)
        status =
            inlay_fail(diag, INLAY_INVALID_MODEL, "update_rule is '%s'; use linear, gated, delta or gated_delta", rule);
    else if (s->kv_heads < 1 || s->q_heads < 1 || s->q_heads % s->kv_heads != 0)
        status = inlay_fail(diag, INLAY_INVALID_MODEL, "q_num_heads %lld is no positive multiple of kv_num_heads %lld",
                            (long long)s->q_heads, (long long)s->kv_heads);
    if (status != INLAY_OK)
        goto done;
    *out_state = s;
    s = NULL;
done:
    free(s);
    return status;
}

static bool given(const kit_plan *plan, uint32_t i)
{
    return i < plan->in_count && plan->in[i].dtype != INLAY_UNDEFINED;
}

static inlay_status shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const linear_state *s = state;
    const kit_tensor *q = &plan->in[0], *k = &plan->in[1], *v = &plan->in[2];
    linear_plan *p;
    int64_t rows, states;

    if (q->rank != 3 || k->rank != 3 || v->rank != 3 || q->dims[2] % s->q_heads != 0 || k->dims[2] % s->kv_heads != 0 ||
        v->dims[2] % s->kv_heads != 0 || q->dims[2] / s->q_heads != k->dims[2] / s->kv_heads ||
        k->dims[0] != q->dims[0] || v->dims[0] != q->dims[0] || k->dims[1] != q->dims[1] || v->dims[1] != q->dims[1])
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "query, key and value must be [batch, steps, heads * size], and fit");
    if (s->gated != given(plan, 4) || s->delta != given(plan, 5))
        return inlay_fail(diag, INLAY_INVALID_MODEL, "this update_rule %s decay and %s beta",
                          s->gated ? "needs" : "forbids", s->delta ? "needs" : "forbids");
    plan->plan = p = calloc(1, sizeof *p);
    if (p == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the plan of a LinearAttention");
    *p = (linear_plan){ .batch = q->dims[0],
                        .steps = q->dims[1],
                        .key = k->dims[2] / s->kv_heads,
                        .value = v->dims[2] / s->kv_heads,
                        .group = s->q_heads / s->kv_heads };
    rows = p->batch * p->steps;
    states = p->batch * s->kv_heads * p->key * p->value;
    if ((given(plan, 3) && plan->in[3].count != states) ||
        (s->gated && plan->in[4].count != rows * s->kv_heads && plan->in[4].count != rows * s->kv_heads * p->key) ||
        (s->delta && plan->in[5].count != rows * s->kv_heads && plan->in[5].count != rows) ||
        plan->out[0].count != rows * s->q_heads * p->value ||
        (plan->out_count > 1 && plan->out[1].dtype != INLAY_UNDEFINED && plan->out[1].count != states))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                          "past_state, decay, beta or an output do not fit query, key and value");
    if (__builtin_mul_overflow((uint64_t)(p->key * p->value + 2 * p->key + 3 * p->value) * sizeof(float) + 64,
                               (uint64_t)plan->max_threads, &plan->workspace_bytes))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the workspace of this attention exceeds the address space");
    p->thread_bytes = ((uint64_t)(p->key * p->value + 2 * p->key + 3 * p->value) * sizeof(float) + 63) & ~UINT64_C(63);
    return INLAY_OK;
}

typedef struct head_room {
    float *state, *q, *k, *v, *seen, *y;
} head_room;

static void load(const kit_call *call, uint32_t input, int64_t at, int64_t n, float *to)
{
    convert_to_f32(to, call->in[input].dtype, call->in[input].data, at, n);
}

/* exp(g) times the state: one g a head, or one a row. */
static void decay(const kit_call *call, const linear_state *s, const linear_plan *p, int64_t row, int64_t head,
                  head_room r)
{
    bool by_row = call->in[4].count != p->batch * p->steps * s->kv_heads;

    for (int64_t i = 0; i < p->key; i++) {
        float g, *line = r.state + i * p->value;
        load(call, 4, by_row ? (row * s->kv_heads + head) * p->key + i : row * s->kv_heads + head, 1, &g);
        g = vm_exp(g);
        for (int64_t j = 0; j < p->value; j++)
            line[j] *= g;
    }
}

/* out = S' * x. */
static void read_state(const linear_plan *p, const float *state, const float *x, float *out)
{
    memset(out, 0, (size_t)p->value * sizeof(float));
    for (int64_t i = 0; i < p->key; i++)
        for (int64_t j = 0; j < p->value; j++)
            out[j] += state[i * p->value + j] * x[i];
}

static void run_step(const kit_call *call, const linear_state *s, const linear_plan *p, int64_t row, int64_t head,
                     head_room r)
{
    float scale = s->scale != 0 ? (float)s->scale : 1 / sqrtf((float)(p->key > 0 ? p->key : 1));

    load(call, 1, (row * s->kv_heads + head) * p->key, p->key, r.k);
    load(call, 2, (row * s->kv_heads + head) * p->value, p->value, r.v);
    if (s->gated)
        decay(call, s, p, row, head, r);
    if (s->delta) {
        float beta;
        bool one = call->in[5].count == p->batch * p->steps;
        load(call, 5, one ? row : row * s->kv_heads + head, 1, &beta);
        read_state(p, r.state, r.k, r.seen);
        for (int64_t j = 0; j < p->value; j++)
            r.v[j] = beta * (r.v[j] - r.seen[j]);
    }
    for (int64_t i = 0; i < p->key; i++)
        for (int64_t j = 0; j < p->value; j++)
            r.state[i * p->value + j] += r.k[i] * r.v[j];
    for (int64_t g = 0; g < p->group; g++) {
        int64_t q_head = head * p->group + g;
        load(call, 0, (row * s->q_heads + q_head) * p->key, p->key, r.q);
        read_state(p, r.state, r.q, r.y);
        for (int64_t j = 0; j < p->value; j++)
            r.y[j] *= scale;
        convert_from_f32(call->out[0].dtype, call->out[0].data, (row * s->q_heads + q_head) * p->value, p->value, r.y,
                         0);
    }
}

static inlay_status run_heads(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const linear_state *s = call->state;
    const linear_plan *p = call->plan;
    int64_t size = p->key * p->value;
    head_room r = { .state = (float *)(void *)((char *)call->workspace + worker * p->thread_bytes) };

    r.q = r.state + size;
    r.k = r.q + p->key;
    r.v = r.k + p->key;
    r.seen = r.v + p->value;
    r.y = r.seen + p->value;
    for (int64_t index = begin; index < end; index++) {
        int64_t b = index / s->kv_heads;
        if (kit_has_input(call, 3))
            load(call, 3, index * size, size, r.state);
        else
            memset(r.state, 0, (size_t)size * sizeof(float));
        for (int64_t t = 0; t < p->steps; t++)
            run_step(call, s, p, b * p->steps + t, index % s->kv_heads, r);
        if (kit_has_output(call, 1))
            convert_from_f32(call->out[1].dtype, call->out[1].data, index * size, size, r.state, 0);
    }
    return INLAY_OK;
}

static inlay_status run(const kit_call *call)
{
    const linear_state *s = call->state;
    const linear_plan *p = call->plan;

    return kit_parallel(call, p->batch * s->kv_heads, 1, run_heads, (void *)(uintptr_t)call);
}

static const kit_kernel kernels[] = {
    { .op_type = "LinearAttention", .since_max = 27, .prepare = prepare, .shape = shape, .run = run },
};
const kit_table OPERATOR(reference_linear_attention) = { kernels, KIT_COUNT(kernels) };
