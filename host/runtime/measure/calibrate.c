/* calibrate.c - times the rows of calibrate_cases.def on every provider, and copies on every link. */
#include "measure/calibrate.h"
#include "base/among.h"
#include "base/clock.h"
#include "base/known.h"
#include "base/memory.h"
#include "base/order.h"
#include "config/dirs.h"
#include "measure/measure.h"
#include "partition/cost/cost_key.h"
#include "threads/threads.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREAD_COUNTS = 16, LINK_SIZES = 4, PASSES = 3, TRIES = 2 };
static const double BUDGET_NS = 8e6, QUICK_BUDGET_NS = 1.5e6; /* of one kernel, a pass */
static const double SHARE_S = 60;                             /* for a provider at one number of threads */
static const double CASES_SHARE = 0.95;                       /* of the bar; links take the rest */

struct calibration {
    inlay_session *s; /* providers, log, progress */
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
    bool calm; /* was the round at hand? */
    bool late; /* is less left than all would take? Then nothing is repeated for its sake */
    inlay_diag *diag;
};

static bool tell(struct calibration *c, const char *what)
{
    if (!c->cancelled && c->s->progress != NULL)
        c->cancelled = c->s->progress(c->s->progress_user, c->fraction, what) != 0;
    return c->cancelled;
}

static bool stop(void *ctx)
{
    return tell(ctx, "measuring");
}

/* ------------------------------------------------------------------ kernels */

/* The point of the same kernel, which was timed a pass ago; NULL: none. */
static calibrate_point *find_point(const struct calibration *c, uint32_t which, const calibrate_point *point)
{
    for (uint32_t i = 0; i < c->point_count[which]; i++) {
        calibrate_point *old = &c->points[which][i];
        if (old->row == point->row && old->class.dtype == point->class.dtype && old->threads == point->threads &&
            old->weight_bytes == point->weight_bytes)
            return old;
    }
    return NULL;
}

/* Of all passes the shortest time counts: what else the machine does only makes kernels slower, and seldom in all of
 * them, for they are far apart. */
static inlay_status add_point(struct calibration *c, uint32_t which, const calibrate_point *point)
{
    calibrate_point *old = find_point(c, which, point);

    if (old != NULL) {
        old->point.ns = fmin(old->point.ns, point->point.ns);
        old->with_ns = fmin(old->with_ns, point->with_ns);
        old->without_ns = fmin(old->without_ns, point->without_ns);
        return INLAY_OK;
    }
    c->result.kernel_count++;
    if (!LIST_GROW(c->points[which], c->point_count[which]))
        return no_memory(c->diag, "to calibrate");
    c->points[which][c->point_count[which]++] = *point;
    return INLAY_OK;
}

/* A case in its forms, in a model of large weights or with no others than its own. */
typedef struct case_models {
    const calibrate_case *row;
    graph_model *model[CALIBRATE_FORMS]; /* NULL: it has not this form */
    inlay_graph view[CALIBRATE_FORMS];
    uint64_t weight_bytes; /* of the first form */
    struct arena a;
} case_models;

enum { MOST_NODES = 8 }; /* of such a model */

/* What one provider offers for one of them: a node, or as a whole those that it merges. */
typedef struct case_offer {
    bool there;
    part_offer offer; /* of all nodes, at the price of the last */
    double leave_ns;  /* of all that leaves */
    part_request request;
    struct partition parts;
    uint32_t nodes[MOST_NODES];
    uint64_t cookies[MOST_NODES];
    measure_job job;
} case_offer;

/* Not there: the provider does not run it, or does not merge what is more than one node. */
static inlay_status ask_offer(struct calibration *c, case_models *m, uint32_t form, uint32_t which, uint32_t threads,
                              case_offer *out)
{
    const part_provider *p = &c->s->providers[which];
    const inlay_graph *view = &m->view[form];
    const uint32_t count = view->node_count;
    inlay_diag why = INLAY_DIAG_INIT;
    uint32_t found = 0;
    inlay_status status;

    out->there = false;
    if (m->model[form] == NULL || count > MOST_NODES)
        return INLAY_OK;
    out->request = (part_request){
        .graph = m->model[form]->main, .snapshot = view, .providers = p, .provider_count = 1, .max_threads = threads
    };
    status = partition_graph(&out->request, &m->a, &out->parts, &why);
    if (status == INLAY_OUT_OF_MEMORY)
        return inlay_fail(c->diag, status, "no memory to calibrate");
    out->leave_ns = 0;
    for (uint32_t i = 0; status == INLAY_OK && i < out->parts.offer_count && found < count; i++) {
        const part_offer *o = &out->parts.offers[i];
        if (o->node_count != 1 || o->nodes[0] != found ||
            (form != CALIBRATE_ALONE && (o->flags & INLAY_OFFER_MERGE) == 0))
            continue;
        out->offer = *o;
        out->leave_ns = form == CALIBRATE_BEFORE ? out->leave_ns + o->cost.leave_ns : o->cost.leave_ns;
        out->nodes[found] = found;
        out->cookies[found++] = o->cookie;
    }
    if (found < count || count == 0)
        return INLAY_OK;
    out->offer.nodes = out->nodes;
    out->offer.node_count = count;
    out->job = (measure_job){ .g = m->model[form]->main,
                              .snapshot = view,
                              .provider = p,
                              .offer = &out->offer,
                              .cookies = out->cookies,
                              .cookie_count = count,
                              .values = out->parts.profile,
                              .max_threads = threads,
                              .max_bytes = UINT64_C(1) << 32 };
    out->there = true;
    return INLAY_OK;
}

/* *out_ns stays 0 for a kernel that fails. */
static inlay_status time_offer(struct calibration *c, const case_models *m, case_offer *o, double *out_ns)
{
    inlay_diag why = INLAY_DIAG_INIT;
    struct measurement got = { .ns = 0 };
    inlay_status status;

    /* Without weights everything is as it is behind large kernels. */
    o->job.device_timeout_ms = c->s->env.device_timeout_ms;
    o->job.weights_in = o->parts.weight_bytes > 0 ? cost_weights_in(o->parts.weight_bytes) : COST_FAR;
    status = measure_offer(&o->job, &c->plan, &c->sweep, &got, &why);

    c->s->abandoned |=
        status == INLAY_DEVICE_LOST && provider_is_lost(o->job.provider->state); /* it hangs: all stays */
    if (status == INLAY_CANCELLED || status == INLAY_OUT_OF_MEMORY || status == INLAY_DEVICE_LOST)
        return inlay_fail(c->diag, status, "%s", why.text);
    if (status != INLAY_OK && c->s->log != NULL) {
        char line[700];
        (void)snprintf(line, sizeof line, "calibrate: provider %s, %s: %s", o->job.provider->name, m->row->op,
                       why.text);
        c->s->log(c->s->log_user, INLAY_LOG_WARNING, line);
    }
    *out_ns = status == INLAY_OK ? got.ns : 0;
    c->calm = c->calm && (status != INLAY_OK || got.calm);
    return INLAY_OK;
}

/* Room for the sizes of outputs that the run decides: what it made of the contents is what was timed. */
static inlay_status find_sizes(struct calibration *c, case_models *m, case_offer *o)
{
    const inlay_graph *view = o->job.snapshot;
    inlay_value_state *found = arena_copy(&m->a, o->parts.profile, view->value_count * sizeof *found);

    for (uint32_t v = 0; found != NULL && v < view->value_count; v++) {
        int64_t *dims = arena_array(&m->a, INLAY_MAX_RANK, sizeof *dims);

        if (dims == NULL)
            found = NULL;
        else if (found[v].rank != INLAY_RANK_UNKNOWN && found[v].rank > 0)
            memcpy(dims, found[v].dims, found[v].rank * sizeof *dims);
        if (found != NULL)
            found[v].dims = dims;
    }
    o->job.found = found;
    return found != NULL ? INLAY_OK : no_memory(c->diag, "to calibrate");
}

/* What the provider expects of it at the sizes that were found. */
static void price_found(case_offer *o)
{
    const part_provider *p = o->job.provider;
    cost_question q = { .graph = o->job.snapshot,
                        .provider = p,
                        .offer = &o->offer,
                        .values = o->job.found,
                        .max_threads = o->job.max_threads,
                        .runs = true };
    double error;

    (void)cost_of_offer(NULL, &q, &o->offer.cost, &error);
}

/* Times a kernel, alone and in regions where there are such, and adds a point for it; a kernel that fails has none.
 * offers: [CALIBRATE_FORMS]. */
static inlay_status time_point(struct calibration *c, case_models *m, uint32_t which, case_offer *offers)
{
    case_offer *alone = &offers[CALIBRATE_ALONE], *row = &offers[CALIBRATE_ROW], *behind = &offers[CALIBRATE_BEHIND];
    case_offer *before = &offers[CALIBRATE_BEFORE], *typical = row->there ? row : behind->there ? behind : alone;
    const inlay_graph *view = typical->job.snapshot;
    const inlay_node_info *node = inlay_graph_node(view, view->node_count - 1);
    const inlay_cost *cost = &typical->offer.cost;
    calibrate_point point = { .row = m->row,
                              .weight_bytes = m->weight_bytes,
                              .threads = alone->job.max_threads,
                              .border_ns = alone->offer.cost.enter_ns + alone->offer.cost.leave_ns };
    inlay_status status = INLAY_OK;

    if (typical == alone)
        INLAY_TRY(find_sizes(c, m, alone));
    INLAY_TRY(time_offer(c, m, alone, &point.point.ns));
    if (typical == alone)
        price_found(alone);
    point.kind = cost_kind_of(cost);
    point.model_ns = cost->ns;
    if (point.point.ns == 0)
        return INLAY_OK;
    if (row->there) {
        INLAY_TRY(time_offer(c, m, row, &point.with_ns));
        point.without_ns = point.point.ns;
        point.nodes_more = CALIBRATE_CHAIN - 1;
    } else if (behind->there && before->there) {
        INLAY_TRY(time_offer(c, m, behind, &point.with_ns));
        INLAY_TRY(time_offer(c, m, before, &point.without_ns));
        point.nodes_more = 1;
        point.leave_ns = behind->leave_ns - before->leave_ns;
    }
    point.class = cost_class_of(view, node, typical == alone ? alone->job.found : typical->parts.profile);
    point.class.op = m->row->op;
    fit_terms(cost->flops, (double)cost->bytes_read + (double)cost->bytes_written, cost->ns,
              cost_cold_bytes(view, node, cost) * cost_cold_share(typical->parts.weight_bytes), point.point.x);
    INLAY_TRY(add_point(c, which, &point));
done:
    return status;
}

/* The kernel of one provider at one number of threads. What a provider does not run, or fails at, is left out. */
static inlay_status time_kernel(struct calibration *c, case_models *m, uint32_t which, uint32_t threads)
{
    case_offer offers[CALIBRATE_FORMS];
    inlay_status status = INLAY_OK;

    for (uint32_t form = 0; form < CALIBRATE_FORMS; form++)
        INLAY_TRY(ask_offer(c, m, form, which, threads, &offers[form]));
    if (offers[CALIBRATE_ALONE].there)
        status = time_point(c, m, which, offers);
done:
    return status;
}

static inlay_status make_models(case_models *m, inlay_dtype dtype, bool large, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t form = 0; form < CALIBRATE_FORMS; form++) {
        if (!calibrate_has(m->row, m->model[CALIBRATE_ALONE], form))
            continue;
        INLAY_TRY(calibrate_model(m->row, dtype, form, large, &m->model[form], diag));
        INLAY_TRY(graph_snapshot(m->model[form]->main, &m->a, &m->view[form], diag));
    }
    m->weight_bytes = cost_weight_bytes(&m->view[CALIBRATE_ALONE]);
done:
    return status;
}

static void drop_models(case_models *m)
{
    arena_deinit(&m->a);
    for (uint32_t form = 0; form < CALIBRATE_FORMS; form++)
        graph_model_destroy(m->model[form]);
}

/* One round: each provider at each number of threads. */
static inlay_status time_round(struct calibration *c, case_models *m, inlay_dtype dtype)
{
    inlay_status status = INLAY_OK;
    char what[96];

    for (uint32_t p = 0; p < c->s->env.provider_count; p++) {
        for (uint32_t t = 0; t < c->thread_count; t++) {
            (void)snprintf(what, sizeof what, "%s, %s of %s, %u thread%s", c->s->providers[p].name, m->row->op,
                           inlay_dtype_name(dtype), c->threads[t], c->threads[t] > 1 ? "s" : "");
            if (tell(c, what))
                return inlay_fail(c->diag, INLAY_CANCELLED, "cancelled while measuring");
            INLAY_TRY(time_kernel(c, m, p, c->threads[t]));
        }
    }
done:
    return status;
}

static double seconds(void)
{
    return (double)clock_ns() * 1e-9;
}

/* Is more of the budget gone than that share? */
static bool behind(const struct calibration *c, double share)
{
    return seconds() - c->begin > share * CASES_SHARE * c->budget;
}

/* A case with weights is timed as it goes in a small model, whose weights are in some cache, and in a large one. A
 * round that others disturbed is repeated: what was timed in it is no less than it should be. */
static inlay_status time_case(struct calibration *c, const calibrate_case *row, inlay_dtype dtype)
{
    case_models small = { .row = row }, large = { .row = row };
    inlay_status status = INLAY_OK;

    INLAY_TRY(make_models(&small, dtype, false, c->diag));
    if (small.weight_bytes > 0 && cost_cold_share(small.weight_bytes) < 1)
        INLAY_TRY(make_models(&large, dtype, true, c->diag));
    c->calm = false;
    for (uint32_t tries = 0; !c->calm && tries < (c->late ? 1u : TRIES); tries++) {
        c->calm = true;
        INLAY_TRY(time_round(c, &small, dtype));
        if (large.weight_bytes > 0)
            INLAY_TRY(time_round(c, &large, dtype));
    }
done:
    drop_models(&small);
    drop_models(&large);
    return status;
}

/* All of them several times over, so that a machine that is slower for some seconds is not so for all times of any.
 * What the budget has no room for is left out: later passes altogether, and of the first one the cases whose turn has
 * passed, which are spread over all families. */
static inlay_status time_kernels(struct calibration *c)
{
    const uint32_t count = calibrate_case_count();
    inlay_status status = INLAY_OK;
    bool left_out = false;

    for (uint32_t k = 0; k < PASSES * count; k++) {
        const calibrate_case *row = calibrate_case_at(k % count);

        c->fraction = CASES_SHARE * k / (PASSES * count);
        c->late = behind(c, (double)k / (PASSES * count));
        if (k > 0 && behind(c, k < count ? (double)(k + 1) / count : 1)) {
            left_out = true;
            continue;
        }
        for (inlay_dtype d = 1; d < INLAY_DTYPE_COUNT; d++)
            if (is_among(inlay_dtype_name(d), row->types))
                INLAY_TRY(time_case(c, row, d));
    }
    if (left_out && c->result.kernel_count == 0)
        status = inlay_fail(c->diag, INLAY_DEADLINE_EXCEEDED,
                            "calibrate: %.3g s were too short for one kernel; nothing was written", c->budget);
done:
    return status;
}

/* ------------------------------------------------------------------ links */

static inlay_status time_link(struct calibration *c, const part_provider *p, uint32_t domain, bool to_device,
                              profile_copy *out)
{
    static const uint64_t sizes[LINK_SIZES] = { 64, 1 << 16, 1 << 20, 1 << 23 };
    fit_point points[LINK_SIZES];
    fit_line line;
    inlay_status status = INLAY_OK;

    for (int i = 0; i < LINK_SIZES; i++) {
        struct measurement got;

        status = measure_copy(p, domain, to_device, sizes[i], c->s->env.device_timeout_ms, &c->plan, &got, c->diag);
        c->s->abandoned |= status == INLAY_DEVICE_LOST && provider_is_lost(p->state);
        if (status != INLAY_OK)
            return status;
        points[i] = (fit_point){ .x = { 1, 0, (double)sizes[i], 0 }, .ns = got.ns };
    }
    if (fit_points(points, LINK_SIZES, 0, &line))
        *out = (profile_copy){ line.ns_per[FIT_ONE], line.ns_per[FIT_BYTES] };
    return status;
}

static inlay_status time_links(struct calibration *c, const part_provider *p, profile_provider *out)
{
    const inlay_provider *t = p->table;
    inlay_status status = INLAY_OK;

    out->links = arena_array(&c->profile.a, (size_t)t->domain_count + 1, sizeof *out->links);
    if (out->links == NULL)
        return no_memory(c->diag, "to calibrate");
    for (uint32_t d = 0; d < t->domain_count; d++) {
        profile_link *link = &out->links[out->link_count];
        if (tell(c, "copies"))
            return inlay_fail(c->diag, INLAY_CANCELLED, "cancelled while measuring");
        link->domain = arena_string(&c->profile.a, INLAY_AT(inlay_domain_info, t->domains, t->domain_stride, d)->name);
        if (link->domain == NULL)
            return no_memory(c->diag, "to calibrate");
        INLAY_TRY(time_link(c, p, d, true, &link->to));
        INLAY_TRY(time_link(c, p, d, false, &link->from));
        out->link_count++;
        c->result.link_count += 2;
    }
done:
    return status;
}

/* ------------------------------------------------------------------ the profile */

static bool is_timed_now(const struct calibration *c, uint32_t threads)
{
    for (uint32_t t = 0; t < c->thread_count; t++)
        if (threads == c->threads[t])
            return true;
    return false;
}

/* Lines of the old file at other numbers of threads stay; so do providers that were not measured now. */
static inlay_status keep_old_lines(struct calibration *c, const cost_profile *old, profile_provider *fresh)
{
    const profile_provider *was = profile_find(old, fresh->identity);
    profile_line *lines;
    profile_factor *factors;
    uint32_t n = fresh->line_count, m = fresh->factor_count;

    if (was == NULL)
        return INLAY_OK;
    lines = arena_grown(&c->profile.a, fresh->lines, n, (size_t)n + was->line_count + 1, sizeof *lines);
    factors = arena_grown(&c->profile.a, fresh->factors, m, (size_t)m + was->factor_count + 1, sizeof *factors);
    if (lines == NULL || factors == NULL)
        return no_memory(c->diag, "to calibrate");
    for (uint32_t i = 0; i < was->line_count; i++)
        if (!is_timed_now(c, was->lines[i].threads))
            lines[n++] = was->lines[i];
    for (uint32_t i = 0; i < was->factor_count; i++)
        if (!is_timed_now(c, was->factors[i].threads))
            factors[m++] = was->factors[i];
    fresh->lines = lines;
    fresh->line_count = n;
    fresh->factors = factors;
    fresh->factor_count = m;
    return INLAY_OK;
}

static bool is_measured_now(const struct calibration *c, const profile_provider *old)
{
    for (uint32_t p = 0; p < c->s->env.provider_count; p++)
        if (strcmp(c->s->providers[p].name, old->name) == 0)
            return true;
    return false;
}

static inlay_status make_profile(struct calibration *c, const cost_profile *old)
{
    uint32_t providers = c->s->env.provider_count;
    profile_provider *list = arena_array(&c->profile.a, (size_t)providers + old->provider_count + 1, sizeof *list);
    double *errors;
    uint32_t error_count = 0;
    inlay_status status = INLAY_OK;

    if (list == NULL)
        return no_memory(c->diag, "to calibrate");
    c->profile.providers = list;
    profile_cpu(c->profile.cpu, sizeof c->profile.cpu);
    for (uint32_t p = 0; p < providers; p++) {
        const part_provider *x = &c->s->providers[p];
        list[p] = (profile_provider){ .name = x->name,
                                      .build_id = x->build_id != NULL ? x->build_id : "",
                                      .identity = x->identity };
        INLAY_TRY(calibrate_fit(c->points[p], c->point_count[p], &c->profile.a, &list[p], c->diag));
        INLAY_TRY(time_links(c, x, &list[p]));
        c->result.line_count += list[p].line_count;
    }
    errors = arena_array(&c->profile.a, (size_t)c->result.line_count + 1, sizeof *errors);
    for (uint32_t p = 0; errors != NULL && p < providers; p++)
        for (uint32_t i = 0; i < list[p].line_count; i++)
            errors[error_count++] = list[p].lines[i].fit.error;
    if (error_count > 0) {
        qsort(errors, error_count, sizeof *errors, order_doubles);
        c->result.median_error = errors[error_count / 2];
    }
    for (uint32_t p = 0; p < providers; p++)
        INLAY_TRY(keep_old_lines(c, old, &list[p]));
    c->profile.provider_count = providers;
    for (uint32_t i = 0; i < old->provider_count; i++)
        if (!is_measured_now(c, &old->providers[i]))
            list[c->profile.provider_count++] = old->providers[i];
done:
    return status;
}

/* ------------------------------------------------------------------ the whole */

static inlay_status read_threads(struct calibration *c, const inlay_calibrate_options *what)
{
    uint32_t all = threads_budget();

    if (what->thread_count == 0) {
        c->threads[c->thread_count++] = 1;
        if (all > 1)
            c->threads[c->thread_count++] = all;
        return INLAY_OK;
    }
    if (what->thread_count > MAX_THREAD_COUNTS)
        return inlay_fail(c->diag, INLAY_INVALID_ARGUMENT, "calibrate: %u numbers of threads; at most %d at a time",
                          what->thread_count, MAX_THREAD_COUNTS);
    for (uint32_t i = 0; i < what->thread_count; i++) {
        if (what->threads[i] < 1 || what->threads[i] > all)
            return inlay_fail(c->diag, INLAY_INVALID_ARGUMENT, "calibrate: %u threads; this process has 1 to %u",
                              what->threads[i], all);
        c->threads[c->thread_count++] = what->threads[i];
    }
    return INLAY_OK;
}

static inlay_status calibrate(struct calibration *c, const inlay_options *options)
{
    cost_log log = { c->s->log, c->s->log_user };
    cost_profile old = { .provider_count = 0 };
    inlay_status status = INLAY_OK;
    char folder[PATH_MAX], place[PATH_MAX];
    const char *own_folder, *name;
    uint32_t n = c->s->env.provider_count;

    status = session_profile_place(options, place, &own_folder, &name, c->diag);
    if (status != INLAY_OK)
        return status;
    if (own_folder == NULL && name != NULL)
        return inlay_fail(c->diag, INLAY_INVALID_ARGUMENT, "calibrate: option profile is empty; name a file, or auto");
    if (own_folder != NULL)
        (void)snprintf(folder, sizeof folder, "%s", own_folder);
    else if (!config_cache_folder(options, "costs", folder, sizeof folder))
        return inlay_fail(c->diag, INLAY_IO_ERROR,
                          "calibrate: there is no cache folder to write to; see option cache_dir");
    c->points = calloc((size_t)n + 1, sizeof(calibrate_point *));
    c->point_count = calloc((size_t)n + 1, sizeof *c->point_count);
    if (c->points == NULL || c->point_count == NULL)
        return no_memory(c->diag, "to calibrate");
    INLAY_TRY(measure_sweep_init(&c->sweep, c->diag));
    INLAY_TRY(time_kernels(c));
    c->fraction = CASES_SHARE;
    INLAY_TRY(profile_load(folder, name, &log, &old));
    INLAY_TRY(make_profile(c, &old));
    INLAY_TRY(profile_save(folder, name, &c->profile, c->diag));
    (void)snprintf(c->result.path, sizeof c->result.path, "%.900s/%.100s", folder,
                   name != NULL ? name : "machine.json");
    c->result.provider_count = n;
    c->fraction = 1;
    (void)tell(c, "done");
done:
    profile_deinit(&old);
    return status;
}

inlay_status calibrate_machine(const inlay_options *options, const inlay_calibrate_options *what,
                               inlay_calibrate_result *out_result, inlay_diag *diag)
{
    struct calibration c = { .diag = diag, .plan = { .min_runs = 3, .max_runs = 30, .budget_ns = BUDGET_NS } };
    inlay_calibrate_options how = { .quick = 0 };
    inlay_status status = INLAY_OK;

    c.begin = seconds();
    if (what != NULL)
        known_take(&how, sizeof how, what, what->struct_size);
    if (how.quick != 0) {
        c.plan.min_runs = 2;
        c.plan.budget_ns = QUICK_BUDGET_NS;
    }
    c.plan.stop = stop;
    c.plan.stop_ctx = &c;
    INLAY_TRY(read_threads(&c, &how));
    INLAY_TRY(session_open_providers(options, &c.s, diag));
    c.budget = how.budget_s > 0 ? how.budget_s
                                : (how.quick != 0 ? SHARE_S / 4 : SHARE_S) * c.thread_count * c.s->env.provider_count;
    INLAY_TRY(calibrate(&c, options));
    c.result.seconds = seconds() - c.begin;
    if (out_result != NULL)
        (void)known_give(out_result, &c.result, sizeof c.result);
done:
    for (uint32_t p = 0; c.points != NULL && p < c.s->env.provider_count; p++)
        free(c.points[p]);
    free(c.points);
    free(c.point_count);
    measure_sweep_deinit(&c.sweep);
    profile_deinit(&c.profile);
    session_close(c.s);
    return status;
}
