/* MoE and QMoE of com.microsoft: mixtures of experts with constant weights (weights/experts.h).
 *
 * Each row of the input selects k experts. The pairs of a row and an expert are sorted by expert, so that an expert's
 * weights are read once for all its rows. n-bit weights stay packed, and are multiplied as those of MatMulNBits
 * (nbits_rows.h). Activations are applied to a block of the first layer's results while it is in the cache. */
#include "cpu/choice/kernels.h"
#include "inlay/check.h"
#include "inlay/extensions.h"
#include "cpu/product/experts_run.h"
#include "cpu/weights/packs.h"
#include "cpu/weights/read.h"

static void set_posts(const cpu_op *op, struct experts *experts)
{
    static const sgemm_fn functions[] = { [EXPERTS_RELU] = SGEMM_RELU,
                                          [EXPERTS_GELU] = SGEMM_GELU_TANH,
                                          [EXPERTS_SILU] = SGEMM_SWISH,
                                          [EXPERTS_SWIGLU] = SGEMM_SWISH };
    const float limit = op->experts.limit;
    const bool has_limit = op->experts.activation == EXPERTS_SWIGLU && limit < INFINITY;

    if (op->experts.activation == EXPERTS_IDENTITY)
        return;
    if (has_limit)
        experts->posts.list[experts->posts.count++] =
            (sgemm_post){ .fn = SGEMM_CLIP, .alpha = -INFINITY, .beta = limit };
    experts->posts.list[experts->posts.count++] =
        (sgemm_post){ .fn = functions[op->experts.activation],
                      .alpha = op->experts.activation == EXPERTS_RELU     ? 0
                               : op->experts.activation == EXPERTS_SWIGLU ? op->alpha
                                                                          : 1 };
    if (op->experts.activation != EXPERTS_SWIGLU)
        return;
    if (!op->experts.gated && op->experts.fusion == 0) {
        experts->posts.list[experts->posts.count++] =
            (sgemm_post){ .fn = SGEMM_LINEAR, .alpha = fminf(1, limit) + op->beta };
        return;
    }
    if (has_limit)
        experts->posts.gate[experts->posts.gate_count++] =
            (sgemm_post){ .fn = SGEMM_CLIP, .alpha = -limit, .beta = limit };
    experts->posts.gate[experts->posts.gate_count++] = (sgemm_post){ .fn = SGEMM_LINEAR, .alpha = 1, .beta = op->beta };
}

static void plan_part(const cpu_build *build, const experts_layer *layer, nbits_mode mode, struct experts_part *part)
{
    const cpu_nbits *nbits = &layer->nbits;

    part->on = true;
    part->rows = layer->rows;
    part->columns = layer->columns;
    part->chain = sgemm_chain(layer->columns, build->state->strict);
    part->halves = nbits->bits == 0 && layer->columns % SGEMM_LANES == 0 ? cpu_halves_of(build, layer->weights) : NULL;
    if (nbits->bits == 0)
        return;
    (void)nbits_weights_shape(nbits, layer->rows, &part->bits.shape);
    part->bits.kernel = build->state->nbits;
    part->bits.mode = mode;
    part->bits.zero = nbits->all;
    part->bits.has_zeros = nbits->zero != INLAY_NONE;
    part->bits.alone = build->state->reproducible;
    part->bits.spreads = nbits_depth(&part->bits.shape) != nbits->k;
    part->bits.blocks = mode != NBITS_EXACT && part->bits.kernel->many > 0;
}

/* The bits of weights for which a row is prepared. */
static uint32_t row_bits(const nbits_shape *shape)
{
    return shape->table != NULL ? 8 : shape->bits;
}

/* Assigns the scratch memory. */
static inlay_status take_scratch(cpu_build *build, struct experts *experts, cpu_place *scratch)
{
    const uint64_t rows = (uint64_t)experts_most_rows(experts), pairs = rows * (uint64_t)experts->k;
    const uint64_t count = (uint64_t)experts->count, hidden = (uint64_t)experts->hidden;
    struct experts_part *first = &experts->parts[EXPERTS_FIRST], *second = &experts->parts[EXPERTS_SECOND],
                        *gate = &experts->parts[EXPERTS_GATE];
    const uint64_t deep = (uint64_t)(first->columns > second->columns ? first->columns : second->columns);
    uint64_t bytes = 64, panel = deep * EXPERTS_WIDTH * sizeof(float);
    tensor_layout layout;
    int64_t all;

    experts->at.scores = packs_reserve(&bytes, rows * (uint64_t)experts_score_row(experts) * sizeof(float));
    experts->at.factors = packs_reserve(&bytes, rows * sizeof(float));
    experts->at.taken = packs_reserve(&bytes, count);
    experts->at.chosen = packs_reserve(&bytes, pairs * sizeof(expert_pair));
    experts->at.begins = packs_reserve(&bytes, (2 * count + 1) * sizeof(int64_t));
    experts->at.places = packs_reserve(&bytes, experts->selects ? count * EXPERTS_MOST_DATA * sizeof(void *) : 0);
    experts->at.input = experts->at.output = packs_reserve(&bytes, pairs * hidden * sizeof(float));
    experts->at.between = packs_reserve(&bytes, pairs * (uint64_t)experts->inner * sizeof(float));
    if (experts->coded) {
        nbits_reserve(&first->bits, pairs, 0, &bytes);
        nbits_reserve(&second->bits, pairs, 0, &bytes);
        experts->shares_rows = experts->gated && row_bits(&gate->bits.shape) == row_bits(&first->bits.shape) &&
                               gate->bits.has_zeros == first->bits.has_zeros &&
                               (gate->bits.has_zeros || gate->bits.zero == first->bits.zero);
        if (experts->shares_rows) {
            const nbits_shape own = gate->bits.shape; /* may have another table, or joint factors */

            gate->bits = first->bits;
            gate->bits.shape = own;
        } else if (experts->gated)
            nbits_reserve(&gate->bits, pairs, 0, &bytes);
        panel = first->bits.blocks && first->bits.panel_bytes > panel ? first->bits.panel_bytes : panel;
    }
    experts->work_bytes = (2 * rows * EXPERTS_WIDTH * sizeof(float) + panel + 63) / 64 * 64;
    experts->at.work = packs_reserve(&bytes, experts->work_bytes * experts->workers);
    all = (int64_t)bytes;
    layout_plain(&layout, 1, &all);
    layout.type = ELEMENT_UINT8;
    return cpu_new_place(build, &layout, scratch);
}

typedef struct operand_list {
    cpu_place own[4 * EXPERTS_LAYERS + 5];
    const cpu_place *list[4 * EXPERTS_LAYERS + 5];
    uint32_t count;
} operand_list;

/* The next argument of the step. */
static cpu_place *next_place(operand_list *places, uint32_t *out_arg)
{
    INLAY_CHECK(places->count < KIT_COUNT(places->own));
    *out_arg = places->count;
    places->list[places->count] = &places->own[places->count];
    return &places->own[places->count++];
}

/* Does the host read parts of constants? */
static bool reads_parts(const cpu_state *state)
{
    return state->packs != NULL && INLAY_HAS(state->packs, done) && state->packs->divide != NULL;
}

/* Divides the constant into parts, one for each expert: a run reads only those of the selected experts. */
static void divide(const cpu_build *build, const cpu_place *place)
{
    const cpu_buffer *buffer = &build->instance->buffers[place->buffer];

    if (build->compiled->compiling != NULL && reads_parts(build->state) && buffer->kind == CPU_CONST)
        build->state->packs->divide(build->state->host->ctx, build->compiled->compiling, buffer->data, buffer->bytes,
                                    (uint32_t)build->op->experts.count);
}

static inlay_status read_layer(cpu_build *build, const experts_layer *layer, struct experts_part *part,
                               operand_list *places)
{
    cpu_place *weights = next_place(places, &part->weights_arg);
    inlay_status status = INLAY_OK;

    part->scales_arg = part->zeros_arg = part->bias_arg = INLAY_NONE;
    if (layer->nbits.bits == 0 && part->halves != NULL) {
        INLAY_TRY(cpu_read_halves(build, layer->weights, weights));
    } else if (layer->nbits.bits == 0) {
        INLAY_TRY(cpu_read_unaligned(build, layer->weights, weights));
    } else {
        cpu_place zeros, *scales = next_place(places, &part->scales_arg);

        INLAY_TRY(nbits_read(build, &layer->nbits, weights, scales, &zeros));
        divide(build, scales);
        if (zeros.buffer != INLAY_NONE) {
            *next_place(places, &part->zeros_arg) = zeros;
            divide(build, &zeros);
        }
    }
    divide(build, weights);
    if (layer->bias != INLAY_NONE)
        INLAY_TRY(cpu_read_plain(build, layer->bias, next_place(places, &part->bias_arg)));
done:
    return status;
}

static const char *const bounds[] = {
    [NBITS_EXACT] = "activations stay floats",
    [NBITS_BYTE] = "activations of 8 bits: each is off by at most 1/254 of the largest of its 32 neighbours",
    [NBITS_FINE] = "activations of 16 bits: each is off by at most 2^-16 of the largest of its 32 neighbours",
};

static inlay_status lower(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op;
    const int64_t *dims = build->dims[op->in[EXPERTS_INPUT]], rank = build->ranks[op->in[EXPERTS_INPUT]];
    const uint32_t given = op->in_count > EXPERTS_ROUTER_WEIGHTS ? op->in[EXPERTS_ROUTER_WEIGHTS] : INLAY_NONE;
    struct experts experts = { .native.run = experts_run,
                               .kernel = sgemm_kernel_best(),
                               .count = op->experts.count,
                               .k = op->experts.k,
                               .fusion = op->experts.fusion,
                               .coded = op->experts.bits != 0,
                               .gated = op->experts.gated,
                               .normalizes = op->experts.normalizes,
                               .same_kernels = build->state->reproducible,
                               .selects = reads_parts(build->state),
                               .given_arg = INLAY_NONE,
                               .workers = build->instance->threads > 0 ? build->instance->threads : 1 };
    experts_layer layers[EXPERTS_LAYERS];
    operand_list places = { .count = 0 };
    tensor_layout plain;
    inlay_status status = INLAY_OK;
    uint32_t arg;

    for (int layer = 0; layer < EXPERTS_LAYERS; layer++) {
        experts_layer *one = &layers[layer];

        experts_layer_of(build->compiled, op, layer, one);
        if (one->weights != INLAY_NONE && !experts.coded) { /* no constants if another region has their Cast */
            one->rows = build->dims[one->weights][1];
            one->columns = build->dims[one->weights][2];
        }
    }
    if (experts.coded && build->state->nbits == NULL)
        return inlay_fail(build->diag, INLAY_UNSUPPORTED, "node '%s': no kernel for packed weights supports this CPU",
                          op->name);
    experts.hidden = layers[EXPERTS_FIRST].columns;
    experts.inner = layers[EXPERTS_SECOND].columns;
    experts.rows = cpu_count(build, op->in[EXPERTS_INPUT]) / experts.hidden;
    if (dims[rank - 1] != experts.hidden || build->dims[op->in[EXPERTS_PROBABILITIES]][0] != experts.rows ||
        build->dims[op->in[EXPERTS_PROBABILITIES]][1] != experts.count ||
        (given != INLAY_NONE && cpu_count(build, given) != experts.rows * experts.count))
        return inlay_fail(build->diag, INLAY_SHAPE_MISMATCH,
                          "node '%s': rows of %lld elements and their probabilities do not match %lld experts for rows "
                          "of %lld elements",
                          op->name, (long long)dims[rank - 1], (long long)experts.count, (long long)experts.hidden);
    for (int layer = 0; layer < EXPERTS_LAYERS; layer++)
        if (layers[layer].weights != INLAY_NONE)
            plan_part(build, &layers[layer], experts.coded ? nbits_mode_of(build, build->op->size) : NBITS_EXACT,
                      &experts.parts[layer]);
    experts.span =
        experts.coded && experts.parts[EXPERTS_FIRST].bits.blocks ? NBITS_BESIDE * NBITS_COLUMNS : EXPERTS_WIDTH;
    set_posts(op, &experts);
    INLAY_TRY(cpu_read_plain(build, op->in[EXPERTS_INPUT], next_place(&places, &arg)));
    INLAY_TRY(cpu_read_plain(build, op->in[EXPERTS_PROBABILITIES], next_place(&places, &arg)));
    if (given != INLAY_NONE)
        INLAY_TRY(cpu_read_plain(build, given, next_place(&places, &experts.given_arg)));
    for (int layer = 0; layer < EXPERTS_LAYERS; layer++)
        if (experts.parts[layer].on)
            INLAY_TRY(read_layer(build, &layers[layer], &experts.parts[layer], &places));
    INLAY_TRY(take_scratch(build, &experts, next_place(&places, &experts.scratch_arg)));
    layout_plain(&plain, (uint32_t)rank, dims);
    INLAY_TRY(cpu_result_place(build, group->out, &plain, next_place(&places, &experts.output_arg)));
    INLAY_TRY(cpu_emit_step(build, &experts.native, sizeof experts, places.list, places.count));
    INLAY_TRY(cpu_set_place(build, group->out, &places.own[experts.output_arg]));
    if (experts.coded)
        status = kernel_remember(
            build,
            &(kernel_choice){ .op = group->op,
                              .count = 1,
                              .source = KERNEL_ONLY,
                              .why = bounds[experts.parts[EXPERTS_FIRST].bits.mode],
                              .kernel = { (uint8_t)(KERNEL_BITS_EXACT + experts.parts[EXPERTS_FIRST].bits.mode) } });
done:
    return status;
}

const cpu_family cpu_experts = {
    .kind = CPU_FAMILY_EXPERTS, .name = "mixture of experts", .parse = experts_parse, .lower = lower
};
