/* Binarizer, Imputer, Normalizer, Scaler, FeatureVectorizer, ArrayFeatureExtractor: ai.onnx.ml 1. */
#include "ml.h"

enum { FEATURE_GRAIN = 1 << 13, FEATURE_BLOCK = 256 };
enum { NORM_MAX, NORM_L1, NORM_L2 };

typedef struct feature_state {
    ml_pool pool;
    double threshold;       /* Binarizer */
    uint32_t norm;          /* Normalizer */
    double *offset, *scale; /* Scaler */
    uint32_t offset_count, scale_count;
    double *imputed, replaced;                   /* Imputer, floats */
    int64_t *imputed_integers, replaced_integer; /* and integers */
    uint32_t imputed_count, imputed_integer_count;
} feature_state;

static void release_feature(void *state)
{
    feature_state *s = state;

    if (s != NULL)
        ml_pool_deinit(&s->pool);
    free(s);
}

static inlay_status prepare_feature(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const char *norm = kit_attr_string(node->info, "norm", "MAX");
    feature_state *s = calloc(1, sizeof *s);
    inlay_status status = INLAY_OK;

    if (s == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for attributes");
    s->threshold = kit_attr_float(node->info, "threshold", 0);
    s->norm = strcmp(norm, "L1") == 0 ? NORM_L1 : strcmp(norm, "L2") == 0 ? NORM_L2 : NORM_MAX;
    s->offset = ml_doubles(&s->pool, node, "offset", NULL, &s->offset_count);
    s->scale = ml_doubles(&s->pool, node, "scale", NULL, &s->scale_count);
    s->imputed = ml_doubles(&s->pool, node, "imputed_value_floats", NULL, &s->imputed_count);
    s->imputed_integers = ml_integers(&s->pool, node, "imputed_value_int64s", &s->imputed_integer_count);
    s->replaced = kit_attr_float(node->info, "replaced_value_float", 0);
    s->replaced_integer = kit_attr_int(node->info, "replaced_value_int64", 0);
    if (s->pool.failed)
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for attributes");
    else if (s->norm == NORM_MAX && strcmp(norm, "MAX") != 0)
        status = inlay_fail(diag, INLAY_INVALID_MODEL, "norm is '%.40s'; it must be MAX, L1 or L2", norm);
    if (status == INLAY_OK)
        *out_state = s;
    else
        release_feature(s);
    return status;
}

/* Elements [begin, end) of the whole tensor, whose features lie `columns` to a row. */
typedef struct feature_job {
    const kit_call *call;
    const feature_state *s;
    int64_t columns;
} feature_job;

static int64_t feature_columns(const kit_tensor *x)
{
    return x->rank > 0 && x->dims[x->rank - 1] > 0 ? x->dims[x->rank - 1] : 1;
}

static inlay_status binarizer_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const feature_job *job = user;
    const kit_tensor *x = &job->call->in[0];
    kit_tensor *y = &job->call->out[0];
    double v[FEATURE_BLOCK];

    (void)worker;
    for (int64_t i = begin; i < end; i += FEATURE_BLOCK) {
        int64_t n = end - i < FEATURE_BLOCK ? end - i : FEATURE_BLOCK;
        convert_to_f64(v, x->dtype, x->data, i, n);
        for (int64_t j = 0; j < n; j++)
            v[j] = v[j] > job->s->threshold ? 1 : 0;
        convert_from_f64(y->dtype, y->data, i, n, v, 0);
    }
    return INLAY_OK;
}

static inlay_status scaler_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const feature_job *job = user;
    const feature_state *s = job->s;
    const kit_tensor *x = &job->call->in[0];
    kit_tensor *y = &job->call->out[0];
    double v[FEATURE_BLOCK];

    (void)worker;
    for (int64_t i = begin; i < end; i += FEATURE_BLOCK) {
        int64_t n = end - i < FEATURE_BLOCK ? end - i : FEATURE_BLOCK;
        convert_to_f64(v, x->dtype, x->data, i, n);
        for (int64_t j = 0; j < n; j++) {
            int64_t c = (i + j) % job->columns;
            double offset = s->offset_count == 0 ? 0 : s->offset[s->offset_count == 1 ? 0 : c];
            double scale = s->scale_count == 0 ? 1 : s->scale[s->scale_count == 1 ? 0 : c];
            v[j] = (v[j] - offset) * scale;
        }
        convert_from_f64(y->dtype, y->data, i, n, v, 0);
    }
    return INLAY_OK;
}

/* Rows [begin, end); a row of zeros stays. */
static inlay_status normalizer_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const feature_job *job = user;
    const kit_tensor *x = &job->call->in[0];
    kit_tensor *y = &job->call->out[0];
    double v[FEATURE_BLOCK];

    (void)worker;
    for (int64_t r = begin; r < end; r++) {
        double norm = 0;
        for (int pass = 0; pass < 2; pass++) {
            for (int64_t i = 0; i < job->columns; i += FEATURE_BLOCK) {
                int64_t n = job->columns - i < FEATURE_BLOCK ? job->columns - i : FEATURE_BLOCK;
                convert_to_f64(v, x->dtype, x->data, r * job->columns + i, n);
                for (int64_t j = 0; j < n && pass == 0; j++) {
                    double a = fabs(v[j]);
                    norm =
                        job->s->norm == NORM_MAX ? (a > norm ? a : norm) : norm + (job->s->norm == NORM_L1 ? a : a * a);
                }
                for (int64_t j = 0; j < n && pass == 1; j++)
                    v[j] /= norm;
                if (pass == 1)
                    convert_from_f64(y->dtype, y->data, r * job->columns + i, n, v, 0);
            }
            if (pass == 0) {
                norm = job->s->norm == NORM_L2 ? sqrt(norm) : norm;
                norm = norm == 0 ? 1 : norm;
            }
        }
    }
    return INLAY_OK;
}

static inlay_status imputer_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const feature_job *job = user;
    const feature_state *s = job->s;
    const kit_tensor *x = &job->call->in[0];
    kit_tensor *y = &job->call->out[0];
    bool floats = x->dtype == INLAY_FLOAT || x->dtype == INLAY_DOUBLE;

    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        int64_t c = i % job->columns;
        if (floats) {
            double v = convert_get_f64(x->dtype, x->data, i);
            if (v == s->replaced || (isnan(v) && isnan(s->replaced)))
                v = s->imputed[s->imputed_count == 1 ? 0 : c];
            convert_from_f64(y->dtype, y->data, i, 1, &v, 0);
        } else {
            int64_t v = convert_get_i64(x->dtype, x->data, i);
            if (v == s->replaced_integer)
                v = s->imputed_integers[s->imputed_integer_count == 1 ? 0 : c];
            convert_from_i64(y->dtype, y->data, i, 1, &v, 0);
        }
    }
    return INLAY_OK;
}

static inlay_status run_binarizer(const kit_call *call)
{
    feature_job job = { call, call->state, 1 };
    return kit_parallel(call, call->in[0].count, FEATURE_GRAIN, binarizer_range, &job);
}

/* Is a list of n values one for all, or one a column? */
static inlay_status feature_fits(const kit_call *call, const char *name, uint32_t n, int64_t columns)
{
    return n == 1 || n == columns ? INLAY_OK
                                  : inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                                               "%s has %u entries; it must have 1, or one for each of %lld features",
                                               name, n, (long long)columns);
}

static inlay_status run_scaler(const kit_call *call)
{
    const feature_state *s = call->state;
    feature_job job = { call, s, feature_columns(&call->in[0]) };
    inlay_status status = s->offset_count > 0 ? feature_fits(call, "offset", s->offset_count, job.columns) : INLAY_OK;

    if (status == INLAY_OK && s->scale_count > 0)
        status = feature_fits(call, "scale", s->scale_count, job.columns);
    return status == INLAY_OK ? kit_parallel(call, call->in[0].count, FEATURE_GRAIN, scaler_range, &job) : status;
}

static inlay_status run_normalizer(const kit_call *call)
{
    feature_job job = { call, call->state, feature_columns(&call->in[0]) };
    return kit_parallel(call, call->in[0].count / job.columns, FEATURE_GRAIN / job.columns + 1, normalizer_rows, &job);
}

static inlay_status run_imputer(const kit_call *call)
{
    const feature_state *s = call->state;
    bool floats = call->in[0].dtype == INLAY_FLOAT || call->in[0].dtype == INLAY_DOUBLE;
    feature_job job = { call, s, feature_columns(&call->in[0]) };
    inlay_status status = feature_fits(call, floats ? "imputed_value_floats" : "imputed_value_int64s",
                                       floats ? s->imputed_count : s->imputed_integer_count, job.columns);

    return status == INLAY_OK ? kit_parallel(call, call->in[0].count, FEATURE_GRAIN, imputer_range, &job) : status;
}

/* ------------------------------------------------------------------ FeatureVectorizer, ArrayFeatureExtractor */

static inlay_status shape_allocates(const void *state, kit_plan *plan, inlay_diag *diag)
{
    (void)state;
    (void)diag;
    ml_allocates(plan);
    return INLAY_OK;
}

/* Columns of all inputs side by side, as floats. */
static inlay_status run_vectorizer(const kit_call *call)
{
    int64_t dims[2] = { -1, 0 }, at = 0;
    inlay_status status = INLAY_OK;

    for (uint32_t k = 0; k < call->in_count && status == INLAY_OK; k++) {
        int64_t rows = 0, columns = 0;
        status = ml_matrix(&call->in[k], &rows, &columns, call->diag);
        if (status == INLAY_OK && dims[0] >= 0 && rows != dims[0])
            status = inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "input %u has %lld samples, the first %lld", k,
                                (long long)rows, (long long)dims[0]);
        if (status == INLAY_OK) {
            dims[0] = rows;
            dims[1] += columns;
        }
    }
    if (status == INLAY_OK)
        status = ml_output(call, 0, 2, dims);
    for (uint32_t k = 0; k < call->in_count && status == INLAY_OK; k++) {
        const kit_tensor *x = &call->in[k];
        int64_t columns = x->dims[x->rank - 1];
        for (int64_t r = 0; r < dims[0]; r++)
            convert_to_f32((float *)call->out[0].data + r * dims[1] + at, x->dtype, x->data, r * columns, columns);
        at += columns;
    }
    return status;
}

static inlay_status run_extractor(const kit_call *call)
{
    const kit_tensor *x = &call->in[0], *picks = &call->in[1];
    size_t elem = inlay_dtype_bits(x->dtype) / 8;
    int64_t columns = x->rank > 0 ? x->dims[x->rank - 1] : 1, rows = columns > 0 ? x->count / columns : 0;

    if (call->out[0].count != rows * picks->count)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "the output has %lld elements where %lld are made",
                          (long long)call->out[0].count, (long long)(rows * picks->count));
    for (int64_t i = 0; i < picks->count; i++) {
        int64_t c = ((const int64_t *)picks->data)[i];
        if (c < 0 || c >= columns)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "Y[%lld] is %lld; X has %lld features", (long long)i,
                              (long long)c, (long long)columns);
        for (int64_t r = 0; r < rows; r++)
            memcpy((char *)call->out[0].data + (size_t)(r * picks->count + i) * elem,
                   (const char *)x->data + (size_t)(r * columns + c) * elem, elem);
    }
    return INLAY_OK;
}

#define FEATURE_KERNEL(name, function)                                                                                 \
    {                                                                                                                  \
        .domain = "ai.onnx.ml", .op_type = name, .in_types = { ML_NUMBERS }, .prepare = prepare_feature,               \
        .release = release_feature, .run = function                                                                    \
    }

static const kit_kernel kernels[] = {
    FEATURE_KERNEL("Binarizer", run_binarizer),
    FEATURE_KERNEL("Imputer", run_imputer),
    FEATURE_KERNEL("Normalizer", run_normalizer),
    FEATURE_KERNEL("Scaler", run_scaler),
    { .domain = "ai.onnx.ml",
      .op_type = "FeatureVectorizer",
      .in_types = { ML_NUMBERS },
      .shape = shape_allocates,
      .run = run_vectorizer },
    { .domain = "ai.onnx.ml",
      .op_type = "ArrayFeatureExtractor",
      .in_types = { ML_NUMBERS | KIT_BIT(STRING) },
      .run = run_extractor },
};
const kit_table reference_ml_features = { kernels, KIT_COUNT(kernels) };
