#include "partition/cost/cost_fit.h"
#include "base/order.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_SEEN = 2 /* points that have a term; through one, any line goes */, TURNS = 5 };
enum { MODEL_BIT = 1 << FIT_MODEL, COLD_BIT = 1 << FIT_COLD };
static const double NEAR_BYTES = 1 << 20; /* of cache next to one core, on machines of the last ten years */
static const double TERM_PENALTY = 1.2;   /* a further term has to explain something */
static const double OTHER_PENALTY = 4;    /* terms beside the provider's figure and cold bytes have to halve the
                                           * error */
static const double NOISE = 0.02;         /* of times that were measured; to explain less is nothing */
static const double WORST = 4;            /* no point counts as more than that many times off */

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

static bool is_usable(const fit_point *p)
{
    for (int t = 0; t < FIT_TERMS; t++)
        if (!isfinite(p->x[t]) || p->x[t] < 0)
            return false;
    return isfinite(p->ns) && p->ns > 0;
}

typedef double square_matrix[FIT_TERMS][FIT_TERMS];

/* Inverts the leading n x n of a matrix in place, by Gauss and Jordan with pivots in the diagonal, which does for
 * matrices like ours (symmetric, of no negative eigenvalue); false when it is singular. */
static bool invert(square_matrix a, int n)
{
    for (int c = 0; c < n; c++) {
        double pivot = a[c][c];

        if (fabs(pivot) < 1e-12)
            return false;
        a[c][c] = 1;
        for (int k = 0; k < n; k++)
            a[c][k] /= pivot;
        for (int r = 0; r < n; r++) {
            double factor = a[r][c];
            if (r == c)
                continue;
            a[r][c] = 0;
            for (int k = 0; k < n; k++)
                a[r][k] -= factor * a[c][k];
        }
    }
    return true;
}

/* A set of terms, fitted. */
struct trial {
    double ns_per[FIT_TERMS];
    double *off;   /* [count] prediction / measurement of each point by a fit without it; borrowed */
    double *unit;  /* [count] what errors of each point are counted in; borrowed */
    double square; /* mean of (log off) squared */
};

/* The set that is tried, in the order of the equations. scale: the largest x of each term, so that the equations are
 * well conditioned. */
struct chosen {
    const fit_point *points;
    uint32_t count;
    const double *scale;
    int term[FIT_TERMS], n;
};

/* Term r of point i, in units of its error. */
static double term_of(const struct chosen *c, const struct trial *t, uint32_t i, int r)
{
    return c->points[i].x[c->term[r]] / c->scale[c->term[r]] / t->unit[i];
}

/* Weighted least squares: t->ns_per, and *out_a the inverse of the equations, whose diagonal was brought to 1 by root
 * since rows differ by the squares of 1/ns. False when there is no solution of physical rates. */
static bool solve(const struct chosen *c, struct trial *t, square_matrix a, double root[FIT_TERMS])
{
    double b[FIT_TERMS] = { 0 };

    memset(a, 0, sizeof(square_matrix));
    memset(t->ns_per, 0, sizeof t->ns_per);
    for (uint32_t i = 0; i < c->count; i++) {
        for (int r = 0; r < c->n; r++) {
            double xr = term_of(c, t, i, r);
            for (int k = 0; k < c->n; k++)
                a[r][k] += xr * term_of(c, t, i, k);
            b[r] += xr * c->points[i].ns / t->unit[i];
        }
    }
    for (int r = 0; r < c->n; r++)
        root[r] = sqrt(a[r][r]);
    for (int r = 0; r < c->n; r++) {
        if (!(root[r] > 0))
            return false;
        b[r] /= root[r];
        for (int k = 0; k < c->n; k++)
            a[r][k] /= root[r] * root[k];
    }
    if (!invert(a, c->n))
        return false;
    for (int r = 0; r < c->n; r++) {
        double x = 0;

        for (int k = 0; k < c->n; k++)
            x += a[r][k] * b[k];
        if (!(x >= 0))
            return false;
        t->ns_per[c->term[r]] = x / root[r] / c->scale[c->term[r]];
    }
    return true;
}

/* The unit that makes squares of differences as steep as squares of logarithms, where the prediction is. */
static double unit_of(double ns, double predicted)
{
    double ratio = fmin(fmax(predicted / ns, 1 / WORST), WORST), logarithm = log(ratio);

    return ns * sqrt(ratio * (fabs(logarithm) < 1e-6 ? 1 : (ratio - 1) / logarithm));
}

/* Least squares of the relative error with the terms of the set alone: of its logarithm, by turns of least squares in
 * units that follow the prediction; units of the measurement would pull every line down. What a fit without a point
 * would say of it follows from the one with it: the residual grows by 1 / (1 - leverage). False when a rate would be
 * negative. */
static bool try_terms(const fit_point *points, uint32_t count, const double *scale, unsigned set, struct trial *out)
{
    struct chosen c = { .points = points, .count = count, .scale = scale };
    square_matrix a;
    double root[FIT_TERMS];

    out->square = 0;
    for (int t = 0; t < FIT_TERMS; t++)
        if ((set >> t & 1) != 0)
            c.term[c.n++] = t;
    for (uint32_t i = 0; i < count; i++)
        out->unit[i] = points[i].ns;
    for (int turn = 0; turn < TURNS; turn++) {
        for (uint32_t i = 0; turn > 0 && i < count; i++)
            out->unit[i] = unit_of(points[i].ns, at(out->ns_per, points[i].x));
        if (!solve(&c, out, a, root))
            return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        double leverage = 0, residual = (points[i].ns - at(out->ns_per, points[i].x)) / points[i].ns;

        for (int r = 0; r < c.n; r++)
            for (int k = 0; k < c.n; k++)
                leverage += term_of(&c, out, i, r) / root[r] * a[r][k] * term_of(&c, out, i, k) / root[k];
        if (count > 1)
            residual = leverage < 1 - 1e-9 ? residual / (1 - leverage) : WORST;
        out->off[i] = fmin(fmax(1 - residual, 1 / WORST), WORST);
        out->square += log(out->off[i]) * log(out->off[i]) / count;
    }
    return true;
}

/* By what factor three points of four are off at most: the median says little of the next kernel. */
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
    struct trial t;
    uint32_t seen[FIT_TERMS] = { 0 };
    unsigned usable = 0;

    *out = (fit_line){ .points = count };
    for (uint32_t i = 0; i < count; i++) {
        if (!is_usable(&points[i]))
            return false;
        for (int k = 0; k < FIT_TERMS; k++) {
            scale[k] = fmax(scale[k], points[i].x[k]);
            seen[k] += points[i].x[k] > 0;
        }
    }
    for (int k = 0; k < FIT_TERMS; k++)
        usable |= seen[k] >= LEAST_SEEN || seen[k] == count ? 1u << k : 0;
    if (terms != 0 && (usable & terms & ~(1u << FIT_ONE)) != 0)
        usable &= terms;
    t.off = malloc((count + 1) * 2 * sizeof *t.off);
    t.unit = t.off != NULL ? t.off + count + 1 : NULL;
    for (unsigned set = 1; t.off != NULL && set < 1u << FIT_TERMS; set++) {
        uint32_t size = (uint32_t)__builtin_popcount(set);
        double square;

        if ((set & ~usable) != 0 || size > count || !try_terms(points, count, scale, set, &t))
            continue;
        square = (t.square + NOISE * NOISE) * pow(TERM_PENALTY, size);
        if ((usable & MODEL_BIT) != 0 && (set & ~(1u << FIT_ONE)) != (usable & (MODEL_BIT | COLD_BIT)))
            square *= OTHER_PENALTY;
        if (least < 0 || square < least) {
            least = square;
            memcpy(out->ns_per, t.ns_per, sizeof t.ns_per);
            out->error = fmax(quartile_error(t.off, count), 1);
        }
    }
    free(t.off);
    return least >= 0;
}
