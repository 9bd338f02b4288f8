/* Binarizer, Imputer, Normalizer, Scaler, FeatureVectorizer, ArrayFeatureExtractor: ai.onnx.ml 1. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/lanes.h"
#include "operators/ml_attrs.h"

enum { FEATURE_GRAIN = 1 << 13, FEATURE_BLOCK = 256 };
enum { NORM_MAX, NORM_L1, NORM_L2 };

/* One number per feature, repeated so that a loop over a block of elements need not compute the feature of each. */
typedef struct feature_list {
    double *values;
    uint32_t count;  /* entries of the attribute */
    uint32_t length; /* entries of values: a multiple of count, at least FEATURE_BLOCK */
} feature_list;

typedef struct feature_state {
    ml_pool pool;
    double threshold;           /* Binarizer */
    uint32_t norm;              /* Normalizer */
    feature_list offset, scale; /* Scaler */
    feature_list imputed;       /* Imputer of floats */
    double replaced;
    int64_t *imputed_integers, replaced_integer; /* Imputer of integers */
    uint32_t imputed_integer_count;
    int64_t *widths; /* FeatureVectorizer: inputdimensions */
    uint32_t width_count;
} feature_state;

static void release_feature(void *state)
{
    feature_state *feature = state;

    if (feature != NULL)
        ml_pool_deinit(&feature->pool);
    free(feature);
}

/* Reads the list of that name; if it is missing, `otherwise` is used for all features. */
static feature_list feature_read(ml_pool *pool, const kit_node *node, const char *name, double otherwise)
{
    feature_list list = { 0 };
    const float *floats = ml_floats(node, name, &list.count);
    const uint32_t period = list.count > 0 ? list.count : 1;

    if (period > UINT32_MAX / 2)
        return list;
    list.length = (FEATURE_BLOCK + period - 1) / period * period;
    list.values = ml_alloc(pool, list.length, sizeof *list.values);
    for (uint32_t i = 0; list.values != NULL && i < list.length; i++)
        list.values[i] = floats != NULL && list.count > 0 ? (double)floats[i % period] : otherwise;
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
    state->widths = ml_integers(&state->pool, node, "inputdimensions", &state->width_count);
    if (state->pool.failed)
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for attributes");
    else if (state->offset.count > 0 && state->scale.count > 0 && state->offset.count != state->scale.count)
        status =
            inlay_fail(diag, INLAY_INVALID_MODEL, "offset has %u elements, scale %u; they must have the same length",
                       state->offset.count, state->scale.count);
    else if (state->norm == NORM_MAX && strcmp(norm, "MAX") != 0)
        status = inlay_fail(diag, INLAY_INVALID_MODEL, "norm is '%.40s'; it must be MAX, L1 or L2", norm);
    if (status == INLAY_OK)
        *out_state = state;
    else
        release_feature(state);
    return status;
}

/* The arguments of a parallel loop over the elements of the whole tensor, with `columns` features per row. */
typedef struct feature_job {
    const kit_call *call;
    const feature_state *state;
    int64_t columns;
} feature_job;

static int64_t feature_columns(const kit_tensor *input)
{
    return input->rank > 0 && input->dims[input->rank - 1] > 0 ? input->dims[input->rank - 1] : 1;
}

/* Returns the numbers for element `index` and the following elements. *out_count receives how many of them are valid,
 * at most `most`. */
static const double *feature_at(const feature_list *list, int64_t index, int64_t most, int64_t *out_count)
{
    const int64_t at = index % list->length, remaining = list->length - at;
    const int64_t count = most < FEATURE_BLOCK ? most : FEATURE_BLOCK;

    INLAY_CHECK(list->length > 0 && index >= 0);
    *out_count = count < remaining ? count : remaining;
    return list->values + at;
}

static void scale_run(double *values, const double *offset, const double *scale, int64_t count)
{
    for (int64_t j = 0; j < count; j++)
        values[j] = (values[j] - offset[j]) * scale[j];
}
static void threshold_run(double *values, double threshold, int64_t count)
{
    for (int64_t j = 0; j < count; j++)
        values[j] = values[j] > threshold ? 1 : 0;
}
static void impute_run(double *values, double replaced, const double *imputed, int64_t count)
{
    const bool any_nan = replaced != replaced;

    for (int64_t j = 0; j < count; j++)
        values[j] = (values[j] == replaced) | (any_nan & (values[j] != values[j])) ? imputed[j] : values[j];
}

static inlay_status binarizer_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const feature_job *job = user;
    const kit_tensor *input = &job->call->in[0];
    kit_tensor *output = &job->call->out[0];
    double values[FEATURE_BLOCK];

    (void)worker;
    for (int64_t i = begin; i < end; i += FEATURE_BLOCK) {
        int64_t count = end - i < FEATURE_BLOCK ? end - i : FEATURE_BLOCK;
        convert_to_f64(values, input->dtype, input->data, i, count);
        threshold_run(values, job->state->threshold, count);
        convert_from_f64(output->dtype, output->data, i, count, values, 0);
    }
    return INLAY_OK;
}

static inlay_status scaler_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const feature_job *job = user;
    const feature_state *state = job->state;
    const kit_tensor *input = &job->call->in[0];
    kit_tensor *output = &job->call->out[0];
    double values[FEATURE_BLOCK];

    (void)worker;
    for (int64_t i = begin, count; i < end; i += count) {
        const double *offset = feature_at(&state->offset, i, end - i, &count),
                     *scale = feature_at(&state->scale, i, count, &count);

        convert_to_f64(values, input->dtype, input->data, i, count);
        scale_run(values, offset, scale, count);
        convert_from_f64(output->dtype, output->data, i, count, values, 0);
    }
    return INLAY_OK;
}

/* Returns `norm` plus the contribution of `values`, or for NORM_MAX the larger of both: the largest element, as in ONNX
 * and ONNX Runtime, not the largest magnitude, by which scikit-learn divides. */
static double norm_run(uint32_t kind, const double *values, int64_t count, double norm)
{
    double sum = 0;

    if (kind == NORM_MAX) {
        for (int64_t j = 0; j < count; j++)
            norm = values[j] > norm ? values[j] : norm;
        return norm;
    }
    if (kind == NORM_L1) {
        SUM_IN_LANES(double, double, sum, j, 0, count, fabs(values[j]));
    } else {
        SUM_IN_LANES(double, double, sum, j, 0, count, values[j] * values[j]);
    }
    return norm + sum;
}
static void divide_run(double *values, double divisor, int64_t count)
{
    for (int64_t j = 0; j < count; j++)
        values[j] /= divisor;
}

/* Normalizes rows [begin, end); a row of zeros is unchanged. */
static inlay_status normalizer_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const feature_job *job = user;
    const kit_tensor *input = &job->call->in[0];
    kit_tensor *output = &job->call->out[0];
    const int64_t columns = job->columns;
    double values[FEATURE_BLOCK];

    INLAY_CHECK(columns > 0);
    (void)worker;
    for (int64_t row = begin; row < end; row++) {
        double norm = job->state->norm == NORM_MAX ? -INFINITY : 0;

        for (int64_t i = 0; i < columns; i += FEATURE_BLOCK) {
            int64_t count = columns - i < FEATURE_BLOCK ? columns - i : FEATURE_BLOCK;
            convert_to_f64(values, input->dtype, input->data, row * columns + i, count);
            norm = norm_run(job->state->norm, values, count, norm);
        }
        norm = job->state->norm == NORM_L2 ? sqrt(norm) : norm;
        norm = norm == 0 ? 1 : norm;
        for (int64_t i = 0; i < columns; i += FEATURE_BLOCK) {
            int64_t count = columns - i < FEATURE_BLOCK ? columns - i : FEATURE_BLOCK;
            if (columns > FEATURE_BLOCK)
                convert_to_f64(values, input->dtype, input->data, row * columns + i, count);
            divide_run(values, norm, count);
            convert_from_f64(output->dtype, output->data, row * columns + i, count, values, 0);
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
    double values[FEATURE_BLOCK];

    (void)worker;
    for (int64_t i = begin, count; i < end; i += count) {
        const double *imputed = feature_at(&state->imputed, i, end - i, &count);

        convert_to_f64(values, input->dtype, input->data, i, count);
        impute_run(values, state->replaced, imputed, count);
        convert_from_f64(output->dtype, output->data, i, count, values, 0);
    }
    return INLAY_OK;
}

/* Imputer for integers: processes elements [begin, end). */
static inlay_status imputer_integers(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const feature_job *job = user;
    const feature_state *state = job->state;
    const kit_tensor *input = &job->call->in[0];
    kit_tensor *output = &job->call->out[0];
    int64_t values[FEATURE_BLOCK], column = begin % job->columns;

    INLAY_CHECK(job->columns > 0);
    (void)worker;
    for (int64_t i = begin; i < end; i += FEATURE_BLOCK) {
        const int64_t count = end - i < FEATURE_BLOCK ? end - i : FEATURE_BLOCK;

        convert_to_i64(values, input->dtype, input->data, i, count);
        for (int64_t j = 0; j < count; j++) {
            if (values[j] == state->replaced_integer)
                values[j] = state->imputed_integers[state->imputed_integer_count == 1 ? 0 : column];
            column = column + 1 == job->columns ? 0 : column + 1;
        }
        convert_from_i64(output->dtype, output->data, i, count, values, 0);
    }
    return INLAY_OK;
}

static inlay_status run_binarizer(const kit_call *call)
{
    feature_job job = { call, call->state, 1 };
    return kit_parallel(call, call->in[0].count, FEATURE_GRAIN, binarizer_range, &job);
}

/* Checks that a list has one entry, or one per column. */
static inlay_status feature_fits(const kit_call *call, const char *name, uint32_t count, int64_t columns)
{
    return count == 1 || count == columns
               ? INLAY_OK
               : inlay_fail(call->diag, INLAY_SHAPE_MISMATCH,
                            "%s has %u entries; it must have 1, or one for each of %lld features", name, count,
                            (long long)columns);
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

static inlay_status shape_allocates(const void *state, kit_plan *plan, inlay_diag *diag)
{
    (void)state;
    (void)diag;
    ml_allocates(plan);
    return INLAY_OK;
}

/* The columns that input `index` has in the output of a FeatureVectorizer: inputdimensions[index], where the input may
 * have fewer, or its own. */
static inlay_status vectorizer_columns(const kit_call *call, uint32_t index, int64_t *inout_columns)
{
    const feature_state *state = call->state;

    if (state->width_count == 0)
        return INLAY_OK;
    if (state->width_count != call->in_count)
        return inlay_fail(call->diag, INLAY_INVALID_MODEL, "inputdimensions has %u elements for %u inputs",
                          state->width_count, call->in_count);
    if (*inout_columns > state->widths[index])
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "input %u has %lld features; inputdimensions[%u] is %lld",
                          index, (long long)*inout_columns, index, (long long)state->widths[index]);
    *inout_columns = state->widths[index];
    return INLAY_OK;
}

/* FeatureVectorizer: concatenates the columns of all inputs as floats. Missing columns are 0, as in ONNX Runtime. */
static inlay_status run_vectorizer(const kit_call *call)
{
    int64_t dims[2] = { -1, 0 }, at = 0;
    inlay_status status = INLAY_OK;

    for (uint32_t index = 0; index < call->in_count && status == INLAY_OK; index++) {
        int64_t rows = 0, columns = 0;
        status = ml_matrix(&call->in[index], &rows, &columns, call->diag);
        if (status == INLAY_OK && dims[0] >= 0 && rows != dims[0])
            status = inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "input %u has %lld samples, the first %lld", index,
                                (long long)rows, (long long)dims[0]);
        if (status == INLAY_OK)
            status = vectorizer_columns(call, index, &columns);
        if (status == INLAY_OK) {
            dims[0] = rows;
            dims[1] += columns;
        }
    }
    if (status == INLAY_OK)
        status = ml_output(call, 0, 2, dims);
    for (uint32_t index = 0; index < call->in_count && status == INLAY_OK; index++) {
        const kit_tensor *input = &call->in[index];
        const int64_t columns = input->dims[input->rank - 1];
        int64_t wide = columns;

        (void)vectorizer_columns(call, index, &wide);
        for (int64_t row = 0; row < dims[0]; row++) {
            float *const to = (float *)call->out[0].data + row * dims[1] + at;

            convert_to_f32(to, input->dtype, input->data, row * columns, columns);
            memset(to + columns, 0, (size_t)(wide - columns) * sizeof *to);
        }
        at += wide;
    }
    return status;
}

/* Copies the selected elements of each row, four rows at a time, so that an index is read once for all of them. Inlined
 * once for each usual element size. */
static inline void extract_rows(const char *restrict from, int64_t columns, const int64_t *restrict pick, int64_t picks,
                                int64_t rows, char *restrict to, size_t element_bytes)
{
    const size_t step = (size_t)columns * element_bytes, to_step = (size_t)picks * element_bytes;

    for (; rows >= 4; rows -= 4, from += 4 * step, to += 4 * to_step) {
        for (int64_t i = 0; i < picks; i++) {
            const char *const element = from + (size_t)pick[i] * element_bytes;
            char *const put = to + (size_t)i * element_bytes;

            memcpy(put, element, element_bytes);
            memcpy(put + to_step, element + step, element_bytes);
            memcpy(put + 2 * to_step, element + 2 * step, element_bytes);
            memcpy(put + 3 * to_step, element + 3 * step, element_bytes);
        }
    }
    for (; rows > 0; rows--, from += step, to += to_step)
        for (int64_t i = 0; i < picks; i++)
            memcpy(to + (size_t)i * element_bytes, from + (size_t)pick[i] * element_bytes, element_bytes);
}

static inlay_status extract_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const kit_tensor *input = &call->in[0], *picks = &call->in[1];
    const size_t element_bytes = inlay_dtype_bits(input->dtype) / 8;
    const int64_t columns = feature_columns(input), rows = end - begin;
    const char *from = (const char *)input->data + (size_t)(begin * columns) * element_bytes;
    char *to = (char *)call->out[0].data + (size_t)(begin * picks->count) * element_bytes;

    (void)worker;
    if (element_bytes == 4)
        extract_rows(from, columns, picks->data, picks->count, rows, to, 4);
    else if (element_bytes == 8)
        extract_rows(from, columns, picks->data, picks->count, rows, to, 8);
    else
        extract_rows(from, columns, picks->data, picks->count, rows, to, element_bytes);
    return INLAY_OK;
}

static inlay_status run_extractor(const kit_call *call)
{
    const kit_tensor *input = &call->in[0], *picks = &call->in[1];
    int64_t columns = input->rank > 0 ? input->dims[input->rank - 1] : 1,
            rows = columns > 0 ? input->count / columns : 0;

    if (call->out[0].count != rows * picks->count)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "the output has %lld elements where %lld are computed",
                          (long long)call->out[0].count, (long long)(rows * picks->count));
    for (int64_t i = 0; i < picks->count; i++) {
        int64_t column = ((const int64_t *)picks->data)[i];
        if (column < 0 || column >= columns)
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "Y[%lld] is %lld; X has %lld features", (long long)i,
                              (long long)column, (long long)columns);
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
      .prepare = prepare_feature,
      .release = release_feature,
      .shape = shape_allocates,
      .run = run_vectorizer },
    { .domain = "ai.onnx.ml",
      .op_type = "ArrayFeatureExtractor",
      .in_types = { ML_NUMBERS | KIT_BIT(STRING) },
      .run = run_extractor },
};
const kit_table OPERATOR(operators_ml_features) = { kernels, KIT_COUNT(kernels) };
