/* AttnLSTM-1 of com.microsoft: an LSTM whose input is followed by what an additive attention (Bahdanau et al.,
 * arXiv:1409.0473) over a memory gave after the step before. It computes in double; each sample of each direction is
 * independent of the others. */
#include "inlay/check.h"
#include "inlay/cost.h"
#include "operators/args.h"
#include "operators/operators.h"
#include "operators/recurrent/recurrent_loops.h"
#include "simd/convert.h"
#include <math.h>

enum { IN_QW = IN_P + 1, IN_MW, IN_V, IN_M, IN_MEMORY_LENGTHS, IN_AW, IN_COUNT };
enum { LANES = PANEL_BLOCK_BYTES / sizeof(double) };

typedef struct attn_plan {
    int64_t steps, batch, inputs, hidden, directions;
    int64_t places, depth; /* of the memory [batch, places, depth] */
    int64_t width;         /* of the attention's keys and queries */
    int64_t attention;     /* elements of the attention's result, which follow the input */
    int64_t padded;        /* hidden, rounded up to whole blocks of activations */
    uint64_t at[IN_COUNT]; /* offset in the workspace, in elements, of each input as doubles */
    uint64_t total;        /* elements of them all, which the memory of each worker follows */
    uint64_t worker_bytes;
} attn_plan;

static inlay_status prepare_attn(const kit_node *node, void **out_state, inlay_diag *diag)
{
    recurrent_state *state;
    inlay_status status = arg_allocate_state(sizeof *state, out_state, diag);

    if (status != INLAY_OK)
        return status;
    state = *out_state;
    state->cell = CELL_LSTM;
    return recurrent_read_attributes(node, state, diag);
}

static bool is_given(const kit_plan *plan, uint32_t i)
{
    return i < plan->in_count && plan->in[i].dtype != INLAY_UNDEFINED;
}

/* Checks that input i has the shape, unless it is omitted. */
static inlay_status expect_shape(const kit_plan *plan, uint32_t i, const char *name, uint32_t rank, const int64_t *dims,
                                 inlay_diag *diag)
{
    char have[128], want[128];

    if (!is_given(plan, i) || (plan->in[i].rank == rank && memcmp(plan->in[i].dims, dims, rank * sizeof *dims) == 0))
        return INLAY_OK;
    return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "%s is %s; the other inputs make it %s", name,
                      arg_dims_text(plan->in[i].rank, plan->in[i].dims, have, sizeof have),
                      arg_dims_text(rank, dims, want, sizeof want));
}

static inlay_status check_shapes(const recurrent_state *state, const kit_plan *plan, attn_plan *layer, inlay_diag *diag)
{
    const kit_tensor *x = &plan->in[IN_X], *r = &plan->in[IN_R], *keys = &plan->in[IN_MW], *memory = &plan->in[IN_M],
                     *output = &plan->in[IN_AW];
    inlay_status status;

    if (x->rank != 3 || r->rank != 3 || keys->rank != 3 || memory->rank != 3 ||
        (is_given(plan, IN_AW) && output->rank != 3))
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "X, R, MW, M and AW have ranks %u, %u, %u, %u and %u, not 3",
                          x->rank, r->rank, keys->rank, memory->rank, is_given(plan, IN_AW) ? output->rank : 3);
    layer->directions = state->direction == 2 ? 2 : 1;
    layer->steps = x->dims[0];
    layer->batch = x->dims[1];
    layer->inputs = x->dims[2];
    layer->hidden = r->dims[2];
    layer->places = memory->dims[1];
    layer->depth = memory->dims[2];
    layer->width = keys->dims[2];
    layer->attention = is_given(plan, IN_AW) ? output->dims[2] : layer->depth;
    if (layer->hidden < 1 || layer->hidden > INT32_MAX || layer->places < 1 || layer->inputs > INT32_MAX ||
        layer->attention > INT32_MAX)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "a hidden state of %lld and a memory of %lld places are empty",
                          (long long)layer->hidden, (long long)layer->places);
    const struct {
        uint32_t input, rank;
        const char *name;
        int64_t dims[3];
    } rows[] = {
        { IN_W, 3, "W", { layer->directions, 4 * layer->hidden, layer->inputs + layer->attention } },
        { IN_R, 3, "R", { layer->directions, 4 * layer->hidden, layer->hidden } },
        { IN_B, 2, "B", { layer->directions, 8 * layer->hidden } },
        { IN_LENGTHS, 1, "sequence_lens", { layer->batch } },
        { IN_H, 3, "initial_h", { layer->directions, layer->batch, layer->hidden } },
        { IN_C, 3, "initial_c", { layer->directions, layer->batch, layer->hidden } },
        { IN_P, 2, "P", { layer->directions, 3 * layer->hidden } },
        { IN_QW, 3, "QW", { layer->directions, layer->hidden, layer->width } },
        { IN_MW, 3, "MW", { layer->directions, layer->depth, layer->width } },
        { IN_V, 2, "V", { layer->directions, layer->width } },
        { IN_M, 3, "M", { layer->batch, layer->places, layer->depth } },
        { IN_MEMORY_LENGTHS, 1, "memory_seq_lens", { layer->batch } },
        { IN_AW, 3, "AW", { layer->directions, layer->hidden + layer->depth, layer->attention } },
    };
    for (uint32_t i = 0; i < KIT_COUNT(rows); i++)
        INLAY_TRY(expect_shape(plan, rows[i].input, rows[i].name, rows[i].rank, rows[i].dims, diag));
    status = INLAY_OK;
done:
    return status;
}

static inlay_status shape_attn(const void *state, kit_plan *plan, inlay_diag *diag)
{
    attn_plan *layer = kit_plan_new(plan, sizeof *layer);
    uint64_t keys;
    inlay_status status;

    if (layer == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the plan of a recurrent layer");
    INLAY_TRY(check_shapes(state, plan, layer, diag));
    layer->padded = (layer->hidden + LANES - 1) / LANES * LANES;
    for (uint32_t i = 0; i < IN_COUNT; i++) {
        layer->at[i] = layer->total;
        if (is_given(plan, i) && i != IN_LENGTHS && i != IN_MEMORY_LENGTHS)
            layer->total += (uint64_t)plan->in[i].count;
    }
    if (__builtin_mul_overflow((uint64_t)layer->places, (uint64_t)layer->width + 1, &keys) ||
        keys > UINT64_MAX / 1024 || layer->total > UINT64_MAX / 1024)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "a memory of %lld places is too large", (long long)layer->places);
    layer->worker_bytes = sizeof(double) * (keys + (uint64_t)layer->width + (uint64_t)layer->attention +
                                            (uint64_t)layer->depth + 6 * (uint64_t)layer->padded);
    if (__builtin_mul_overflow(layer->worker_bytes, (uint64_t)plan->max_threads, &plan->workspace_bytes) ||
        __builtin_add_overflow(plan->workspace_bytes, layer->total * sizeof(double), &plan->workspace_bytes))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "this recurrent layer is too large");
done:
    return status;
}

/* What a sample of a direction reads, and its memory. */
typedef struct attn_unit {
    const attn_plan *plan;
    const recurrent_state *state;
    const struct activation *activation;                                                      /* f, g, h */
    const double *w, *r, *bias, *peephole, *query_weights, *vector, *memory, *output_weights; /* of the direction */
    int64_t places;    /* of this sample's memory */
    double *keys;      /* [places, width] */
    double *shares;    /* [places] */
    double *query;     /* [width] */
    double *attention; /* [attention] */
    double *context;   /* [depth] */
    double *gates[4];  /* i, o, f, c [padded] */
    double *h, *c;     /* [padded] */
} attn_unit;

/* Input i as doubles, from element `first`; NULL if it is missing. */
static const double *as_double(const kit_call *call, uint32_t i, int64_t first)
{
    const attn_plan *plan = call->plan;

    return kit_has_input(call, i) ? (const double *)call->workspace + plan->at[i] + first : NULL;
}

/* out [columns] += in [rows] * matrix [rows, columns]. */
static void add_product(const double *in, const double *matrix, int64_t rows, int64_t columns, double *out)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            out[j] += in[i] * matrix[i * columns + j];
}

static double dot(const double *a, const double *b, int64_t count)
{
    double sum = 0;

    for (int64_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Applies a gate's peephole, clipping and function. */
static void finish_gate(const attn_unit *unit, uint32_t gate, int64_t peephole, const struct activation *function)
{
    const double limit = unit->state->has_clip ? unit->state->clip : INFINITY;
    double *values = unit->gates[gate];

    for (int64_t i = 0; i < unit->plan->hidden; i++) {
        if (unit->peephole != NULL && peephole >= 0)
            values[i] += unit->peephole[peephole * unit->plan->hidden + i] * unit->c[i];
        values[i] = values[i] < -limit ? -limit : values[i] > limit ? limit : values[i];
    }
    for (int64_t i = 0; i < unit->plan->padded; i += LANES)
        KERNEL_BEST(recurrent_f64)->activate(function, values + i);
}

/* A step of the LSTM (ONNX LSTM-14) on x and the attention. */
static void step_cell(const attn_unit *unit, const double *x)
{
    const int64_t hidden = unit->plan->hidden, inputs = unit->plan->inputs, row = inputs + unit->plan->attention;
    enum { I, O, F, C };

    for (int64_t k = 0; k < 4 * hidden; k++) {
        double sum = unit->bias == NULL ? 0 : unit->bias[k] + unit->bias[4 * hidden + k];

        sum += dot(x, unit->w + k * row, inputs) + dot(unit->attention, unit->w + k * row + inputs, row - inputs);
        unit->gates[k / hidden][k % hidden] = sum + dot(unit->h, unit->r + k * hidden, hidden);
    }
    finish_gate(unit, I, 0, &unit->activation[0]);
    if (unit->state->input_forget)
        for (int64_t i = 0; i < hidden; i++)
            unit->gates[F][i] = 1 - unit->gates[I][i];
    else
        finish_gate(unit, F, 2, &unit->activation[0]);
    finish_gate(unit, C, -1, &unit->activation[1]);
    for (int64_t i = 0; i < hidden; i++)
        unit->c[i] = unit->gates[F][i] * unit->c[i] + unit->gates[I][i] * unit->gates[C][i];
    finish_gate(unit, O, 1, &unit->activation[0]);
    memcpy(unit->h, unit->c, (size_t)unit->plan->padded * sizeof(double));
    for (int64_t i = 0; i < unit->plan->padded; i += LANES)
        KERNEL_BEST(recurrent_f64)->activate(&unit->activation[2], unit->h + i);
    for (int64_t i = 0; i < hidden; i++)
        unit->h[i] *= unit->gates[O][i];
}

/* The attention of the hidden state over the memory: softmax(V * tanh(keys + h * QW)) * M, then the optional layer
 * [h, context] * AW. */
static void attend(const attn_unit *unit)
{
    const attn_plan *plan = unit->plan;
    double greatest = -INFINITY, sum = 0;

    memset(unit->query, 0, (size_t)plan->width * sizeof(double));
    add_product(unit->h, unit->query_weights, plan->hidden, plan->width, unit->query);
    for (int64_t place = 0; place < unit->places; place++) {
        double score = 0;

        for (int64_t i = 0; i < plan->width; i++)
            score += unit->vector[i] * tanh(unit->keys[place * plan->width + i] + unit->query[i]);
        unit->shares[place] = score;
        greatest = score > greatest ? score : greatest;
    }
    for (int64_t place = 0; place < unit->places; place++)
        sum += unit->shares[place] = exp(unit->shares[place] - greatest);
    for (int64_t place = 0; place < unit->places; place++)
        unit->shares[place] /= sum;
    memset(unit->context, 0, (size_t)plan->depth * sizeof(double));
    add_product(unit->shares, unit->memory, unit->places, plan->depth, unit->context);
    if (unit->output_weights == NULL) {
        memcpy(unit->attention, unit->context, (size_t)plan->depth * sizeof(double));
        return;
    }
    memset(unit->attention, 0, (size_t)plan->attention * sizeof(double));
    add_product(unit->h, unit->output_weights, plan->hidden, plan->attention, unit->attention);
    add_product(unit->context, unit->output_weights + plan->hidden * plan->attention, plan->depth, plan->attention,
                unit->attention);
}

/* Sample b of direction d, with the memory of a worker. */
static attn_unit start_unit(const kit_call *call, int64_t d, int64_t b, double *room)
{
    const attn_plan *plan = call->plan;
    const recurrent_state *state = call->state;
    const int64_t row = plan->inputs + plan->attention, sample = (d * plan->batch + b) * plan->hidden;
    const double *key_weights = as_double(call, IN_MW, d * plan->depth * plan->width);
    attn_unit unit = {
        .plan = plan,
        .state = state,
        .activation = state->activation + 3 * d,
        .w = as_double(call, IN_W, d * 4 * plan->hidden * row),
        .r = as_double(call, IN_R, d * 4 * plan->hidden * plan->hidden),
        .bias = as_double(call, IN_B, d * 8 * plan->hidden),
        .peephole = as_double(call, IN_P, d * 3 * plan->hidden),
        .query_weights = as_double(call, IN_QW, d * plan->hidden * plan->width),
        .vector = as_double(call, IN_V, d * plan->width),
        .memory = as_double(call, IN_M, b * plan->places * plan->depth),
        .output_weights = as_double(call, IN_AW, d * (plan->hidden + plan->depth) * plan->attention),
        .places = kit_has_input(call, IN_MEMORY_LENGTHS) ? ((const int32_t *)call->in[IN_MEMORY_LENGTHS].data)[b]
                                                         : plan->places,
    };
    const double *h = as_double(call, IN_H, sample), *c = as_double(call, IN_C, sample);

    memset(room, 0, plan->worker_bytes);
    unit.keys = room;
    unit.shares = unit.keys + plan->places * plan->width;
    unit.query = unit.shares + plan->places;
    unit.attention = unit.query + plan->width;
    unit.context = unit.attention + plan->attention;
    unit.h = unit.context + plan->depth;
    unit.c = unit.h + plan->padded;
    for (int i = 0; i < 4; i++)
        unit.gates[i] = unit.c + (i + 1) * plan->padded;
    if (h != NULL)
        memcpy(unit.h, h, (size_t)plan->hidden * sizeof(double));
    if (c != NULL)
        memcpy(unit.c, c, (size_t)plan->hidden * sizeof(double));
    for (int64_t place = 0; place < unit.places; place++)
        add_product(unit.memory + place * plan->depth, key_weights, plan->depth, plan->width,
                    unit.keys + place * plan->width);
    return unit;
}

static void put_row(const kit_call *call, uint32_t output, int64_t row, const double *values)
{
    const int64_t hidden = ((const attn_plan *)call->plan)->hidden;

    if (kit_has_output(call, output))
        convert_from_f64(call->out[output].dtype, call->out[output].data, row * hidden, hidden, values, 0);
}

static inlay_status run_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const attn_plan *plan = call->plan;
    const recurrent_state *state = call->state;
    double *room = (double *)call->workspace + plan->total + worker * plan->worker_bytes / sizeof(double);

    for (int64_t index = begin; index < end; index++) {
        const int64_t d = index / plan->batch, b = index % plan->batch;
        const bool backward = state->direction == 1 || d == 1;
        const int64_t length =
            kit_has_input(call, IN_LENGTHS) ? ((const int32_t *)call->in[IN_LENGTHS].data)[b] : plan->steps;
        attn_unit unit = start_unit(call, d, b, room);

        for (int64_t step = 0; step < length; step++) {
            const int64_t at = backward ? length - 1 - step : step;
            inlay_status status = kit_poll(call);

            if (status != INLAY_OK)
                return status;
            step_cell(&unit, as_double(call, IN_X, (at * plan->batch + b) * plan->inputs));
            put_row(call, OUT_Y, (at * plan->directions + d) * plan->batch + b, unit.h);
            if (step + 1 < length)
                attend(&unit);
        }
        put_row(call, OUT_H, d * plan->batch + b, unit.h);
        put_row(call, OUT_C, d * plan->batch + b, unit.c);
        memset(unit.h, 0, (size_t)plan->hidden * sizeof(double));
        for (int64_t step = length; step < plan->steps; step++)
            put_row(call, OUT_Y, (step * plan->directions + d) * plan->batch + b, unit.h);
    }
    return INLAY_OK;
}

/* Fails unless each length is in [1, limit]. */
static inlay_status check_lengths(const kit_call *call, uint32_t input, const char *name, int64_t limit)
{
    const int32_t *lengths = kit_has_input(call, input) ? call->in[input].data : NULL;

    for (int64_t i = 0; lengths != NULL && i < call->in[input].count; i++)
        if (lengths[i] < 1 || lengths[i] > limit)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "%s[%lld] is %d, outside [1, %lld]", name,
                              (long long)i, (int)lengths[i], (long long)limit);
    return INLAY_OK;
}

static inlay_status run_attn(const kit_call *call)
{
    const attn_plan *plan = call->plan;
    inlay_status status;

    INLAY_TRY(check_lengths(call, IN_LENGTHS, "sequence_lens", plan->steps));
    INLAY_TRY(check_lengths(call, IN_MEMORY_LENGTHS, "memory_seq_lens", plan->places));
    for (uint32_t i = 0; i < IN_COUNT; i++)
        if (kit_has_input(call, i) && i != IN_LENGTHS && i != IN_MEMORY_LENGTHS)
            convert_to_f64((double *)call->workspace + plan->at[i], call->in[i].dtype, call->in[i].data, 0,
                           call->in[i].count);
    status = kit_parallel(call, plan->directions * plan->batch, 1, run_units, (void *)(uintptr_t)call);
done:
    return status;
}

static void cost_attn(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const kit_tensor *x = &shapes->in[IN_X];

    (void)node;
    if (x->rank == 3 && x->count > 0 && shapes->in[IN_W].count > 0 && shapes->in[IN_R].count > 0)
        cost->flops = 2 * (double)x->dims[0] * (double)x->dims[1] *
                      ((double)shapes->in[IN_W].count + (double)shapes->in[IN_R].count);
}

static const kit_kernel kernels[] = {
    { .domain = "com.microsoft",
      .op_type = "AttnLSTM",
      .since_max = 1,
      .prepare = prepare_attn,
      .shape = shape_attn,
      .run = run_attn,
      .cost = cost_attn },
};
const kit_table reference_attn_lstm = { kernels, KIT_COUNT(kernels) };
