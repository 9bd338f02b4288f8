/* calibrate_fit.c - fits the lines of a profile to timed kernels. */
#include "base/memory.h"
#include "inlay/check.h"
#include "measure/calibrate.h"
#include "base/order.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MIN_POINTS = 3 };
/* For nodes in regions only the provider knows which nodes are fused, so its estimate is only scaled. */
enum { IN_REGIONS = 1 << FIT_ONE | 1 << FIT_MODEL | 1 << FIT_COLD };

static const double MIN_NS = 10;          /* of a node in a region: the resolution of the clock */
static const double MIN_BORDER_NS = 2000; /* of expected borders; smaller ones are mostly noise */
static const double MIN_DIFFERENCE = 0.1; /* of the times of two regions, relative */
static const double MIN_SHARE = 0.2; /* minimum share of the measured time that a node keeps if it cannot be timed in a
                                        chain, regardless of its borders */

struct fitting {
    calibrate_point *points;
    uint32_t count;
    profile_provider *out;
    fit_point *selected; /* [2 * count] the points of one line */
    bool *done;          /* [count] */
    struct arena *arena;
};

/* The class of a point, generalised by `distance`: 0 the class itself, 1 the operator with its type, 2 the operator,
 * 3 the kind of work with its type, 4 the kind of work. */
static cost_class class_at(const calibrate_point *point, int distance)
{
    inlay_dtype dtype = distance == 2 || distance == 4 ? INLAY_UNDEFINED : point->class.dtype;

    if (distance == 0)
        return point->class;
    return distance < 3 ? (cost_class){ point->class.op, COST_ANY, dtype } : (cost_class){ "", point->kind, dtype };
}

static bool same_class(const calibrate_point *a, const calibrate_point *b, int distance)
{
    cost_class class = class_at(a, distance), other = class_at(b, distance);

    return a->threads == b->threads && class.variant == other.variant && class.dtype == other.dtype &&
           strcmp(class.op, other.op) == 0;
}

static bool add_line(struct fitting *fitting, const calibrate_point *point, int distance, const fit_line *line)
{
    if (!ARENA_GROW(fitting->arena, fitting->out->lines, fitting->out->line_count))
        return false;
    fitting->out->lines[fitting->out->line_count++] =
        (profile_line){ class_at(point, distance), point->threads, *line };
    return true;
}

/* Raises the constant of the line to half of the cheapest kernel of its class: no kernel costs less than a call, even
 * if the slope through large kernels suggests it. The minimum is per class, because a provider with few operators
 * has no cheap kernels. A line along the provider's own estimate already includes the call. */
static void raise_launch(const fit_point *points, uint32_t count, fit_line *line)
{
    double min_ns = points[0].ns;

    for (uint32_t k = 1; k < count; k++)
        min_ns = fmin(min_ns, points[k].ns);
    if (line->ns_per[FIT_MODEL] <= 0)
        line->ns_per[FIT_ONE] = fmax(line->ns_per[FIT_ONE], min_ns / 2);
}

/* Does the class of point i have enough nodes that were timed in regions? Then nodes that were timed only alone are
 * ignored. */
static bool is_of_regions(const struct fitting *fitting, uint32_t i, int distance)
{
    uint32_t selected_count = 0;

    for (uint32_t k = 0; k < fitting->count; k++)
        selected_count +=
            fitting->points[k].with_ns > 0 && same_class(&fitting->points[i], &fitting->points[k], distance);
    return selected_count >= MIN_POINTS;
}

static bool fit_at_distance(struct fitting *fitting, int distance)
{
    memset(fitting->done, 0, fitting->count * sizeof *fitting->done);
    for (uint32_t i = 0; i < fitting->count; i++) {
        fit_line line;
        uint32_t selected_count = 0;
        bool regions = !fitting->done[i] && is_of_regions(fitting, i, distance);

        for (uint32_t k = i; !fitting->done[i] && k < fitting->count; k++) {
            if (!same_class(&fitting->points[i], &fitting->points[k], distance))
                continue;
            if (!regions || fitting->points[k].with_ns > 0)
                fitting->selected[selected_count++] = fitting->points[k].point;
            if (regions && fitting->points[k].with_ns > 0) /* a region may also consist of this node */
                fitting->selected[selected_count++] = fitting->points[k].alone;
            fitting->done[k] = k > i;
        }
        if (selected_count < MIN_POINTS ||
            !fit_points(fitting->selected, selected_count, regions ? IN_REGIONS : 0, &line))
            continue;
        raise_launch(fitting->selected, selected_count, &line);
        if (!add_line(fitting, &fitting->points[i], distance, &line))
            return false;
    }
    return true;
}

/* The time that the node adds to a region, if the provider's estimate of borders is wrong by the factor `border`. */
static double share_of_region(const calibrate_point *point, double border)
{
    INLAY_CHECK(point->nodes_more > 0);
    return fmax((point->with_ns - point->without_ns - border * point->leave_ns) / point->nodes_more, MIN_NS);
}

/* The factor by which the provider's estimate of borders is wrong at this number of threads; 1 if unknown. It is the
 * median of (time of a node alone - time of the node in a chain) / estimate. */
static double find_border(const struct fitting *fitting, uint32_t threads, double *ratios)
{
    uint32_t selected_count = 0;

    for (uint32_t i = 0; i < fitting->count; i++) {
        const calibrate_point *point = &fitting->points[i];
        if (point->threads == threads && point->with_ns > 0 && point->nodes_more == CALIBRATE_CHAIN - 1 &&
            point->border_ns >= MIN_BORDER_NS)
            ratios[selected_count++] = (point->point.ns - share_of_region(point, 0)) / point->border_ns;
    }
    if (selected_count == 0)
        return 1;
    qsort(ratios, selected_count, sizeof *ratios, order_doubles);
    return fmax(ratios[selected_count / 2], 0.05);
}

/* Two regions that take almost the same time say nothing about the node: their difference is noise. */
static bool is_noise(const calibrate_point *point, double border)
{
    return share_of_region(point, border) * point->nodes_more < MIN_DIFFERENCE * point->without_ns;
}

/* Replaces the time of each single node by its time in a region, or subtracts its borders if that was not measured. */
static void split_borders(struct fitting *fitting, uint32_t threads, double border)
{
    for (uint32_t i = 0; i < fitting->count; i++) {
        calibrate_point *point = &fitting->points[i];
        double alone = point->point.ns;

        if (point->threads != threads)
            continue;
        if (point->with_ns > 0 && is_noise(point, border))
            point->with_ns = point->without_ns = 0;
        point->alone.ns = fmax(alone - border * point->border_ns, MIN_SHARE * alone);
        if (point->with_ns > 0)
            point->point.ns = share_of_region(point, border);
        else
            point->point = point->alone;
    }
}

/* The median ratios of measured to expected time for each number of threads. Splits the points on the way. */
static bool find_factors(struct fitting *fitting)
{
    double *ratios = malloc((fitting->count + 1) * sizeof *ratios);

    fitting->out->factors = arena_array(fitting->arena, (size_t)fitting->count + 1, sizeof *fitting->out->factors);
    memset(fitting->done, 0, fitting->count * sizeof *fitting->done);
    for (uint32_t i = 0; ratios != NULL && fitting->out->factors != NULL && i < fitting->count; i++) {
        uint32_t selected_count = 0, threads = fitting->points[i].threads;
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
                ratios[selected_count++] = fitting->points[k].point.ns / fitting->points[k].model_ns;
        }
        if (selected_count == 0)
            continue;
        qsort(ratios, selected_count, sizeof *ratios, order_doubles);
        fitting->out->factors[fitting->out->factor_count++] =
            (profile_factor){ threads, ratios[selected_count / 2], border };
    }
    free(ratios);
    return ratios != NULL && fitting->out->factors != NULL;
}

inlay_status calibrate_fit(calibrate_point *points, uint32_t count, struct arena *arena, profile_provider *out,
                           inlay_diag *diag)
{
    struct fitting fitting = { .points = points, .count = count, .out = out, .arena = arena };
    bool ok;

    fitting.selected = calloc(2 * (size_t)count + 1, sizeof *fitting.selected);
    fitting.done = calloc((size_t)count + 1, sizeof *fitting.done);
    ok = fitting.selected != NULL && fitting.done != NULL && find_factors(&fitting);
    for (int distance = 0; ok && distance < 5; distance++)
        ok = fit_at_distance(&fitting, distance);
    free(fitting.selected);
    free(fitting.done);
    return ok ? INLAY_OK : no_memory(diag, "to fit the machine profile");
}
