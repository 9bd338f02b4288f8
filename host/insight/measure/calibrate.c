/* calibrate.c - times the rows of calibrate_cases.def on every provider, and copies on every link. */
#include "measure/calibrate.h"
#include "inlay/check.h"
#include "inlay/plugin.h"
#include "base/among.h"
#include "base/clock.h"
#include "base/core_speed.h"
#include "base/sized_struct.h"
#include "base/memory.h"
#include "base/order.h"
#include "config/dirs.h"
#include "measure/measure.h"
#include "threads/threads.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREAD_COUNTS = 16, LINK_SIZES = 4, PASSES = 3, MAX_ATTEMPTS = 2 };
static const double BUDGET_NS = 8e6, QUICK_BUDGET_NS = 1.5e6; /* of one kernel in one pass */
static const double PROVIDER_BUDGET_S = 60;                   /* for one provider at one number of threads */
static const double KERNELS_FRACTION = 0.95;                  /* share of the progress bar; links take the rest */

struct calibration {
    inlay_session *session; /* providers, log, progress */
    uint32_t threads[MAX_THREAD_COUNTS];
    uint32_t thread_count;
    measure_plan plan;
    measure_sweep sweep;
    calibrate_point **points; /* [provider_count] */
    uint32_t *point_count;
    cost_profile profile;
    inlay_calibrate_result result;
    double fraction;
    double begin, budget; /* seconds */
    bool cancelled;
    bool calm;            /* was the current round undisturbed? */
    bool behind_schedule; /* is the calibration behind schedule? Then no disturbed round is repeated */
    inlay_diag *diag;
};

static bool report_progress(struct calibration *calibration, const char *what)
{
    if (!calibration->cancelled && calibration->session->progress.report != NULL)
        calibration->cancelled = calibration->session->progress.report(calibration->session->progress.user,
                                                                       calibration->fraction, what) != 0;
    return calibration->cancelled;
}

static bool stop(void *ctx)
{
    return report_progress(ctx, "measuring");
}

/* The point of the same kernel from an earlier pass; NULL: none. */
static calibrate_point *find_earlier_point(const struct calibration *calibration, uint32_t provider_index,
                                           const calibrate_point *point)
{
    for (uint32_t i = 0; i < calibration->point_count[provider_index]; i++) {
        calibrate_point *earlier = &calibration->points[provider_index][i];
        if (earlier->row == point->row && earlier->class.dtype == point->class.dtype &&
            earlier->threads == point->threads && earlier->weight_bytes == point->weight_bytes)
            return earlier;
    }
    return NULL;
}

/* Adds a point, or lowers its time if an earlier pass has measured it: other processes only make kernels slower, and
 * seldom in all passes, which are far apart. */
static inlay_status add_point(struct calibration *calibration, uint32_t provider_index, const calibrate_point *point)
{
    calibrate_point *earlier = find_earlier_point(calibration, provider_index, point);

    if (earlier != NULL) {
        earlier->point.ns = earlier->alone.ns = fmin(earlier->point.ns, point->point.ns);
        if (earlier->with_ns == 0) { /* the regions were not timed */
            earlier->with_ns = point->with_ns;
            earlier->without_ns = point->without_ns;
        } else if (point->with_ns > 0) {
            earlier->with_ns = fmin(earlier->with_ns, point->with_ns);
            earlier->without_ns = fmin(earlier->without_ns, point->without_ns);
        }
        return INLAY_OK;
    }
    calibration->result.kernel_count++;
    if (!LIST_GROW(calibration->points[provider_index], calibration->point_count[provider_index]))
        return no_memory(calibration->diag, "to calibrate");
    calibration->points[provider_index][calibration->point_count[provider_index]++] = *point;
    return INLAY_OK;
}

/* The models of a case, one for each form: all with large weights of other nodes, or all without. */
typedef struct case_models {
    const calibrate_case *row;
    graph_model *model[CALIBRATE_FORMS]; /* NULL: the case does not have this form */
    inlay_graph view[CALIBRATE_FORMS];
    uint64_t weight_bytes; /* of the first form */
    struct arena arena;
} case_models;

enum { MAX_NODES = 8 }; /* of the model of a case */

/* One provider's offer for a form of a case: for a node, or merged for all nodes. */
typedef struct case_offer {
    bool exists;
    partition_offer offer; /* for all nodes, at the price of the last one */
    double leave_ns;       /* for all values that leave */
    partition_request request;
    struct partition parts;
    uint32_t nodes[MAX_NODES];
    uint64_t cookies[MAX_NODES];
    measure_job job;
} case_offer;

/* Finds the provider's offer. It does not exist if the provider does not support the case, or does not merge its
 * nodes. */
static inlay_status find_offer(struct calibration *calibration, case_models *models, uint32_t form,
                               uint32_t provider_index, uint32_t threads, case_offer *out)
{
    const partition_provider *provider = &calibration->session->providers[provider_index];
    const inlay_graph *view = &models->view[form];
    const uint32_t count = view->node_count;
    inlay_diag why = INLAY_DIAG_INIT;
    uint32_t found = 0;
    inlay_status status;

    out->exists = false;
    if (models->model[form] == NULL || count > MAX_NODES)
        return INLAY_OK;
    out->request = (partition_request){ .graph = models->model[form]->main,
                                        .snapshot = view,
                                        .providers = provider,
                                        .provider_count = 1,
                                        .max_threads = threads };
    status = partition_graph(&out->request, &models->arena, &out->parts, &why);
    if (status == INLAY_OUT_OF_MEMORY)
        return inlay_fail(calibration->diag, status, "no memory to calibrate");
    out->leave_ns = 0;
    for (uint32_t i = 0; status == INLAY_OK && i < out->parts.offer_count && found < count; i++) {
        const partition_offer *offer = &out->parts.offers[i];
        if (offer->node_count != 1 || offer->nodes[0] != found ||
            (form != CALIBRATE_ALONE && (offer->flags & INLAY_OFFER_MERGE) == 0))
            continue;
        out->offer = *offer;
        out->leave_ns = form == CALIBRATE_BEFORE ? out->leave_ns + offer->cost.leave_ns : offer->cost.leave_ns;
        out->nodes[found] = found;
        out->cookies[found++] = offer->cookie;
    }
    if (found < count || count == 0)
        return INLAY_OK;
    INLAY_CHECK(found == count && count <= MAX_NODES);
    out->offer.nodes = out->nodes;
    out->offer.node_count = count;
    out->job = (measure_job){ .graph = models->model[form]->main,
                              .snapshot = view,
                              .provider = provider,
                              .offer = &out->offer,
                              .cookies = out->cookies,
                              .cookie_count = count,
                              .values = out->parts.profile,
                              .max_threads = threads,
                              .max_bytes = UINT64_C(1) << 32 };
    out->exists = true;
    return INLAY_OK;
}

/* Times an offer; *out_ns is 0 if its kernel fails. */
static inlay_status time_offer(struct calibration *calibration, const case_models *models, case_offer *offer,
                               double *out_ns)
{
    inlay_diag why = INLAY_DIAG_INIT;
    struct measurement measured = { .ns = 0 };
    inlay_status status;

    offer->job.device_timeout_ms = calibration->session->env.runs.device_timeout_ms;
    offer->job.weights_in = cost_weights_in(offer->parts.weight_bytes);
    status = measure_offer(&offer->job, &calibration->plan, &calibration->sweep, &measured, &why);

    calibration->session->abandoned |=
        status == INLAY_DEVICE_LOST &&
        provider_is_lost(offer->job.provider->state); /* the device hangs: keep everything that it may use */
    if (status == INLAY_CANCELLED || status == INLAY_OUT_OF_MEMORY || status == INLAY_DEVICE_LOST)
        return inlay_fail(calibration->diag, status, "%s", why.text);
    if (status != INLAY_OK && calibration->session->log.write != NULL) {
        char line[700];
        (void)snprintf(line, sizeof line, "calibrate: provider %s, %s: %s", offer->job.provider->name, models->row->op,
                       why.text);
        calibration->session->log.write(calibration->session->log.user, INLAY_LOG_WARNING, line);
    }
    *out_ns = status == INLAY_OK ? measured.ns : 0;
    calibration->calm = calibration->calm && (status != INLAY_OK || measured.calm);
    return INLAY_OK;
}

/* Allocates job.found, which gets the sizes of outputs that the run determines. */
static inlay_status find_sizes(struct calibration *calibration, case_models *models, case_offer *offer)
{
    const inlay_graph *view = offer->job.snapshot;
    inlay_value_state *found = arena_copy(&models->arena, offer->parts.profile, view->value_count * sizeof *found);

    for (uint32_t v = 0; found != NULL && v < view->value_count; v++) {
        int64_t *dims = arena_array(&models->arena, INLAY_MAX_RANK, sizeof *dims);

        if (dims == NULL)
            found = NULL;
        else if (found[v].rank != INLAY_RANK_UNKNOWN && found[v].rank > 0)
            memcpy(dims, found[v].dims, found[v].rank * sizeof *dims);
        if (found != NULL)
            found[v].dims = dims;
    }
    offer->job.found = found;
    return found != NULL ? INLAY_OK : no_memory(calibration->diag, "to calibrate");
}

/* The provider's estimate at the sizes that the run determined. */
static void price_at_found_sizes(case_offer *offer)
{
    const partition_provider *provider = offer->job.provider;
    cost_question question = { .graph = offer->job.snapshot,
                               .provider = provider,
                               .offer = &offer->offer,
                               .values = offer->job.found,
                               .max_threads = offer->job.max_threads,
                               .runs = true };
    double error;

    (void)cost_of_offer(NULL, &question, &offer->offer.cost, &error);
}

/* The terms of the offer's price for its last node. */
static void find_terms(const case_offer *offer, uint32_t node, double out_x[FIT_TERMS])
{
    const inlay_graph *view = offer->job.snapshot;
    const inlay_cost *cost = &offer->offer.cost;

    fit_terms(cost->flops, (double)cost->bytes_read + (double)cost->bytes_written, cost->ns,
              cost_cold_bytes(view, inlay_graph_node(view, node), cost) * cost_cold_share(offer->parts.weight_bytes),
              out_x);
}

/* Times a kernel, alone and in regions if it has such forms, and adds a point for it. A kernel that fails gets no
 * point. offers: [CALIBRATE_FORMS]. */
static inlay_status time_point(struct calibration *calibration, case_models *models, uint32_t provider_index,
                               case_offer *offers)
{
    case_offer *alone = &offers[CALIBRATE_ALONE], *chained = &offers[CALIBRATE_CHAINED],
               *behind = &offers[CALIBRATE_BEHIND];
    case_offer *before = &offers[CALIBRATE_BEFORE], *typical = chained->exists  ? chained
                                                               : behind->exists ? behind
                                                                                : alone;
    const inlay_graph *view = typical->job.snapshot;
    const inlay_node_info *node = inlay_graph_node(view, view->node_count - 1);
    const inlay_cost *cost = &typical->offer.cost;
    calibrate_point point = { .row = models->row,
                              .weight_bytes = models->weight_bytes,
                              .threads = alone->job.max_threads,
                              .border_ns = alone->offer.cost.enter_ns + alone->offer.cost.leave_ns };
    inlay_status status = INLAY_OK;

    if (typical == alone)
        INLAY_TRY(find_sizes(calibration, models, alone));
    INLAY_TRY(time_offer(calibration, models, alone, &point.point.ns));
    if (typical == alone)
        price_at_found_sizes(alone);
    point.kind = cost_kind_of(cost);
    point.model_ns = cost->ns;
    if (point.point.ns == 0)
        return INLAY_OK;
    if (chained->exists) {
        INLAY_TRY(time_offer(calibration, models, chained, &point.with_ns));
        point.without_ns = point.point.ns;
        point.nodes_more = CALIBRATE_CHAIN - 1;
    } else if (behind->exists && before->exists) {
        INLAY_TRY(time_offer(calibration, models, behind, &point.with_ns));
        INLAY_TRY(time_offer(calibration, models, before, &point.without_ns));
        point.nodes_more = 1;
        point.leave_ns = behind->leave_ns - before->leave_ns;
    }
    if (point.with_ns == 0 || point.without_ns == 0)
        point.with_ns = point.without_ns = 0; /* a region failed, so there is no difference */
    point.class = cost_class_of(view, node, typical == alone ? alone->job.found : typical->parts.profile);
    point.class.op = models->row->op;
    find_terms(typical, view->node_count - 1, point.point.x);
    point.alone.ns = point.point.ns;
    find_terms(alone, alone->job.snapshot->node_count - 1, point.alone.x);
    INLAY_TRY(add_point(calibration, provider_index, &point));
done:
    return status;
}

/* Times a kernel of one provider at one number of threads. Kernels that the provider does not support, or that fail,
 * are skipped. */
static inlay_status time_kernel(struct calibration *calibration, case_models *models, uint32_t provider_index,
                                uint32_t threads)
{
    case_offer offers[CALIBRATE_FORMS];
    inlay_status status = INLAY_OK;

    for (uint32_t form = 0; form < CALIBRATE_FORMS; form++)
        INLAY_TRY(find_offer(calibration, models, form, provider_index, threads, &offers[form]));
    if (offers[CALIBRATE_ALONE].exists)
        status = time_point(calibration, models, provider_index, offers);
done:
    return status;
}

static inlay_status make_model(case_models *models, uint32_t form, inlay_dtype dtype, bool large, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    INLAY_TRY(calibrate_model(models->row, dtype, form, large, &models->model[form], diag));
    INLAY_TRY(graph_snapshot(models->model[form]->main, &models->arena, &models->view[form], diag));
    if (form == CALIBRATE_ALONE)
        models->weight_bytes = cost_weight_bytes(&models->view[form]);
done:
    return status;
}

/* Makes the models of the forms from `first` on that the case has. */
static inlay_status make_models(case_models *models, uint32_t first, inlay_dtype dtype, bool large, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t form = first; form < CALIBRATE_FORMS; form++)
        if (calibrate_has_form(models->row, models->model[CALIBRATE_ALONE], form))
            INLAY_TRY(make_model(models, form, dtype, large, diag));
done:
    return status;
}

static void drop_models(case_models *models)
{
    arena_deinit(&models->arena);
    for (uint32_t form = 0; form < CALIBRATE_FORMS; form++)
        graph_model_destroy(models->model[form]);
}

/* One round: every provider at every number of threads. */
static inlay_status time_round(struct calibration *calibration, case_models *models, inlay_dtype dtype)
{
    inlay_status status = INLAY_OK;
    char what[96];

    for (uint32_t provider = 0; provider < calibration->session->env.provider_count; provider++) {
        for (uint32_t thread = 0; thread < calibration->thread_count; thread++) {
            (void)snprintf(what, sizeof what, "%s, %s of %s, %u thread%s",
                           calibration->session->providers[provider].name, models->row->op, inlay_dtype_name(dtype),
                           calibration->threads[thread], calibration->threads[thread] > 1 ? "s" : "");
            if (report_progress(calibration, what))
                return inlay_fail(calibration->diag, INLAY_CANCELLED, "cancelled while measuring");
            INLAY_TRY(time_kernel(calibration, models, provider, calibration->threads[thread]));
        }
    }
done:
    return status;
}

static double seconds(void)
{
    return (double)clock_ns() * 1e-9;
}

/* Is more than this share of the budget used? */
static bool is_over_share(const struct calibration *calibration, double share)
{
    return seconds() - calibration->begin > share * KERNELS_FRACTION * calibration->budget;
}

/* Does any provider offer a kernel for the case at any number of threads? */
static inlay_status is_offered(struct calibration *calibration, case_models *models, bool *out_offered)
{
    inlay_status status = INLAY_OK;
    case_offer offer = { .exists = false };

    for (uint32_t provider = 0; !offer.exists && provider < calibration->session->env.provider_count; provider++)
        for (uint32_t thread = 0; !offer.exists && thread < calibration->thread_count; thread++)
            INLAY_TRY(find_offer(calibration, models, CALIBRATE_ALONE, provider, calibration->threads[thread], &offer));
    *out_offered = offer.exists;
done:
    return status;
}

/* A case with weights is timed in a small model, whose weights are in some cache, and in a large one. A round that
 * other processes disturbed is repeated; its times are upper bounds. Of a case that no provider offers a kernel for,
 * one form is made only: a device with ten operators does not wait for the weights of a hundred others. */
static inlay_status time_case(struct calibration *calibration, const calibrate_case *row, inlay_dtype dtype)
{
    case_models small = { .row = row }, large = { .row = row };
    inlay_status status = INLAY_OK;
    bool offered = false;

    INLAY_TRY(make_model(&small, CALIBRATE_ALONE, dtype, false, calibration->diag));
    INLAY_TRY(is_offered(calibration, &small, &offered));
    if (!offered)
        goto done;
    INLAY_TRY(make_models(&small, CALIBRATE_ALONE + 1, dtype, false, calibration->diag));
    if (small.weight_bytes > 0 && cost_cold_share(small.weight_bytes) < 1)
        INLAY_TRY(make_models(&large, CALIBRATE_ALONE, dtype, true, calibration->diag));
    calibration->calm = false;
    for (uint32_t attempt = 0; !calibration->calm && attempt < (calibration->behind_schedule ? 1u : MAX_ATTEMPTS);
         attempt++) {
        calibration->calm = true;
        INLAY_TRY(time_round(calibration, &small, dtype));
        if (large.weight_bytes > 0)
            INLAY_TRY(time_round(calibration, &large, dtype));
    }
done:
    drop_models(&small);
    drop_models(&large);
    return status;
}

/* Times all cases in several passes, far apart, so that a machine that is slower for some seconds does not affect
 * all times of a case. If the budget is too small, later passes are skipped, and in the first pass the cases whose
 * time slot has passed, which are spread over all families. */
static inlay_status time_kernels(struct calibration *calibration)
{
    const uint32_t count = calibrate_case_count();
    inlay_status status = INLAY_OK;
    bool skipped = false;

    INLAY_CHECK(count > 0);
    for (uint32_t k = 0; k < PASSES * count; k++) {
        const calibrate_case *row = calibrate_case_at(k % count);

        calibration->fraction = KERNELS_FRACTION * k / (PASSES * count);
        calibration->behind_schedule = is_over_share(calibration, (double)k / (PASSES * count));
        if (k > 0 && is_over_share(calibration, k < count ? (double)(k + 1) / count : 1)) {
            skipped = true;
            continue;
        }
        for (inlay_dtype dtype = 1; dtype < INLAY_DTYPE_COUNT; dtype++)
            if (is_among(inlay_dtype_name(dtype), row->types))
                INLAY_TRY(time_case(calibration, row, dtype));
    }
    if (skipped && calibration->result.kernel_count == 0)
        status = inlay_fail(calibration->diag, INLAY_DEADLINE_EXCEEDED,
                            "calibrate: a budget of %.3g s is too small to time one kernel; nothing was written",
                            calibration->budget);
done:
    return status;
}

static inlay_status time_link(struct calibration *calibration, const partition_provider *provider, uint32_t domain,
                              bool to_device, profile_copy *out)
{
    static const uint64_t sizes[LINK_SIZES] = { 64, 1 << 16, 1 << 20, 1 << 23 };
    fit_point points[LINK_SIZES];
    fit_line line;
    inlay_status status = INLAY_OK;

    for (int i = 0; i < LINK_SIZES; i++) {
        struct measurement measured;

        status = measure_copy(provider, domain, to_device, sizes[i], calibration->session->env.runs.device_timeout_ms,
                              &calibration->plan, &measured, calibration->diag);
        calibration->session->abandoned |= status == INLAY_DEVICE_LOST && provider_is_lost(provider->state);
        if (status != INLAY_OK)
            return status;
        points[i] = (fit_point){ .x = { 1, 0, (double)sizes[i], 0 }, .ns = measured.ns };
    }
    if (fit_points(points, LINK_SIZES, 0, &line))
        *out = (profile_copy){ line.ns_per[FIT_ONE], line.ns_per[FIT_BYTES] };
    return status;
}

static inlay_status time_links(struct calibration *calibration, const partition_provider *provider,
                               profile_provider *out)
{
    const inlay_provider *table = provider->table;
    inlay_status status = INLAY_OK;

    out->links = arena_array(&calibration->profile.arena, (size_t)table->domain_count + 1, sizeof *out->links);
    if (out->links == NULL)
        return no_memory(calibration->diag, "to calibrate");
    for (uint32_t d = 0; d < table->domain_count; d++) {
        profile_link *link = &out->links[out->link_count];
        if (report_progress(calibration, "copies"))
            return inlay_fail(calibration->diag, INLAY_CANCELLED, "cancelled while measuring");
        link->domain = arena_string(&calibration->profile.arena,
                                    INLAY_AT(inlay_domain_info, table->domains, table->domain_stride, d)->name);
        if (link->domain == NULL)
            return no_memory(calibration->diag, "to calibrate");
        INLAY_TRY(time_link(calibration, provider, d, true, &link->to));
        INLAY_TRY(time_link(calibration, provider, d, false, &link->from));
        out->link_count++;
        calibration->result.link_count += 2;
    }
done:
    return status;
}

static bool is_timed_now(const struct calibration *calibration, uint32_t threads)
{
    for (uint32_t thread = 0; thread < calibration->thread_count; thread++)
        if (threads == calibration->threads[thread])
            return true;
    return false;
}

/* Keeps lines and factors of the old file at other numbers of threads. Providers that were not measured now also
 * keep theirs. */
static inlay_status keep_earlier_lines(struct calibration *calibration, const cost_profile *earlier,
                                       profile_provider *fresh)
{
    const profile_provider *previous = profile_find(earlier, fresh->identity);
    profile_line *lines;
    profile_factor *factors;
    uint32_t line_count = fresh->line_count, factor_count = fresh->factor_count;

    if (previous == NULL)
        return INLAY_OK;
    lines = arena_grown(&calibration->profile.arena, fresh->lines, line_count,
                        (size_t)line_count + previous->line_count + 1, sizeof *lines);
    factors = arena_grown(&calibration->profile.arena, fresh->factors, factor_count,
                          (size_t)factor_count + previous->factor_count + 1, sizeof *factors);
    if (lines == NULL || factors == NULL)
        return no_memory(calibration->diag, "to calibrate");
    for (uint32_t i = 0; i < previous->line_count; i++)
        if (!is_timed_now(calibration, previous->lines[i].threads))
            lines[line_count++] = previous->lines[i];
    for (uint32_t i = 0; i < previous->factor_count; i++)
        if (!is_timed_now(calibration, previous->factors[i].threads))
            factors[factor_count++] = previous->factors[i];
    fresh->lines = lines;
    fresh->line_count = line_count;
    fresh->factors = factors;
    fresh->factor_count = factor_count;
    return INLAY_OK;
}

static bool is_measured_now(const struct calibration *calibration, const profile_provider *earlier)
{
    for (uint32_t provider = 0; provider < calibration->session->env.provider_count; provider++)
        if (strcmp(calibration->session->providers[provider].name, earlier->name) == 0)
            return true;
    return false;
}

static inlay_status make_profile(struct calibration *calibration, const cost_profile *earlier)
{
    uint32_t providers = calibration->session->env.provider_count;
    profile_provider *list =
        arena_array(&calibration->profile.arena, (size_t)providers + earlier->provider_count + 1, sizeof *list);
    double *errors;
    uint32_t error_count = 0;
    inlay_status status = INLAY_OK;

    if (list == NULL)
        return no_memory(calibration->diag, "to calibrate");
    calibration->profile.providers = list;
    profile_cpu(calibration->profile.cpu, sizeof calibration->profile.cpu);
    for (uint32_t provider = 0; provider < providers; provider++) {
        const partition_provider *provider_info = &calibration->session->providers[provider];
        list[provider] = (profile_provider){ .name = provider_info->name,
                                             .build_id = provider_info->build_id != NULL ? provider_info->build_id : "",
                                             .identity = provider_info->identity };
        INLAY_TRY(calibrate_fit(calibration->points[provider], calibration->point_count[provider],
                                &calibration->profile.arena, &list[provider], calibration->diag));
        INLAY_TRY(time_links(calibration, provider_info, &list[provider]));
        calibration->result.line_count += list[provider].line_count;
    }
    errors = arena_array(&calibration->profile.arena, (size_t)calibration->result.line_count + 1, sizeof *errors);
    for (uint32_t p = 0; errors != NULL && p < providers; p++)
        for (uint32_t i = 0; i < list[p].line_count; i++)
            errors[error_count++] = list[p].lines[i].fit.error;
    if (error_count > 0) {
        qsort(errors, error_count, sizeof *errors, order_doubles);
        calibration->result.median_error = errors[error_count / 2];
    }
    for (uint32_t p = 0; p < providers; p++)
        INLAY_TRY(keep_earlier_lines(calibration, earlier, &list[p]));
    calibration->profile.provider_count = providers;
    for (uint32_t i = 0; i < earlier->provider_count; i++)
        if (!is_measured_now(calibration, &earlier->providers[i]))
            list[calibration->profile.provider_count++] = earlier->providers[i];
done:
    return status;
}

static inlay_status read_threads(struct calibration *calibration, const inlay_calibrate_options *what)
{
    uint32_t all = threads_budget();

    if (what->thread_count == 0) {
        calibration->threads[calibration->thread_count++] = 1;
        if (all > 1)
            calibration->threads[calibration->thread_count++] = all;
        return INLAY_OK;
    }
    if (what->thread_count > MAX_THREAD_COUNTS)
        return inlay_fail(calibration->diag, INLAY_INVALID_ARGUMENT,
                          "calibrate: %u thread counts given; at most %d are possible", what->thread_count,
                          MAX_THREAD_COUNTS);
    for (uint32_t i = 0; i < what->thread_count; i++) {
        if (what->threads[i] < 1 || what->threads[i] > all)
            return inlay_fail(calibration->diag, INLAY_INVALID_ARGUMENT,
                              "calibrate: %u threads; the limit of this process is 1 to %u", what->threads[i], all);
        calibration->threads[calibration->thread_count++] = what->threads[i];
    }
    return INLAY_OK;
}

/* The speed of the profile is the one that the estimates of the providers in this process refer to, which an earlier
 * session may have fixed. */
static void find_speed(struct calibration *calibration)
{
    inlay_speed measured;

    measure_speed(&calibration->sweep, &measured, NULL);
    core_speed_use(&measured);
    calibration->profile.speed = *core_speed();
    calibration->profile.speed.shared_bytes = measured.shared_bytes;
    calibration->profile.speed.loop_ns = measured.loop_ns;
    calibration->profile.speed.tile_bytes = measured.tile_bytes;
    calibration->profile.speed.tile_bfloat16 = measured.tile_bfloat16;
}

static inlay_status calibrate(struct calibration *calibration, const inlay_options *options)
{
    cost_log log = { calibration->session->log.write, calibration->session->log.user };
    cost_profile earlier = { .provider_count = 0 };
    inlay_status status = INLAY_OK;
    char folder[PATH_MAX], location[PATH_MAX];
    const char *own_folder, *name;
    uint32_t line_count = calibration->session->env.provider_count;

    status = session_profile_place(options, location, &own_folder, &name, calibration->diag);
    if (status != INLAY_OK)
        return status;
    if (own_folder == NULL && name != NULL)
        return inlay_fail(calibration->diag, INLAY_INVALID_ARGUMENT,
                          "calibrate: option profile is empty; name a file, or auto");
    if (own_folder != NULL)
        (void)snprintf(folder, sizeof folder, "%s", own_folder);
    else if (!config_cache_folder(options, "costs", folder, sizeof folder))
        return inlay_fail(calibration->diag, INLAY_IO_ERROR,
                          "calibrate: no cache folder to write to; see option cache_dir");
    calibration->points = calloc((size_t)line_count + 1, sizeof(calibrate_point *));
    calibration->point_count = calloc((size_t)line_count + 1, sizeof *calibration->point_count);
    if (calibration->points == NULL || calibration->point_count == NULL)
        return no_memory(calibration->diag, "to calibrate");
    INLAY_TRY(measure_sweep_init(&calibration->sweep, calibration->diag));
    find_speed(calibration);
    INLAY_TRY(time_kernels(calibration));
    calibration->fraction = KERNELS_FRACTION;
    INLAY_TRY(profile_load(folder, name, &log, &earlier));
    INLAY_TRY(make_profile(calibration, &earlier));
    INLAY_TRY(profile_save(folder, name, &calibration->profile, calibration->diag));
    (void)snprintf(calibration->result.path, sizeof calibration->result.path, "%.900s/%.100s", folder,
                   name != NULL ? name : "machine.json");
    calibration->result.provider_count = line_count;
    calibration->fraction = 1;
    (void)report_progress(calibration, "done");
done:
    profile_deinit(&earlier);
    return status;
}

inlay_status calibrate_machine(const inlay_options *options, const inlay_calibrate_options *what,
                               inlay_calibrate_result *out_result, inlay_diag *diag)
{
    struct calibration calibration = {
        .diag = diag, .plan = { .min_runs = 3, .max_runs = 30, .budget_ns = BUDGET_NS, .shortest = true }
    };
    inlay_calibrate_options request = { .quick = 0 };
    inlay_status status = INLAY_OK;

    calibration.begin = seconds();
    if (what != NULL)
        sized_struct_read(&request, sizeof request, what, what->struct_size);
    if (request.quick != 0) {
        calibration.plan.min_runs = 2;
        calibration.plan.budget_ns = QUICK_BUDGET_NS;
    }
    calibration.plan.stop = stop;
    calibration.plan.stop_ctx = &calibration;
    INLAY_TRY(read_threads(&calibration, &request));
    INLAY_TRY(session_open_providers(options, &calibration.session, diag));
    calibration.budget = request.budget_s > 0 ? request.budget_s
                                              : (request.quick != 0 ? PROVIDER_BUDGET_S / 4 : PROVIDER_BUDGET_S) *
                                                    calibration.thread_count * calibration.session->env.provider_count;
    INLAY_TRY(calibrate(&calibration, options));
    calibration.result.seconds = seconds() - calibration.begin;
    if (out_result != NULL)
        (void)sized_struct_write(out_result, &calibration.result, sizeof calibration.result);
done:
    for (uint32_t point = 0; calibration.points != NULL && point < calibration.session->env.provider_count; point++)
        free(calibration.points[point]);
    free(calibration.points);
    free(calibration.point_count);
    measure_sweep_deinit(&calibration.sweep);
    profile_deinit(&calibration.profile);
    session_close(calibration.session);
    return status;
}
