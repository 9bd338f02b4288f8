/* LinearClassifier, LinearRegressor: ai.onnx.ml 1. */
#include "operators/instance.h"
#include "operators/ml_attrs.h"
#include "simd/row_set.h"
#include "operators/work.h"

enum { LINEAR_GRAIN = 1 << 16, LINEAR_ROWS = 48 };

typedef struct linear_state {
    ml_pool pool;
    ml_labels labels;
    bool classifies;
    uint32_t transform;
    ml_table table;     /* coefficients [outputs, features] */
    double *intercepts; /* [outputs], or NULL */
    float *bias;        /* the intercepts as floats, or NULL */
    int64_t outputs, features;
} linear_state;

static void release_linear(void *state)
{
    linear_state *linear = state;

    if (linear != NULL)
        ml_pool_deinit(&linear->pool);
    free(linear);
}

static inlay_status prepare_linear(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const char *transform = kit_attr_string(node->info, "post_transform", "NONE");
    linear_state *state = calloc(1, sizeof *state);
    uint32_t coefficients, intercepts;
    const float *values = ml_floats(node, "coefficients", &coefficients);
    inlay_status status = INLAY_OK;

    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a linear model");
    state->classifies = strcmp(kit_op_type(node), "LinearClassifier") == 0;
    state->intercepts = ml_doubles(&state->pool, node, "intercepts", NULL, &intercepts);
    if (state->classifies) /* two classes may have a single row of coefficients */
        ml_labels_read(&state->pool, node, "classlabels_ints", &state->labels);
    state->outputs = state->classifies ? (intercepts > 0 ? intercepts : state->labels.count)
                                       : kit_attr_int(node->info, "targets", 1);
    if (state->pool.failed)
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a linear model");
    else if (!ml_transform_find(transform, &state->transform))
        status = inlay_fail(diag, INLAY_INVALID_MODEL, "post_transform '%.40s' is not known", transform);
    else if (state->outputs <= 0 || coefficients == 0 || coefficients % state->outputs != 0 ||
             (intercepts != 0 && intercepts != state->outputs) ||
             (state->classifies && state->labels.count != state->outputs &&
              !(state->labels.count == 2 && state->outputs == 1)))
        status =
            inlay_fail(diag, INLAY_INVALID_MODEL,
                       "%u coefficients and %u intercepts do not make a linear model of %lld outputs for %u labels",
                       coefficients, intercepts, (long long)state->outputs, state->labels.count);
    if (status != INLAY_OK) {
        release_linear(state);
        return status;
    }
    state->features = coefficients / state->outputs;
    if (state->intercepts != NULL)
        state->bias = ml_alloc(&state->pool, (uint64_t)state->outputs, sizeof *state->bias);
    for (int64_t output = 0; state->bias != NULL && output < state->outputs; output++)
        state->bias[output] = (float)state->intercepts[output];
    state->table = ml_table_of(&state->pool, values, state->outputs, state->features);
    if (state->pool.failed) {
        release_linear(state);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a linear model");
    }
    *out_state = state;
    return INLAY_OK;
}

/* Returns the doubles of scratch memory per worker: for ml_table_rows(), and for the scores of LINEAR_ROWS rows. */
static int64_t linear_scratch(const linear_state *state)
{
    return ml_table_room(&state->table, LINEAR_ROWS) + LINEAR_ROWS * state->table.columns;
}

static inlay_status shape_linear(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const linear_state *linear = state;
    int64_t rows = 0, columns = 0;
    inlay_status status = ml_matrix(&plan->in[0], &rows, &columns, diag);

    if (status == INLAY_OK && columns != linear->features)
        status = inlay_fail(diag, INLAY_SHAPE_MISMATCH, "X has %lld features, the model %lld", (long long)columns,
                            (long long)linear->features);
    ml_allocates(plan);
    plan->workspace_bytes = (uint64_t)linear_scratch(linear) * plan->max_threads * sizeof(double);
    return status;
}

/* Computes the outputs of row `row` from its scores. */
static inlay_status linear_finish(const kit_call *call, int64_t row, double *scores)
{
    const linear_state *state = call->state;
    kit_tensor *output = &call->out[state->classifies ? 1 : 0];
    int64_t columns = state->classifies && state->labels.count == 2 ? 2 : state->outputs, best;

    for (int64_t index = 0; index < state->outputs && state->intercepts != NULL; index++)
        scores[index] += state->intercepts[index];
    best = state->outputs == 1 ? scores[0] > 0 && state->labels.count == 2 : 0;
    for (int64_t index = 1; index < state->outputs; index++)
        best = scores[index] > scores[best] ? index : best;
    if (state->classifies && state->outputs == 1 && state->labels.count == 2)
        ml_two_scores(state->transform, false, scores);
    else
        ml_transform(state->transform, scores, state->outputs);
    if (output->dtype != INLAY_UNDEFINED)
        convert_from_f64(output->dtype, output->data, row * columns, columns, scores, 0);
    if (state->classifies && kit_has_output(call, 0))
        return ml_put_label(call, &state->labels, best, &call->out[0], row);
    return INLAY_OK;
}

/* Returns whether the whole row can be computed in float: float input and output, and a common transform. */
static bool is_plain(const kit_call *call)
{
    const linear_state *state = call->state;
    const kit_tensor *output = &call->out[state->classifies ? 1 : 0];

    return call->in[0].dtype == INLAY_FLOAT && output->dtype == INLAY_FLOAT &&
           (!state->classifies || state->outputs > 1) &&
           (state->transform == ML_NONE || state->transform == ML_SOFTMAX || state->transform == ML_LOGISTIC);
}

static inlay_status linear_floats(const kit_call *call, int64_t begin, int64_t end)
{
    const linear_state *state = call->state;
    const int64_t outputs = state->outputs, rows = end - begin;
    float *results = (float *)call->out[state->classifies ? 1 : 0].data + begin * outputs;
    inlay_status status = INLAY_OK;

    ml_table_products(&state->table, (const float *)call->in[0].data + begin * state->features, rows, state->bias,
                      results, outputs);
    for (int64_t row = 0; row < rows && state->classifies && kit_has_output(call, 0) && status == INLAY_OK; row++) {
        const float *scores = results + row * outputs;
        float top = scores[0];
        int64_t best = 0;

        for (int64_t output = 1; output < outputs; output++) {
            const bool more = scores[output] > top;

            best = more ? output : best;
            top = more ? scores[output] : top;
        }
        status = ml_put_label(call, &state->labels, best, &call->out[0], begin + row);
    }
    if (state->transform == ML_SOFTMAX)
        KERNEL_BEST(rows)->softmax(results, results, rows, outputs);
    else if (state->transform == ML_LOGISTIC)
        KERNEL_BEST(rows)->sigmoid(results, results, rows * outputs);
    return status;
}

static inlay_status linear_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const linear_state *state = call->state;
    const kit_tensor *input = &call->in[0];
    double *room = (double *)call->workspace + worker * linear_scratch(state);
    double *scores = room + ml_table_room(&state->table, LINEAR_ROWS);
    inlay_status status = INLAY_OK;

    if (is_plain(call))
        return linear_floats(call, begin, end);
    for (int64_t row = begin; row < end && status == INLAY_OK; row += LINEAR_ROWS) {
        const int64_t count = end - row < LINEAR_ROWS ? end - row : LINEAR_ROWS;

        ml_table_rows(&state->table, input, row, count, false, room, scores);
        for (int64_t index = 0; index < count && status == INLAY_OK; index++)
            status = linear_finish(call, row + index, scores + index * state->table.columns);
    }
    return status;
}

static inlay_status run_linear(const kit_call *call)
{
    const linear_state *state = call->state;
    int64_t dims[2], features;
    inlay_status status = ml_matrix(&call->in[0], &dims[0], &features, call->diag);
    kit_call job = *call;

    dims[1] = state->classifies && state->labels.count == 2 ? 2 : state->outputs;
    if (status == INLAY_OK && state->classifies)
        status = ml_output(&job, 0, 1, dims);
    if (status == INLAY_OK && job.out_count > (state->classifies ? 1u : 0u))
        status = ml_output(&job, state->classifies ? 1 : 0, 2, dims);
    if (status != INLAY_OK)
        return status;
    return kit_parallel(call, dims[0],
                        state->labels.texts != NULL
                            ? dims[0] + 1
                            : (LINEAR_GRAIN / (state->features * state->outputs) / LINEAR_ROWS + 1) * LINEAR_ROWS,
                        linear_rows, &job);
}

static void cost_linear(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const kit_tensor *input = &shapes->in[0];
    const double columns =
        input->rank > 0 && input->dims[input->rank - 1] > 0 ? (double)input->dims[input->rank - 1] : 1;
    uint32_t coefficients = 0;

    (void)ml_floats(node, "coefficients", &coefficients);
    work_cost(shapes, work_count(input) / columns, 60 + 0.05 * coefficients, work_count(input) / columns, cost);
}

#define LINEAR_KERNEL(name)                                                                                            \
    {                                                                                                                  \
        .domain = "ai.onnx.ml", .op_type = name, .in_types = { ML_NUMBERS }, .prepare = prepare_linear,                \
        .release = release_linear, .shape = shape_linear, .cost = cost_linear, .run = run_linear                       \
    }

static const kit_kernel kernels[] = {
    LINEAR_KERNEL("LinearClassifier"),
    LINEAR_KERNEL("LinearRegressor"),
};
const kit_table OPERATOR(operators_ml_linear) = { kernels, KIT_COUNT(kernels) };
