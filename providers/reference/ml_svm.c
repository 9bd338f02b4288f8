/* SVMClassifier, SVMRegressor: ai.onnx.ml 1.
 *
 * With support vectors a classifier is libsvm's: each pair of classes has a decision value, to which both classes'
 * vectors contribute; the class that wins most pairs is the label. Probabilities, where there are any, couple the
 * pairs' sigmoids (Wu, Lin and Weng's second method) and have no say in it, as in ONNX Runtime. Without support vectors
 * the coefficients are one row a class.
 *
 * A linear kernel's decision values are products of the sample with sums of vectors, which are made once (folded). */
#include "instance.h"
#include "ml.h"
#include "work.h"

enum { SVM_GRAIN = 1 << 15, SVM_ROWS = 24 };
enum { SVM_LINEAR, SVM_POLY, SVM_RBF, SVM_SIGMOID };

typedef struct svm_state {
    ml_pool pool;
    ml_labels labels;
    bool classifies, one_class;
    uint32_t kernel, transform;
    double gamma, coef0, degree;
    double *coefficients, *rho, *prob_a, *prob_b;
    ml_table table;            /* of the vectors, of a row a pair, or of the coefficients where there are no vectors */
    bool folded;               /* a row a pair: the products are the decision values */
    int64_t *starts;           /* [classes + 1] first vector of each class */
    int64_t vector_count;      /* 0: linear, a row of coefficients a class */
    int64_t features, classes; /* classes: 1 for a regressor */
    int64_t pairs;
} svm_state;

static void release_svm(void *state)
{
    svm_state *s = state;

    if (s != NULL)
        ml_pool_deinit(&s->pool);
    free(s);
}

/* Adds vectors [begin, end), each times its coefficient, to sum. */
static void fold_some(const svm_state *s, const float *vectors, const double *coefficients, int64_t begin, int64_t end,
                      double *sum)
{
    for (int64_t v = begin; v < end; v++)
        for (int64_t i = 0; i < s->features; i++)
            sum[i] += coefficients[v] * (double)vectors[v * s->features + i];
}

/* [pairs, features]: for each decision value the sum of its vectors. NULL: no memory. */
static float *fold_vectors(svm_state *s, const float *vectors)
{
    float *folded = ml_alloc(&s->pool, (uint64_t)s->pairs * (uint64_t)s->features, sizeof *folded);
    double *sum = ml_alloc(&s->pool, (uint64_t)s->features, sizeof *sum);
    int64_t pair = 0;

    for (int64_t i = 0; folded != NULL && sum != NULL && i < s->classes; i++) {
        for (int64_t j = s->classifies ? i + 1 : i; j < s->classes; j++, pair++) {
            memset(sum, 0, (size_t)s->features * sizeof *sum);
            if (s->classifies) {
                fold_some(s, vectors, s->coefficients + (j - 1) * s->vector_count, s->starts[i], s->starts[i + 1], sum);
                fold_some(s, vectors, s->coefficients + i * s->vector_count, s->starts[j], s->starts[j + 1], sum);
            } else {
                fold_some(s, vectors, s->coefficients, 0, s->vector_count, sum);
            }
            for (int64_t k = 0; k < s->features; k++)
                folded[pair * s->features + k] = (float)sum[k];
        }
    }
    return sum != NULL ? folded : NULL;
}

/* The table that samples are multiplied by. */
static bool make_table(svm_state *s, const float *vectors, const float *coefficients)
{
    const float *rows = s->vector_count > 0 ? vectors : coefficients;
    int64_t count = s->vector_count > 0 ? s->vector_count : s->classes;

    s->folded = s->kernel == SVM_LINEAR && s->vector_count > 0 && s->pairs > 0 && s->pairs <= s->vector_count;
    if (s->folded) {
        rows = fold_vectors(s, vectors);
        count = s->pairs;
    }
    if (rows != NULL)
        s->table = ml_table_of(&s->pool, rows, count, s->features);
    return s->table.values != NULL;
}

/* The numbers of the lists, checked against each other. */
static inlay_status svm_sizes(const kit_node *node, svm_state *s, inlay_diag *diag)
{
    uint32_t coefficients, vectors, rho, a, b, per_class_count;
    const float *support = ml_floats(node, "support_vectors", &vectors), *linear;
    int64_t *per_class;
    bool fits;

    s->coefficients = ml_doubles(&s->pool, node, "coefficients", NULL, &coefficients);
    s->rho = ml_doubles(&s->pool, node, "rho", NULL, &rho);
    s->prob_a = ml_doubles(&s->pool, node, "prob_a", NULL, &a);
    s->prob_b = ml_doubles(&s->pool, node, "prob_b", NULL, &b);
    per_class = ml_integers(&s->pool, node, "vectors_per_class", &per_class_count);
    if (s->classifies)
        ml_labels_read(&s->pool, node, "classlabels_ints", &s->labels);
    s->classes = !s->classifies ? 1 : per_class_count > 0 ? per_class_count : s->labels.count;
    s->starts = ml_alloc(&s->pool, (uint64_t)s->classes + 1, sizeof *s->starts);
    if (s->pool.failed)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a support vector machine");
    if (s->classifies) {
        for (uint32_t i = 0; i < per_class_count; i++) {
            if (per_class[i] < 0 || per_class[i] > INT32_MAX)
                return inlay_fail(diag, INLAY_INVALID_MODEL, "vectors_per_class[%u] is %lld", i,
                                  (long long)per_class[i]);
            s->starts[i + 1] = s->starts[i] + per_class[i];
        }
        s->vector_count = per_class_count > 0 ? s->starts[per_class_count] : 0;
    } else {
        s->vector_count = kit_attr_int(node->info, "n_supports", 0);
    }
    s->pairs = s->vector_count > 0 && s->classifies ? s->classes * (s->classes - 1) / 2 : s->classes;
    if (s->vector_count > 0) {
        s->features = vectors / s->vector_count;
        fits = vectors > 0 && vectors % s->vector_count == 0 && rho >= s->pairs &&
               coefficients == (s->classifies ? s->classes - 1 : 1) * s->vector_count && a == b &&
               (a == 0 || a == s->pairs);
    } else {
        s->features = s->classes > 0 ? coefficients / s->classes : 0;
        fits = s->classes > 0 && coefficients > 0 && coefficients % s->classes == 0 && rho >= 1;
    }
    if (!fits || s->vector_count < 0 || (s->classifies && s->labels.count < s->classes))
        return inlay_fail(
            diag, INLAY_INVALID_MODEL,
            "%u coefficients, %u numbers of support vectors, %u of rho, %u of prob_a, %u of prob_b and %u "
            "labels do not make a machine of %lld classes",
            coefficients, vectors, rho, a, b, s->labels.count, (long long)s->classes);
    linear = ml_floats(node, "coefficients", &coefficients);
    return make_table(s, support, linear)
               ? INLAY_OK
               : inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a support vector machine");
}

static inlay_status prepare_svm(const kit_node *node, void **out_state, inlay_diag *diag)
{
    static const char *const kernels[] = { "LINEAR", "POLY", "RBF", "SIGMOID" };
    const char *kernel = kit_attr_string(node->info, "kernel_type", "LINEAR");
    const char *transform = kit_attr_string(node->info, "post_transform", "NONE");
    svm_state *s = calloc(1, sizeof *s);
    uint32_t count;
    double *parameters;
    inlay_status status;

    if (s == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a support vector machine");
    s->classifies = strcmp(node->info->op_type.data, "SVMClassifier") == 0;
    s->one_class = kit_attr_int(node->info, "one_class", 0) != 0;
    for (s->kernel = 0; s->kernel < 4 && strcmp(kernel, kernels[s->kernel]) != 0;)
        s->kernel++;
    parameters = ml_doubles(&s->pool, node, "kernel_params", NULL, &count);
    if (count >= 3 && parameters != NULL) {
        s->gamma = parameters[0];
        s->coef0 = parameters[1];
        s->degree = parameters[2];
    }
    status = svm_sizes(node, s, diag);
    if (status == INLAY_OK && (s->kernel == 4 || !ml_transform_find(transform, &s->transform)))
        status = inlay_fail(diag, INLAY_INVALID_MODEL, "kernel_type '%.40s' or post_transform '%.40s' is not known",
                            kernel, transform);
    if (status == INLAY_OK)
        *out_state = s;
    else
        release_svm(s);
    return status;
}

static bool has_whole_degree(const svm_state *s)
{
    return s->degree == 1 || s->degree == 2 || s->degree == 3 || s->degree == 4;
}

/* From products or squared distances to the n values of the kernel function. */
static void svm_kernels(const svm_state *s, double *v, int64_t n)
{
    if (s->kernel == SVM_RBF) {
        for (int64_t i = 0; i < n; i++)
            v[i] *= -s->gamma;
        ml_exp(v, n);
        return;
    }
    if (s->kernel == SVM_POLY && has_whole_degree(s)) {
        ml_powers(v, n, s->gamma, s->coef0, (int)s->degree);
        return;
    }
    for (int64_t i = 0; i < n && s->kernel != SVM_LINEAR; i++) {
        const double z = s->gamma * v[i] + s->coef0;
        v[i] = s->kernel == SVM_POLY ? pow(z, s->degree) : tanh(z);
    }
}

/* The decision value of each pair of classes i < j, positive for i; votes counts what each class wins. */
static void svm_pairs(const svm_state *s, const double *kernels, double *values, double *votes)
{
    int64_t pair = 0;

    for (int64_t i = 0; i < s->classes; i++)
        votes[i] = 0;
    for (int64_t i = 0; i < s->classes; i++) {
        for (int64_t j = i + 1; j < s->classes; j++, pair++) {
            const double *for_i = s->coefficients + (j - 1) * s->vector_count,
                         *for_j = s->coefficients + i * s->vector_count;
            double sum = s->rho[pair] + (s->folded ? kernels[pair] : 0);
            sum +=
                s->folded ? 0 : ml_dot(for_i + s->starts[i], kernels + s->starts[i], s->starts[i + 1] - s->starts[i]);
            sum +=
                s->folded ? 0 : ml_dot(for_j + s->starts[j], kernels + s->starts[j], s->starts[j + 1] - s->starts[j]);
            values[pair] = sum;
            votes[sum > 0 ? i : j] += 1;
        }
    }
}

/* Probabilities p [classes] from pairwise ones r [classes, classes], by fixed-point iteration on the quadratic form;
 * q is room for [classes, classes + 1]. */
static void svm_couple(int64_t n, const double *r, double *q, double *p)
{
    double *qp = q + n * n;

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

/* How many of so many rows a worker takes at once; -1: it is not known how many there are. */
static int64_t svm_together(int64_t rows)
{
    return rows < 0 || rows > SVM_ROWS ? SVM_ROWS : rows;
}
/* Doubles of a worker for so many rows at once: room, a kernel value a vector, scores, votes, and room for coupling. */
static int64_t svm_scratch(const svm_state *s, int64_t together)
{
    return ml_table_room(&s->table, together) + together * s->table.columns + s->pairs + 2 * s->classes + 2 +
           2 * s->classes * s->classes + s->classes;
}
static int64_t svm_columns(const svm_state *s)
{
    if (!s->classifies)
        return 1;
    return s->prob_a != NULL || s->vector_count == 0 ? s->classes : s->classes == 2 ? 2 : s->pairs;
}

static inlay_status shape_svm(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const svm_state *s = state;
    int64_t rows = 0, columns = 0;
    inlay_status status = ml_matrix(&plan->in[0], &rows, &columns, diag);

    if (status == INLAY_OK && columns != s->features)
        status = inlay_fail(diag, INLAY_SHAPE_MISMATCH, "X has %lld features, the machine %lld", (long long)columns,
                            (long long)s->features);
    ml_allocates(plan);
    /* Few rows are not shared: what they take of memory must not keep them from going beside others. */
    plan->workspace_bytes = (uint64_t)svm_scratch(s, svm_together(rows)) * sizeof(double) *
                            (rows >= 0 && rows <= SVM_ROWS ? 1 : plan->max_threads);
    return status;
}

/* The scores of two classes are what ONNX Runtime makes of the only decision value, which is positive for the first
 * class: the second one's is that value, and Softmax is left out. */
static void svm_two_scores(const svm_state *s, double *scores)
{
    if (s->transform == ML_SOFTMAX || s->transform == ML_SOFTMAX_ZERO) {
        scores[1] = scores[0];
        scores[0] = 1 - scores[1];
    } else {
        ml_two_scores(s->transform, true, scores);
    }
}

/* Scores of a sample from its kernel values; their scratch follows them. Returns its class. */
static int64_t svm_classify(const svm_state *s, const double *kernels, double *scores)
{
    double *votes = scores + s->pairs + s->classes + 2, *r = votes + s->classes, *q = r + s->classes * s->classes;
    int64_t best = 0, n = s->classes, pair = 0;

    if (s->vector_count == 0) {
        for (int64_t k = 0; k < n; k++) {
            scores[k] = kernels[k] + s->rho[0];
            best = scores[k] > scores[best] ? k : best;
        }
        ml_transform(s->transform, scores, n);
        return best;
    }
    svm_pairs(s, kernels, scores, votes);
    for (int64_t k = 1; k < n; k++)
        best = votes[k] > votes[best] ? k : best;
    if (s->prob_a == NULL) {
        if (n == 2)
            svm_two_scores(s, scores);
        else
            ml_transform(s->transform, scores, s->pairs);
        return best;
    }
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = i + 1; j < n; j++, pair++) {
            double p = ml_logistic(-(scores[pair] * s->prob_a[pair] + s->prob_b[pair]));
            p = p < 1e-7 ? 1e-7 : p > 1 - 1e-7 ? 1 - 1e-7 : p;
            r[i * n + j] = p;
            r[j * n + i] = 1 - p;
        }
    }
    if (n == 1)
        scores[0] = 1;
    else
        svm_couple(n, r, q, scores);
    ml_transform(s->transform, scores, n);
    return best;
}

static double svm_result(const svm_state *s, double sum)
{
    if (s->one_class)
        return sum > 0 ? 1 : -1;
    ml_transform(s->transform, &sum, 1);
    return sum;
}

static double svm_regress(const svm_state *s, const double *kernels)
{
    const bool direct = s->vector_count == 0 || s->folded;

    return svm_result(s, s->rho[0] + (direct ? kernels[0] : ml_dot(s->coefficients, kernels, s->vector_count)));
}

/* Rows of floats whose powers are added as they are made. */
static void svm_powers(const svm_state *s, const kit_call *call, int64_t first, int64_t rows, float *products)
{
    ml_table_products(&s->table, (const float *)call->in[0].data + first * s->features, rows, NULL, products,
                      s->table.columns);
    for (int64_t r = 0; r < rows; r++) {
        const double sum = ml_sum_of_powers(products + r * s->table.columns, s->coefficients, s->vector_count, s->gamma,
                                            s->coef0, (int)s->degree);
        const double y = svm_result(s, s->rho[0] + sum);

        convert_from_f64(call->out[0].dtype, call->out[0].data, first + r, 1, &y, 0);
    }
}

static inlay_status svm_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const svm_state *s = call->state;
    const kit_tensor *x = &call->in[0];
    const int64_t together = svm_together(x->rank == 2 ? x->dims[0] : 1);
    double *room = (double *)call->workspace + worker * svm_scratch(s, together);
    double *kernels = room + ml_table_room(&s->table, together), *scores = kernels + together * s->table.columns;
    const int64_t columns = svm_columns(s), wide = s->table.columns, o = s->classifies ? 1 : 0;
    const bool powers = !s->classifies && s->kernel == SVM_POLY && has_whole_degree(s) && s->vector_count > 0 &&
                        x->dtype == INLAY_FLOAT;
    inlay_status status = INLAY_OK;

    for (int64_t r = begin; r < end && status == INLAY_OK; r += together) {
        const int64_t count = end - r < together ? end - r : together;

        if (powers) {
            svm_powers(s, call, r, count, (float *)(void *)kernels);
            continue;
        }
        ml_table_rows(&s->table, x, r, count, s->kernel == SVM_RBF, room, kernels);
        svm_kernels(s, kernels, count * wide);
        for (int64_t i = 0; i < count && status == INLAY_OK; i++) {
            if (s->classifies) {
                int64_t best = svm_classify(s, kernels + i * wide, scores);
                if (kit_has_output(call, 0))
                    status = ml_put_label(call, &s->labels, best, &call->out[0], r + i);
            } else {
                scores[0] = svm_regress(s, kernels + i * wide);
            }
            if (kit_has_output(call, (uint32_t)o))
                convert_from_f64(call->out[o].dtype, call->out[o].data, (r + i) * columns, columns, scores, 0);
        }
    }
    return status;
}

static inlay_status run_svm(const kit_call *call)
{
    const svm_state *s = call->state;
    int64_t dims[2] = { 0, svm_columns(s) }, features = 0;
    inlay_status status = ml_matrix(&call->in[0], &dims[0], &features, call->diag);
    kit_call job = *call;

    if (status == INLAY_OK)
        status = ml_outputs(&job, s->classifies, dims);
    if (status != INLAY_OK)
        return status;
    return kit_parallel(call, dims[0],
                        s->labels.texts != NULL
                            ? dims[0] + 1
                            : (SVM_GRAIN / ((s->vector_count + s->classes) * (s->features + 1)) / SVM_ROWS + 1) *
                                  SVM_ROWS,
                        svm_rows, &job);
}

/* Products or distances, a kernel value a vector, and the sums of those. */
static void cost_svm(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const bool functions = strcmp(kit_attr_string(node->info, "kernel_type", "LINEAR"), "LINEAR") != 0;
    const kit_tensor *x = &shapes->in[0];
    uint32_t vectors = 0, coefficients = 0;
    double columns, rows;

    (void)ml_floats(node, "support_vectors", &vectors);
    (void)ml_floats(node, "coefficients", &coefficients);
    columns = x->rank > 0 && x->dims[x->rank - 1] > 0 ? (double)x->dims[x->rank - 1] : 1;
    rows = work_count(x) / columns;
    work_cost(shapes, rows, 60 + 0.05 * vectors + coefficients * (functions ? 1.2 : 0.3), rows, cost);
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
const kit_table OPERATOR(reference_ml_svm) = { kernels, KIT_COUNT(kernels) };
