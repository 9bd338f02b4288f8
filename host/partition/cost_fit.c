#include "partition/cost_fit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_SEEN = 2 }; /* points that have a term; through one, any line goes */
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

double fit_at(const fit_line *line, const double x[FIT_TERMS])
{
    double ns = 0;

    for (int t = 0; t < FIT_TERMS; t++)
        ns += line->ns_per[t] * x[t];
    return ns;
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
typedef struct trial {
    double ns_per[FIT_TERMS];
    double *off; /* [count] prediction / measurement of each point by a fit without it; borrowed */
    double square; /* mean of (off - 1) squared */
} trial;

/* Least squares of (prediction / measurement - 1) with the terms of the set alone. scale: the largest x of each term,
 * so that the equations are well conditioned. What a fit without a point would say of it follows from the one with it:
 * the residual grows by 1 / (1 - leverage). False when a rate would be negative. */
static bool try_terms(const fit_point *points, uint32_t count, const double *scale, unsigned set, trial *out)
{
    square_matrix a = { { 0 } };
    double b[FIT_TERMS] = { 0 }, x[FIT_TERMS] = { 0 }, root[FIT_TERMS];
    int term[FIT_TERMS], n = 0;

    memset(out->ns_per, 0, sizeof out->ns_per);
    out->square = 0;
    for (int t = 0; t < FIT_TERMS; t++)
        if ((set >> t & 1) != 0)
            term[n++] = t;
    for (uint32_t i = 0; i < count; i++) {
        for (int r = 0; r < n; r++) {
            double xr = points[i].x[term[r]] / scale[term[r]] / points[i].ns;
            for (int c = 0; c < n; c++)
                a[r][c] += xr * points[i].x[term[c]] / scale[term[c]] / points[i].ns;
            b[r] += xr;
        }
    }
    /* Rows differ by the squares of 1/ns: the diagonal is brought to 1. */
    for (int r = 0; r < n; r++)
        root[r] = sqrt(a[r][r]);
    for (int r = 0; r < n; r++) {
        if (!(root[r] > 0))
            return false;
        b[r] /= root[r];
        for (int c = 0; c < n; c++)
            a[r][c] /= root[r] * root[c];
    }
    if (!invert(a, n))
        return false;
    for (int r = 0; r < n; r++) {
        for (int c = 0; c < n; c++)
            x[r] += a[r][c] * b[c];
        if (!(x[r] >= 0))
            return false;
        out->ns_per[term[r]] = x[r] / root[r] / scale[term[r]];
    }
    for (uint32_t i = 0; i < count; i++) {
        double row[FIT_TERMS], leverage = 0, residual = 1;

        for (int r = 0; r < n; r++) {
            row[r] = points[i].x[term[r]] / scale[term[r]] / points[i].ns / root[r];
            residual -= row[r] * x[r];
        }
        for (int r = 0; r < n; r++)
            for (int c = 0; c < n; c++)
                leverage += row[r] * a[r][c] * row[c];
        if (count > 1)
            residual = leverage < 1 - 1e-9 ? residual / (1 - leverage) : WORST;
        residual = fmax(fmin(residual, 1 - 1 / WORST), 1 - WORST);
        out->off[i] = 1 - residual;
        out->square += residual * residual / count;
    }
    return true;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* By what factor three points of four are off at most: the median says little of the next kernel. */
static double quartile_error(double *off, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        off[i] = fabs(log(off[i]));
    qsort(off, count, sizeof *off, by_size);
    return exp(off[count * 3 / 4]);
}

bool fit_points(const fit_point *points, uint32_t count, unsigned terms, fit_line *out)
{
    double scale[FIT_TERMS] = { 0 }, least = -1;
    trial t;
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
    t.off = malloc((count + 1) * sizeof *t.off);
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
