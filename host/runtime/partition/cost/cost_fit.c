#include "partition/cost/cost_fit.h"
#include "base/order.h"
#include "inlay/check.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MIN_POINTS = 2 /* minimum number of points with a term */, TURNS = 5 };
enum { MODEL_BIT = 1 << FIT_MODEL, COLD_BIT = 1 << FIT_COLD };
static const double NEAR_BYTES = 1 << 20; /* cache next to one core, on machines of the last ten years */
static const double TERM_PENALTY = 1.2;   /* required improvement per additional term */
/* terms other than the provider's estimate and cold bytes must halve the error */
static const double OTHER_PENALTY = 4;
static const double NOISE = 0.02; /* of measured times; smaller errors are not significant */
static const double WORST = 4;    /* errors are clamped to this factor */

void fit_terms(double flops, double bytes, double model_ns, double cold_bytes, double out_x[FIT_TERMS])
{
    out_x[FIT_ONE] = 1;
    out_x[FIT_FLOPS] = flops;
    out_x[FIT_BYTES] = bytes;
    out_x[FIT_FAR] = bytes > NEAR_BYTES ? bytes - NEAR_BYTES : 0;
    out_x[FIT_MODEL] = model_ns;
    out_x[FIT_COLD] = cold_bytes;
}

static double at(const double ns_per[FIT_TERMS], const double x[FIT_TERMS])
{
    double ns = 0;

    for (int t = 0; t < FIT_TERMS; t++)
        ns += ns_per[t] * x[t];
    return ns;
}

double fit_at(const fit_line *line, const double x[FIT_TERMS])
{
    return at(line->ns_per, x);
}

static bool is_usable(const fit_point *point)
{
    for (int t = 0; t < FIT_TERMS; t++)
        if (!isfinite(point->x[t]) || point->x[t] < 0)
            return false;
    return isfinite(point->ns) && point->ns > 0;
}

typedef double square_matrix[FIT_TERMS][FIT_TERMS];

/* Inverts the leading n x n block of a matrix in place: Gauss-Jordan elimination with diagonal pivots, which is
 * sufficient for symmetric positive semi-definite matrices. False if it is singular. */
static bool invert(square_matrix matrix, int n)
{
    INLAY_CHECK(n > 0 && n <= FIT_TERMS);
    for (int column = 0; column < n; column++) {
        double pivot = matrix[column][column];

        if (fabs(pivot) < 1e-12)
            return false;
        matrix[column][column] = 1;
        for (int k = 0; k < n; k++)
            matrix[column][k] /= pivot;
        for (int row = 0; row < n; row++) {
            double factor = matrix[row][column];
            if (row == column)
                continue;
            matrix[row][column] = 0;
            for (int k = 0; k < n; k++)
                matrix[row][k] -= factor * matrix[column][k];
        }
    }
    return true;
}

/* A fit with one set of terms. */
struct trial {
    double ns_per[FIT_TERMS];
    double *off;   /* [count] prediction / measurement of each point by a fit without it (leave-one-out); borrowed */
    double *unit;  /* [count] unit of each point's error; borrowed */
    double square; /* mean of (log off) squared */
};

/* The set of terms, in the order of the equations. scale: the largest x of each term, which keeps the equations well
 * conditioned. */
struct chosen {
    const fit_point *points;
    uint32_t count;
    const double *scale;
    int term[FIT_TERMS], n;
};

/* Term `row` of point i, in units of its error. */
static double term_of(const struct chosen *chosen, const struct trial *trial, uint32_t i, int row)
{
    return chosen->points[i].x[chosen->term[row]] / chosen->scale[chosen->term[row]] / trial->unit[i];
}

/* Weighted least squares: computes trial->ns_per and the inverse matrix of the normal equations. The equations are
 * scaled by `root` to a unit diagonal, since rows differ by the squares of 1/ns. False without a solution with
 * non-negative rates. */
static bool solve(const struct chosen *chosen, struct trial *trial, square_matrix matrix, double root[FIT_TERMS])
{
    double b[FIT_TERMS] = { 0 };

    INLAY_CHECK(chosen->n > 0 && chosen->n <= FIT_TERMS);
    memset(matrix, 0, sizeof(square_matrix));
    memset(trial->ns_per, 0, sizeof trial->ns_per);
    for (uint32_t i = 0; i < chosen->count; i++) {
        for (int row = 0; row < chosen->n; row++) {
            double term = term_of(chosen, trial, i, row);
            for (int k = 0; k < chosen->n; k++)
                matrix[row][k] += term * term_of(chosen, trial, i, k);
            b[row] += term * chosen->points[i].ns / trial->unit[i];
        }
    }
    for (int row = 0; row < chosen->n; row++)
        root[row] = sqrt(matrix[row][row]);
    for (int row = 0; row < chosen->n; row++) {
        if (!(root[row] > 0))
            return false;
        b[row] /= root[row];
        for (int k = 0; k < chosen->n; k++)
            matrix[row][k] /= root[row] * root[k];
    }
    if (!invert(matrix, chosen->n))
        return false;
    for (int row = 0; row < chosen->n; row++) {
        double rate = 0;

        for (int k = 0; k < chosen->n; k++)
            rate += matrix[row][k] * b[k];
        if (!(rate >= 0))
            return false;
        trial->ns_per[chosen->term[row]] = rate / root[row] / chosen->scale[chosen->term[row]];
    }
    return true;
}

/* The unit for which squared differences are as steep as squared logarithms at the prediction. */
static double unit_of(double ns, double predicted)
{
    double ratio = fmin(fmax(predicted / ns, 1 / WORST), WORST), logarithm = log(ratio);

    return ns * sqrt(ratio * (fabs(logarithm) < 1e-6 ? 1 : (ratio - 1) / logarithm));
}

/* Minimises the squared logarithm of the relative error with the terms of the set, by iteratively reweighted least
 * squares: the units follow the prediction, because units of the measurement would bias every line downwards. The
 * leave-one-out prediction follows from the leverage: the residual grows by 1 / (1 - leverage). False if a rate would
 * be negative. */
static bool try_terms(const fit_point *points, uint32_t count, const double *scale, unsigned set, struct trial *out)
{
    struct chosen chosen = { .points = points, .count = count, .scale = scale };
    square_matrix matrix;
    double root[FIT_TERMS];

    out->square = 0;
    for (int t = 0; t < FIT_TERMS; t++)
        if ((set >> t & 1) != 0)
            chosen.term[chosen.n++] = t;
    for (uint32_t i = 0; i < count; i++)
        out->unit[i] = points[i].ns;
    for (int turn = 0; turn < TURNS; turn++) {
        for (uint32_t i = 0; turn > 0 && i < count; i++)
            out->unit[i] = unit_of(points[i].ns, at(out->ns_per, points[i].x));
        if (!solve(&chosen, out, matrix, root))
            return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        double leverage = 0, residual = (points[i].ns - at(out->ns_per, points[i].x)) / points[i].ns;

        for (int row = 0; row < chosen.n; row++)
            for (int k = 0; k < chosen.n; k++)
                leverage +=
                    term_of(&chosen, out, i, row) / root[row] * matrix[row][k] * term_of(&chosen, out, i, k) / root[k];
        if (count > 1)
            residual = leverage < 1 - 1e-9 ? residual / (1 - leverage) : WORST;
        out->off[i] = fmin(fmax(1 - residual, 1 / WORST), WORST);
        out->square += log(out->off[i]) * log(out->off[i]) / count;
    }
    return true;
}

/* The upper quartile of the error factor: the median is too optimistic for the next kernel. */
static double quartile_error(double *off, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        off[i] = fabs(log(off[i]));
    qsort(off, count, sizeof *off, order_doubles);
    return exp(off[count * 3 / 4]);
}

bool fit_points(const fit_point *points, uint32_t count, unsigned terms, fit_line *out)
{
    double scale[FIT_TERMS] = { 0 }, least = -1;
    struct trial trial;
    uint32_t term_points[FIT_TERMS] = { 0 };
    unsigned usable = 0;

    *out = (fit_line){ .points = count };
    for (uint32_t i = 0; i < count; i++) {
        if (!is_usable(&points[i]))
            return false;
        for (int k = 0; k < FIT_TERMS; k++) {
            scale[k] = fmax(scale[k], points[i].x[k]);
            term_points[k] += points[i].x[k] > 0;
        }
    }
    for (int k = 0; k < FIT_TERMS; k++)
        usable |= term_points[k] >= MIN_POINTS || term_points[k] == count ? 1u << k : 0;
    if (terms != 0 && (usable & terms & ~(1u << FIT_ONE)) != 0)
        usable &= terms;
    trial.off = malloc((count + 1) * 2 * sizeof *trial.off);
    trial.unit = trial.off != NULL ? trial.off + count + 1 : NULL;
    for (unsigned set = 1; trial.off != NULL && set < 1u << FIT_TERMS; set++) {
        uint32_t size = (uint32_t)__builtin_popcount(set);
        double square;

        if ((set & ~usable) != 0 || size > count || !try_terms(points, count, scale, set, &trial))
            continue;
        square = (trial.square + NOISE * NOISE) * pow(TERM_PENALTY, size);
        if ((usable & MODEL_BIT) != 0 && (set & ~(1u << FIT_ONE)) != (usable & (MODEL_BIT | COLD_BIT)))
            square *= OTHER_PENALTY;
        if (least < 0 || square < least) {
            least = square;
            memcpy(out->ns_per, trial.ns_per, sizeof trial.ns_per);
            out->error = fmax(quartile_error(trial.off, count), 1);
        }
    }
    free(trial.off);
    return least >= 0;
}
