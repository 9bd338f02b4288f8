/* Results of --sweep: a table, JSON, CSV, an HTML page with curves. */
#include "base/output.h"
#include "cli/cells.h"
#include "cli/sweep.h"
#include "report/page.h"
#include <string.h>

static bool has_energy(const struct sweep *sweep)
{
    return sweep->args->energy != NULL;
}

/* How many other points may be as good as the best one: their intervals overlap. */
static uint32_t count_equals(const struct sweep *sweep)
{
    uint32_t count = 0;

    for (uint32_t i = 0; sweep->best != INLAY_NONE && i < sweep->count; i++)
        count += i != sweep->best && !sweep->points[i].skipped && sweep->points[i].fits &&
                 sweep->points[i].high >= sweep->points[sweep->best].low;
    return count;
}

/* Columns of the table, after those of the axes. */
enum { SKIPPED, RATE, LOW, HIGH, INTERVAL, MEDIAN, P95, P99, RUNS, FITS, NOISY, JOULES, NOTE, RESULTS };
static const table_column result_columns[RESULTS] = {
    [SKIPPED] = { NULL, "skipped", TABLE_NAME },
    [RATE] = { "items/s", "items_per_s", TABLE_NUMBER },
    [LOW] = { NULL, "low", TABLE_NUMBER },
    [HIGH] = { NULL, "high", TABLE_NUMBER },
    [INTERVAL] = { "95 % of repeats in", NULL, TABLE_NUMBER },
    [MEDIAN] = { "median ms", "median_ms", TABLE_NUMBER },
    [P95] = { "p95 ms", "p95_ms", TABLE_NUMBER },
    [P99] = { "p99 ms", "p99_ms", TABLE_NUMBER },
    [RUNS] = { NULL, "runs", TABLE_NUMBER },
    [FITS] = { NULL, "fits", TABLE_NAME },
    [NOISY] = { NULL, "noisy", TABLE_NAME },
    [JOULES] = { "J an item", "joules_per_item", TABLE_NUMBER },
    [NOTE] = { "", NULL, TABLE_TEXT },
};

struct sweep_table {
    table_column columns[SWEEP_AXES + RESULTS];
    struct table cells;
};

static void add_point(struct table *table, const struct sweep *sweep, const sweep_point *point)
{
    const uint32_t first = sweep->args->axis_count;
    const bool is_best = sweep->best != INLAY_NONE && point == &sweep->points[sweep->best];

    table_row(table);
    for (uint32_t i = 0; i < first; i++)
        table_whole(table, i, point->at[i]);
    table_truth(table, first + SKIPPED, point->skipped, "");
    if (point->skipped) {
        table_say(table, first + RATE, "-");
        table_say(table, first + NOTE, "skipped: a smaller batch already exceeds the latency limit");
        return;
    }
    table_real(table, first + RATE, point->rate, "%.5g", point->rate);
    table_real(table, first + LOW, point->low, "%.5g", point->low);
    table_real(table, first + HIGH, point->high, "%.5g", point->high);
    table_say(table, first + INTERVAL, "%.5g .. %.5g", point->low, point->high);
    table_real(table, first + MEDIAN, point->median_ms, "%.4g", point->median_ms);
    table_real(table, first + P95, point->p95_ms, "%.4g", point->p95_ms);
    table_real(table, first + P99, point->p99_ms, "%.4g", point->p99_ms);
    table_whole(table, first + RUNS, (int64_t)point->runs);
    table_truth(table, first + FITS, point->fits, "");
    table_truth(table, first + NOISY, point->noisy, "");
    if (point->joules >= 0)
        table_real(table, first + JOULES, point->joules, "%.4g", point->joules);
    if (!point->fits || (is_best && count_equals(sweep) == 0))
        table_say(table, first + NOTE, "%s", point->fits ? "best" : "too slow");
    if (point->noisy)
        table_add(table, first + NOTE, "%snoisy", !point->fits || (is_best && count_equals(sweep) == 0) ? "  " : "");
}

static void fill_table(struct sweep_table *table, const struct sweep *sweep)
{
    const uint32_t axes = sweep->args->axis_count;

    for (uint32_t i = 0; i < axes; i++)
        table->columns[i] = (table_column){ sweep->args->axes[i].name, sweep->args->axes[i].name, TABLE_NUMBER };
    memcpy(table->columns + axes, result_columns, sizeof result_columns);
    table->cells = (struct table){ .columns = table->columns, .column_count = axes + RESULTS };
    for (uint32_t k = 0; k < sweep->count; k++)
        add_point(&table->cells, sweep, &sweep->points[k]);
}

static void print_best(const struct sweep *sweep)
{
    const sweep_point *point = sweep->best != INLAY_NONE ? &sweep->points[sweep->best] : NULL;

    if (point == NULL) {
        (void)printf("no setting has a p95 of at most %g ms\n", sweep->args->latency_ms);
        return;
    }
    (void)printf(count_equals(sweep) > 0 ? "no point is clearly better than" : "best:");
    for (uint32_t i = 0; i < sweep->args->axis_count; i++)
        (void)printf("%s %s %lld", i > 0 ? "," : "", sweep->args->axes[i].name, (long long)point->at[i]);
    (void)printf(": %.5g items a second (%.5g to %.5g), p95 %.4g ms\n", point->rate, point->low, point->high,
                 point->p95_ms);
    if (count_equals(sweep) > 0)
        (void)printf("its interval overlaps with that of %u other point%s; increase --seconds to tell them apart\n",
                     count_equals(sweep), count_equals(sweep) == 1 ? "" : "s");
}

static json_t *make_json(const struct sweep *sweep)
{
    struct sweep_table table;
    json_t *list, *json;
    const json_t *best;

    fill_table(&table, sweep);
    list = cells_json(&table.cells);
    best = sweep->best != INLAY_NONE ? json_array_get(list, sweep->best) : NULL;
    json = json_pack("{s:s, s:O, s:o, s:i, s:b}", "model", cli_text(sweep->args->model), "points", list, "best",
                     best != NULL ? json_deep_copy(best) : json_null(), "as_good", (int)count_equals(sweep), "noisy",
                     sweep->noisy > 0);
    json_decref(list);
    if (sweep->args->latency_ms > 0)
        (void)json_object_set_new(json, "latency_ms", json_real(sweep->args->latency_ms));
    if (has_energy(sweep))
        (void)json_object_set_new(json, "energy",
                                  sweep->args->energy->why[0] != '\0'
                                      ? json_pack("{s:s}", "not_available", sweep->args->energy->why)
                                      : json_pack("{s:s}", "source", sweep->args->energy->source));
    return json;
}

static inlay_status write_csv(const struct sweep *sweep, inlay_diag *diag)
{
    output_file file;
    inlay_status status = output_open_stream(&file, sweep->args->csv, diag);

    if (status != INLAY_OK)
        return status;
    for (uint32_t i = 0; i < sweep->args->axis_count; i++)
        (void)fprintf(file.to, "%s,", sweep->args->axes[i].name);
    (void)fputs("items_per_s,low,high,median_ms,p95_ms,p99_ms,runs,joules_per_item,best\n", file.to);
    for (uint32_t k = 0; k < sweep->count; k++) {
        const sweep_point *point = &sweep->points[k];

        if (point->skipped)
            continue;
        for (uint32_t i = 0; i < sweep->args->axis_count; i++)
            (void)fprintf(file.to, "%lld,", (long long)point->at[i]);
        (void)fprintf(file.to, "%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%zu,", point->rate, point->low, point->high,
                      point->median_ms, point->p95_ms, point->p99_ms, point->runs);
        if (point->joules >= 0)
            (void)fprintf(file.to, "%.9g", point->joules);
        (void)fprintf(file.to, ",%d\n", k == sweep->best);
    }
    return output_commit(&file, NULL, diag);
}

/* Do the points belong to the same curve: are they equal on all axes except the first? */
static bool same_curve(const struct sweep *sweep, const sweep_point *left, const sweep_point *right)
{
    for (uint32_t i = 1; i < sweep->args->axis_count; i++)
        if (left->at[i] != right->at[i])
            return false;
    return true;
}

/* The name of the curve that a point belongs to: its values on all axes except the first. */
static void curve_name(const struct sweep *sweep, const sweep_point *point, char *text, size_t bytes)
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 1; i < sweep->args->axis_count && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%s %lld", i > 1 ? ", " : "", sweep->args->axes[i].name,
                                 (long long)point->at[i]);
    if (sweep->args->axis_count < 2)
        (void)snprintf(text, bytes, "all");
}

/* value: 0 = rate, 1 = p95. */
static void put_curves(FILE *to, const struct sweep *sweep, int value)
{
    static page_curve curves[SWEEP_POINTS];
    static page_point points[SWEEP_POINTS];
    uint32_t count = 0, used = 0;

    for (uint32_t first = 0; first < sweep->count; first++) {
        bool seen = false;

        for (uint32_t k = 0; k < first; k++)
            seen = seen || same_curve(sweep, &sweep->points[k], &sweep->points[first]);
        if (seen)
            continue;
        curves[count] = (page_curve){ .points = points + used };
        curve_name(sweep, &sweep->points[first], curves[count].name, sizeof curves[count].name);
        for (uint32_t k = first; k < sweep->count; k++) {
            const sweep_point *point = &sweep->points[k];

            if (point->skipped || !same_curve(sweep, point, &sweep->points[first]))
                continue;
            points[used++] = value == 0 ? (page_point){ (double)point->at[0], point->rate, point->low, point->high,
                                                        k == sweep->best }
                                        : (page_point){ (double)point->at[0], point->p95_ms, 0, 0, k == sweep->best };
            curves[count].count++;
        }
        count++;
    }
    page_curves(to, value == 0 ? "rate" : "latency", sweep->args->axes[0].name, value == 0 ? "items/s" : "p95 ms",
                curves, count, sweep->args->axes[0].role == SWEEP_DIM);
}

static void put_table(FILE *to, const struct sweep *sweep)
{
    (void)fputs("<table><tr>", to);
    for (uint32_t i = 0; i < sweep->args->axis_count; i++) {
        (void)fputs("<th>", to);
        page_text(to, sweep->args->axes[i].name, 0);
        (void)fputs("</th>", to);
    }
    (void)fputs("<th>items/s</th><th>from</th><th>to</th><th>median ms</th><th>p95 ms</th><th>p99 ms</th>"
                "<th>J an item</th></tr>\n",
                to);
    for (uint32_t k = 0; k < sweep->count; k++) {
        const sweep_point *point = &sweep->points[k];

        if (point->skipped)
            continue;
        (void)fprintf(to, "<tr%s>", k == sweep->best ? " class=\"picked\"" : "");
        for (uint32_t i = 0; i < sweep->args->axis_count; i++)
            (void)fprintf(to, "<td>%lld</td>", (long long)point->at[i]);
        (void)fprintf(to, "<td>%.5g</td><td>%.5g</td><td>%.5g</td><td>%.4g</td><td>%.4g</td><td>%.4g</td>", point->rate,
                      point->low, point->high, point->median_ms, point->p95_ms, point->p99_ms);
        if (point->joules >= 0)
            (void)fprintf(to, "<td>%.4g</td></tr>\n", point->joules);
        else
            (void)fputs("<td></td></tr>\n", to);
    }
    (void)fputs("</table>\n", to);
}

static inlay_status write_html(const struct sweep *sweep, inlay_diag *diag)
{
    char title[300];
    output_file file;
    inlay_status status = output_open_stream(&file, sweep->args->html, diag);

    if (status != INLAY_OK)
        return status;
    (void)snprintf(title, sizeof title, "inlay bench: %.250s", sweep->args->model);
    page_begin(file.to, title);
    if (sweep->noisy > 0)
        (void)fprintf(file.to, "<p>The machine was noisy: at %u of %u points repeats differ by more than 5 %%.</p>\n",
                      sweep->noisy, sweep->count);
    put_curves(file.to, sweep, 0);
    put_curves(file.to, sweep, 1);
    put_table(file.to, sweep);
    page_end(file.to);
    return output_commit(&file, NULL, diag);
}

inlay_status sweep_report(const struct sweep *sweep, const cli_common *common, int *out_code, inlay_diag *diag)
{
    struct sweep_table table;
    inlay_status status = INLAY_OK;

    *out_code = sweep->best == INLAY_NONE ? CLI_FAILED : CLI_OK;
    if (sweep->args->csv != NULL)
        INLAY_TRY(write_csv(sweep, diag));
    if (sweep->args->html != NULL)
        INLAY_TRY(write_html(sweep, diag));
    if (common->json) {
        *out_code = cli_print_json(common, make_json(sweep), *out_code);
        goto done;
    }
    fill_table(&table, sweep);
    cells_print(&table.cells);
    print_best(sweep);
    if (has_energy(sweep) && sweep->args->energy->why[0] != '\0')
        (void)printf("energy: not available: %s\n", sweep->args->energy->why);
    else if (has_energy(sweep))
        (void)printf("energy: whole machine, measured with %s\n", sweep->args->energy->source);
    if (sweep->noisy > 0 && !common->quiet)
        (void)fprintf(stderr,
                      "%s: warning: the machine is noisy: at %u of %u points repeats differ by more than 5 %%; end "
                      "other programs, or increase --seconds\n",
                      common->verb, sweep->noisy, sweep->count);
done:
    return status;
}
