/* SVMClassifier, SVMRegressor: ai.onnx.ml 1.
 *
 * With support vectors, classification is that of libsvm: each pair of classes has a decision value, the sum over the
 * vectors of both classes; the class that wins most pairs is the label. Probabilities, if present, couple the sigmoids
 * of the pairs (Wu, Lin and Weng's second method) and do not affect the label, as in ONNX Runtime. Without support
 * vectors there is one row of coefficients per class.
 *
 * For a linear kernel, the decision values are dot products of the sample with sums of vectors, which are precomputed
 * (folded). */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/ml_attrs.h"
#include "operators/work.h"

enum { SVM_GRAIN = 1 << 15, SVM_ROWS = 24 };
enum { SVM_LINEAR, SVM_POLY, SVM_RBF, SVM_SIGMOID };

typedef struct svm_state {
    ml_pool pool;
    ml_labels labels;
    bool classifies, one_class;
    uint32_t kernel, transform;
    double gamma, coef0, degree;
    double *coefficients, *rho, *prob_a, *prob_b;
    ml_table table; /* the support vectors; if folded, one sum of vectors per pair; without vectors, the coefficients */
    bool folded;    /* the table has one row per pair, so that the dot products are the decision values */
    int64_t *starts;           /* [classes + 1] first vector of each class */
    int64_t vector_count;      /* 0: linear, a row of coefficients per class */
    int64_t features, classes; /* classes: 1 for a regressor */
    int64_t pairs;
} svm_state;

static void release_svm(void *state)
{
    svm_state *svm = state;

    if (svm != NULL)
        ml_pool_deinit(&svm->pool);
    free(svm);
}

/* Adds vectors [begin, end), each multiplied by its coefficient, to sum. */
static void fold_some(const svm_state *state, const float *vectors, const double *coefficients, int64_t begin,
                      int64_t end, double *sum)
{
    INLAY_CHECK(begin <= end && end <= state->vector_count);
    for (int64_t vector = begin; vector < end; vector++)
        for (int64_t i = 0; i < state->features; i++)
            sum[i] += coefficients[vector] * (double)vectors[vector * state->features + i];
}

/* Returns [pairs, features]: for each decision value the weighted sum of its vectors. Returns NULL if out of memory. */
static float *fold_vectors(svm_state *state, const float *vectors)
{
    float *folded = ml_alloc(&state->pool, (uint64_t)state->pairs * (uint64_t)state->features, sizeof *folded);
    double *sum = ml_alloc(&state->pool, (uint64_t)state->features, sizeof *sum);
    int64_t pair = 0;

    for (int64_t i = 0; folded != NULL && sum != NULL && i < state->classes; i++) {
        for (int64_t j = state->classifies ? i + 1 : i; j < state->classes; j++, pair++) {
            memset(sum, 0, (size_t)state->features * sizeof *sum);
            if (state->classifies) {
                fold_some(state, vectors, state->coefficients + (j - 1) * state->vector_count, state->starts[i],
                          state->starts[i + 1], sum);
                fold_some(state, vectors, state->coefficients + i * state->vector_count, state->starts[j],
                          state->starts[j + 1], sum);
            } else {
                fold_some(state, vectors, state->coefficients, 0, state->vector_count, sum);
            }
            for (int64_t feature = 0; feature < state->features; feature++)
                folded[pair * state->features + feature] = (float)sum[feature];
        }
    }
    return sum != NULL ? folded : NULL;
}

/* Packs the table by which samples are multiplied. */
static bool make_table(svm_state *state, const float *vectors, const float *coefficients)
{
    const float *rows = state->vector_count > 0 ? vectors : coefficients;
    int64_t count = state->vector_count > 0 ? state->vector_count : state->classes;

    state->folded = state->kernel == SVM_LINEAR && state->vector_count > 0 && state->pairs > 0 &&
                    state->pairs <= state->vector_count;
    if (state->folded) {
        rows = fold_vectors(state, vectors);
        count = state->pairs;
    }
    if (rows != NULL)
        state->table = ml_table_of(&state->pool, rows, count, state->features);
    return state->table.values != NULL;
}

/* Reads the lists and checks that their sizes match. */
static inlay_status svm_sizes(const kit_node *node, svm_state *state, inlay_diag *diag)
{
    uint32_t coefficients, vectors, rho, prob_a_count, prob_b_count, per_class_count;
    const float *support = ml_floats(node, "support_vectors", &vectors), *linear;
    int64_t *per_class;
    bool fits;

    state->coefficients = ml_doubles(&state->pool, node, "coefficients", NULL, &coefficients);
    state->rho = ml_doubles(&state->pool, node, "rho", NULL, &rho);
    state->prob_a = ml_doubles(&state->pool, node, "prob_a", NULL, &prob_a_count);
    state->prob_b = ml_doubles(&state->pool, node, "prob_b", NULL, &prob_b_count);
    per_class = ml_integers(&state->pool, node, "vectors_per_class", &per_class_count);
    if (state->classifies)
        ml_labels_read(&state->pool, node, "classlabels_ints", &state->labels);
    state->classes = !state->classifies ? 1 : per_class_count > 0 ? per_class_count : state->labels.count;
    state->starts = ml_alloc(&state->pool, (uint64_t)state->classes + 1, sizeof *state->starts);
    if (state->pool.failed)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a support vector machine");
    if (state->classifies) {
        for (uint32_t i = 0; i < per_class_count; i++) {
            if (per_class[i] < 0 || per_class[i] > INT32_MAX)
                return inlay_fail(diag, INLAY_INVALID_MODEL, "vectors_per_class[%u] is %lld", i,
                                  (long long)per_class[i]);
            state->starts[i + 1] = state->starts[i] + per_class[i];
        }
        state->vector_count = per_class_count > 0 ? state->starts[per_class_count] : 0;
    } else {
        state->vector_count = kit_attr_int(node->info, "n_supports", 0);
    }
    state->pairs =
        state->vector_count > 0 && state->classifies ? state->classes * (state->classes - 1) / 2 : state->classes;
    if (state->vector_count > 0) {
        state->features = vectors / state->vector_count;
        fits = vectors > 0 && vectors % state->vector_count == 0 && rho >= state->pairs &&
               coefficients == (state->classifies ? state->classes - 1 : 1) * state->vector_count &&
               prob_a_count == prob_b_count && (prob_a_count == 0 || prob_a_count == state->pairs);
    } else {
        state->features = state->classes > 0 ? coefficients / state->classes : 0;
        fits = state->classes > 0 && coefficients > 0 && coefficients % state->classes == 0 && rho >= 1;
    }
    if (!fits || state->vector_count < 0 || (state->classifies && state->labels.count < state->classes))
        return inlay_fail(diag, INLAY_INVALID_MODEL,
                          "%u coefficients, %u values of support vectors, %u of rho, %u of prob_a, %u of prob_b and %u "
                          "labels do not make a machine of %lld classes",
                          coefficients, vectors, rho, prob_a_count, prob_b_count, state->labels.count,
                          (long long)state->classes);
    linear = ml_floats(node, "coefficients", &coefficients);
    return make_table(state, support, linear)
               ? INLAY_OK
               : inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a support vector machine");
}

static inlay_status prepare_svm(const kit_node *node, void **out_state, inlay_diag *diag)
{
    static const char *const kernels[] = { "LINEAR", "POLY", "RBF", "SIGMOID" };
    const char *kernel = kit_attr_string(node->info, "kernel_type", "LINEAR");
    const char *transform = kit_attr_string(node->info, "post_transform", "NONE");
    svm_state *state = calloc(1, sizeof *state);
    uint32_t count;
    double *parameters;
    inlay_status status;

    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a support vector machine");
    state->classifies = strcmp(kit_op_type(node), "SVMClassifier") == 0;
    state->one_class = kit_attr_int(node->info, "one_class", 0) != 0;
    for (state->kernel = 0; state->kernel < 4 && strcmp(kernel, kernels[state->kernel]) != 0;)
        state->kernel++;
    parameters = ml_doubles(&state->pool, node, "kernel_params", NULL, &count);
    if (count >= 3 && parameters != NULL) {
        state->gamma = parameters[0];
        state->coef0 = parameters[1];
        state->degree = parameters[2];
    }
    status = svm_sizes(node, state, diag);
    if (status == INLAY_OK && (state->kernel == 4 || !ml_transform_find(transform, &state->transform)))
        status = inlay_fail(diag, INLAY_INVALID_MODEL, "kernel_type '%.40s' or post_transform '%.40s' is not known",
                            kernel, transform);
    if (state->vector_count == 0) /* kernel functions take vectors; ONNX Runtime ignores kernel_type, too */
        state->kernel = SVM_LINEAR;
    if (status == INLAY_OK && count < 3 && (count > 0 || state->kernel != SVM_LINEAR))
        status = inlay_fail(diag, INLAY_INVALID_MODEL, "kernel_params has %u elements, not 3: gamma, coef0 and degree",
                            count);
    if (status == INLAY_OK)
        *out_state = state;
    else
        release_svm(state);
    return status;
}

static bool has_whole_degree(const svm_state *state)
{
    return state->degree == 1 || state->degree == 2 || state->degree == 3 || state->degree == 4;
}

/* Converts `count` dot products or squared distances to values of the kernel function. */
static void svm_kernels(const svm_state *state, double *values, int64_t count)
{
    if (state->kernel == SVM_RBF) {
        for (int64_t i = 0; i < count; i++)
            values[i] *= -state->gamma;
        ml_exp(values, count);
        return;
    }
    if (state->kernel == SVM_POLY && has_whole_degree(state)) {
        ml_powers(values, count, state->gamma, state->coef0, (int)state->degree);
        return;
    }
    for (int64_t i = 0; i < count && state->kernel != SVM_LINEAR; i++) {
        const double argument = state->gamma * values[i] + state->coef0;
        values[i] = state->kernel == SVM_POLY ? pow(argument, state->degree) : tanh(argument);
    }
}

/* Computes the decision value of each pair of classes i < j, positive for i; votes counts the pairs that each class
 * wins. */
static void svm_pairs(const svm_state *state, const double *kernels, double *values, double *votes)
{
    int64_t pair = 0;

    INLAY_CHECK(state->vector_count > 0);
    for (int64_t i = 0; i < state->classes; i++)
        votes[i] = 0;
    for (int64_t i = 0; i < state->classes; i++) {
        for (int64_t j = i + 1; j < state->classes; j++, pair++) {
            const double *for_i = state->coefficients + (j - 1) * state->vector_count,
                         *for_j = state->coefficients + i * state->vector_count;
            double sum = state->rho[pair] + (state->folded ? kernels[pair] : 0);
            sum += state->folded ? 0
                                 : ml_dot(for_i + state->starts[i], kernels + state->starts[i],
                                          state->starts[i + 1] - state->starts[i]);
            sum += state->folded ? 0
                                 : ml_dot(for_j + state->starts[j], kernels + state->starts[j],
                                          state->starts[j + 1] - state->starts[j]);
            values[pair] = sum;
            votes[sum > 0 ? i : j] += 1;
        }
    }
}

/* Computes the probabilities p [n] of n classes from their pairwise probabilities r [n, n]: minimizes a quadratic form
 * by fixed-point iteration. q is scratch memory for [n, n + 1]. */
static void svm_couple(int64_t n, const double *r, double *q, double *p)
{
    double *qp = q + n * n;

    INLAY_CHECK(n > 1);
    for (int64_t t = 0; t < n; t++) {
        p[t] = 1 / (double)n;
        q[t * n + t] = 0;
        for (int64_t j = 0; j < n; j++) {
            if (j != t) {
                q[t * n + t] += r[j * n + t] * r[j * n + t];
                q[t * n + j] = -r[j * n + t] * r[t * n + j];
            }
        }
    }
    for (int round = 0; round < 100; round++) {
        double pqp = 0, error = 0;
        for (int64_t t = 0; t < n; t++) {
            qp[t] = 0;
            for (int64_t j = 0; j < n; j++)
                qp[t] += q[t * n + j] * p[j];
            pqp += p[t] * qp[t];
        }
        for (int64_t t = 0; t < n; t++)
            error = fabs(qp[t] - pqp) > error ? fabs(qp[t] - pqp) : error;
        if (error < 0.005 / (double)n)
            break;
        for (int64_t t = 0; t < n; t++) {
            double step = (pqp - qp[t]) / q[t * n + t];
            p[t] += step;
            pqp = (pqp + step * (step * q[t * n + t] + 2 * qp[t])) / (1 + step) / (1 + step);
            for (int64_t j = 0; j < n; j++) {
                qp[j] = (qp[j] + step * q[t * n + j]) / (1 + step);
                p[j] /= 1 + step;
            }
        }
    }
}

/* Returns the number of rows that a worker processes at once. rows: total number of rows, -1 if unknown. */
static int64_t svm_together(int64_t rows)
{
    return rows < 0 || rows > SVM_ROWS ? SVM_ROWS : rows;
}
/* Returns the doubles of scratch memory of a worker for `together` rows: the scratch of the table, kernel values,
 * decision values, scores, votes, and coupling. */
static int64_t svm_scratch(const svm_state *state, int64_t together)
{
    return ml_table_room(&state->table, together) + together * state->table.columns + state->pairs +
           2 * state->classes + 2 + 2 * state->classes * state->classes + state->classes;
}
static int64_t svm_columns(const svm_state *state)
{
    if (!state->classifies)
        return 1;
    return state->prob_a != NULL || state->vector_count == 0 ? state->classes : state->classes == 2 ? 2 : state->pairs;
}

static inlay_status shape_svm(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const svm_state *svm = state;
    int64_t rows = 0, columns = 0;
    inlay_status status = ml_matrix(&plan->in[0], &rows, &columns, diag);

    if (status == INLAY_OK && columns != svm->features)
        status = inlay_fail(diag, INLAY_SHAPE_MISMATCH, "X has %lld features, the machine %lld", (long long)columns,
                            (long long)svm->features);
    ml_allocates(plan);
    /* Few rows run on one thread. The workspace of blocks is kept small, so that it does not delay concurrent nodes. */
    plan->workspace_bytes = (uint64_t)svm_scratch(svm, svm_together(rows)) * sizeof(double) *
                            (rows >= 0 && rows <= SVM_ROWS ? 1 : plan->max_threads);
    return status;
}

/* The scores of two classes as ONNX Runtime computes them from the single decision value, which is positive for the
 * first class: the score of the second one is that value, and Softmax is not applied. */
static void svm_two_scores(const svm_state *state, double *scores)
{
    if (state->transform == ML_SOFTMAX || state->transform == ML_SOFTMAX_ZERO) {
        scores[1] = scores[0];
        scores[0] = 1 - scores[1];
    } else {
        ml_two_scores(state->transform, true, scores);
    }
}

/* Computes the scores of a sample from its kernel values, and returns its class. Scratch memory follows the scores. */
static int64_t svm_classify(const svm_state *state, const double *kernels, double *scores)
{
    double *votes = scores + state->pairs + state->classes + 2, *pairwise = votes + state->classes,
           *quadratic = pairwise + state->classes * state->classes;
    int64_t best = 0, classes = state->classes, pair = 0;

    INLAY_CHECK(classes > 0);
    if (state->vector_count == 0) {
        for (int64_t index = 0; index < classes; index++) {
            scores[index] = kernels[index] + state->rho[0];
            best = scores[index] > scores[best] ? index : best;
        }
        ml_transform(state->transform, scores, classes);
        return best;
    }
    svm_pairs(state, kernels, scores, votes);
    for (int64_t index = 1; index < classes; index++)
        best = votes[index] > votes[best] ? index : best;
    if (state->prob_a == NULL) {
        if (classes == 2)
            svm_two_scores(state, scores);
        else
            ml_transform(state->transform, scores, state->pairs);
        return best;
    }
    for (int64_t i = 0; i < classes; i++) {
        for (int64_t j = i + 1; j < classes; j++, pair++) {
            double probability = ml_logistic(-(scores[pair] * state->prob_a[pair] + state->prob_b[pair]));
            probability = probability < 1e-7 ? 1e-7 : probability > 1 - 1e-7 ? 1 - 1e-7 : probability;
            pairwise[i * classes + j] = probability;
            pairwise[j * classes + i] = 1 - probability;
        }
    }
    if (classes == 1)
        scores[0] = 1;
    else
        svm_couple(classes, pairwise, quadratic, scores);
    ml_transform(state->transform, scores, classes);
    return best;
}

static double svm_result(const svm_state *state, double sum)
{
    if (state->one_class)
        return sum > 0 ? 1 : -1;
    ml_transform(state->transform, &sum, 1);
    return sum;
}

static double svm_regress(const svm_state *state, const double *kernels)
{
    const bool direct = state->vector_count == 0 || state->folded;

    return svm_result(state, state->rho[0] +
                                 (direct ? kernels[0] : ml_dot(state->coefficients, kernels, state->vector_count)));
}

/* Processes float rows of a polynomial kernel of whole degree: sums the powers of the dot products without storing
 * them. */
static void svm_powers(const svm_state *state, const kit_call *call, int64_t first, int64_t rows, float *products)
{
    INLAY_CHECK(has_whole_degree(state));
    ml_table_products(&state->table, (const float *)call->in[0].data + first * state->features, rows, NULL, products,
                      state->table.columns);
    for (int64_t row = 0; row < rows; row++) {
        const double sum = ml_sum_of_powers(products + row * state->table.columns, state->coefficients,
                                            state->vector_count, state->gamma, state->coef0, (int)state->degree);
        const double result = svm_result(state, state->rho[0] + sum);

        convert_from_f64(call->out[0].dtype, call->out[0].data, first + row, 1, &result, 0);
    }
}

static inlay_status svm_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const svm_state *state = call->state;
    const kit_tensor *input = &call->in[0];
    const int64_t together = svm_together(input->rank == 2 ? input->dims[0] : 1);
    double *room = (double *)call->workspace + worker * svm_scratch(state, together);
    double *kernels = room + ml_table_room(&state->table, together),
           *scores = kernels + together * state->table.columns;
    const int64_t columns = svm_columns(state), wide = state->table.columns, output = state->classifies ? 1 : 0;
    const bool powers = !state->classifies && state->kernel == SVM_POLY && has_whole_degree(state) &&
                        state->vector_count > 0 && input->dtype == INLAY_FLOAT;
    inlay_status status = INLAY_OK;

    INLAY_CHECK(together > 0 || begin == end);
    for (int64_t row = begin; row < end && status == INLAY_OK; row += together) {
        const int64_t count = end - row < together ? end - row : together;

        if (powers) {
            svm_powers(state, call, row, count, (float *)(void *)kernels);
            continue;
        }
        ml_table_rows(&state->table, input, row, count, state->kernel == SVM_RBF, room, kernels);
        svm_kernels(state, kernels, count * wide);
        for (int64_t i = 0; i < count && status == INLAY_OK; i++) {
            if (state->classifies) {
                int64_t best = svm_classify(state, kernels + i * wide, scores);
                if (kit_has_output(call, 0))
                    status = ml_put_label(call, &state->labels, best, &call->out[0], row + i);
            } else {
                scores[0] = svm_regress(state, kernels + i * wide);
            }
            if (kit_has_output(call, (uint32_t)output))
                convert_from_f64(call->out[output].dtype, call->out[output].data, (row + i) * columns, columns, scores,
                                 0);
        }
    }
    return status;
}

static inlay_status run_svm(const kit_call *call)
{
    const svm_state *state = call->state;
    int64_t dims[2] = { 0, svm_columns(state) }, features = 0;
    inlay_status status = ml_matrix(&call->in[0], &dims[0], &features, call->diag);
    kit_call job = *call;

    if (status == INLAY_OK)
        status = ml_outputs(&job, state->classifies, dims);
    if (status != INLAY_OK)
        return status;
    return kit_parallel(
        call, dims[0],
        state->labels.texts != NULL
            ? dims[0] + 1
            : (SVM_GRAIN / ((state->vector_count + state->classes) * (state->features + 1)) / SVM_ROWS + 1) * SVM_ROWS,
        svm_rows, &job);
}

/* The cost of dot products or distances, of a kernel value per vector, and of the sums of kernel values. */
static void cost_svm(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const char *kernel = kit_attr_string(node->info, "kernel_type", "LINEAR");
    const bool functions = strcmp(kernel, "RBF") == 0 || strcmp(kernel, "SIGMOID") == 0,
               linear = strcmp(kernel, "LINEAR") == 0;
    const kit_tensor *input = &shapes->in[0];
    uint32_t vectors = 0, coefficients = 0;
    double columns, rows;

    (void)ml_floats(node, "support_vectors", &vectors);
    (void)ml_floats(node, "coefficients", &coefficients);
    columns = input->rank > 0 && input->dims[input->rank - 1] > 0 ? (double)input->dims[input->rank - 1] : 1;
    rows = work_count(input) / columns;
    work_cost(shapes, rows,
              linear ? 10 + 0.03 * columns : 60 + 0.05 * vectors + coefficients * (functions ? 1.2 : 0.06), rows, cost);
}

#define SVM_KERNEL(name)                                                                                               \
    {                                                                                                                  \
        .domain = "ai.onnx.ml", .op_type = name, .in_types = { ML_NUMBERS }, .prepare = prepare_svm,                   \
        .release = release_svm, .shape = shape_svm, .cost = cost_svm, .run = run_svm                                   \
    }

static const kit_kernel kernels[] = {
    SVM_KERNEL("SVMClassifier"),
    SVM_KERNEL("SVMRegressor"),
};
const kit_table OPERATOR(operators_ml_svm) = { kernels, KIT_COUNT(kernels) };
