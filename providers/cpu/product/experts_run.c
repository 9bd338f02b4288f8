/* Runs a mixture of experts, see lower_experts.c. */
#include "cpu/product/experts_run.h"
#include "inlay/check.h"
#include "inlay/extensions.h"
#include "simd/optional.h"

/* The number of rows of an expert is not known before a run. */
OPTIONAL_BY_DATA("tile_", "cpu_experts");
OPTIONAL_BY_DATA("dots", "cpu_experts");
OPTIONAL_BY_DATA("make_panel", "cpu_experts");
OPTIONAL_BY_DATA("panel_of_", "cpu_experts");

/* A run over a chunk of rows. */
typedef struct experts_call {
    const struct experts *experts;
    void *const *args;
    char *scratch;
    int64_t first, rows;            /* of the input */
    int64_t active_count, *actives; /* experts that a row of the chunk selected: at first all, then a group */
    int64_t *begins;                /* [count + 1] the first pair of each expert */
    expert_pair *chosen;            /* [rows][k] */
    nbits_call bits[EXPERTS_LAYERS];
    const void *data[EXPERTS_MOST_DATA]; /* of all experts: weights, scales, zero points */
    uint32_t data_count;
    uint32_t operands[EXPERTS_LAYERS]; /* index in `data` of the layer's weights */
    const void **places;               /* NULL: all experts are at their places in `data` */
} experts_call;

static float *floats_at(const experts_call *call, uint64_t offset)
{
    return (float *)(void *)(call->scratch + offset);
}

/* Selects the k most probable experts of a row; of equally probable experts, the first. */
static void select_experts(const experts_call *call, int64_t row, const float *probabilities, const float *given)
{
    const struct experts *experts = call->experts;
    const float *scores = floats_at(call, experts->at.scores) + row * experts_score_row(experts);
    const float factor = floats_at(call, experts->at.factors)[row];
    uint8_t *taken = (uint8_t *)call->scratch + experts->at.taken;
    expert_pair *chosen = call->chosen + row * experts->k;
    float sum = 0;

    memset(taken, 0, (size_t)experts->count);
    for (int64_t i = 0; i < experts->k; i++) {
        int64_t best = -1;

        for (int64_t expert = 0; expert < experts->count; expert++)
            if (taken[expert] == 0 && (best < 0 || probabilities[expert] > probabilities[best]))
                best = expert;
        INLAY_CHECK(best >= 0);
        taken[best] = 1;
        chosen[i].expert = best;
        chosen[i].share = given != NULL ? given[best] : scores[best];
        sum += chosen[i].share;
    }
    for (int64_t i = 0; i < experts->k; i++)
        if (experts->normalizes)
            chosen[i].share /= sum;
        else if (given == NULL)
            chosen[i].share *= factor;
}

/* Assigns the rows of the chunk to experts. */
static void route(experts_call *call)
{
    const struct experts *experts = call->experts;
    const int64_t count = experts->count, pairs = call->rows * experts->k;
    const float *probabilities = (const float *)call->args[EXPERTS_PROBABILITIES] + call->first * count;
    const float *given =
        experts->given_arg == INLAY_NONE ? NULL : (const float *)call->args[experts->given_arg] + call->first * count;
    float *scores = floats_at(call, experts->at.scores);

    for (int64_t row = 0; row < call->rows; row++)
        memcpy(scores + row * experts_score_row(experts), probabilities + row * count, (size_t)count * sizeof *scores);
    experts->kernel->softmax(&(sgemm_scores){ .rows = call->rows,
                                              .count = count,
                                              .seen = count,
                                              .input = scores,
                                              .x_row = experts_score_row(experts),
                                              .scale = 1,
                                              .blank = SGEMM_BLANK_NAN,
                                              .factors = floats_at(call, experts->at.factors) });
    memset(call->begins, 0, (size_t)(count + 1) * sizeof *call->begins);
    for (int64_t row = 0; row < call->rows; row++) {
        select_experts(call, row, probabilities + row * count, given == NULL ? NULL : given + row * count);
        for (int64_t i = 0; i < experts->k; i++)
            call->begins[call->chosen[row * experts->k + i].expert + 1]++;
    }
    call->active_count = 0;
    for (int64_t expert = 0; expert < count; expert++) {
        if (call->begins[expert + 1] > 0)
            call->actives[call->active_count++] = expert;
        call->begins[expert + 1] += call->begins[expert];
    }
    INLAY_CHECK(call->begins[count] == pairs);
    for (int64_t i = 0; i < pairs; i++) { /* begins become ends ... */
        expert_pair *one = &call->chosen[i];

        one->pair = call->begins[one->expert]++;
    }
    memmove(call->begins + 1, call->begins, (size_t)count * sizeof *call->begins); /* ... and begins again */
    call->begins[0] = 0;
}

typedef enum way { BY_TILES, BY_BLOCKS, BY_FLOATS } way;

/* The kernel that multiplies this number of rows of an expert. Tiles and blocks give the same results. */
static way way_of(const struct experts *experts, int64_t rows)
{
    const nbits_plan *plan = &experts->parts[EXPERTS_FIRST].bits;

    if (!experts->coded)
        return BY_FLOATS;
    if (plan->mode == NBITS_EXACT)
        return rows >= NBITS_MANY_ROWS && !experts->same_kernels ? BY_FLOATS : BY_TILES;
    if (plan->kernel->many > 0)
        return rows >= plan->kernel->many ? BY_BLOCKS : BY_TILES;
    return plan->mode == NBITS_FINE && rows >= NBITS_FINE_ROWS && !experts->same_kernels ? BY_FLOATS : BY_TILES;
}

static void prepare_row(const experts_call *call, int layer, int64_t expert, int64_t pair)
{
    const int64_t rows = call->begins[expert + 1] - call->begins[expert];
    const way how = way_of(call->experts, rows);
    nbits_call bits = call->bits[layer];

    bits.blocks = how == BY_BLOCKS && bits.plan->kernel->block_rows;
    bits.single = rows == 1;
    if (how != BY_FLOATS)
        nbits_prepare_rows(&bits, pair, pair + 1);
}

static inlay_status prepare_first(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const experts_call *call = user;
    const struct experts *experts = call->experts;
    const float *input = (const float *)call->args[EXPERTS_INPUT] + call->first * experts->hidden;

    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const expert_pair *one = &call->chosen[i];

        memcpy(floats_at(call, experts->at.input) + one->pair * experts->hidden,
               input + i / experts->k * experts->hidden, (size_t)experts->hidden * sizeof *input);
        if (!experts->coded)
            continue;
        prepare_row(call, EXPERTS_FIRST, one->expert, one->pair);
        if (experts->gated && !experts->shares_rows)
            prepare_row(call, EXPERTS_GATE, one->expert, one->pair);
    }
    return INLAY_OK;
}

static inlay_status prepare_second(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const experts_call *call = user;
    const int64_t first = call->actives[0], last = call->actives[call->active_count - 1];

    (void)worker;
    for (int64_t i = begin; i < end; i++)
        if (call->chosen[i].expert >= first && call->chosen[i].expert <= last)
            prepare_row(call, EXPERTS_SECOND, call->chosen[i].expert, call->chosen[i].pair);
    return INLAY_OK;
}

/* The address of an active expert's part of an operand of the layer; bytes: of a part. */
static const void *part_at(const experts_call *call, int layer, uint32_t operand, int64_t active, int64_t bytes)
{
    const uint32_t data = call->operands[layer] + operand;
    const void *place = call->places == NULL ? NULL : call->places[active * call->data_count + data];

    return place != NULL ? place : (const char *)call->data[data] + call->actives[active] * bytes;
}

static nbits_call bits_of(const experts_call *call, int layer, int64_t active)
{
    const nbits_shape *shape = &call->experts->parts[layer].bits.shape;
    const int64_t scales = nbits_scale_count(shape);
    nbits_call bits = call->bits[layer];

    bits.weights = part_at(call, layer, 0, active, nbits_weight_bytes(shape));
    bits.scales = part_at(call, layer, 1, active, scales * (int64_t)sizeof *bits.scales);
    if (bits.zeros != NULL)
        bits.zeros = part_at(call, layer, 2, active, scales * (int64_t)sizeof *bits.zeros);
    return bits;
}

static void multiply_floats(const experts_call *call, int layer, int64_t active, int64_t column, int64_t columns,
                            float *panel, float *c, int64_t c_row)
{
    const struct experts *experts = call->experts;
    const struct experts_part *part = &experts->parts[layer];
    const int64_t expert = call->actives[active], matrix = part->rows * part->columns;
    const int64_t first = call->begins[expert], rows = call->begins[expert + 1] - first;
    sgemm_job job = { .kernel = experts->kernel,
                      .m = rows,
                      .n = columns,
                      .k = part->columns,
                      .chain = part->chain,
                      .a = call->bits[layer].input + first * part->columns,
                      .a_row = part->columns,
                      .b = panel,
                      .width = EXPERTS_WIDTH,
                      .b_step = EXPERTS_WIDTH,
                      .c = c,
                      .c_row = c_row };

    if (experts->coded) {
        const nbits_call bits = bits_of(call, layer, active);

        nbits_unfold(&bits, column / NBITS_COLUMNS, panel);
    } else if (part->halves != NULL) {
        const uint16_t *lines = part_at(call, layer, 0, active, matrix * (int64_t)sizeof *lines);

        lines += column * part->columns;

        if (rows <= SGEMM_FEW && !experts->same_kernels) {
            part->halves->dots(job.a, job.a_row, rows, lines, part->columns, columns, part->columns, c, c_row);
            return;
        }
        part->halves->panel(lines, part->columns, columns, part->columns, panel);
    } else {
        const float *lines = part_at(call, layer, 0, active, matrix * (int64_t)sizeof *lines);

        lines += column * part->columns;

        if (rows <= SGEMM_FEW && !experts->same_kernels) {
            experts->kernel->dots(job.a, job.a_row, rows, lines, part->columns, columns, part->columns, c, c_row);
            return;
        }
        experts->kernel->panel(lines, part->columns, columns, part->columns, panel);
    }
    sgemm_run(&job, 0, sgemm_units(&job));
}

/* Multiplies the rows of an active expert by columns [column, column + columns) of its weights, and adds the bias. */
static void multiply(const experts_call *call, int layer, int64_t active, int64_t column, int64_t columns, void *buffer,
                     float *c, int64_t c_row)
{
    const struct experts *experts = call->experts;
    const struct experts_part *part = &experts->parts[layer];
    const int64_t expert = call->actives[active];
    const int64_t first = call->begins[expert], last = call->begins[expert + 1];
    const way how = way_of(experts, last - first);

    INLAY_CHECK(columns > 0 && column + columns <= part->rows);
    if (how == BY_FLOATS) {
        multiply_floats(call, layer, active, column, columns, buffer, c, c_row);
    } else {
        const int64_t panel = column / NBITS_COLUMNS, panels = columns / NBITS_COLUMNS;
        nbits_call bits = bits_of(call, layer, active);

        bits.blocks = how == BY_BLOCKS && bits.plan->kernel->block_rows;
        bits.single = last - first == 1;
        if (how == BY_BLOCKS)
            nbits_by_blocks(&bits, panel, panels, first, last, buffer, c, c_row);
        for (int64_t row = first, most = part->bits.kernel->rows; how == BY_TILES && row < last; row += most)
            for (int64_t i = 0; i < panels; i++)
                nbits_by_tile(&bits, panel + i, row, last - row < most ? last - row : most,
                              c + (row - first) * c_row + i * NBITS_COLUMNS, c_row);
    }
    if (part->bias_arg != INLAY_NONE)
        experts->kernel->post(
            &(sgemm_post){ .fn = SGEMM_ADD,
                           .other = (const float *)call->args[part->bias_arg] + expert * part->rows + column,
                           .col = 1 },
            c, c_row, last - first, columns);
}

/* Moves the elements of each row that have odd indexes to the other block. */
static void split(float *even, float *odd, int64_t rows, int64_t columns)
{
    for (int64_t row = 0; row < rows; row++, even += EXPERTS_WIDTH, odd += EXPERTS_WIDTH)
        for (int64_t i = 0; i < columns / 2; i++) {
            odd[i] = even[2 * i + 1];
            even[i] = even[2 * i];
        }
}

static void post_all(const sgemm_kernel *kernel, const sgemm_post *posts, uint32_t count, float *c, int64_t rows,
                     int64_t columns)
{
    for (uint32_t i = 0; i < count; i++)
        kernel->post(&posts[i], c, EXPERTS_WIDTH, rows, columns);
}

static int64_t units_of(const struct experts *experts, int64_t columns)
{
    return (columns + experts->span - 1) / experts->span;
}

/* The columns of the first layer that units divide: gates and values are neighbours, or the values come last. */
static int64_t first_columns(const struct experts *experts)
{
    return experts->fusion == 1 ? 2 * experts->inner : experts->inner;
}

static char *work_of(const experts_call *call, uint32_t worker)
{
    return call->scratch + call->experts->at.work + worker % call->experts->workers * call->experts->work_bytes;
}

/* Units: blocks of columns of the first layer, and of the gate, for each active expert. */
static inlay_status first_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const experts_call *call = user;
    const struct experts *experts = call->experts;
    const int64_t all = first_columns(experts), units = units_of(experts, all);
    float *left = (float *)(void *)work_of(call, worker), *right = left + experts_most_rows(experts) * EXPERTS_WIDTH,
          *buffer = right + experts_most_rows(experts) * EXPERTS_WIDTH;

    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t expert = call->actives[unit / units], column = unit % units * experts->span;
        const int64_t first = call->begins[expert], rows = call->begins[expert + 1] - first;
        int64_t columns = all - column < experts->span ? all - column : experts->span;
        float *to = floats_at(call, experts->at.between) + first * experts->inner;

        multiply(call, EXPERTS_FIRST, unit / units, column, columns, buffer, left, EXPERTS_WIDTH);
        if (experts->fusion == 1) {
            split(left, right, rows, columns);
            columns /= 2;
            to += column / 2;
        } else {
            if (experts->gated || experts->fusion == 2)
                multiply(call, experts->gated ? EXPERTS_GATE : EXPERTS_FIRST, unit / units,
                         experts->gated ? column : column + experts->inner, columns, buffer, right, EXPERTS_WIDTH);
            to += column;
        }
        post_all(experts->kernel, experts->posts.gate, experts->posts.gate_count, right, rows, columns);
        post_all(experts->kernel, experts->posts.list, experts->posts.count, left, rows, columns);
        if (experts->gated || experts->fusion != 0)
            experts->kernel->post(&(sgemm_post){ .fn = SGEMM_MUL, .other = right, .row = EXPERTS_WIDTH, .col = 1 },
                                  left, EXPERTS_WIDTH, rows, columns);
        for (int64_t row = 0; row < rows; row++)
            memcpy(to + row * experts->inner, left + row * EXPERTS_WIDTH, (size_t)columns * sizeof *to);
    }
    return INLAY_OK;
}

/* Units: blocks of columns of the second layer for each active expert. */
static inlay_status second_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const experts_call *call = user;
    const struct experts *experts = call->experts;
    const int64_t units = units_of(experts, experts->hidden);
    char *buffer = work_of(call, worker) + 2 * experts_most_rows(experts) * EXPERTS_WIDTH * (int64_t)sizeof(float);

    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t expert = call->actives[unit / units], column = unit % units * experts->span;

        multiply(call, EXPERTS_SECOND, unit / units, column,
                 experts->hidden - column < experts->span ? experts->hidden - column : experts->span, buffer,
                 floats_at(call, experts->at.output) + call->begins[expert] * experts->hidden + column,
                 experts->hidden);
    }
    return INLAY_OK;
}

/* Adds the results of each row's experts, weighted with their shares. */
static inlay_status add_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const experts_call *call = user;
    const struct experts *experts = call->experts;
    const int64_t hidden = experts->hidden;

    (void)worker;
    for (int64_t row = begin; row < end; row++) {
        float *sum = (float *)call->args[experts->output_arg] + (call->first + row) * hidden;

        for (int64_t i = 0; i < experts->k; i++) {
            const expert_pair *one = &call->chosen[row * experts->k + i];
            float *result = floats_at(call, experts->at.output) + one->pair * hidden;

            experts->kernel->post(&(sgemm_post){ .fn = SGEMM_LINEAR, .alpha = one->share }, result, hidden, 1, hidden);
            if (i == 0)
                memcpy(sum, result, (size_t)hidden * sizeof *sum);
            else
                experts->kernel->post(&(sgemm_post){ .fn = SGEMM_ADD, .other = result, .col = 1 }, sum, hidden, 1,
                                      hidden);
        }
    }
    return INLAY_OK;
}

static double estimate_ns(const experts_call *call, int layer)
{
    const struct experts *experts = call->experts;
    const struct experts_part *part = &experts->parts[layer];
    const double matrix = (double)part->rows * (double)part->columns;
    const double bits = experts->coded ? (double)part->bits.shape.bits : part->halves != NULL ? 16 : 32;
    const int64_t pairs = call->begins[call->actives[call->active_count - 1] + 1] - call->begins[call->actives[0]];
    const double work =
        (double)pairs * matrix /
        (experts->coded && part->bits.mode != NBITS_EXACT ? NBITS_INTEGERS_PER_NS : NBITS_FLOATS_PER_NS);
    const double read = (double)call->active_count * matrix * bits / 8 / NBITS_BYTES_PER_NS;

    return read > work ? read : work;
}

/* Multiplies the rows of the active experts. */
static inlay_status run_active(experts_call *call, const cpu_state *state, inlay_run *run, uint32_t threads)
{
    const struct experts *experts = call->experts;
    const int64_t pairs = call->rows * experts->k;
    const double first_ns = estimate_ns(call, EXPERTS_FIRST) * (experts->gated ? 2 : 1);
    const nbits_plan *second = &experts->parts[EXPERTS_SECOND].bits;
    inlay_status status = nbits_share(state, run, call->active_count * units_of(experts, first_columns(experts)),
                                      first_ns, threads, first_units, call);

    if (status == INLAY_OK && experts->coded && (second->spreads || second->mode != NBITS_EXACT))
        status = nbits_share(state, run, pairs, (double)(pairs * experts->inner), threads, prepare_second, call);
    if (status == INLAY_OK)
        status = nbits_share(state, run, call->active_count * units_of(experts, experts->hidden),
                             estimate_ns(call, EXPERTS_SECOND), threads, second_units, call);
    return status;
}

static inlay_status run_chunk(experts_call *call, const cpu_state *state, inlay_run *run, uint32_t threads)
{
    const struct experts *experts = call->experts;
    const int64_t pairs = call->rows * experts->k, count = call->active_count;
    int64_t *const all = call->actives;
    inlay_pack_parts wanted = {
        .struct_size = sizeof wanted, .data = call->data, .data_count = call->data_count, .places = call->places
    };
    inlay_status status =
        nbits_share(state, run, pairs, (double)(pairs * experts->hidden), threads, prepare_first, call);

    for (int64_t at = 0; status == INLAY_OK && at < count; at += call->active_count) {
        call->active_count = count - at;
        if (experts->selects) {
            wanted.parts = call->actives;
            wanted.part_count = (uint32_t)call->active_count;
            status = state->packs->need(state->host->ctx, run, &wanted, &wanted.part_count);
            if (status != INLAY_OK)
                break;
            call->active_count = wanted.part_count;
        }
        status = run_active(call, state, run, threads);
        if (experts->selects)
            state->packs->done(state->host->ctx, run, &wanted);
        call->actives += call->active_count;
    }
    call->actives = all;
    if (status == INLAY_OK)
        status = nbits_share(state, run, call->rows, (double)(pairs * experts->hidden) / 4, threads, add_rows, call);
    return status;
}

inlay_status experts_run(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                         uint32_t threads)
{
    const struct experts *experts = (const struct experts *)(const void *)native;
    char *scratch = args[experts->scratch_arg];
    experts_call call = { .experts = experts,
                          .args = args,
                          .scratch = scratch,
                          .actives = (int64_t *)(void *)(scratch + experts->at.begins) + experts->count + 1,
                          .begins = (int64_t *)(void *)(scratch + experts->at.begins),
                          .chosen = (expert_pair *)(void *)(scratch + experts->at.chosen),
                          .places = experts->selects ? (const void **)(void *)(scratch + experts->at.places) : NULL };
    inlay_status status = INLAY_OK;

    for (int layer = 0; layer < EXPERTS_LAYERS; layer++) {
        const struct experts_part *part = &experts->parts[layer];

        if (!part->on)
            continue;
        call.bits[layer] =
            (nbits_call){ .plan = &part->bits,
                          .input = floats_at(&call, layer == EXPERTS_SECOND ? experts->at.between : experts->at.input),
                          .a_row = part->columns,
                          .scratch = scratch };
        call.operands[layer] = call.data_count;
        call.data[call.data_count++] = args[part->weights_arg];
        if (!experts->coded)
            continue;
        call.bits[layer].weights = args[part->weights_arg];
        call.data[call.data_count++] = call.bits[layer].scales = args[part->scales_arg];
        call.bits[layer].zeros = part->zeros_arg == INLAY_NONE ? NULL : args[part->zeros_arg];
        if (call.bits[layer].zeros != NULL)
            call.data[call.data_count++] = call.bits[layer].zeros;
    }
    for (; status == INLAY_OK && call.first < experts->rows; call.first += EXPERTS_CHUNK) {
        call.rows = experts->rows - call.first < EXPERTS_CHUNK ? experts->rows - call.first : EXPERTS_CHUNK;
        route(&call);
        status = run_chunk(&call, state, run, threads);
    }
    return status;
}
