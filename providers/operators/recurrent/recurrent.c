/* LSTM: ONNX 1, 7, 14, 22. GRU: ONNX 1, 3, 7, 14, 22. RNN: ONNX 1, 7, 14, 22. float16 and bfloat16 are computed in
 * float. recurrent.h describes how a layer runs. */
#include "inlay/check.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "operators/recurrent/recurrent.h"
#include "operators/args.h"
#include <math.h>
#include <stdlib.h>
#include <strings.h>

/* Names of activations, and the defaults of alpha and beta (ONNX RNN-7). */
static const struct activation_row {
    const char *name;
    bool has_alpha, has_beta;
    double alpha, beta;
} activation_rows[ACT_COUNT] = {
    [ACT_TANH] = { "Tanh", false, false, 0, 0 },
    [ACT_SIGMOID] = { "Sigmoid", false, false, 0, 0 },
    [ACT_RELU] = { "Relu", false, false, 0, 0 },
    [ACT_AFFINE] = { "Affine", true, true, 1, 0 },
    [ACT_LEAKY_RELU] = { "LeakyRelu", true, false, 0.01, 0 },
    [ACT_THRESHOLDED_RELU] = { "ThresholdedRelu", true, false, 1, 0 },
    [ACT_SCALED_TANH] = { "ScaledTanh", true, true, 1, 1 },
    [ACT_HARD_SIGMOID] = { "HardSigmoid", true, true, 0.2, 0.5 },
    [ACT_ELU] = { "Elu", true, false, 1, 0 },
    [ACT_SOFTSIGN] = { "Softsign", false, false, 0, 0 },
    [ACT_SOFTPLUS] = { "Softplus", false, false, 0, 0 },
};

static const struct cell_kind {
    const char *name;
    uint32_t gates;
    uint32_t functions;
    uint32_t defaults[3];
} cell_kinds[] = {
    [CELL_RNN] = { "RNN", 1, 1, { ACT_TANH, 0, 0 } },
    [CELL_GRU] = { "GRU", 3, 2, { ACT_SIGMOID, ACT_TANH, 0 } },
    [CELL_LSTM] = { "LSTM", 4, 3, { ACT_SIGMOID, ACT_TANH, ACT_TANH } },
};

static void release(void *state)
{
    recurrent_state *layer = state;

    if (layer != NULL)
        kit_pack_free(&layer->pack);
    free(layer);
}

static inlay_status find_activation(inlay_str name, uint32_t *out, inlay_diag *diag)
{
    for (uint32_t i = 0; i < ACT_COUNT; i++)
        if (strlen(activation_rows[i].name) == name.bytes &&
            strncasecmp(activation_rows[i].name, name.data, name.bytes) == 0) {
            *out = i;
            return INLAY_OK;
        }
    return inlay_fail(diag, INLAY_INVALID_MODEL, "unknown activation '%.*s'", (int)(name.bytes < 64 ? name.bytes : 64),
                      name.data);
}

/* Returns the next parameter of an activation, or its default. Only functions that have the parameter consume an
 * element of the list, in the order of the functions, as the operator's documentation says and ONNX Runtime does. */
static double parameter(const inlay_attr_info *list, bool takes, uint32_t *next, double otherwise)
{
    return list != NULL && takes && *next < list->count ? (double)list->floats[(*next)++] : otherwise;
}

static inlay_status read_activations(const kit_node *node, recurrent_state *state, inlay_diag *diag)
{
    const inlay_attr_info *names = kit_attr(node->info, "activations");
    const inlay_attr_info *alphas = kit_attr(node->info, "activation_alpha"),
                          *betas = kit_attr(node->info, "activation_beta");
    uint32_t directions = state->direction == 2 ? 2 : 1, total = directions * state->functions, next_alpha = 0,
             next_beta = 0;

    if (names != NULL && (names->kind != INLAY_ATTR_STRINGS || names->count == 0))
        names = NULL;
    if (names != NULL && names->count < total)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "activations names %u functions; %u are needed", names->count,
                          total);
    if (alphas != NULL && alphas->kind != INLAY_ATTR_FLOATS)
        alphas = NULL;
    if (betas != NULL && betas->kind != INLAY_ATTR_FLOATS)
        betas = NULL;
    for (uint32_t i = 0; i < total; i++) {
        uint32_t kind = cell_kinds[state->cell].defaults[i % state->functions];
        const struct activation_row *row;
        inlay_status status = names != NULL ? find_activation(names->strings[i], &kind, diag) : INLAY_OK;
        if (status != INLAY_OK)
            return status;
        row = &activation_rows[kind];
        state->activation[i] = (struct activation){ kind, parameter(alphas, row->has_alpha, &next_alpha, row->alpha),
                                                    parameter(betas, row->has_beta, &next_beta, row->beta) };
    }
    return INLAY_OK;
}

inlay_status recurrent_read_attributes(const kit_node *node, recurrent_state *state, inlay_diag *diag)
{
    const char *direction = kit_attr_string(node->info, "direction", "forward");

    for (uint32_t i = 0; i < KIT_COUNT(cell_kinds); i++)
        if (strcmp(kit_op_type(node), cell_kinds[i].name) == 0)
            state->cell = i;
    state->gates = cell_kinds[state->cell].gates;
    state->functions = cell_kinds[state->cell].functions;
    /* GRU-1's default is misspelt "foward". */
    if (strcmp(direction, "reverse") == 0)
        state->direction = 1;
    else if (strcmp(direction, "bidirectional") == 0)
        state->direction = 2;
    else if (strcmp(direction, "forward") != 0 && strcmp(direction, "foward") != 0)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "direction is '%s'; use forward, reverse or bidirectional",
                          direction);
    state->clip = kit_attr_float(node->info, "clip", 0);
    state->has_clip = kit_attr(node->info, "clip") != NULL && state->clip > 0;
    state->input_forget = kit_attr_int(node->info, "input_forget", 0) != 0;
    state->linear_before_reset = kit_attr_int(node->info, "linear_before_reset", 0) != 0;
    state->layout = kit_attr_int(node->info, "layout", 0);
    return read_activations(node, state, diag);
}

static bool is_plain(const recurrent_state *state)
{
    for (uint32_t i = 0; i < (state->direction == 2 ? 2 : 1) * state->functions; i++)
        if (state->activation[i].kind != cell_kinds[state->cell].defaults[i % state->functions])
            return false;
    return !(state->cell == CELL_LSTM && state->input_forget);
}

static bool reserve(uint64_t *at, uint64_t *total, uint64_t count, uint64_t bytes)
{
    uint64_t all;

    *at = *total;
    return !__builtin_mul_overflow(count, bytes, &all) && all < UINT64_MAX / 4 &&
           !__builtin_add_overflow(*total, (all + 63) & ~UINT64_C(63), total) && *total < UINT64_MAX / 4;
}

bool recurrent_compute_layout(const recurrent_state *state, int64_t inputs, int64_t hidden, recurrent_layout *out)
{
    const bool two = state->cell == CELL_GRU && !state->linear_before_reset;
    const uint64_t element = state->wide ? sizeof(double) : sizeof(float);

    *out = (recurrent_layout){
        .panels = { .depth = inputs, .columns = hidden, .gates = state->gates, .wide = state->wide },
        .r = { .depth = hidden, .columns = hidden, .gates = two ? 2 : state->gates, .wide = state->wide },
        .candidate = { .depth = hidden, .columns = hidden, .gates = 1, .wide = state->wide },
    };
    return panels_describe(&out->panels) && panels_describe(&out->r) && panels_describe(&out->candidate) &&
           reserve(&out->w_at, &out->bytes, 1, out->panels.bytes) &&
           reserve(&out->r_at, &out->bytes, 1, out->r.bytes) &&
           reserve(&out->candidate_at, &out->bytes, two, out->candidate.bytes) &&
           reserve(&out->bias_at, &out->bytes, (uint64_t)out->panels.stored, element) &&
           reserve(&out->bias_r_at, &out->bytes, (uint64_t)out->r.stored, element) &&
           reserve(&out->peephole_at, &out->bytes, 3 * (uint64_t)out->candidate.stored, element);
}

recurrent_weights recurrent_weights_at(const recurrent_layout *layout, void *room)
{
    char *at = room;

    return (recurrent_weights){ .weights = at + layout->w_at,
                                .r = at + layout->r_at,
                                .candidate = at + layout->candidate_at,
                                .bias = at + layout->bias_at,
                                .bias_r = at + layout->bias_r_at,
                                .peephole = at + layout->peephole_at };
}

void recurrent_pack_matrix(const recurrent_state *state, const recurrent_layout *layout, const kit_tensor *tensor,
                           uint32_t input, int64_t d, void *to)
{
    const int64_t hidden = layout->r.depth, depth = input == IN_W ? layout->panels.depth : hidden;
    const struct panels *panels = input == IN_W ? &layout->panels : &layout->r;
    panels_source from = { .dtype = tensor->dtype, .line_stride = depth, .k_stride = 1 };

    INLAY_CHECK(input == IN_W || input == IN_R);
    from.data = (const char *)tensor->data + kit_bytes(tensor->dtype, d * state->gates * hidden * depth);
    panels_pack(panels, &from, 0, panels->count, to);
    if (input != IN_R || state->cell != CELL_GRU || state->linear_before_reset)
        return;
    from.data = (const char *)from.data + kit_bytes(tensor->dtype, 2 * hidden * hidden);
    panels_pack(&layout->candidate, &from, 0, layout->candidate.count,
                (char *)to + (layout->candidate_at - layout->r_at));
}

void recurrent_pack_vectors(const recurrent_state *state, const recurrent_layout *layout, const kit_tensor *b,
                            const kit_tensor *p, int64_t d, const recurrent_weights *to)
{
    const int64_t hidden = layout->r.depth, rows = state->gates * hidden;
    const size_t element = state->wide ? sizeof(double) : sizeof(float);

    /* B contains Wb, then Rb. With linear_before_reset, Rb is added to H * R' before the reset, so it cannot be part of
     * the bias of the input projection. */
    memset(to->bias, 0, (size_t)layout->panels.stored * element);
    memset(to->bias_r, 0, (size_t)layout->r.stored * element);
    if (b->data != NULL) {
        panels_add_vector(&layout->panels, b->data, b->dtype, d * 2 * rows, to->bias);
        panels_add_vector(&layout->panels, b->data, b->dtype, d * 2 * rows + rows,
                          state->cell == CELL_GRU && state->linear_before_reset ? to->bias_r : to->bias);
    }
    memset(to->peephole, 0, 3 * (size_t)layout->candidate.stored * element);
    for (int64_t i = 0; i < 3 && p->data != NULL; i++)
        panels_add_vector(&layout->candidate, p->data, p->dtype, (3 * d + i) * hidden,
                          (char *)to->peephole + (size_t)(i * layout->candidate.stored) * element);
}

void recurrent_pack(const recurrent_state *state, const recurrent_layout *layout, const kit_tensor *w,
                    const kit_tensor *r, const kit_tensor *b, const kit_tensor *p, int64_t d,
                    const recurrent_weights *to)
{
    recurrent_pack_matrix(state, layout, w, IN_W, d, to->weights);
    recurrent_pack_matrix(state, layout, r, IN_R, d, to->r);
    recurrent_pack_vectors(state, layout, b, p, d, to);
}

uint64_t recurrent_panel_bytes(const recurrent_layout *layout, uint32_t input)
{
    return input == IN_W ? layout->r_at - layout->w_at : layout->bias_at - layout->r_at;
}

bool recurrent_read_cell(const char *op_type, bool linear_before_reset, recurrent_state *out)
{
    *out = (recurrent_state){ .linear_before_reset = linear_before_reset };
    for (uint32_t i = 0; i < KIT_COUNT(cell_kinds); i++)
        if (strcmp(op_type, cell_kinds[i].name) == 0) {
            out->cell = i;
            out->gates = cell_kinds[i].gates;
            return true;
        }
    return false;
}

/* Whether the input is a constant of `count` elements, or omitted. */
static bool is_known(const kit_node *node, uint32_t input, int64_t count)
{
    const inlay_value_info *value = kit_input(node, input);

    if (value == NULL)
        return true;
    return kit_is_constant(node, input) && value->data_bytes == kit_bytes(value->dtype, count);
}

static void view_constant(const kit_node *node, uint32_t input, kit_tensor *out)
{
    *out = (kit_tensor){ .dtype = kit_input_dtype(node, input) };
    if (kit_input(node, input) != NULL)
        out->data = (void *)(uintptr_t)kit_constant_unaligned(node, input);
}

/* Takes memory for the weights of all directions from the host's cache; the key includes everything that determines
 * their contents. */
static inlay_status take_pack(const kit_node *node, recurrent_state *state, const recurrent_layout *layout,
                              int64_t hidden, int64_t inputs, uint64_t bytes, inlay_diag *diag)
{
    enum { FORMAT = 1 };
    uint64_t key[16] = {
        FORMAT,      state->cell,      state->gates,     state->direction == 2, state->linear_before_reset,
        state->wide, (uint64_t)hidden, (uint64_t)inputs, layout->bytes,         PANEL_BLOCK_BYTES
    };
    const uint32_t of[] = { IN_W, IN_R, IN_B, IN_P };
    bool named = true;

    for (uint32_t i = 0; i < KIT_COUNT(of); i++) {
        const inlay_value_info *value = kit_input(node, of[i]);

        key[10 + i] = value != NULL ? value->content_hash : 0;
        named = named && (value == NULL || value->content_hash != 0);
    }
    key[14] = kit_input_dtype(node, IN_W);
    return kit_pack_take(node, key, named ? sizeof key : 0, bytes, &state->pack, diag);
}

/* Packs the weights if all of them are constants of the right sizes. */
static inlay_status pack_constants(const kit_node *node, recurrent_state *state, inlay_diag *diag)
{
    static const uint32_t dropped[] = { IN_W, IN_R, IN_B, IN_P };
    const inlay_value_info *weights = kit_input(node, IN_W), *info = kit_input(node, IN_R);
    const int64_t directions = state->direction == 2 ? 2 : 1;
    int64_t hidden, inputs, all = directions * state->gates;
    recurrent_layout layout;
    kit_tensor tensor[4];
    inlay_status status = INLAY_OK;

    if (!kit_is_constant(node, IN_W) || !kit_is_constant(node, IN_R) || weights->rank != 3 || info->rank != 3)
        return INLAY_OK;
    inputs = weights->dims[2].value;
    hidden = info->dims[2].value;
    if (hidden <= 0 || inputs <= 0 || weights->dims[0].value != directions || info->dims[0].value != directions ||
        weights->dims[1].value % state->gates != 0 || weights->dims[1].value / state->gates != hidden ||
        info->dims[1].value != weights->dims[1].value || __builtin_mul_overflow(all, 2 * hidden, &all) ||
        !is_known(node, IN_B, all) || !is_known(node, IN_P, directions * 3 * hidden) ||
        !recurrent_compute_layout(state, inputs, hidden, &layout) || layout.bytes > SIZE_MAX / 4)
        return INLAY_OK; /* shape() reports the error */
    for (uint32_t i = 0; i < KIT_COUNT(dropped); i++)
        view_constant(node, dropped[i], &tensor[i]);
    status = take_pack(node, state, &layout, hidden, inputs, (uint64_t)directions * layout.bytes, diag);
    if (status != INLAY_OK)
        return status;
    for (int64_t d = 0; d < directions; d++) {
        state->constant[d] = recurrent_weights_at(&layout, (char *)state->pack.data + (size_t)d * layout.bytes);
        if (!state->pack.filled)
            recurrent_pack(state, &layout, &tensor[0], &tensor[1], &tensor[2], &tensor[3], d, &state->constant[d]);
    }
    kit_pack_keep(node, &state->pack);
    for (uint32_t i = 0; i < KIT_COUNT(dropped); i++) {
        kit_release_constant(node, dropped[i]);
        kit_drop_constant(node, dropped[i]);
    }
    return INLAY_OK;
}

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    recurrent_state *state = NULL;
    inlay_status status;

    INLAY_TRY(arg_allocate_state(sizeof *state, (void **)&state, diag));
    state->wide = kit_input_dtype(node, IN_X) == INLAY_DOUBLE;
    state->product = panels_product(state->wide);
    INLAY_TRY(recurrent_read_attributes(node, state, diag));
    state->plain = is_plain(state);
    state->rates = panels_rates_here(node->host);
    INLAY_TRY(pack_constants(node, state, diag));
    *out_state = state;
    state = NULL;
done:
    release(state);
    return status;
}

static inlay_status check_shapes(const recurrent_state *state, const kit_plan *plan, recurrent_plan *layer,
                                 inlay_diag *diag)
{
    const kit_tensor *x = &plan->in[IN_X], *weights = &plan->in[IN_W], *recurrent_weights_tensor = &plan->in[IN_R];
    int64_t want;

    if (x->rank != 3 || weights->rank != 3 || recurrent_weights_tensor->rank != 3)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "X, W and R have ranks %u, %u and %u; each must be 3", x->rank,
                          weights->rank, recurrent_weights_tensor->rank);
    layer->directions = state->direction == 2 ? 2 : 1;
    layer->steps = x->dims[state->layout != 0 ? 1 : 0];
    layer->batch = x->dims[state->layout != 0 ? 0 : 1];
    layer->inputs = x->dims[2];
    layer->hidden = recurrent_weights_tensor->dims[2];
    if (layer->hidden > INT32_MAX || weights->dims[0] != layer->directions ||
        recurrent_weights_tensor->dims[0] != layer->directions || weights->dims[1] != state->gates * layer->hidden ||
        recurrent_weights_tensor->dims[1] != state->gates * layer->hidden || weights->dims[2] != layer->inputs)
        return inlay_fail(
            diag, INLAY_SHAPE_MISMATCH,
            "W is [%lld, %lld, %lld] and R [%lld, %lld, %lld]: they do not match %lld directions, %u gates and an "
            "input of %lld",
            (long long)weights->dims[0], (long long)weights->dims[1], (long long)weights->dims[2],
            (long long)recurrent_weights_tensor->dims[0], (long long)recurrent_weights_tensor->dims[1],
            (long long)recurrent_weights_tensor->dims[2], (long long)layer->directions, state->gates,
            (long long)layer->inputs);
    const struct {
        uint32_t input;
        const char *name;
        int64_t count;
    } rows[] = {
        { IN_B, "B", layer->directions * 2 * state->gates * layer->hidden },
        { IN_LENGTHS, "sequence_lens", layer->batch },
        { IN_H, "initial_h", layer->directions * layer->batch * layer->hidden },
        { IN_C, "initial_c", layer->directions * layer->batch * layer->hidden },
        { IN_P, "P", layer->directions * 3 * layer->hidden },
    };
    for (uint32_t i = 0; i < KIT_COUNT(rows); i++)
        if (rows[i].input < plan->in_count && plan->in[rows[i].input].dtype != INLAY_UNDEFINED &&
            plan->in[rows[i].input].count != rows[i].count)
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "%s has %lld elements, not %lld", rows[i].name,
                              (long long)plan->in[rows[i].input].count, (long long)rows[i].count);
    for (uint32_t o = 0; o < plan->out_count; o++) {
        want = layer->directions * layer->batch * layer->hidden * (o == OUT_Y ? layer->steps : 1);
        if (plan->out[o].dtype != INLAY_UNDEFINED && plan->out[o].count != want)
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "output %u has %lld elements, not %lld", o,
                              (long long)plan->out[o].count, (long long)want);
    }
    return INLAY_OK;
}

/* Starting a loop on spinning threads, ending it and fetching data that another core wrote take 0.4 to 0.7 us on two
 * cores of a Zen 4 that share a cache, and 1.5 to 3 us on two that do not, as virtual machines assign them at times; a
 * sleeping team takes tens of microseconds. So threads must save a fifth of the time, and several microseconds. */
#define TEAM_NS 1000.0
/* The functions of a gate of a unit, on the reference core: long chains of multiply-adds and a division. */
#define PLAIN_NS 0.45
#define OTHER_NS 1.2
#define WORTH_NS 3000.0
#define WORTH_SHARE 0.2
enum { CHUNK_ROWS = 96 }; /* rows of input that stay in the second-level cache while W is read */

/* The threads that share the panels of both directions, on average. */
static double sharers(const struct panels *panels, const recurrent_plan *plan, uint32_t threads)
{
    const double count = (double)panels->count * (double)plan->directions;

    return threads <= 1 || count < 2 ? 1 : count / ceil(count / threads);
}

/* The estimated nanoseconds of one direction of `rows` samples, if `threads` threads share the panels. */
static double unit_ns(const recurrent_state *state, const recurrent_plan *plan, int64_t rows, uint32_t threads)
{
    const recurrent_layout *layout = &plan->weights;
    const panels_rates *rates = &state->rates;
    const bool two = state->cell == CELL_GRU && !state->linear_before_reset;
    /* Bytes that are read again in each step. */
    const uint64_t again = layout->r.bytes + (two ? layout->candidate.bytes : 0);
    const uint64_t resident = plan->steps > 4 ? again : again + layout->panels.bytes;
    const double all = (double)plan->steps * (double)rows, by_gates = sharers(&layout->r, plan, threads);
    const double projection =
        all >= CHUNK_ROWS
            ? panels_ns(&layout->panels, CHUNK_ROWS, again + layout->panels.bytes, rates) * all / CHUNK_ROWS
            : panels_ns(&layout->panels, (int64_t)all, again + layout->panels.bytes, rates);
    double step = panels_ns(&layout->r, rows, resident, rates) / by_gates;

    if (two)
        step += panels_ns(&layout->candidate, rows, resident, rates) / sharers(&layout->candidate, plan, threads);
    step += (double)rows * (double)layout->panels.stored * (state->plain ? PLAIN_NS : OTHER_NS) / rates->pace *
            (state->wide ? 10 : 1) / by_gates;
    step += 30 + 20 * (double)rows;
    return projection / sharers(&layout->panels, plan, threads) + step * (double)plan->steps;
}

/* Divides the work: one thread does everything, or threads share directions, or also samples, or the panels of each
 * step. */
static void partition_work(const recurrent_state *state, recurrent_plan *plan, uint32_t threads)
{
    const bool two = state->cell == CELL_GRU && !state->linear_before_reset;
    const double whole = unit_ns(state, plan, plan->batch, 1) * (double)plan->directions;
    int64_t most = threads / (plan->directions > 0 ? plan->directions : 1);

    plan->weights.panels.lone = plan->weights.r.lone = plan->weights.candidate.lone = plan->batch == 1;
    plan->calling_thread_only = true;
    plan->units = 1;
    plan->rows = plan->batch;
    plan->ns = whole;
    most = most < 1 ? 1 : most < plan->batch ? most : plan->batch;
    for (int64_t i = 0; i < 2 && threads > 1; i++) { /* first divides by directions only, then also by samples */
        const int64_t rows = i == 0 || most == 0 ? plan->batch : plan->batch / most + (plan->batch % most != 0);
        const int64_t units = rows > 0 ? plan->batch / rows + (plan->batch % rows != 0) : 1,
                      all = units * plan->directions;
        const double ns = unit_ns(state, plan, rows, 1) * (double)(all / threads + (all % threads != 0)) + TEAM_NS;

        if (all > 1 && ns + WORTH_NS < whole && ns < plan->ns) {
            plan->calling_thread_only = false;
            plan->units = units;
            plan->rows = rows;
            plan->ns = ns;
        }
    }
    if (threads > 1) {
        const double teams =
            (double)plan->steps * (two ? 2 : 1) + (double)plan->steps * (double)plan->batch / CHUNK_ROWS + 1;
        const double ns = unit_ns(state, plan, plan->batch, threads) * (double)plan->directions + teams * TEAM_NS;

        plan->shared = ns + fmax(WORTH_NS, WORTH_SHARE * whole) < whole && ns < plan->ns;
        plan->ns = plan->shared ? ns : plan->ns;
    }
    if (plan->shared) {
        plan->calling_thread_only = false;
        plan->units = 1;
        plan->rows = plan->batch;
    }
    plan->chunk_rows = plan->steps > 0 && plan->rows > INT64_MAX / plan->steps ? INT64_MAX : plan->rows * plan->steps;
    if (plan->chunk_rows > CHUNK_ROWS)
        plan->chunk_rows = plan->rows > CHUNK_ROWS ? plan->rows : CHUNK_ROWS;
}

static bool layout_unit_memory(const recurrent_state *settings, const kit_plan *plan, recurrent_plan *layer)
{
    const uint64_t element = settings->wide ? sizeof(double) : sizeof(float), pointer = sizeof(void *);
    const uint64_t rows = (uint64_t)layer->rows, chunk_rows = (uint64_t)layer->chunk_rows;
    const uint64_t state = (uint64_t)layer->weights.candidate.stored * element;
    const bool converts = inlay_dtype_bits(plan->in[IN_X].dtype) != 8 * element;
    uint64_t *total = &layer->unit_bytes, input;

    return !__builtin_mul_overflow((uint64_t)layer->inputs, converts ? element : 0, &input) &&
           reserve(&layer->at.x, total, chunk_rows, pointer) &&
           reserve(&layer->at.projected_rows, total, chunk_rows, pointer) &&
           reserve(&layer->at.old, total, rows, pointer) && reserve(&layer->at.new, total, rows, pointer) &&
           reserve(&layer->at.gates_rows, total, rows, pointer) &&
           reserve(&layer->at.reset_rows, total, rows, 2 * pointer) &&
           reserve(&layer->at.h_rows, total, rows, pointer) &&
           reserve(&layer->at.order, total, rows, sizeof(int64_t)) &&
           reserve(&layer->at.projected, total, chunk_rows, (uint64_t)layer->weights.panels.stored * element) &&
           reserve(&layer->at.gates, total, rows, (uint64_t)layer->weights.r.stored * element) &&
           reserve(&layer->at.candidate, total, rows, state) && reserve(&layer->at.h, total, rows, 2 * state) &&
           reserve(&layer->at.c, total, rows, state) && reserve(&layer->at.reset, total, rows, state) &&
           reserve(&layer->at.input, total, chunk_rows, input) && reserve(&layer->at.zeros, total, 1, state);
}

static inlay_status shape(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const recurrent_state *settings = state;
    recurrent_plan *layer = calloc(1, sizeof *layer);
    uint64_t weights, rooms;
    inlay_status status;

    plan->plan = layer;
    if (layer == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the plan of a recurrent layer");
    INLAY_TRY(check_shapes(settings, plan, layer, diag));
    if (!recurrent_compute_layout(settings, layer->inputs, layer->hidden, &layer->weights))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the weights of this recurrent layer are too large");
    layer->weights_bytes = settings->pack.data == NULL ? layer->weights.bytes : 0;
    partition_work(settings, layer, plan->max_threads);
    if (!layout_unit_memory(settings, plan, layer) ||
        __builtin_mul_overflow(layer->weights_bytes, (uint64_t)layer->directions, &weights) ||
        __builtin_mul_overflow(layer->unit_bytes, (uint64_t)(layer->directions * layer->units), &rooms) ||
        __builtin_add_overflow(weights, rooms, &plan->workspace_bytes))
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "this recurrent layer is too large");
done:
    return status;
}

#define CALL_NS 60.0

static void cost(const kit_node *node, const kit_plan *shapes, inlay_cost *out)
{
    const kit_tensor *input = &shapes->in[IN_X], *weights = &shapes->in[IN_W], *tensor = &shapes->in[IN_R];
    recurrent_state state = { .plain = true,
                              .wide = input->dtype == INLAY_DOUBLE,
                              .rates = panels_rates_here(node->host) };
    recurrent_plan plan = { .directions = 1 };

    if (input->rank != 3 || weights->rank != 3 || tensor->rank != 3 || input->count < 0 || weights->count < 0 ||
        tensor->count < 0 || recurrent_read_attributes(node, &state, NULL) != INLAY_OK)
        return;
    plan.steps = input->dims[state.layout != 0 ? 1 : 0];
    plan.batch = input->dims[state.layout != 0 ? 0 : 1];
    plan.directions = weights->dims[0];
    if (!recurrent_compute_layout(&state, weights->dims[2], tensor->dims[2], &plan.weights))
        return;
    partition_work(&state, &plan, shapes->max_threads);
    out->flops = 2 * (double)plan.steps * (double)plan.batch * ((double)weights->count + (double)tensor->count);
    out->bytes_read = /* R stays in the cache between steps */
        kit_bytes(input->dtype, input->count + weights->count) + kit_bytes(tensor->dtype, tensor->count);
    out->bytes_written = 0;
    for (uint32_t i = 0; i < shapes->out_count; i++)
        if (shapes->out[i].count > 0 && shapes->out[i].dtype != INLAY_UNDEFINED)
            out->bytes_written += kit_bytes(shapes->out[i].dtype, shapes->out[i].count);
    out->ns = CALL_NS + plan.ns;
    if (!kit_is_constant(node, IN_W) || !kit_is_constant(node, IN_R))
        out->ns += 0.5 * ((double)weights->count + (double)tensor->count);
    if (INLAY_HAS(out, local_ns))
        out->local_ns = out->ns;
    out->confidence = INLAY_CONFIDENCE_MODEL;
}

const kit_kernel recurrent_kernels[RECURRENT_KERNELS] = {
#define CELL(name)                                                                                                     \
    {                                                                                                                  \
        .op_type = name, .since_max = 22, .prepare = prepare, .release = release, .shape = shape,                      \
        .run = recurrent_run, .cost = cost                                                                             \
    }
    CELL("LSTM"), CELL("GRU"), CELL("RNN")
#undef CELL
};
