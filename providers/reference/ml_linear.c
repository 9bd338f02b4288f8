/* LinearClassifier, LinearRegressor: ai.onnx.ml 1. */
#include "instance.h"
#include "ml.h"
#include "simd/row_set.h"
#include "work.h"

enum { LINEAR_GRAIN = 1 << 16, LINEAR_ROWS = 48 };

typedef struct linear_state {
    ml_pool pool;
    ml_labels labels;
    bool classifies;
    uint32_t transform;
    ml_table table;     /* of coefficients [outputs, features] */
    double *intercepts; /* [outputs], or NULL */
    float *bias;        /* the same */
    int64_t outputs, features;
} linear_state;

static void release_linear(void *state)
{
    linear_state *s = state;

    if (s != NULL)
        ml_pool_deinit(&s->pool);
    free(s);
}

static inlay_status prepare_linear(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const char *transform = kit_attr_string(node->info, "post_transform", "NONE");
    linear_state *s = calloc(1, sizeof *s);
    uint32_t coefficients, intercepts;
    const float *values = ml_floats(node, "coefficients", &coefficients);
    inlay_status status = INLAY_OK;

    if (s == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a linear model");
    s->classifies = strcmp(node->info->op_type.data, "LinearClassifier") == 0;
    s->intercepts = ml_doubles(&s->pool, node, "intercepts", NULL, &intercepts);
    if (s->classifies) /* one row of coefficients may serve two classes */
        ml_labels_read(&s->pool, node, "classlabels_ints", &s->labels);
    s->outputs =
        s->classifies ? (intercepts > 0 ? intercepts : s->labels.count) : kit_attr_int(node->info, "targets", 1);
    if (s->pool.failed)
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a linear model");
    else if (!ml_transform_find(transform, &s->transform))
        status = inlay_fail(diag, INLAY_INVALID_MODEL, "post_transform '%.40s' is not known", transform);
    else if (s->outputs <= 0 || coefficients == 0 || coefficients % s->outputs != 0 ||
             (intercepts != 0 && intercepts != s->outputs) ||
             (s->classifies && s->labels.count != s->outputs && !(s->labels.count == 2 && s->outputs == 1)))
        status =
            inlay_fail(diag, INLAY_INVALID_MODEL,
                       "%u coefficients and %u intercepts do not make a linear model of %lld outputs for %u labels",
                       coefficients, intercepts, (long long)s->outputs, s->labels.count);
    if (status != INLAY_OK) {
        release_linear(s);
        return status;
    }
    s->features = coefficients / s->outputs;
    if (s->intercepts != NULL)
        s->bias = ml_alloc(&s->pool, (uint64_t)s->outputs, sizeof *s->bias);
    for (int64_t o = 0; s->bias != NULL && o < s->outputs; o++)
        s->bias[o] = (float)s->intercepts[o];
    s->table = ml_table_of(&s->pool, values, s->outputs, s->features);
    if (s->pool.failed) {
        release_linear(s);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a linear model");
    }
    *out_state = s;
    return INLAY_OK;
}

/* Doubles of a worker: room, and the scores of LINEAR_ROWS. */
static int64_t linear_scratch(const linear_state *s)
{
    return ml_table_room(&s->table, LINEAR_ROWS) + LINEAR_ROWS * s->table.columns;
}

static inlay_status shape_linear(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const linear_state *s = state;
    int64_t rows = 0, columns = 0;
    inlay_status status = ml_matrix(&plan->in[0], &rows, &columns, diag);

    if (status == INLAY_OK && columns != s->features)
        status = inlay_fail(diag, INLAY_SHAPE_MISMATCH, "X has %lld features, the model %lld", (long long)columns,
                            (long long)s->features);
    ml_allocates(plan);
    plan->workspace_bytes = (uint64_t)linear_scratch(s) * plan->max_threads * sizeof(double);
    return status;
}

/* From the products of row r to the outputs. */
static inlay_status linear_finish(const kit_call *call, int64_t r, double *scores)
{
    const linear_state *s = call->state;
    kit_tensor *y = &call->out[s->classifies ? 1 : 0];
    int64_t columns = s->classifies && s->labels.count == 2 ? 2 : s->outputs, best;

    for (int64_t o = 0; o < s->outputs && s->intercepts != NULL; o++)
        scores[o] += s->intercepts[o];
    best = s->outputs == 1 ? scores[0] > 0 && s->labels.count == 2 : 0;
    for (int64_t o = 1; o < s->outputs; o++)
        best = scores[o] > scores[best] ? o : best;
    if (s->classifies && s->outputs == 1 && s->labels.count == 2)
        ml_two_scores(s->transform, false, scores);
    else
        ml_transform(s->transform, scores, s->outputs);
    if (y->dtype != INLAY_UNDEFINED)
        convert_from_f64(y->dtype, y->data, r * columns, columns, scores, 0);
    if (s->classifies && kit_has_output(call, 0))
        return ml_put_label(call, &s->labels, best, &call->out[0], r);
    return INLAY_OK;
}

/* Floats stay such from end to end where nothing but usual functions follows. */
static bool is_plain(const kit_call *call)
{
    const linear_state *s = call->state;
    const kit_tensor *y = &call->out[s->classifies ? 1 : 0];

    return call->in[0].dtype == INLAY_FLOAT && y->dtype == INLAY_FLOAT && (!s->classifies || s->outputs > 1) &&
           (s->transform == ML_NONE || s->transform == ML_SOFTMAX || s->transform == ML_LOGISTIC);
}

static inlay_status linear_floats(const kit_call *call, int64_t begin, int64_t end)
{
    const linear_state *s = call->state;
    const int64_t n = s->outputs, rows = end - begin;
    float *y = (float *)call->out[s->classifies ? 1 : 0].data + begin * n;
    inlay_status status = INLAY_OK;

    ml_table_products(&s->table, (const float *)call->in[0].data + begin * s->features, rows, s->bias, y, n);
    for (int64_t r = 0; r < rows && s->classifies && kit_has_output(call, 0) && status == INLAY_OK; r++) {
        const float *scores = y + r * n;
        float top = scores[0];
        int64_t best = 0;

        for (int64_t o = 1; o < n; o++) {
            const bool more = scores[o] > top;

            best = more ? o : best;
            top = more ? scores[o] : top;
        }
        status = ml_put_label(call, &s->labels, best, &call->out[0], begin + r);
    }
    if (s->transform == ML_SOFTMAX)
        KERNEL_BEST(rows)->softmax(y, y, rows, n);
    else if (s->transform == ML_LOGISTIC)
        KERNEL_BEST(rows)->sigmoid(y, y, rows * n);
    return status;
}

static inlay_status linear_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const linear_state *s = call->state;
    const kit_tensor *x = &call->in[0];
    double *room = (double *)call->workspace + worker * linear_scratch(s);
    double *scores = room + ml_table_room(&s->table, LINEAR_ROWS);
    inlay_status status = INLAY_OK;

    if (is_plain(call))
        return linear_floats(call, begin, end);
    for (int64_t r = begin; r < end && status == INLAY_OK; r += LINEAR_ROWS) {
        const int64_t count = end - r < LINEAR_ROWS ? end - r : LINEAR_ROWS;

        ml_table_rows(&s->table, x, r, count, false, room, scores);
        for (int64_t i = 0; i < count && status == INLAY_OK; i++)
            status = linear_finish(call, r + i, scores + i * s->table.columns);
    }
    return status;
}

static inlay_status run_linear(const kit_call *call)
{
    const linear_state *s = call->state;
    int64_t dims[2], features;
    inlay_status status = ml_matrix(&call->in[0], &dims[0], &features, call->diag);
    kit_call job = *call;

    dims[1] = s->classifies && s->labels.count == 2 ? 2 : s->outputs;
    if (status == INLAY_OK && s->classifies)
        status = ml_output(&job, 0, 1, dims);
    if (status == INLAY_OK && job.out_count > (s->classifies ? 1u : 0u))
        status = ml_output(&job, s->classifies ? 1 : 0, 2, dims);
    if (status != INLAY_OK)
        return status;
    return kit_parallel(call, dims[0],
                        s->labels.texts != NULL
                            ? dims[0] + 1
                            : (LINEAR_GRAIN / (s->features * s->outputs) / LINEAR_ROWS + 1) * LINEAR_ROWS,
                        linear_rows, &job);
}

static void cost_linear(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const kit_tensor *x = &shapes->in[0];
    const double columns = x->rank > 0 && x->dims[x->rank - 1] > 0 ? (double)x->dims[x->rank - 1] : 1;
    uint32_t coefficients = 0;

    (void)ml_floats(node, "coefficients", &coefficients);
    work_cost(shapes, work_count(x) / columns, 60 + 0.05 * coefficients, work_count(x) / columns, cost);
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
const kit_table OPERATOR(reference_ml_linear) = { kernels, KIT_COUNT(kernels) };
