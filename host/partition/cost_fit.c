#include "partition/cost_fit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double NEAR_BYTES = 1 << 20; /* of cache next to one core, on machines of the last ten years */
static const double TERM_PENALTY = 1.02;  /* a further term has to explain something */

void fit_terms(double flops, double bytes, double out_x[FIT_TERMS])
{
    out_x[FIT_ONE] = 1;
    out_x[FIT_FLOPS] = flops;
    out_x[FIT_BYTES] = bytes;
    out_x[FIT_FAR] = bytes > NEAR_BYTES ? bytes - NEAR_BYTES : 0;
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

/* Gauss's elimination of n equations a * x = b, with pivots; false when they are singular. */
static bool solve(double a[FIT_TERMS][FIT_TERMS + 1], int n, double *x)
{
    for (int c = 0; c < n; c++) {
        int best = c;

        for (int r = c + 1; r < n; r++)
            if (fabs(a[r][c]) > fabs(a[best][c]))
                best = r;
        if (fabs(a[best][c]) < 1e-12)
            return false;
        for (int k = 0; k <= n; k++) {
            double swap = a[c][k];
            a[c][k] = a[best][k];
            a[best][k] = swap;
        }
        for (int r = 0; r < n; r++) {
            double factor = r == c ? 0 : a[r][c] / a[c][c];
            for (int k = c; k <= n; k++)
                a[r][k] -= factor * a[c][k];
        }
    }
    for (int c = 0; c < n; c++)
        x[c] = a[c][n] / a[c][c];
    return true;
}

/* Least squares of (prediction / measurement - 1) with the terms of the set alone. scale: the largest x of each term, so
 * that the equations are well conditioned. Returns the mean square, or -1 when a rate would be negative. */
static double try_terms(const fit_point *points, uint32_t count, const double *scale, unsigned set, double *ns_per)
{
    double a[FIT_TERMS][FIT_TERMS + 1] = { { 0 } }, x[FIT_TERMS], square = 0;
    int term[FIT_TERMS], n = 0;

    memset(ns_per, 0, FIT_TERMS * sizeof *ns_per);
    for (int t = 0; t < FIT_TERMS; t++)
        if ((set >> t & 1) != 0)
            term[n++] = t;
    for (uint32_t i = 0; i < count; i++) {
        for (int r = 0; r < n; r++) {
            double xr = points[i].x[term[r]] / scale[term[r]] / points[i].ns;
            for (int c = 0; c < n; c++)
                a[r][c] += xr * points[i].x[term[c]] / scale[term[c]] / points[i].ns;
            a[r][n] += xr;
        }
    }
    /* Rows differ by the squares of 1/ns: brought to one. */
    for (int r = 0; r < n; r++) {
        double largest = a[r][r];
        for (int c = 0; c <= n && largest > 0; c++)
            a[r][c] /= largest;
    }
    if (!solve(a, n, x))
        return -1;
    for (int r = 0; r < n; r++) {
        if (!(x[r] >= 0))
            return -1;
        ns_per[term[r]] = x[r] / scale[term[r]];
    }
    for (uint32_t i = 0; i < count; i++) {
        double off = fit_at(&(fit_line){ .ns_per = { ns_per[0], ns_per[1], ns_per[2], ns_per[3] } }, points[i].x) /
                         points[i].ns - 1;
        square += off * off;
    }
    return square / count;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* By what factor the median point is off. */
static double median_error(const fit_point *points, uint32_t count, const fit_line *line)
{
    double *errors = malloc(count * sizeof *errors), median = 0;

    if (errors == NULL)
        return 0;
    for (uint32_t i = 0; i < count; i++)
        errors[i] = fabs(log(fmax(fit_at(line, points[i].x), 1e-3) / points[i].ns));
    qsort(errors, count, sizeof *errors, by_size);
    median = exp(errors[count / 2]);
    free(errors);
    return median;
}

bool fit_points(const fit_point *points, uint32_t count, fit_line *out)
{
    double scale[FIT_TERMS] = { 0 }, ns_per[FIT_TERMS], least = -1;
    unsigned usable = 0;

    *out = (fit_line){ .points = count };
    for (uint32_t i = 0; i < count; i++) {
        if (!is_usable(&points[i]))
            return false;
        for (int t = 0; t < FIT_TERMS; t++)
            scale[t] = fmax(scale[t], points[i].x[t]);
    }
    for (int t = 0; t < FIT_TERMS; t++)
        usable |= scale[t] > 0 ? 1u << t : 0;
    for (unsigned set = 1; set < 1u << FIT_TERMS; set++) {
        uint32_t terms = (uint32_t)__builtin_popcount(set);
        double square;

        if ((set & ~usable) != 0 || terms > count)
            continue;
        square = try_terms(points, count, scale, set, ns_per);
        if (square < 0)
            continue;
        square = (square + 1e-6) * pow(TERM_PENALTY, terms);
        if (least < 0 || square < least) {
            least = square;
            memcpy(out->ns_per, ns_per, sizeof ns_per);
        }
    }
    if (least >= 0)
        out->error = fmax(median_error(points, count, out), 1);
    return least >= 0;
}
