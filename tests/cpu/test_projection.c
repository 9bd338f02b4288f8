/* The input projection of recurrent layers by terms, over tiles in plain C: layers with the projection computed in
 * advance, compared with layers whose kernel multiplies by W. W's panels are NaN in the first, so that no part of them
 * is read. */
#include "cpu/recurrent/projection.h"
#include "inlay/extensions.h"
#include "cmocka_all.h"
#include "random.h"
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OUTPUTS = 3 };

static uint64_t seed = 7;

static float *some(int64_t count, float scale)
{
    float *x = aligned_alloc(64, (size_t)(count + 16) / 16 * 64);

    assert_non_null(x);
    for (int64_t i = 0; i < count; i++)
        x[i] = scale * random_signed(&seed);
    return x;
}

struct sizes {
    const char *cell;
    int64_t steps, batch, inputs, hidden;
    uint32_t direction;
    bool before_reset, batch_first, ends; /* linear_before_reset, layout 1, sequence_lens */
};

struct layer {
    const kit_kernel *kernel;
    recurrent_state state;
    recurrent_layout layout;
    kit_tensor in[IN_LENGTHS + 1], out[MOST_OUTPUTS];
    int64_t dims[5][4];
    float *outputs[2];
    int32_t *lengths;
    kit_plan plan;
};

static kit_tensor tensor(void *data, int64_t *dims, uint32_t rank, int64_t a, int64_t b, int64_t c)
{
    const int64_t of[] = { a, b, c };

    memcpy(dims, of, sizeof of);
    return (kit_tensor){ .data = data, .dims = dims, .count = a * b * c, .rank = rank, .dtype = INLAY_FLOAT };
}

static void setup(struct layer *layer, const struct sizes *of)
{
    const int64_t d = of->direction == 2 ? 2 : 1;
    const uint32_t functions[] = { ACT_SIGMOID, ACT_TANH, ACT_TANH };

    memset(layer, 0, sizeof *layer);
    assert_true(recurrent_read_cell(of->cell, of->before_reset, &layer->state));
    layer->state.functions = layer->state.cell == CELL_LSTM ? 3 : layer->state.cell == CELL_GRU ? 2 : 1;
    for (uint32_t i = 0; i < d * layer->state.functions; i++)
        layer->state.activation[i].kind =
            layer->state.cell == CELL_RNN ? ACT_TANH : functions[i % layer->state.functions];
    layer->state.direction = of->direction;
    layer->state.layout = of->batch_first;
    layer->state.plain = true;
    layer->state.product = panels_product(false);
    assert_true(recurrent_compute_layout(&layer->state, of->inputs, of->hidden, &layer->layout));
    for (uint32_t i = 0; i < RECURRENT_KERNELS; i++)
        if (strcmp(recurrent_kernels[i].op_type, of->cell) == 0)
            layer->kernel = &recurrent_kernels[i];
    assert_non_null(layer->kernel);

    const int64_t lines = layer->state.gates * of->hidden;

    layer->in[IN_X] = of->batch_first ? tensor(NULL, layer->dims[0], 3, of->batch, of->steps, of->inputs)
                                      : tensor(NULL, layer->dims[0], 3, of->steps, of->batch, of->inputs);
    layer->in[IN_W] = tensor(NULL, layer->dims[1], 3, d, lines, of->inputs);
    layer->in[IN_R] = tensor(NULL, layer->dims[2], 3, d, lines, of->hidden);
    layer->in[IN_B] = tensor(NULL, layer->dims[3], 2, d, 2 * lines, 1);
    for (uint32_t i = 0; i <= IN_B; i++)
        layer->in[i].data = some(layer->in[i].count, i == IN_X ? 1 : i == IN_R ? 0.05f : 0.2f); /* R: errors fade */
    layer->state.pack.data = some(d * (int64_t)(layer->layout.bytes / sizeof(float)), 0);
    for (int64_t i = 0; i < d; i++) {
        layer->state.constant[i] =
            recurrent_weights_at(&layer->layout, (char *)layer->state.pack.data + (size_t)i * layer->layout.bytes);
        recurrent_pack(&layer->state, &layer->layout, &layer->in[IN_W], &layer->in[IN_R], &layer->in[IN_B],
                       &(kit_tensor){ .data = NULL }, i, &layer->state.constant[i]);
    }
    if (of->ends) {
        layer->lengths = calloc((size_t)of->batch, sizeof *layer->lengths);
        assert_non_null(layer->lengths);
        for (int64_t i = 0; i < of->batch; i++)
            layer->lengths[i] = (int32_t)random_below(&seed, (uint32_t)of->steps + 1);
        layer->in[IN_LENGTHS] = (kit_tensor){ .data = layer->lengths, .count = of->batch, .dtype = INLAY_INT32 };
    }
    layer->out[OUT_Y] = (kit_tensor){ .count = of->steps * d * of->batch * of->hidden, .dtype = INLAY_FLOAT };
    for (int i = 0; i < 2; i++)
        layer->outputs[i] = some(layer->out[OUT_Y].count, 1);
    layer->plan = (kit_plan){ .in = layer->in, .out = layer->out, .in_count = IN_LENGTHS + 1, .out_count = 1 };
    layer->plan.max_threads = 1;
    assert_int_equal(layer->kernel->shape(&layer->state, &layer->plan, NULL), INLAY_OK);
}

static void teardown(struct layer *layer)
{
    for (uint32_t i = 0; i <= IN_B; i++)
        free(layer->in[i].data);
    free(layer->lengths);
    free(layer->outputs[0]);
    free(layer->outputs[1]);
    free(layer->state.pack.data);
    free(layer->plan.plan);
}

static void run(struct layer *layer, const recurrent_projected *projected, float *to)
{
    kit_tensor in[IN_LENGTHS + 1];
    float *workspace = some((int64_t)(layer->plan.workspace_bytes / sizeof(float)) + 1, 1);
    kit_call call = { .in = in,
                      .out = layer->out,
                      .in_count = IN_LENGTHS + 1,
                      .out_count = 1,
                      .state = &layer->state,
                      .plan = layer->plan.plan,
                      .workspace = workspace,
                      .max_threads = 1 };

    memcpy(in, layer->in, sizeof in);
    if (projected != NULL) {
        in[IN_W].rank = 0;
        in[IN_W].data = (void *)(uintptr_t)projected;
    }
    layer->out[OUT_Y].data = to;
    assert_int_equal(layer->kernel->run(&call), INLAY_OK);
    free(workspace);
}

/* The projections by plain C tiles. */
static recurrent_projected project(const struct layer *layer)
{
    const recurrent_plan *plan = layer->plan.plan;
    float *packed = projection_pack(&plan->weights.panels, layer->state.constant, plan->directions);
    recurrent_projected out = { { NULL, NULL } };

    assert_non_null(packed);
    for (int64_t d = 0; d < plan->directions; d++) {
        float *scratch;
        sgemm_job job;

        projection_job(sgemm_kernel_best(), &layer->state, plan, packed, d, false, 3, &job);
        job.a = layer->in[IN_X].data;
        job.c = out.rows[d] = some(job.m * job.c_row, NAN);
        scratch = some(terms_scratch_floats(&job), 1);
        terms_run(&terms_c, &job, scratch, 0, terms_units(&job));
        free(scratch);
    }
    free(packed);
    return out;
}

static void layers(void **state)
{
    static const struct sizes rows[] = {
        { "LSTM", 40, 3, 70, 20, 0, false, false, false }, { "LSTM", 9, 5, 260, 33, 2, false, false, true },
        { "LSTM", 7, 5, 33, 16, 1, false, true, true },    { "GRU", 50, 2, 64, 40, 2, false, false, false },
        { "GRU", 21, 4, 31, 17, 1, true, true, false },    { "GRU", 1, 1, 40, 90, 0, true, false, false },
        { "RNN", 33, 1, 300, 70, 2, false, false, true },  { "RNN", 3, 2, 5, 7, 0, false, true, false },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct layer layer;
        recurrent_projected projected;
        /* as in test_terms.c; the mean magnitude of a product is 0.05 */
        const float bound = 2e-6f * (1 + 0.05f * (float)rows[i].inputs);

        setup(&layer, &rows[i]);
        run(&layer, NULL, layer.outputs[0]);
        projected = project(&layer);
        for (int d = 0; d < (rows[i].direction == 2 ? 2 : 1); d++) {
            float *weights = layer.state.constant[d].weights;

            for (uint64_t k = 0; k < layer.layout.panels.bytes / sizeof *weights; k++)
                weights[k] = NAN;
        }
        run(&layer, &projected, layer.outputs[1]);
        for (int64_t k = 0; k < layer.out[OUT_Y].count; k++)
            if (!(fabsf(layer.outputs[0][k] - layer.outputs[1][k]) <= bound))
                fail_msg("row %zu, %s: element %lld is %.9g, not %.9g", i, rows[i].cell, (long long)k,
                         (double)layer.outputs[1][k], (double)layer.outputs[0][k]);
        free(projected.rows[0]);
        free(projected.rows[1]);
        teardown(&layer);
    }
}

/* Terms pay for wide layers with many rows, and not for the few rows of a streamed step. */
static void prices(void **state)
{
    struct panels weights = { .depth = 512, .columns = 512, .gates = 4 };

    (void)state;
    assert_true(panels_describe(&weights));
    assert_true(projection_saves_ns(&weights, 1000, false, 1) > 0);
    assert_true(projection_saves_ns(&weights, 1000, true, 1) < projection_saves_ns(&weights, 1000, false, 1));
    assert_false(projection_saves_ns(&weights, 1, false, 1) > 0);
    assert_false(projection_saves_ns(&weights, 1000, false, 4) > 0); /* tiles of a quarter of the speed */
    weights.depth = 8;
    assert_true(panels_describe(&weights));
    assert_false(projection_saves_ns(&weights, 1000, false, 1) > 0);
}

/* The pace of tiles is that of the prices unless the host has measured tiles. */
static void paces(void **state)
{
    inlay_speed speed = { .struct_size = sizeof speed, .flops_v4 = 242, .tile_bfloat16 = 1900 };

    (void)state;
    assert_true(cpu_tile_pace(NULL) == 1);
    assert_true(fabs(cpu_tile_pace(&speed) - 2) < 1e-9);
    speed.flops_v4 = 121;
    assert_true(fabs(cpu_tile_pace(&speed) - 1) < 1e-9);
    speed.tile_bfloat16 = 0;
    assert_true(cpu_tile_pace(&speed) == 1);
    speed.tile_bfloat16 = 100;
    speed.struct_size = offsetof(inlay_speed, tile_bytes); /* of a host without the member */
    assert_true(cpu_tile_pace(&speed) == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(layers), cmocka_unit_test(prices), cmocka_unit_test(paces) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
