/* MoE and QMoE of com.microsoft (version 1): a mixture of experts. For each row, the k experts with the largest softmax
 * are selected. Each expert is a network of two layers; their results are added, weighted by the softmax.
 *
 * The (row, expert) pairs are sorted by expert, so that a row of weights, which QMoE stores as 2, 4 or 8 bits, is read
 * once for several rows of the input. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "operators/args.h"
#include "operators/lanes.h"
#include "simd/convert.h"
#include "operators/operators.h"
#include <math.h>

enum { TOGETHER = 4, CHUNK = 32 }; /* TOGETHER: pairs that share a row of weights; CHUNK: rows of weights per task */
enum { ACT_RELU, ACT_GELU, ACT_SILU, ACT_IDENTITY, ACT_SWIGLU };
enum { NONE = -1, ROUTER_WEIGHTS = 14, QUANTIZED_ACTIVATIONS = 15 }; /* inputs of QMoE */

/* The indices of a layer's inputs; NONE: the layer does not have it. */
struct layer {
    int weights, scales, bias, zeros;
};

typedef struct moe_state {
    struct layer first, second, gate; /* gate: a layer parallel to the first, whose results are multiplied with it */
    int64_t k, bits, block;
    uint32_t activation;
    int64_t fusion; /* SwiGLU: 1: gates and values alternate in the rows of the first layer; 2: all gates come first */
    float alpha, beta, limit;
    bool normalizes;
} moe_state;

typedef struct moe_sizes {
    /* first_rows: rows of the first layer's weights; inner: columns of the second layer's weights */
    int64_t rows, hidden, experts, inner, first_rows, pairs;
} moe_sizes;

typedef struct moe_pair {
    int64_t row, expert;
    float share;
} moe_pair;

static inlay_status prepare_moe(const kit_node *node, void **out_state, inlay_diag *diag)
{
    static const char *const names[] = { "relu", "gelu", "silu", "identity", "swiglu" };
    const char *activation = kit_attr_string(node->info, "activation_type", "relu");
    const bool quantized = kit_op_type(node)[0] == 'Q';
    moe_state *state;
    inlay_status status = arg_allocate_state(sizeof *state, out_state, diag);

    if (status != INLAY_OK)
        return status;
    state = *out_state;
    *state = (moe_state){ .k = kit_attr_int(node->info, "k", 1),
                          .bits = quantized ? kit_attr_int(node->info, "expert_weight_bits", 4) : 0,
                          .block = kit_attr_int(node->info, "block_size", 0),
                          .fusion = kit_attr_int(node->info, "swiglu_fusion", 0),
                          .alpha = (float)kit_attr_float(node->info, "activation_alpha", 1),
                          .beta = (float)kit_attr_float(node->info, "activation_beta", 0),
                          .limit = (float)kit_attr_float(node->info, "swiglu_limit", INFINITY),
                          .normalizes = kit_attr_int(node->info, "normalize_routing_weights", 0) != 0 };
    if (quantized) {
        state->first = (struct layer){ 2, 3, 4, 11 };
        state->second = (struct layer){ 5, 6, 7, 12 };
        state->gate = (struct layer){ 8, 9, 10, 13 };
    } else {
        state->first = (struct layer){ 2, NONE, 3, NONE };
        state->second = (struct layer){ 4, NONE, 5, NONE };
        state->gate = (struct layer){ 6, NONE, 7, NONE };
    }
    while (state->activation < KIT_COUNT(names) && strcmp(names[state->activation], activation) != 0)
        state->activation++;
    if (state->activation == KIT_COUNT(names))
        return inlay_fail(diag, INLAY_INVALID_MODEL,
                          "activation_type '%.40s' is none of relu, gelu, silu, identity, "
                          "swiglu",
                          activation);
    if (state->k < 1)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "k is %lld; it must be positive", (long long)state->k);
    if (state->block != 0 && (state->block < 16 || (state->block & (state->block - 1)) != 0))
        return inlay_fail(diag, INLAY_INVALID_MODEL, "block_size is %lld; it must be 0, or a power of two from 16 on",
                          (long long)state->block);
    return INLAY_OK;
}

static bool has(const kit_tensor *in, uint32_t count, int index)
{
    return index != NONE && (uint32_t)index < count && in[index].dtype != INLAY_UNDEFINED;
}

static int64_t divide_up(int64_t count, int64_t by)
{
    return (count + by - 1) / by;
}

static int64_t blocks_of(const moe_state *state, int64_t columns)
{
    return state->block > 0 ? divide_up(columns, state->block) : 1;
}

/* Bytes of zero points of an expert. Each row of blocks starts with a byte; without blocks the rows of an expert are
 * packed. */
static int64_t zero_bytes(const moe_state *state, int64_t rows, int64_t blocks)
{
    const int64_t packed = state->bits != 0 ? 8 / state->bits : 1;

    return blocks > 1 ? rows * divide_up(blocks, packed) : divide_up(rows, packed);
}

/* Checks weights [experts, rows, columns] with their scales, bias and zeros. QMoE packs several weights in a byte. */
static bool layer_fits(const moe_state *state, const struct layer *layer, const kit_tensor *in, uint32_t count,
                       int64_t experts, int64_t rows, int64_t columns)
{
    const kit_tensor *weights = &in[layer->weights];
    const int64_t packed = state->bits != 0 ? 8 / state->bits : 1;
    const int64_t blocks = blocks_of(state, columns), scales = rows * blocks;

    return weights->rank == 3 && weights->dims[0] == experts && weights->dims[1] == rows && columns % packed == 0 &&
           weights->dims[2] == columns / packed &&
           (layer->scales == NONE || (has(in, count, layer->scales) && in[layer->scales].count == experts * scales)) &&
           (!has(in, count, layer->bias) || in[layer->bias].count == experts * rows) &&
           (!has(in, count, layer->zeros) ||
            in[layer->zeros].count ==
                experts * (in[layer->zeros].dtype == INLAY_FLOAT ? scales : zero_bytes(state, rows, blocks)));
}

static inlay_status read_sizes(const moe_state *state, const kit_tensor *in, uint32_t count, moe_sizes *sizes,
                               inlay_diag *diag)
{
    const kit_tensor *input = &in[0], *probabilities = &in[1], *weights = &in[state->first.weights];
    bool fits =
        input->rank >= 1 && probabilities->rank == 2 && weights->rank == 3 && in[state->second.weights].rank == 3;

    if (fits) {
        sizes->hidden = input->dims[input->rank - 1];
        sizes->rows = sizes->hidden > 0 ? input->count / sizes->hidden : 0;
        sizes->experts = probabilities->dims[1];
        sizes->first_rows = weights->dims[1];
        sizes->inner =
            state->fusion != 0 && state->activation == ACT_SWIGLU ? sizes->first_rows / 2 : sizes->first_rows;
        sizes->pairs = sizes->rows * state->k;
        fits = (!has(in, count, ROUTER_WEIGHTS) || in[ROUTER_WEIGHTS].count == probabilities->count) &&
               probabilities->dims[0] == sizes->rows && state->k <= sizes->experts && sizes->first_rows > 0 &&
               layer_fits(state, &state->first, in, count, sizes->experts, sizes->first_rows, sizes->hidden) &&
               layer_fits(state, &state->second, in, count, sizes->experts, sizes->hidden, sizes->inner) &&
               (!has(in, count, state->gate.weights) ||
                layer_fits(state, &state->gate, in, count, sizes->experts, sizes->first_rows, sizes->hidden));
    }
    return fits
               ? INLAY_OK
               : inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                            "input [.., hidden], router_probs [rows, experts], weights [experts, rows, columns], their "
                            "scales and biases, and k do not match");
}

/* Offsets in the workspace: pairs by row and by expert, the input as floats, the results of the first, the gate and the
 * second layer, and a row of weights per worker. */
typedef struct moe_room {
    uint64_t chosen, pairs, input, inner, gate, out, rows, bytes;
} moe_room;

static bool plan_room(const moe_sizes *sizes, uint32_t threads, moe_room *room)
{
    const int64_t widest = sizes->hidden > sizes->inner ? sizes->hidden : sizes->inner,
                  first = sizes->first_rows > sizes->inner ? sizes->first_rows : sizes->inner;
    const struct {
        uint64_t *at;
        int64_t count;
        uint64_t each;
    } parts[] = { { &room->chosen, sizes->pairs, sizeof(moe_pair) },
                  { &room->pairs, sizes->pairs, sizeof(moe_pair) },
                  { &room->input, sizes->rows * sizes->hidden, sizeof(float) },
                  { &room->inner, sizes->pairs * first, sizeof(float) },
                  { &room->gate, sizes->pairs * first, sizeof(float) },
                  { &room->out, sizes->pairs * sizes->hidden, sizeof(float) },
                  { &room->rows, widest * threads, sizeof(float) } };

    room->bytes = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        uint64_t bytes;

        *parts[i].at = room->bytes;
        if (__builtin_mul_overflow((uint64_t)parts[i].count, parts[i].each, &bytes) ||
            __builtin_add_overflow(room->bytes, (bytes + 63) / 64 * 64, &room->bytes))
            return false;
    }
    return true;
}

static inlay_status shape_moe(const void *state, kit_plan *plan, inlay_diag *diag)
{
    moe_sizes sizes = { 0 };
    moe_room room;
    inlay_status status = read_sizes(state, plan->in, plan->in_count, &sizes, diag);

    if (status == INLAY_OK && !plan_room(&sizes, plan->max_threads, &room))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED,
                          "%lld rows and %lld experts need more memory than can be addressed", (long long)sizes.rows,
                          (long long)sizes.experts);
    plan->workspace_bytes = status == INLAY_OK ? room.bytes : 0;
    return status;
}

/* Selects the k most probable experts of a row; of equally probable experts, the first. Their shares are the softmax of
 * the probabilities, or their router_weights. */
static void select_experts(const moe_state *state, const kit_tensor *probabilities, const kit_tensor *weights,
                           int64_t row, int64_t experts, moe_pair *pairs)
{
    double sum = 0, kept = 0, top = -INFINITY;

    INLAY_CHECK(state->k <= experts);
    for (int64_t expert = 0; expert < experts; expert++)
        top = fmax(top, convert_get_f64(probabilities->dtype, probabilities->data, row * experts + expert));
    for (int64_t expert = 0; expert < experts; expert++)
        sum += exp(convert_get_f64(probabilities->dtype, probabilities->data, row * experts + expert) - top);
    for (int64_t i = 0; i < state->k; i++) {
        double best = -INFINITY;
        int64_t at = NONE;

        for (int64_t expert = 0; expert < experts; expert++) {
            const double value = convert_get_f64(probabilities->dtype, probabilities->data, row * experts + expert);
            bool taken = at != NONE && !(value > best);

            for (int64_t j = 0; j < i && !taken; j++)
                taken = pairs[j].expert == expert;
            if (!taken) {
                best = value;
                at = expert;
            }
        }
        best = weights != NULL ? convert_get_f64(weights->dtype, weights->data, row * experts + at)
                               : exp(best - top) / sum;
        pairs[i] = (moe_pair){ row, at, (float)best };
        kept += best;
    }
    for (int64_t i = 0; i < state->k && state->normalizes; i++)
        pairs[i].share = (float)((double)pairs[i].share / kept);
}

typedef struct layer_job {
    const kit_call *call;
    const moe_state *state;
    const struct layer *layer;
    const moe_pair *pairs;
    const float *input; /* [inputs, columns] */
    float *output;      /* [pairs, rows] */
    float *unpacked;    /* a row of weights per worker */
    int64_t count, rows, columns, widest, chunks;
    bool by_row; /* the input is indexed by the pair's row, otherwise by the pair */
} layer_job;

static void unpack_row(const uint8_t *packed, int64_t count, int64_t bits, float scale, float zero, float *out)
{
    INLAY_CHECK(bits == 2 || bits == 4 || bits == 8);
    if (bits == 8)
        for (int64_t i = 0; i < count; i++)
            out[i] = ((float)packed[i] - zero) * scale;
    else if (bits == 2)
        for (int64_t i = 0; i < count; i++)
            out[i] = ((float)(packed[i / 4] >> (i % 4 * 2) & 3) - zero) * scale;
    else
        for (int64_t i = 0; i < count / 2; i++) {
            out[2 * i] = ((float)(packed[i] & 15) - zero) * scale;
            out[2 * i + 1] = ((float)(packed[i] >> 4) - zero) * scale;
        }
}

/* The zero point of a block of row `row`; the rows of all experts are numbered in sequence. Zero points are codes, or
 * floats like the scales. */
static float zero_of(const layer_job *job, int64_t row, int64_t block, int64_t blocks)
{
    const uint8_t *zeros = job->call->in[job->layer->zeros].data;
    const int64_t bits = job->state->bits, packed = 8 / bits;
    const int64_t at = blocks > 1 ? block : row % job->rows;

    if (job->call->in[job->layer->zeros].dtype == INLAY_FLOAT)
        return ((const float *)job->call->in[job->layer->zeros].data)[row * blocks + block];
    zeros += blocks > 1 ? row * divide_up(blocks, packed) : row / job->rows * zero_bytes(job->state, job->rows, blocks);
    return (float)(zeros[at / packed] >> (at % packed * bits) & ((1 << bits) - 1));
}

/* Returns row `row` of the weights as floats; the rows of all experts are numbered in sequence. */
static const float *weight_row(const layer_job *job, int64_t row, float *unpacked)
{
    const moe_state *state = job->state;
    const kit_tensor *weights = &job->call->in[job->layer->weights], *scales = &job->call->in[job->layer->scales];
    const int64_t columns = job->columns, block = state->block > 0 ? state->block : columns,
                  blocks = blocks_of(state, columns);
    const bool has_zeros = has(job->call->in, job->call->in_count, job->layer->zeros);

    INLAY_CHECK(row >= 0 && columns > 0);
    if (state->bits == 0 && weights->dtype == INLAY_FLOAT)
        return (const float *)weights->data + row * columns;
    if (state->bits == 0) {
        convert_to_f32(unpacked, weights->dtype, weights->data, row * columns, columns);
        return unpacked;
    }
    for (int64_t index = 0; index < blocks; index++) {
        const int64_t remaining = columns - index * block, at = row * blocks + index;
        float scale, zero = (float)(1 << (state->bits - 1));

        convert_to_f32(&scale, scales->dtype, scales->data, at, 1);
        if (has_zeros)
            zero = zero_of(job, row, index, blocks);
        unpack_row((const uint8_t *)weights->data + (row * columns + index * block) * state->bits / 8,
                   remaining < block ? remaining : block, state->bits, scale, zero, unpacked + index * block);
    }
    return unpacked;
}

static float dot(const float *input, const float *weights, int64_t count)
{
    float sum = 0;

    SUM_IN_LANES(float, float, sum, i, 0, count, input[i] * weights[i]);
    return sum;
}

/* A unit of work is (TOGETHER pairs, a chunk of rows of weights). */
static inlay_status layer_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const layer_job *job = user;
    const kit_tensor *bias =
        has(job->call->in, job->call->in_count, job->layer->bias) ? &job->call->in[job->layer->bias] : NULL;
    float *unpacked = job->unpacked + worker * job->widest;

    INLAY_CHECK(job->chunks > 0);
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t first = unit / job->chunks * TOGETHER, chunk = unit % job->chunks * CHUNK;
        const int64_t last = first + TOGETHER < job->count ? first + TOGETHER : job->count;
        const int64_t chunk_end = chunk + CHUNK < job->rows ? chunk + CHUNK : job->rows;

        for (int64_t expert_row = chunk; expert_row < chunk_end; expert_row++) {
            const float *weights = NULL;
            float bias_value = 0;

            for (int64_t pair_index = first; pair_index < last; pair_index++) {
                const moe_pair *pair = &job->pairs[pair_index];
                const int64_t row = pair->expert * job->rows + expert_row;

                if (weights == NULL || pair->expert != job->pairs[pair_index - 1].expert) {
                    weights = weight_row(job, row, unpacked);
                    if (bias != NULL)
                        convert_to_f32(&bias_value, bias->dtype, bias->data, row, 1);
                }
                job->output[pair_index * job->rows + expert_row] =
                    dot(job->input + (job->by_row ? pair->row : pair_index) * job->columns, weights, job->columns) +
                    bias_value;
            }
        }
    }
    return INLAY_OK;
}

static inlay_status run_layer(layer_job *job, const struct layer *layer, const float *input, bool by_row, int64_t rows,
                              int64_t columns, float *output)
{
    job->layer = layer;
    job->input = input;
    job->by_row = by_row;
    job->rows = rows;
    job->columns = columns;
    job->output = output;
    job->chunks = (rows + CHUNK - 1) / CHUNK;
    return kit_parallel(job->call, (job->count + TOGETHER - 1) / TOGETHER * job->chunks,
                        262144 / (CHUNK * TOGETHER * columns + 1) + 1, layer_range, job);
}

static float activate(uint32_t kind, float value)
{
    switch (kind) {
    case ACT_RELU:
        return value < 0 ? 0 : value;
    case ACT_GELU:
        return 0.5f * value *
               (1 + tanhf(0.79788456f *
                          (value + 0.044715f * value * value * value))); /* the approximation of ONNX Runtime */
    case ACT_SILU:
        return value / (1 + expf(-value));
    default:
        return value;
    }
}

/* Applies the activation to the first layer's results for a pair: replaces values [first_rows] by [inner]. gate: the
 * results of the gate layer, or NULL. */
static void apply_activation(const moe_state *state, const moe_sizes *sizes, float *values, const float *gate)
{
    const int64_t count = sizes->inner;

    if (state->activation != ACT_SWIGLU) {
        for (int64_t i = 0; i < count; i++)
            values[i] = activate(state->activation, values[i]) * (gate != NULL ? gate[i] : 1);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        float gated = state->fusion == 1 ? values[2 * i] : values[i];
        float linear = state->fusion == 1   ? values[2 * i + 1]
                       : state->fusion == 2 ? values[count + i]
                       : gate != NULL       ? gate[i]
                                            : 1;

        gated = gated > state->limit ? state->limit : gated;
        linear = linear > state->limit ? state->limit : linear < -state->limit ? -state->limit : linear;
        values[i] = gated / (1 + expf(-state->alpha * gated)) * (linear + state->beta);
    }
}

static inlay_status run_moe(const kit_call *call)
{
    const moe_state *state = call->state;
    const kit_tensor *output = &call->out[0];
    const bool gated = has(call->in, call->in_count, state->gate.weights);
    moe_sizes sizes = { 0 };
    moe_room layout = { 0 };
    char *workspace = call->workspace;
    inlay_status status = read_sizes(state, call->in, call->in_count, &sizes, call->diag);
    moe_pair *pairs, *chosen;
    float *input, *inner, *gate, *out;

    if (status != INLAY_OK || output->count == 0)
        return status;
    (void)plan_room(&sizes, call->max_threads, &layout);
    pairs = (moe_pair *)(void *)(workspace + layout.pairs);
    chosen = (moe_pair *)(void *)(workspace + layout.chosen);
    input = (float *)(void *)(workspace + layout.input);
    inner = (float *)(void *)(workspace + layout.inner);
    gate = (float *)(void *)(workspace + layout.gate);
    out = (float *)(void *)(workspace + layout.out);
    layer_job job = { .call = call,
                      .state = state,
                      .pairs = pairs,
                      .count = sizes.pairs,
                      .unpacked = (float *)(void *)(workspace + layout.rows),
                      .widest = sizes.hidden > sizes.inner ? sizes.hidden : sizes.inner };
    convert_to_f32(input, call->in[0].dtype, call->in[0].data, 0, sizes.rows * sizes.hidden);
    for (int64_t row = 0; row < sizes.rows; row++)
        select_experts(state, &call->in[1], kit_has_input(call, ROUTER_WEIGHTS) ? &call->in[ROUTER_WEIGHTS] : NULL, row,
                       sizes.experts, chosen + row * state->k);
    int64_t placed = 0;
    for (int64_t expert = 0; expert < sizes.experts; expert++)
        for (int64_t pair = 0; pair < sizes.pairs; pair++)
            if (chosen[pair].expert == expert)
                pairs[placed++] = chosen[pair];
    INLAY_CHECK(placed == sizes.pairs);
    INLAY_TRY(run_layer(&job, &state->first, input, true, sizes.first_rows, sizes.hidden, inner));
    if (gated)
        INLAY_TRY(run_layer(&job, &state->gate, input, true, sizes.first_rows, sizes.hidden, gate));
    for (int64_t pair = 0; pair < sizes.pairs; pair++) {
        apply_activation(state, &sizes, inner + pair * sizes.first_rows, gated ? gate + pair * sizes.first_rows : NULL);
        memmove(inner + pair * sizes.inner, inner + pair * sizes.first_rows, (size_t)sizes.inner * sizeof *inner);
    }
    INLAY_TRY(run_layer(&job, &state->second, inner, false, sizes.hidden, sizes.inner, out));
    memset(input, 0, (size_t)(sizes.rows * sizes.hidden) * sizeof *input);
    for (int64_t pair = 0; pair < sizes.pairs; pair++)
        for (int64_t i = 0; i < sizes.hidden; i++)
            input[pairs[pair].row * sizes.hidden + i] += pairs[pair].share * out[pair * sizes.hidden + i];
    convert_from_f32(output->dtype, output->data, 0, sizes.rows * sizes.hidden, input, 0);
done:
    return status;
}

static void cost_moe(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const kit_tensor *weights = &shapes->in[2];
    const double k = (double)kit_attr_int(node->info, "k", 1);

    if (weights->count > 0 && weights->rank == 3 && shapes->in[1].rank == 2)
        cost->flops = 4 * (double)shapes->in[1].dims[0] * k * (double)weights->count / (double)weights->dims[0];
}

static bool supports_moe(const kit_node *node, kit_refusal *why)
{
    for (uint32_t i = QUANTIZED_ACTIVATIONS; i < node->info->input_count; i++)
        if (node->info->inputs[i] != INLAY_NONE)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "export the model without them",
                              "scales of quantized activations (input %u)", i);
    return kit_attr_int(node->info, "use_sparse_mixer", 0) == 0 ||
           kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "remove use_sparse_mixer", "experts chosen by a sparse mixer");
}

#define FLOATS_HERE (KIT_BIT(FLOAT) | KIT_BIT(FLOAT16) | KIT_BIT(BFLOAT16))
static const kit_kernel kernels[] = {
    { .domain = "com.microsoft",
      .op_type = "MoE",
      .since_max = 1,
      .in_types = { FLOATS_HERE },
      .supports = supports_moe,
      .prepare = prepare_moe,
      .shape = shape_moe,
      .cost = cost_moe,
      .run = run_moe },
    { .domain = "com.microsoft",
      .op_type = "QMoE",
      .since_max = 1,
      .in_types = { FLOATS_HERE },
      .supports = supports_moe,
      .prepare = prepare_moe,
      .shape = shape_moe,
      .cost = cost_moe,
      .run = run_moe },
};
const kit_table OPERATOR(operators_moe) = { kernels, KIT_COUNT(kernels) };
