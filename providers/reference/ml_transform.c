/* ml_transform.c - the score transforms of classifiers and regressors; no kernels here. */
#include "ml.h"

bool ml_transform_find(const char *name, uint32_t *out)
{
    static const char *const names[ML_TRANSFORMS] = { "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT" };

    for (uint32_t i = 0; i < ML_TRANSFORMS; i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

/* The quantile of the standard normal distribution: Newton's method on its distribution function, from a start that a
 * logistic curve gives. */
static double probit(double p)
{
    double z;

    if (!(p > 0 && p < 1))
        return p == 0 ? -INFINITY : p == 1 ? INFINITY : NAN;
    z = log(p / (1 - p)) / 1.702;
    for (int i = 0; i < 60; i++) {
        double error = 0.5 * erfc(-z / sqrt(2)) - p, slope = exp(-z * z / 2) / sqrt(2 * 3.14159265358979323846);
        double step = slope > 0 ? error / slope : 0;
        step = step > 1 ? 1 : step < -1 ? -1 : step;
        z -= step;
        if (fabs(step) < 1e-14 * (1 + fabs(z)))
            break;
    }
    return z;
}

void ml_transform(uint32_t transform, double *scores, int64_t n)
{
    double max = -INFINITY, sum = 0;

    if (transform == ML_LOGISTIC || transform == ML_PROBIT) {
        for (int64_t i = 0; i < n; i++)
            scores[i] = transform == ML_PROBIT ? probit(scores[i]) : ml_logistic(scores[i]);
        return;
    }
    if (transform != ML_SOFTMAX && transform != ML_SOFTMAX_ZERO)
        return;
    for (int64_t i = 0; i < n; i++)
        max = scores[i] > max ? scores[i] : max;
    for (int64_t i = 0; i < n; i++) /* zero stays zero: e to the minus infinity */
        scores[i] = transform == ML_SOFTMAX_ZERO && fabs(scores[i]) <= 1e-7 ? -INFINITY : scores[i] - max;
    ml_exp(scores, n);
    for (int64_t i = 0; i < n; i++)
        sum += scores[i];
    for (int64_t i = 0; i < n; i++)
        scores[i] = sum > 0 ? scores[i] / sum : 0;
}

void ml_two_scores(uint32_t transform, bool centered, double *scores)
{
    double s = scores[0];

    if (transform == ML_LOGISTIC) {
        scores[0] = ml_logistic(-s);
        scores[1] = ml_logistic(s);
    } else if (transform == ML_PROBIT) {
        scores[1] = probit(s);
        scores[0] = probit(1 - s);
    } else {
        scores[0] = centered ? -s : 1 - s;
        scores[1] = s;
        ml_transform(transform, scores, 2);
    }
}
