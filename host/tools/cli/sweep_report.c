/* Results of --sweep: a table, JSON, CSV, an HTML page with curves. */
#include "base/output.h"
#include "cli/sweep.h"
#include "report/page.h"
#include <stdlib.h>
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

static void print_table(const struct sweep *sweep)
{
    const sweep_args *args = sweep->args;

    for (uint32_t i = 0; i < args->axis_count; i++)
        (void)printf("%10s", args->axes[i].name);
    (void)printf("%12s  %-23s%10s%10s%10s%s\n", "items/s", "95 % of repeats in", "median ms", "p95 ms", "p99 ms",
                 has_energy(sweep) ? "  J an item" : "");
    for (uint32_t k = 0; k < sweep->count; k++) {
        const sweep_point *point = &sweep->points[k];

        for (uint32_t i = 0; i < args->axis_count; i++)
            (void)printf("%10lld", (long long)point->at[i]);
        if (point->skipped) {
            (void)printf("%12s  skipped: a smaller batch already exceeds the latency limit\n", "-");
            continue;
        }
        (void)printf("%12.5g  %10.5g .. %-9.5g%10.4g%10.4g%10.4g", point->rate, point->low, point->high,
                     point->median_ms, point->p95_ms, point->p99_ms);
        if (has_energy(sweep) && point->joules >= 0)
            (void)printf("%11.4g", point->joules);
        (void)printf("%s%s\n",
                     k == sweep->best && count_equals(sweep) == 0 ? "  best"
                     : point->fits                                ? ""
                                                                  : "  too slow",
                     point->noisy ? "  noisy" : "");
    }
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

static json_t *point_json(const struct sweep *sweep, const sweep_point *point)
{
    json_t *json = json_object();

    for (uint32_t i = 0; i < sweep->args->axis_count; i++)
        (void)json_object_set_new(json, sweep->args->axes[i].name, json_integer(point->at[i]));
    (void)json_object_set_new(json, "skipped", json_boolean(point->skipped));
    if (point->skipped)
        return json;
    (void)json_object_update_new(
        json, json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:b, s:b}", "items_per_s", point->rate, "low", point->low,
                        "high", point->high, "median_ms", point->median_ms, "p95_ms", point->p95_ms, "p99_ms",
                        point->p99_ms, "runs", (json_int_t)point->runs, "fits", point->fits, "noisy", point->noisy));
    if (point->joules >= 0)
        (void)json_object_set_new(json, "joules_per_item", json_real(point->joules));
    return json;
}

static json_t *make_json(const struct sweep *sweep)
{
    json_t *list = json_array(), *json;

    for (uint32_t k = 0; k < sweep->count; k++)
        (void)json_array_append_new(list, point_json(sweep, &sweep->points[k]));
    json = json_pack("{s:s, s:o, s:o, s:i, s:b}", "model", sweep->args->model, "points", list, "best",
                     sweep->best != INLAY_NONE ? point_json(sweep, &sweep->points[sweep->best]) : json_null(),
                     "as_good", (int)count_equals(sweep), "noisy", sweep->noisy > 0);
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
    print_table(sweep);
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
