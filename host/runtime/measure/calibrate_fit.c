/* calibrate_fit.c - from timed kernels to the lines of a profile. */
#include "base/memory.h"
#include "measure/calibrate.h"
#include "base/order.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_POINTS = 3 };
/* Of nodes in regions the provider alone knows what is fused and what follows what: its figure is scaled, no more. */
enum { IN_REGIONS = 1 << FIT_ONE | 1 << FIT_MODEL | 1 << FIT_COLD };

static const double LEAST_NS = 10;          /* of a node in a region: the clock sees no less */
static const double LEAST_BORDER_NS = 2000; /* expected: of less there is mostly noise */
static const double LEAST_SHARE = 0.2; /* of a node that can't be timed in a chain is its own, whatever borders take */

struct fitting {
    calibrate_point *points;
    uint32_t count;
    profile_provider *out;
    fit_point *some; /* [count] room for those of one line */
    bool *done;      /* [count] */
    struct arena *arena;
};

/* The class of point i seen from farther away: 0 itself, 1 the operator with its type, 2 the operator, 3 the kind of
 * work with its type, 4 the kind. */
static cost_class class_at(const calibrate_point *point, int distance)
{
    inlay_dtype dtype = distance == 2 || distance == 4 ? INLAY_UNDEFINED : point->class.dtype;

    if (distance == 0)
        return point->class;
    return distance < 3 ? (cost_class){ point->class.op, COST_ANY, dtype } : (cost_class){ "", point->kind, dtype };
}

static bool same(const calibrate_point *a, const calibrate_point *b, int distance)
{
    cost_class class = class_at(a, distance), y = class_at(b, distance);

    return a->threads == b->threads && class.variant == y.variant && class.dtype == y.dtype &&
           strcmp(class.op, y.op) == 0;
}

static bool add_line(struct fitting *fitting, const calibrate_point *point, int distance, const fit_line *line)
{
    if (!ARENA_GROW(fitting->arena, fitting->out->lines, fitting->out->line_count))
        return false;
    fitting->out->lines[fitting->out->line_count++] =
        (profile_line){ class_at(point, distance), point->threads, *line };
    return true;
}

/* No kernel costs less than a call, whatever a line through large ones says: half of what the cheapest of its class
 * took. Not of all classes, for a provider of few operators has no cheap ones, and that is no reason to avoid it. A
 * line along what the provider expects has the call in there. */
static void raise_launch(const fit_point *points, uint32_t count, fit_line *line)
{
    double least = points[0].ns;

    for (uint32_t k = 1; k < count; k++)
        least = fmin(least, points[k].ns);
    if (line->ns_per[FIT_MODEL] <= 0)
        line->ns_per[FIT_ONE] = fmax(line->ns_per[FIT_ONE], least / 2);
}

/* Are there enough nodes of the class of point i that were timed in regions? Those timed alone are left out then. */
static bool is_of_regions(const struct fitting *fitting, uint32_t i, int distance)
{
    uint32_t n = 0;

    for (uint32_t k = 0; k < fitting->count; k++)
        n += fitting->points[k].with_ns > 0 && same(&fitting->points[i], &fitting->points[k], distance);
    return n >= LEAST_POINTS;
}

static bool fit_at_distance(struct fitting *fitting, int distance)
{
    memset(fitting->done, 0, fitting->count * sizeof *fitting->done);
    for (uint32_t i = 0; i < fitting->count; i++) {
        fit_line line;
        uint32_t n = 0;
        bool regions = !fitting->done[i] && is_of_regions(fitting, i, distance);

        for (uint32_t k = i; !fitting->done[i] && k < fitting->count; k++) {
            if (!same(&fitting->points[i], &fitting->points[k], distance))
                continue;
            if (!regions || fitting->points[k].with_ns > 0)
                fitting->some[n++] = fitting->points[k].point;
            fitting->done[k] = k > i;
        }
        if (n < LEAST_POINTS || !fit_points(fitting->some, n, regions ? IN_REGIONS : 0, &line))
            continue;
        raise_launch(fitting->some, n, &line);
        if (!add_line(fitting, &fitting->points[i], distance, &line))
            return false;
    }
    return true;
}

/* What the node adds to a region, when what the provider expects of borders is off by this factor. */
static double share_of_region(const calibrate_point *point, double border)
{
    return fmax((point->with_ns - point->without_ns - border * point->leave_ns) / point->nodes_more, LEAST_NS);
}

/* What a node alone takes beyond its share of several in a row, over what the provider expected of borders: the median
 * at this number of threads; 1 where nothing is known. */
static double find_border(const struct fitting *fitting, uint32_t threads, double *ratios)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < fitting->count; i++) {
        const calibrate_point *point = &fitting->points[i];
        if (point->threads == threads && point->nodes_more == CALIBRATE_CHAIN - 1 &&
            point->border_ns >= LEAST_BORDER_NS)
            ratios[n++] = (point->point.ns - share_of_region(point, 0)) / point->border_ns;
    }
    if (n == 0)
        return 1;
    qsort(ratios, n, sizeof *ratios, order_doubles);
    return fmax(ratios[n / 2], 0.05);
}

/* From times of nodes alone and of regions to those of nodes in regions. */
static void split_borders(struct fitting *fitting, uint32_t threads, double border)
{
    for (uint32_t i = 0; i < fitting->count; i++) {
        calibrate_point *point = &fitting->points[i];
        double alone = point->point.ns;

        if (point->threads != threads)
            continue;
        point->point.ns = point->with_ns > 0 ? share_of_region(point, border)
                                             : fmax(alone - border * point->border_ns, LEAST_SHARE * alone);
    }
}

/* The medians of measured over expected, for each number of threads; the points are split on the way. */
static bool find_factors(struct fitting *fitting)
{
    double *ratios = malloc((fitting->count + 1) * sizeof *ratios);

    fitting->out->factors = arena_array(fitting->arena, (size_t)fitting->count + 1, sizeof *fitting->out->factors);
    memset(fitting->done, 0, fitting->count * sizeof *fitting->done);
    for (uint32_t i = 0; ratios != NULL && fitting->out->factors != NULL && i < fitting->count; i++) {
        uint32_t n = 0, threads = fitting->points[i].threads;
        double border;

        if (fitting->done[i])
            continue;
        border = find_border(fitting, threads, ratios);
        split_borders(fitting, threads, border);
        for (uint32_t k = i; k < fitting->count; k++) {
            if (fitting->points[k].threads != threads)
                continue;
            fitting->done[k] = true;
            if (fitting->points[k].model_ns > 0)
                ratios[n++] = fitting->points[k].point.ns / fitting->points[k].model_ns;
        }
        if (n == 0)
            continue;
        qsort(ratios, n, sizeof *ratios, order_doubles);
        fitting->out->factors[fitting->out->factor_count++] = (profile_factor){ threads, ratios[n / 2], border };
    }
    free(ratios);
    return ratios != NULL && fitting->out->factors != NULL;
}

inlay_status calibrate_fit(calibrate_point *points, uint32_t count, struct arena *arena, profile_provider *out,
                           inlay_diag *diag)
{
    struct fitting fitting = { .points = points, .count = count, .out = out, .arena = arena };
    bool good;

    fitting.some = calloc((size_t)count + 1, sizeof *fitting.some);
    fitting.done = calloc((size_t)count + 1, sizeof *fitting.done);
    good = fitting.some != NULL && fitting.done != NULL && find_factors(&fitting);
    for (int distance = 0; good && distance < 5; distance++)
        good = fit_at_distance(&fitting, distance);
    free(fitting.some);
    free(fitting.done);
    return good ? INLAY_OK : no_memory(diag, "to fit the machine profile");
}
