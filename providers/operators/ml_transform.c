/* ml_transform.c - score transforms of classifiers and regressors. It contains no kernels. */
#include "operators/ml.h"
#include "inlay/check.h"

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

/* Returns the quantile of the standard normal distribution, by Newton's method on its distribution function. The start
 * is the quantile of a logistic distribution. */
static double probit(double probability)
{
    double quantile;

    if (!(probability > 0 && probability < 1))
        return probability == 0 ? -INFINITY : probability == 1 ? INFINITY : NAN;
    quantile = log(probability / (1 - probability)) / 1.702;
    for (int i = 0; i < 60; i++) {
        double error = 0.5 * erfc(-quantile / sqrt(2)) - probability,
               slope = exp(-quantile * quantile / 2) / sqrt(2 * 3.14159265358979323846);
        double step = slope > 0 ? error / slope : 0;
        step = step > 1 ? 1 : step < -1 ? -1 : step;
        quantile -= step;
        if (fabs(step) < 1e-14 * (1 + fabs(quantile)))
            break;
    }
    return quantile;
}

void ml_transform(uint32_t transform, double *scores, int64_t count)
{
    double max = -INFINITY, sum = 0;
    INLAY_CHECK(transform < ML_TRANSFORMS);

    if (transform == ML_LOGISTIC || transform == ML_PROBIT) {
        for (int64_t i = 0; i < count; i++)
            scores[i] = transform == ML_PROBIT ? probit(scores[i]) : ml_logistic(scores[i]);
        return;
    }
    if (transform != ML_SOFTMAX && transform != ML_SOFTMAX_ZERO)
        return;
    for (int64_t i = 0; i < count; i++)
        max = scores[i] > max ? scores[i] : max;
    for (int64_t i = 0; i < count; i++) /* zero stays zero: e ^ -infinity */
        scores[i] = transform == ML_SOFTMAX_ZERO && fabs(scores[i]) <= 1e-7 ? -INFINITY : scores[i] - max;
    ml_exp(scores, count);
    for (int64_t i = 0; i < count; i++)
        sum += scores[i];
    for (int64_t i = 0; i < count; i++)
        scores[i] = sum > 0 ? scores[i] / sum : 0;
}

void ml_two_scores(uint32_t transform, bool centered, double *scores)
{
    double score = scores[0];

    if (transform == ML_LOGISTIC) {
        scores[0] = ml_logistic(-score);
        scores[1] = ml_logistic(score);
    } else if (transform == ML_PROBIT) {
        scores[1] = probit(score);
        scores[0] = probit(1 - score);
    } else {
        scores[0] = centered ? -score : 1 - score;
        scores[1] = score;
        ml_transform(transform, scores, 2);
    }
}
