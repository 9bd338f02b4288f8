/* profile/report.c - summarises events as rows: one for each step, with its median time over runs. */
#include "base/order.h"
#include "partition/cost/cost.h"
#include "profile/internal.h"
#include "inlay/check.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void profile_report_deinit(profile_report *report)
{
    arena_deinit(&report->arena);
}

const char *profile_name(const profile_event *event, char text[PROFILE_NAME])
{
    const struct program *program = event->program;
    const partition_region *region;
    const char *first, *last;

    if (event->step->kind == PLAN_COPY) {
        (void)snprintf(text, PROFILE_NAME, "copy of %.200s",
                       program->graph->values[event->step->copy_value].info.name.data);
        return text;
    }
    region = event->step->step->region;
    if (event->node != INLAY_NONE) {
        INLAY_CHECK(event->node < program->graph->node_count);
        (void)snprintf(text, PROFILE_NAME, "%.240s", program->graph->nodes[event->node]->info.name.data);
        return text;
    }
    INLAY_CHECK(region->node_count > 0);
    first = program->graph->nodes[region->nodes[0]]->info.name.data;
    last = program->graph->nodes[region->nodes[region->node_count - 1]]->info.name.data;
    if (region->node_count == 1)
        (void)snprintf(text, PROFILE_NAME, "%.240s", first);
    else
        (void)snprintf(text, PROFILE_NAME, "%.100s .. %.100s (%u nodes)", first, last, region->node_count);
    return text;
}

const char *profile_op(const profile_event *event, char text[PROFILE_NAME])
{
    const partition_region *region;

    if (event->step->kind == PLAN_COPY) {
        (void)snprintf(text, PROFILE_NAME, "Copy");
        return text;
    }
    region = event->step->step->region;
    text[0] = '\0';
    if (event->node != INLAY_NONE) {
        (void)snprintf(text, PROFILE_NAME, "%.200s",
                       event->name != NULL ? event->name
                                           : event->program->graph->nodes[event->node]->info.op_type.data);
        return text;
    }
    for (uint32_t i = 0; i < region->node_count && i < 4; i++) {
        size_t used = strlen(text);
        (void)snprintf(text + used, PROFILE_NAME - used, "%s%.40s", i > 0 ? "+" : "",
                       event->program->graph->nodes[region->nodes[i]]->info.op_type.data);
    }
    if (region->node_count > 4)
        (void)snprintf(text + strlen(text), PROFILE_NAME - strlen(text), "+...");
    return text;
}

const char *profile_provider_name(const profile_event *event)
{
    return event->step->kind == PLAN_COPY        ? "copy"
           : event->step->step->provider == NULL ? "host"
                                                 : event->step->step->provider->name;
}

/* Cuts text to the parts that it has in common with the module. */
static void keep_common(char *text, const char *module)
{
    const char separator = text[0] == '/' ? '/' : '.';
    size_t same = 0;

    for (size_t i = 0;; i++) {
        const bool ends = (text[i] == separator || text[i] == '\0') && (module[i] == separator || module[i] == '\0');

        same = ends ? i : same;
        if (text[i] != module[i] || text[i] == '\0')
            break;
    }
    text[same] = '\0';
}

const char *profile_module(const profile_event *event, char text[PROFILE_NAME])
{
    const struct graph *graph = event->program->graph;
    const partition_region *region = event->step->kind == PLAN_COPY ? NULL : event->step->step->region;
    bool is_first = true;

    text[0] = '\0';
    for (uint32_t i = 0; region != NULL && i < region->node_count; i++) {
        const uint32_t node = region->nodes[i];
        char module[GRAPH_SCOPE];

        if ((event->node != INLAY_NONE && node != event->node) || graph_node_scope(graph->nodes[node], module) == NULL)
            continue;
        if (is_first)
            (void)snprintf(text, PROFILE_NAME, "%s", module);
        else
            keep_common(text, module);
        is_first = false;
    }
    return text[0] == '\0' ? NULL : text;
}

double profile_roofline(const profile_report *report, const profile_row *row)
{
    double seconds = row->calls > 0 ? row->ns / row->calls / 1e9 : 0, minimum = 0;

    if (report->peak_flops <= 0 || report->peak_bytes <= 0 || seconds <= 0 || (row->flops <= 0 && row->bytes <= 0))
        return -1;
    if ((row->integer_ops > 0 && report->peak_integers <= 0) || (row->half_flops > 0 && report->peak_halves <= 0))
        return -1;
    if (row->flops < row->bytes && row->bytes <= report->cache_bytes)
        return -1;
    minimum = (row->flops - row->integer_ops - row->half_flops) / report->peak_flops;
    if (row->integer_ops > 0)
        minimum += row->integer_ops / report->peak_integers;
    if (row->half_flops > 0)
        minimum += row->half_flops / report->peak_halves;
    if (row->bytes > report->cache_bytes && row->bytes / report->peak_bytes > minimum)
        minimum = row->bytes / report->peak_bytes;
    return minimum / seconds;
}

/* Does a node of the offer multiply 8-bit integers (integers), or read 16-bit floats? */
static bool reads_type(const struct graph *graph, const partition_offer *offer, bool integers)
{
    for (uint32_t i = 0; i < offer->node_count; i++) {
        const inlay_node_info *node = &graph->nodes[offer->nodes[i]]->info;
        const uint32_t value = node->input_count > 0 ? node->inputs[0] : INLAY_NONE;
        const inlay_dtype dtype = value == INLAY_NONE ? INLAY_UNDEFINED : graph->values[value].info.dtype;
        const char *op = node->op_type.data;

        if (!integers && (dtype == INLAY_FLOAT16 || dtype == INLAY_BFLOAT16))
            return true;
        if (integers && (dtype == INLAY_UINT8 || dtype == INLAY_INT8) &&
            (strstr(op, "MatMul") != NULL || strstr(op, "Conv") != NULL || strcmp(op, "QGemm") == 0))
            return true;
    }
    return false;
}

/* Adds operations, bytes and predicted time of a call: the sum over the offers of its region at the plan's shapes. */
static void add_cost(const struct profile *profile, const profile_event *event, profile_row *row)
{
    const program_env *env = event->program->env;
    const partition_region *region;

    if (event->step->kind == PLAN_COPY) {
        row->bytes = 2.0 * (double)event->step->copy_bytes;
        return;
    }
    if (event->step->kind == PLAN_HOST || event->name != NULL) /* one of several kernels of a node */
        return;
    region = event->step->step->region;
    for (uint32_t i = 0; i < region->offer_count; i++) {
        cost_question question = { .graph = &event->program->snapshot,
                                   .provider = event->step->step->provider,
                                   .offer = &event->program->parts.offers[region->offers[i]],
                                   .values = event->plan->states,
                                   .max_threads = profile->session->env.max_threads,
                                   .weight_bytes = event->program->parts.weight_bytes,
                                   .runs = true };
        uint32_t source;
        inlay_cost cost;
        double error;

        if (event->node != INLAY_NONE && !is_listed(question.offer->nodes, question.offer->node_count, event->node))
            continue;
        source = cost_of_offer(env->costs, &question, &cost, &error);
        if (source == COST_NONE)
            continue;
        row->flops += cost.flops;
        if (reads_type(event->program->graph, question.offer, true))
            row->integer_ops += cost.flops;
        else if (reads_type(event->program->graph, question.offer, false))
            row->half_flops += cost.flops;
        row->bytes += (double)cost.bytes_read + (double)cost.bytes_written;
        row->predicted_ns += cost.ns;
    }
}

/* Bytes of the slabs that are in use while the step runs. */
static uint64_t live_bytes(const profile_event *event)
{
    uint32_t at = (uint32_t)(event->step - event->plan->steps);
    uint64_t sum = 0;

    INLAY_CHECK(at < event->plan->step_count);
    for (uint32_t i = 0; i < event->plan->place_count; i++) {
        const plan_place *place = &event->plan->places[i];
        if (place->source == PLACE_SLAB && place->first <= at && at <= place->last)
            sum += place->bytes;
    }
    return sum;
}

/* Do two events belong to the same row: the same step of a program, or copies of the same value to the same domain? */
static bool same_row(const profile_event *a, const profile_event *b)
{
    if (a->program != b->program || a->step->kind != b->step->kind || a->node != b->node || a->name != b->name)
        return false;
    if (a->step->kind == PLAN_COPY)
        return a->step->copy_value == b->step->copy_value &&
               a->plan->places[a->step->out[0]].domain == b->plan->places[b->step->out[0]].domain;
    return a->step->step == b->step->step;
}

static uint64_t row_key(const profile_event *event)
{
    uint64_t key =
        event->step->kind == PLAN_COPY ? event->step->copy_value * 2u + 1u : (uint64_t)(uintptr_t)event->step->step;

    key ^= (uint64_t)(uintptr_t)event->name << 1;
    return (key ^ (uint64_t)(uintptr_t)event->program ^ (uint64_t)event->node << 32) * UINT64_C(0x9e3779b97f4a7c15);
}

/* Finds the row of each event, with a hash table of rows (open addressing). */
static bool assign_rows(profile_report *report)
{
    uint32_t count = report->profile->event_count, buckets = 64, *table;

    while (buckets < count * 2u && buckets < UINT32_C(1) << 30)
        buckets *= 2;
    table = arena_array(&report->arena, buckets, sizeof *table);
    report->rows = arena_array(&report->arena, (size_t)count + 1, sizeof *report->rows);
    if (table == NULL || report->rows == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const profile_event *event = &report->profile->events[i];
        uint32_t at = (uint32_t)(row_key(event) >> 32) & (buckets - 1);

        while (table[at] != 0 && !same_row(report->rows[table[at] - 1].sample, event))
            at = (at + 1) & (buckets - 1);
        if (table[at] == 0) {
            report->rows[report->row_count].sample = event;
            table[at] = ++report->row_count;
        }
        report->row_of[i] = table[at] - 1;
    }
    INLAY_CHECK(report->row_count <= count);
    return true;
}

static double median(double *list, uint32_t count)
{
    qsort(list, count, sizeof *list, order_doubles);
    return count == 0 ? 0 : count % 2 != 0 ? list[count / 2] : (list[count / 2 - 1] + list[count / 2]) / 2;
}

/* Computes the time of each row in each run, and the median over runs. A counting sort groups the events by row, so the
 * work is proportional to events plus rows times runs. */
static bool compute_medians(profile_report *report)
{
    const uint32_t *row_of = report->row_of;
    const struct profile *profile = report->profile;
    uint32_t *start = arena_array(&report->arena, (size_t)report->row_count + 2, sizeof *start);
    uint32_t *order = arena_array(&report->arena, (size_t)profile->event_count + 1, sizeof *order);
    double *sums = arena_array(&report->arena, (size_t)profile->run_count + 1, sizeof *sums);

    if (start == NULL || order == NULL || sums == NULL)
        return false;
    for (uint32_t i = 0; i < profile->event_count; i++)
        start[row_of[i] + 2 <= report->row_count ? row_of[i] + 2 : report->row_count + 1]++;
    for (uint32_t k = 2; k <= report->row_count; k++)
        start[k] += start[k - 1];
    for (uint32_t i = 0; i < profile->event_count; i++)
        order[start[row_of[i] + 1]++] = i;
    INLAY_CHECK(start[report->row_count] == profile->event_count);
    for (uint32_t k = 0; k < report->row_count; k++) {
        memset(sums, 0, profile->run_count * sizeof *sums);
        for (uint32_t i = start[k]; i < start[k + 1]; i++) {
            const profile_event *event = &profile->events[order[i]];
            sums[event->run] += (double)(event->end_ns - event->begin_ns);
        }
        report->rows[k].calls = (double)(start[k + 1] - start[k]) / (double)profile->run_count;
        report->rows[k].ns = median(sums, profile->run_count);
    }
    return true;
}

/* Assigns the rows of kernels to the rows of their regions, and sums their times. The row of a region follows the rows
 * of its kernels. */
static void assign_regions(profile_report *report)
{
    for (uint32_t k = report->row_count; k-- > 0;) {
        profile_row *row = &report->rows[k];

        row->leaf = row->sample->step->kind == PLAN_COPY || row->sample->step->step->bodies == NULL;
        if (row->sample->node == INLAY_NONE)
            continue;
        for (uint32_t i = k + 1; i < report->row_count && row->region == NULL; i++)
            if (report->rows[i].sample->node == INLAY_NONE &&
                report->rows[i].sample->step->step == row->sample->step->step &&
                report->rows[i].sample->program == row->sample->program)
                row->region = &report->rows[i];
    }
    for (uint32_t k = 0; k < report->row_count; k++) {
        profile_row *region = (profile_row *)(uintptr_t)report->rows[k].region;

        if (region != NULL) {
            region->leaf = false;
            region->inner_ns += report->rows[k].ns;
        }
    }
}

/* The run that a timeline shows; of several as near to the median, the latest, because its caches are warm. */
static uint32_t typical_run(const struct profile *profile, double run_ns)
{
    double least = INFINITY;
    uint32_t typical = 0;

    for (uint32_t i = 0; i < profile->run_count; i++) {
        const double off = fabs((double)(profile->runs[i].end_ns - profile->runs[i].begin_ns) - run_ns);

        if (off <= least) {
            least = off;
            typical = i;
        }
    }
    return typical;
}

inlay_status profile_report_make(const struct profile *profile, profile_report *out, inlay_diag *diag)
{
    double *runs;

    *out = (profile_report){ .profile = profile, .cache_bytes = (double)cost_shared_bytes() };
    if (profile->run_count == 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          profile->dropped > 0 ? "no complete run fitted into max_events of the profile; raise it"
                                               : "there is nothing to report: no run was profiled");
    out->row_of = arena_array(&out->arena, (size_t)profile->event_count + 1, sizeof *out->row_of);
    runs = arena_array(&out->arena, profile->run_count, sizeof *runs);
    if (out->row_of == NULL || runs == NULL || !assign_rows(out) || !compute_medians(out)) {
        profile_report_deinit(out);
        return no_memory(diag, "for the report of a profile");
    }
    assign_regions(out);
    for (uint32_t i = 0; i < profile->run_count; i++)
        runs[i] = (double)(profile->runs[i].end_ns - profile->runs[i].begin_ns);
    out->run_ns = median(runs, profile->run_count);
    out->typical_run = typical_run(profile, out->run_ns);
    out->outside_ns = out->run_ns;
    for (uint32_t k = 0; k < out->row_count; k++) {
        profile_row *row = &out->rows[k];

        out->outside_ns -= row->leaf ? row->ns : 0;
        row->provider = profile_provider_name(row->sample);
        row->live_bytes = live_bytes(row->sample);
        row->share = out->run_ns > 0 ? row->ns / out->run_ns : 0;
        add_cost(profile, row->sample, row);
        if (row->sample->depth == 0 && out->slab_bytes == 0) {
            for (uint32_t d = 0; d < row->sample->plan->domain_count; d++)
                out->slab_bytes += row->sample->plan->slab_bytes[d];
            out->lower_bound_bytes = row->sample->plan->lower_bound_bytes;
        }
    }
    out->outside_ns = out->outside_ns > 0 ? out->outside_ns : 0;
    return INLAY_OK;
}
