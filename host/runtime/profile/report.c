/* From events to rows: one for each step, with its median over runs. */
#include "base/order.h"
#include "profile/internal.h"
#include <stdlib.h>
#include <string.h>

void profile_report_deinit(profile_report *r)
{
    arena_deinit(&r->a);
}

const char *profile_name(const profile_event *e, char text[PROFILE_NAME])
{
    const struct program *p = e->program;
    const part_region *region;
    const char *first, *last;

    if (e->step->kind == PLAN_COPY) {
        (void)snprintf(text, PROFILE_NAME, "copy of %.200s", p->graph->values[e->step->copy_value].info.name.data);
        return text;
    }
    region = e->step->step->region;
    if (e->node != INLAY_NONE) {
        (void)snprintf(text, PROFILE_NAME, "%.240s", p->graph->nodes[e->node]->info.name.data);
        return text;
    }
    first = p->graph->nodes[region->nodes[0]]->info.name.data;
    last = p->graph->nodes[region->nodes[region->node_count - 1]]->info.name.data;
    if (region->node_count == 1)
        (void)snprintf(text, PROFILE_NAME, "%.240s", first);
    else
        (void)snprintf(text, PROFILE_NAME, "%.100s .. %.100s (%u nodes)", first, last, region->node_count);
    return text;
}

const char *profile_op(const profile_event *e, char text[PROFILE_NAME])
{
    const part_region *region;

    if (e->step->kind == PLAN_COPY) {
        (void)snprintf(text, PROFILE_NAME, "Copy");
        return text;
    }
    region = e->step->step->region;
    text[0] = '\0';
    if (e->node != INLAY_NONE) {
        (void)snprintf(text, PROFILE_NAME, "%.200s", e->program->graph->nodes[e->node]->info.op_type.data);
        return text;
    }
    for (uint32_t i = 0; i < region->node_count && i < 4; i++) {
        size_t used = strlen(text);
        (void)snprintf(text + used, PROFILE_NAME - used, "%s%.40s", i > 0 ? "+" : "",
                       e->program->graph->nodes[region->nodes[i]]->info.op_type.data);
    }
    if (region->node_count > 4)
        (void)snprintf(text + strlen(text), PROFILE_NAME - strlen(text), "+...");
    return text;
}

double profile_roofline(const profile_report *r, const profile_row *row)
{
    double seconds = row->calls > 0 ? row->ns / row->calls / 1e9 : 0, least = 0;

    if (r->peak_flops <= 0 || r->peak_bytes <= 0 || seconds <= 0 || (row->flops <= 0 && row->bytes <= 0))
        return -1;
    if ((row->integer_ops > 0 && r->peak_integers <= 0) || (row->half_flops > 0 && r->peak_halves <= 0))
        return -1;
    least = (row->flops - row->integer_ops - row->half_flops) / r->peak_flops;
    if (row->integer_ops > 0)
        least += row->integer_ops / r->peak_integers;
    if (row->half_flops > 0)
        least += row->half_flops / r->peak_halves;
    if (row->bytes / r->peak_bytes > least)
        least = row->bytes / r->peak_bytes;
    return least / seconds;
}

/* ------------------------------------------------------------------ what a step does */

static bool has_node(const part_offer *offer, uint32_t node)
{
    for (uint32_t i = 0; i < offer->node_count; i++)
        if (offer->nodes[i] == node)
            return true;
    return false;
}

/* Does a node of the offer multiply integers of 8 bits, or read floats of 16? */
static bool reads_type(const struct graph *g, const part_offer *offer, bool integers)
{
    for (uint32_t i = 0; i < offer->node_count; i++) {
        const inlay_node_info *n = &g->nodes[offer->nodes[i]]->info;
        const uint32_t v = n->input_count > 0 ? n->inputs[0] : INLAY_NONE;
        const inlay_dtype dtype = v == INLAY_NONE ? INLAY_UNDEFINED : g->values[v].info.dtype;
        const char *op = n->op_type.data;

        if (!integers && (dtype == INLAY_FLOAT16 || dtype == INLAY_BFLOAT16))
            return true;
        if (integers && (dtype == INLAY_UINT8 || dtype == INLAY_INT8) &&
            (strstr(op, "MatMul") != NULL || strstr(op, "Conv") != NULL || strcmp(op, "QGemm") == 0))
            return true;
    }
    return false;
}

/* Operations, bytes and expected time of a call, summed over the offers of its region at the sizes of the plan. */
static void ask_cost(const struct profile *p, const profile_event *e, profile_row *row)
{
    const program_env *env = e->program->env;
    const part_region *region;

    if (e->step->kind == PLAN_COPY) {
        row->bytes = 2.0 * (double)e->step->copy_bytes;
        return;
    }
    if (e->step->kind == PLAN_HOST)
        return;
    region = e->step->step->region;
    for (uint32_t i = 0; i < region->offer_count; i++) {
        cost_question q = { .graph = &e->program->snapshot,
                            .provider = e->step->step->provider,
                            .offer = &e->program->parts.offers[region->offers[i]],
                            .values = e->plan->states,
                            .max_threads = p->session->env.max_threads,
                            .weight_bytes = e->program->parts.weight_bytes,
                            .runs = true };
        uint32_t source;
        inlay_cost cost;
        double error;

        if (e->node != INLAY_NONE && !has_node(q.offer, e->node))
            continue;
        source = cost_of_offer(env->costs, &q, &cost, &error);
        if (source == COST_NONE)
            continue;
        row->flops += cost.flops;
        if (reads_type(e->program->graph, q.offer, true))
            row->integer_ops += cost.flops;
        else if (reads_type(e->program->graph, q.offer, false))
            row->half_flops += cost.flops;
        row->bytes += (double)cost.bytes_read + (double)cost.bytes_written;
        row->predicted_ns += cost_told(q.provider, source) * cost.ns;
    }
}

/* Bytes of the slabs that hold something while the step runs. */
static uint64_t live_bytes(const profile_event *e)
{
    uint32_t at = (uint32_t)(e->step - e->plan->steps);
    uint64_t sum = 0;

    for (uint32_t i = 0; i < e->plan->place_count; i++) {
        const plan_place *place = &e->plan->places[i];
        if (place->source == PLACE_SLAB && place->first <= at && at <= place->last)
            sum += place->bytes;
    }
    return sum;
}

/* ------------------------------------------------------------------ rows */

/* What makes two events the same row: the step of the program, or the value that is copied to the same domain. */
static bool same_row(const profile_event *a, const profile_event *b)
{
    if (a->program != b->program || a->step->kind != b->step->kind || a->node != b->node)
        return false;
    if (a->step->kind == PLAN_COPY)
        return a->step->copy_value == b->step->copy_value &&
               a->plan->places[a->step->out[0]].domain == b->plan->places[b->step->out[0]].domain;
    return a->step->step == b->step->step;
}

static uint64_t row_key(const profile_event *e)
{
    uint64_t key = e->step->kind == PLAN_COPY ? e->step->copy_value * 2u + 1u : (uint64_t)(uintptr_t)e->step->step;

    return (key ^ (uint64_t)(uintptr_t)e->program ^ (uint64_t)e->node << 32) * UINT64_C(0x9e3779b97f4a7c15);
}

/* The row of each event, by an open table of rows. */
static bool assign_rows(profile_report *r)
{
    uint32_t count = r->p->event_count, buckets = 64, *table;

    while (buckets < count * 2u && buckets < UINT32_C(1) << 30)
        buckets *= 2;
    table = arena_array(&r->a, buckets, sizeof *table);
    r->rows = arena_array(&r->a, (size_t)count + 1, sizeof *r->rows);
    if (table == NULL || r->rows == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const profile_event *e = &r->p->events[i];
        uint32_t at = (uint32_t)(row_key(e) >> 32) & (buckets - 1);

        while (table[at] != 0 && !same_row(r->rows[table[at] - 1].sample, e))
            at = (at + 1) & (buckets - 1);
        if (table[at] == 0) {
            r->rows[r->row_count].sample = e;
            table[at] = ++r->row_count;
        }
        r->row_of[i] = table[at] - 1;
    }
    return true;
}

static double median(double *list, uint32_t count)
{
    qsort(list, count, sizeof *list, order_doubles);
    return count == 0 ? 0 : count % 2 != 0 ? list[count / 2] : (list[count / 2 - 1] + list[count / 2]) / 2;
}

/* Per row: its time in each run, and the median of these. Events of a row are gathered by counting, so that the work is
 * rows times runs in sum. */
static bool take_medians(profile_report *r)
{
    const uint32_t *row_of = r->row_of;
    const struct profile *p = r->p;
    uint32_t *start = arena_array(&r->a, (size_t)r->row_count + 2, sizeof *start);
    uint32_t *order = arena_array(&r->a, (size_t)p->event_count + 1, sizeof *order);
    double *sums = arena_array(&r->a, (size_t)p->run_count + 1, sizeof *sums);

    if (start == NULL || order == NULL || sums == NULL)
        return false;
    for (uint32_t i = 0; i < p->event_count; i++)
        start[row_of[i] + 2 <= r->row_count ? row_of[i] + 2 : r->row_count + 1]++;
    for (uint32_t k = 2; k <= r->row_count; k++)
        start[k] += start[k - 1];
    for (uint32_t i = 0; i < p->event_count; i++)
        order[start[row_of[i] + 1]++] = i;
    for (uint32_t k = 0; k < r->row_count; k++) {
        memset(sums, 0, p->run_count * sizeof *sums);
        for (uint32_t i = start[k]; i < start[k + 1]; i++) {
            const profile_event *e = &p->events[order[i]];
            sums[e->run] += (double)(e->end_ns - e->begin_ns);
        }
        r->rows[k].calls = (double)(start[k + 1] - start[k]) / (double)p->run_count;
        r->rows[k].ns = median(sums, p->run_count);
    }
    return true;
}

/* Which rows are kernels of which regions, and how much of the regions they are. The rows of a region follow those of
 * its kernels. */
static void find_wholes(profile_report *r)
{
    for (uint32_t k = r->row_count; k-- > 0;) {
        profile_row *row = &r->rows[k];

        row->leaf = row->sample->step->kind == PLAN_COPY || row->sample->step->step->bodies == NULL;
        if (row->sample->node == INLAY_NONE)
            continue;
        for (uint32_t i = k + 1; i < r->row_count && row->whole == NULL; i++)
            if (r->rows[i].sample->node == INLAY_NONE && r->rows[i].sample->step->step == row->sample->step->step &&
                r->rows[i].sample->program == row->sample->program)
                row->whole = &r->rows[i];
    }
    for (uint32_t k = 0; k < r->row_count; k++) {
        profile_row *whole = (profile_row *)(uintptr_t)r->rows[k].whole;

        if (whole != NULL) {
            whole->leaf = false;
            whole->inner_ns += r->rows[k].ns;
        }
    }
}

static const char *provider_of(const profile_event *e)
{
    return e->step->kind == PLAN_COPY        ? "copy"
           : e->step->step->provider == NULL ? "host"
                                             : e->step->step->provider->name;
}

inlay_status profile_report_make(const struct profile *p, profile_report *out, inlay_diag *diag)
{
    double *runs;

    *out = (profile_report){ .p = p };
    if (p->run_count == 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          p->lost > 0 ? "no whole run fitted into the events of the profile; ask for more of them"
                                      : "there is nothing to report: no run was profiled");
    out->row_of = arena_array(&out->a, (size_t)p->event_count + 1, sizeof *out->row_of);
    runs = arena_array(&out->a, p->run_count, sizeof *runs);
    if (out->row_of == NULL || runs == NULL || !assign_rows(out) || !take_medians(out)) {
        profile_report_deinit(out);
        return no_memory(diag, "for the report of a profile");
    }
    find_wholes(out);
    for (uint32_t i = 0; i < p->run_count; i++)
        runs[i] = (double)(p->runs[i].end_ns - p->runs[i].begin_ns);
    out->run_ns = median(runs, p->run_count);
    for (uint32_t k = 0; k < out->row_count; k++) {
        profile_row *row = &out->rows[k];

        row->provider = provider_of(row->sample);
        row->live_bytes = live_bytes(row->sample);
        row->share = out->run_ns > 0 ? row->ns / out->run_ns : 0;
        ask_cost(p, row->sample, row);
        if (row->sample->depth == 0 && out->slab_bytes == 0) {
            for (uint32_t d = 0; d < row->sample->plan->domain_count; d++)
                out->slab_bytes += row->sample->plan->slab_bytes[d];
            out->lower_bound_bytes = row->sample->plan->lower_bound_bytes;
        }
    }
    return INLAY_OK;
}
