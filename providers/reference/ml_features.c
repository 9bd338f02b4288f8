/* Binarizer, Imputer, Normalizer, Scaler, FeatureVectorizer, ArrayFeatureExtractor: ai.onnx.ml 1. */
#include "instance.h"
#include "ml.h"

enum { FEATURE_GRAIN = 1 << 13, FEATURE_BLOCK = 256 };
enum { NORM_MAX, NORM_L1, NORM_L2 };

/* Numbers of features, told over and over so that a loop need not ask which feature an element is. */
typedef struct feature_list {
    double *values;
    uint32_t count;  /* as the attribute has them */
    uint32_t length; /* of values: a multiple of count, at least FEATURE_BLOCK */
} feature_list;

typedef struct feature_state {
    ml_pool pool;
    double threshold;           /* Binarizer */
    uint32_t norm;              /* Normalizer */
    feature_list offset, scale; /* Scaler */
    feature_list imputed;       /* Imputer, floats */
    double replaced;
    int64_t *imputed_integers, replaced_integer; /* and integers */
    uint32_t imputed_integer_count;
} feature_state;

static void release_feature(void *state)
{
    feature_state *s = state;

    if (s != NULL)
        ml_pool_deinit(&s->pool);
    free(s);
}

/* The list of that name; without one, `otherwise` for all. */
static feature_list feature_read(ml_pool *pool, const kit_node *node, const char *name, double otherwise)
{
    feature_list list = { 0 };
    const float *floats = ml_floats(node, name, &list.count);
    const uint32_t of = list.count > 0 ? list.count : 1;

    if (of > UINT32_MAX / 2)
        return list;
    list.length = (FEATURE_BLOCK + of - 1) / of * of;
    list.values = ml_alloc(pool, list.length, sizeof *list.values);
    for (uint32_t i = 0; list.values != NULL && i < list.length; i++)
        list.values[i] = floats != NULL && list.count > 0 ? (double)floats[i % of] : otherwise;
    return list;
}

static inlay_status prepare_feature(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const char *norm = kit_attr_string(node->info, "norm", "MAX");
    feature_state *state = calloc(1, sizeof *state);
    inlay_status status = INLAY_OK;

    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for attributes");
    state->threshold = kit_attr_float(node->info, "threshold", 0);
    state->norm = strcmp(norm, "L1") == 0 ? NORM_L1 : strcmp(norm, "L2") == 0 ? NORM_L2 : NORM_MAX;
    state->offset = feature_read(&state->pool, node, "offset", 0);
    state->scale = feature_read(&state->pool, node, "scale", 1);
    state->imputed = feature_read(&state->pool, node, "imputed_value_floats", 0);
    state->imputed_integers = ml_integers(&state->pool, node, "imputed_value_int64s", &state->imputed_integer_count);
    state->replaced = kit_attr_float(node->info, "replaced_value_float", 0);
    state->replaced_integer = kit_attr_int(node->info, "replaced_value_int64", 0);
    if (state->pool.failed)
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for attributes");
    else if (state->norm == NORM_MAX && strcmp(norm, "MAX") != 0)
        status = inlay_fail(diag, INLAY_INVALID_MODEL, "norm is '%.40s'; it must be MAX, L1 or L2", norm);
    if (status == INLAY_OK)
        *out_state = state;
    else
        release_feature(state);
    return status;
}

/* Elements [begin, end) of the whole tensor, whose features lie `columns` to a row. */
typedef struct feature_job {
    const kit_call *call;
    const feature_state *state;
    int64_t columns;
} feature_job;

static int64_t feature_columns(const kit_tensor *input)
{
    return input->rank > 0 && input->dims[input->rank - 1] > 0 ? input->dims[input->rank - 1] : 1;
}

/* The numbers for element i and those behind it; *out_n: for how many of at most `most`. */
static const double *feature_at(const feature_list *list, int64_t i, int64_t most, int64_t *out_n)
{
    const int64_t at = i % list->length, left = list->length - at;
    const int64_t n = most < FEATURE_BLOCK ? most : FEATURE_BLOCK;

    *out_n = n < left ? n : left;
    return list->values + at;
}

static void scale_run(double *v, const double *offset, const double *scale, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        v[j] = (v[j] - offset[j]) * scale[j];
}
static void threshold_run(double *v, double threshold, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        v[j] = v[j] > threshold ? 1 : 0;
}
static void impute_run(double *v, double replaced, const double *imputed, int64_t n)
{
    const bool any_nan = replaced != replaced;

    for (int64_t j = 0; j < n; j++)
        v[j] = (v[j] == replaced) | (any_nan & (v[j] != v[j])) ? imputed[j] : v[j];
}

static inlay_status binarizer_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const feature_job *job = user;
    const kit_tensor *input = &job->call->in[0];
    kit_tensor *output = &job->call->out[0];
    double v[FEATURE_BLOCK];

    (void)worker;
    for (int64_t i = begin; i < end; i += FEATURE_BLOCK) {
        int64_t n = end - i < FEATURE_BLOCK ? end - i : FEATURE_BLOCK;
        convert_to_f64(v, input->dtype, input->data, i, n);
        threshold_run(v, job->state->threshold, n);
        convert_from_f64(output->dtype, output->data, i, n, v, 0);
    }
    return INLAY_OK;
}

static inlay_status scaler_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const feature_job *job = user;
    const feature_state *state = job->state;
    const kit_tensor *input = &job->call->in[0];
    kit_tensor *output = &job->call->out[0];
    double v[FEATURE_BLOCK];

    (void)worker;
    for (int64_t i = begin, n; i < end; i += n) {
        const double *offset = feature_at(&state->offset, i, end - i, &n), *scale = feature_at(&state->scale, i, n, &n);

        convert_to_f64(v, input->dtype, input->data, i, n);
        scale_run(v, offset, scale, n);
        convert_from_f64(output->dtype, output->data, i, n, v, 0);
    }
    return INLAY_OK;
}

/* The norm of v, added to or compared with what there is of it. */
static double norm_run(uint32_t kind, const double *v, int64_t n, double norm)
{
    double sum = 0;

    if (kind == NORM_MAX) {
        for (int64_t j = 0; j < n; j++)
            norm = fabs(v[j]) > norm ? fabs(v[j]) : norm;
        return norm;
    }
    if (kind == NORM_L1) {
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < n; j++)
            sum += fabs(v[j]);
    } else {
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < n; j++)
            sum += v[j] * v[j];
    }
    return norm + sum;
}
static void divide_run(double *v, double by, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        v[j] /= by;
}

/* Rows [begin, end); a row of zeros stays. */
static inlay_status normalizer_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const feature_job *job = user;
    const kit_tensor *input = &job->call->in[0];
    kit_tensor *output = &job->call->out[0];
    const int64_t columns = job->columns;
    double v[FEATURE_BLOCK];

    (void)worker;
    for (int64_t r = begin; r < end; r++) {
        double norm = 0;

        for (int64_t i = 0; i < columns; i += FEATURE_BLOCK) {
            int64_t n = columns - i < FEATURE_BLOCK ? columns - i : FEATURE_BLOCK;
            convert_to_f64(v, input->dtype, input->data, r * columns + i, n);
            norm = norm_run(job->state->norm, v, n, norm);
        }
        norm = job->state->norm == NORM_L2 ? sqrt(norm) : norm;
        norm = norm == 0 ? 1 : norm;
        for (int64_t i = 0; i < columns; i += FEATURE_BLOCK) {
            int64_t n = columns - i < FEATURE_BLOCK ? columns - i : FEATURE_BLOCK;
            if (columns > FEATURE_BLOCK)
                convert_to_f64(v, input->dtype, input->data, r * columns + i, n);
            divide_run(v, norm, n);
            convert_from_f64(output->dtype, output->data, r * columns + i, n, v, 0);
        }
    }
    return INLAY_OK;
}

static inlay_status imputer_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const feature_job *job = user;
    const feature_state *state = job->state;
    const kit_tensor *input = &job->call->in[0];
    kit_tensor *output = &job->call->out[0];
    double v[FEATURE_BLOCK];

    (void)worker;
    for (int64_t i = begin, n; i < end; i += n) {
        const double *imputed = feature_at(&state->imputed, i, end - i, &n);

        convert_to_f64(v, input->dtype, input->data, i, n);
        impute_run(v, state->replaced, imputed, n);
        convert_from_f64(output->dtype, output->data, i, n, v, 0);
    }
    return INLAY_OK;
}

/* Of integers. */
static inlay_status imputer_integers(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const feature_job *job = user;
    const feature_state *state = job->state;
    const kit_tensor *input = &job->call->in[0];
    kit_tensor *output = &job->call->out[0];
    int64_t v[FEATURE_BLOCK], c = begin % job->columns;

    (void)worker;
    for (int64_t i = begin; i < end; i += FEATURE_BLOCK) {
        const int64_t n = end - i < FEATURE_BLOCK ? end - i : FEATURE_BLOCK;

        convert_to_i64(v, input->dtype, input->data, i, n);
        for (int64_t j = 0; j < n; j++) {
            if (v[j] == state->replaced_integer)
                v[j] = state->imputed_integers[state->imputed_integer_count == 1 ? 0 : c];
            c = c + 1 == job->columns ? 0 : c + 1;
        }
        convert_from_i64(output->dtype, output->data, i, n, v, 0);
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
    const feature_state *state = call->state;
    feature_job job = { call, state, feature_columns(&call->in[0]) };
    inlay_status status =
        state->offset.count > 0 ? feature_fits(call, "offset", state->offset.count, job.columns) : INLAY_OK;

    if (status == INLAY_OK && state->scale.count > 0)
        status = feature_fits(call, "scale", state->scale.count, job.columns);
    return status == INLAY_OK ? kit_parallel(call, call->in[0].count, FEATURE_GRAIN, scaler_range, &job) : status;
}

static inlay_status run_normalizer(const kit_call *call)
{
    feature_job job = { call, call->state, feature_columns(&call->in[0]) };
    return kit_parallel(call, call->in[0].count / job.columns, FEATURE_GRAIN / job.columns + 1, normalizer_rows, &job);
}

static inlay_status run_imputer(const kit_call *call)
{
    const feature_state *state = call->state;
    bool floats = call->in[0].dtype == INLAY_FLOAT || call->in[0].dtype == INLAY_DOUBLE;
    feature_job job = { call, state, feature_columns(&call->in[0]) };
    inlay_status status = feature_fits(call, floats ? "imputed_value_floats" : "imputed_value_int64s",
                                       floats ? state->imputed.count : state->imputed_integer_count, job.columns);

    return status == INLAY_OK
               ? kit_parallel(call, call->in[0].count, FEATURE_GRAIN, floats ? imputer_range : imputer_integers, &job)
               : status;
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
        const kit_tensor *input = &call->in[k];
        int64_t columns = input->dims[input->rank - 1];
        for (int64_t r = 0; r < dims[0]; r++)
            convert_to_f32((float *)call->out[0].data + r * dims[1] + at, input->dtype, input->data, r * columns,
                           columns);
        at += columns;
    }
    return status;
}

/* The picked elements of each row. Compiled for each usual size of an element. */
static inline void extract_rows(const char *restrict from, int64_t columns, const int64_t *restrict pick, int64_t picks,
                                int64_t rows, char *restrict to, size_t elem)
{
    for (int64_t r = 0; r < rows; r++, from += (size_t)columns * elem, to += (size_t)picks * elem)
        for (int64_t i = 0; i < picks; i++)
            memcpy(to + (size_t)i * elem, from + (size_t)pick[i] * elem, elem);
}

static inlay_status extract_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const kit_tensor *input = &call->in[0], *picks = &call->in[1];
    const size_t elem = inlay_dtype_bits(input->dtype) / 8;
    const int64_t columns = feature_columns(input), rows = end - begin;
    const char *from = (const char *)input->data + (size_t)(begin * columns) * elem;
    char *to = (char *)call->out[0].data + (size_t)(begin * picks->count) * elem;

    (void)worker;
    if (elem == 4)
        extract_rows(from, columns, picks->data, picks->count, rows, to, 4);
    else if (elem == 8)
        extract_rows(from, columns, picks->data, picks->count, rows, to, 8);
    else
        extract_rows(from, columns, picks->data, picks->count, rows, to, elem);
    return INLAY_OK;
}

static inlay_status run_extractor(const kit_call *call)
{
    const kit_tensor *input = &call->in[0], *picks = &call->in[1];
    int64_t columns = input->rank > 0 ? input->dims[input->rank - 1] : 1,
            rows = columns > 0 ? input->count / columns : 0;

    if (call->out[0].count != rows * picks->count)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "the output has %lld elements where %lld are made",
                          (long long)call->out[0].count, (long long)(rows * picks->count));
    for (int64_t i = 0; i < picks->count; i++) {
        int64_t c = ((const int64_t *)picks->data)[i];
        if (c < 0 || c >= columns)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "Y[%lld] is %lld; X has %lld features", (long long)i,
                              (long long)c, (long long)columns);
    }
    return kit_parallel(call, rows, FEATURE_GRAIN / (picks->count + 1) + 1, extract_range, (void *)(uintptr_t)call);
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
const kit_table OPERATOR(reference_ml_features) = { kernels, KIT_COUNT(kernels) };
