/* What came of --sweep: a table, JSON, CSV, a page with curves. */
#include "base/output.h"
#include "cli/sweep.h"
#include "report/page.h"
#include <stdlib.h>
#include <string.h>

static bool has_energy(const struct sweep *s)
{
    return s->args->energy != NULL;
}

/* ------------------------------------------------------------------ the table */

static void print_table(const struct sweep *s)
{
    const sweep_args *args = s->args;

    for (uint32_t i = 0; i < args->axis_count; i++)
        (void)printf("%10s", args->axes[i].name);
    (void)printf("%12s  %-23s%10s%10s%10s%s\n", "items/s", "95 % of repeats in", "median ms", "p95 ms", "p99 ms",
                 has_energy(s) ? "  J an item" : "");
    for (uint32_t k = 0; k < s->count; k++) {
        const sweep_point *p = &s->points[k];

        for (uint32_t i = 0; i < args->axis_count; i++)
            (void)printf("%10lld", (long long)p->at[i]);
        if (p->skipped) {
            (void)printf("%12s  a smaller batch takes too long already\n", "-");
            continue;
        }
        (void)printf("%12.5g  %10.5g .. %-9.5g%10.4g%10.4g%10.4g", p->rate, p->low, p->high, p->median_ms, p->p95_ms,
                     p->p99_ms);
        if (has_energy(s) && p->joules >= 0)
            (void)printf("%11.4g", p->joules);
        (void)printf("%s%s\n", k == s->best ? "  best" : p->fits ? "" : "  too slow", p->noisy ? "  noisy" : "");
    }
}

static void print_best(const struct sweep *s)
{
    const sweep_point *p = s->best != INLAY_NONE ? &s->points[s->best] : NULL;

    if (p == NULL) {
        (void)printf("none has a p95 below %g ms\n", s->args->latency_ms);
        return;
    }
    (void)printf("best:");
    for (uint32_t i = 0; i < s->args->axis_count; i++)
        (void)printf("%s %s %lld", i > 0 ? "," : "", s->args->axes[i].name, (long long)p->at[i]);
    (void)printf(": %.5g items a second (%.5g to %.5g), p95 %.4g ms\n", p->rate, p->low, p->high, p->p95_ms);
}

/* ------------------------------------------------------------------ JSON, CSV */

static json_t *point_json(const struct sweep *s, const sweep_point *p)
{
    json_t *j = json_object();

    for (uint32_t i = 0; i < s->args->axis_count; i++)
        (void)json_object_set_new(j, s->args->axes[i].name, json_integer(p->at[i]));
    (void)json_object_set_new(j, "skipped", json_boolean(p->skipped));
    if (p->skipped)
        return j;
    (void)json_object_update_new(j, json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:b, s:b}", "items_per_s", p->rate,
                                              "low", p->low, "high", p->high, "median_ms", p->median_ms, "p95_ms",
                                              p->p95_ms, "p99_ms", p->p99_ms, "runs", (json_int_t)p->runs, "fits",
                                              p->fits, "noisy", p->noisy));
    if (p->joules >= 0)
        (void)json_object_set_new(j, "joules_per_item", json_real(p->joules));
    return j;
}

static json_t *make_json(const struct sweep *s)
{
    json_t *list = json_array(), *j;

    for (uint32_t k = 0; k < s->count; k++)
        (void)json_array_append_new(list, point_json(s, &s->points[k]));
    j = json_pack("{s:s, s:o, s:o, s:b}", "model", s->args->model, "points", list, "best",
                  s->best != INLAY_NONE ? point_json(s, &s->points[s->best]) : json_null(), "noisy", s->noisy > 0);
    if (s->args->latency_ms > 0)
        (void)json_object_set_new(j, "latency_ms", json_real(s->args->latency_ms));
    if (has_energy(s))
        (void)json_object_set_new(j, "energy",
                                  s->args->energy->why[0] != '\0'
                                      ? json_pack("{s:s}", "not_available", s->args->energy->why)
                                      : json_pack("{s:s}", "source", s->args->energy->source));
    return j;
}

static inlay_status write_csv(const struct sweep *s, inlay_diag *diag)
{
    output_file f;
    inlay_status status = output_open_stream(&f, s->args->csv, diag);

    if (status != INLAY_OK)
        return status;
    for (uint32_t i = 0; i < s->args->axis_count; i++)
        (void)fprintf(f.to, "%s,", s->args->axes[i].name);
    (void)fputs("items_per_s,low,high,median_ms,p95_ms,p99_ms,runs,joules_per_item,best\n", f.to);
    for (uint32_t k = 0; k < s->count; k++) {
        const sweep_point *p = &s->points[k];

        if (p->skipped)
            continue;
        for (uint32_t i = 0; i < s->args->axis_count; i++)
            (void)fprintf(f.to, "%lld,", (long long)p->at[i]);
        (void)fprintf(f.to, "%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%zu,", p->rate, p->low, p->high, p->median_ms, p->p95_ms,
                      p->p99_ms, p->runs);
        if (p->joules >= 0)
            (void)fprintf(f.to, "%.9g", p->joules);
        (void)fprintf(f.to, ",%d\n", k == s->best);
    }
    return output_commit(&f, NULL, diag);
}

/* ------------------------------------------------------------------ the page */

/* The curve that a point is on: what its axes but the first say. */
static void curve_name(const struct sweep *s, const sweep_point *p, char *text, size_t bytes)
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 1; i < s->args->axis_count && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%s %lld", i > 1 ? ", " : "", s->args->axes[i].name,
                                 (long long)p->at[i]);
    if (s->args->axis_count < 2)
        (void)snprintf(text, bytes, "all");
}

/* value: 0 = rate, 1 = p95. */
static void put_curves(FILE *to, const struct sweep *s, int value)
{
    static page_curve curves[SWEEP_POINTS];
    static page_point points[SWEEP_POINTS];
    uint32_t count = 0, used = 0;

    for (uint32_t first = 0; first < s->count; first++) {
        char name[64], other[64];
        bool seen = false;

        curve_name(s, &s->points[first], name, sizeof name);
        for (uint32_t c = 0; c < count; c++)
            seen = seen || strcmp(curves[c].name, name) == 0;
        if (seen)
            continue;
        curves[count] = (page_curve){ .points = points + used };
        (void)snprintf(curves[count].name, sizeof curves[count].name, "%s", name);
        for (uint32_t k = first; k < s->count; k++) {
            const sweep_point *p = &s->points[k];

            curve_name(s, p, other, sizeof other);
            if (p->skipped || strcmp(other, name) != 0)
                continue;
            points[used++] = value == 0 ? (page_point){ (double)p->at[0], p->rate, p->low, p->high, k == s->best }
                                        : (page_point){ (double)p->at[0], p->p95_ms, 0, 0, k == s->best };
            curves[count].count++;
        }
        count++;
    }
    page_curves(to, value == 0 ? "rate" : "latency", s->args->axes[0].name, value == 0 ? "items/s" : "p95 ms", curves,
                count, s->args->axes[0].role == SWEEP_DIM);
}

static void put_table(FILE *to, const struct sweep *s)
{
    (void)fputs("<table><tr>", to);
    for (uint32_t i = 0; i < s->args->axis_count; i++) {
        (void)fputs("<th>", to);
        page_text(to, s->args->axes[i].name, 0);
        (void)fputs("</th>", to);
    }
    (void)fputs("<th>items/s</th><th>from</th><th>to</th><th>median ms</th><th>p95 ms</th><th>p99 ms</th>"
                "<th>J an item</th></tr>\n",
                to);
    for (uint32_t k = 0; k < s->count; k++) {
        const sweep_point *p = &s->points[k];

        if (p->skipped)
            continue;
        (void)fprintf(to, "<tr%s>", k == s->best ? " class=\"picked\"" : "");
        for (uint32_t i = 0; i < s->args->axis_count; i++)
            (void)fprintf(to, "<td>%lld</td>", (long long)p->at[i]);
        (void)fprintf(to, "<td>%.5g</td><td>%.5g</td><td>%.5g</td><td>%.4g</td><td>%.4g</td><td>%.4g</td>", p->rate,
                      p->low, p->high, p->median_ms, p->p95_ms, p->p99_ms);
        if (p->joules >= 0)
            (void)fprintf(to, "<td>%.4g</td></tr>\n", p->joules);
        else
            (void)fputs("<td></td></tr>\n", to);
    }
    (void)fputs("</table>\n", to);
}

static inlay_status write_html(const struct sweep *s, inlay_diag *diag)
{
    char title[300];
    output_file f;
    inlay_status status = output_open_stream(&f, s->args->html, diag);

    if (status != INLAY_OK)
        return status;
    (void)snprintf(title, sizeof title, "inlay bench: %.250s", s->args->model);
    page_begin(f.to, title);
    if (s->noisy > 0)
        (void)fprintf(f.to, "<p>The machine was noisy: at %u of %u points repeats differ by more than 5 %%.</p>\n",
                      s->noisy, s->count);
    put_curves(f.to, s, 0);
    put_curves(f.to, s, 1);
    put_table(f.to, s);
    page_end(f.to);
    return output_commit(&f, NULL, diag);
}

inlay_status sweep_tell(const struct sweep *s, const cli_common *common, int *out_code, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    *out_code = s->best == INLAY_NONE ? CLI_FAILED : CLI_OK;
    if (s->args->csv != NULL)
        INLAY_TRY(write_csv(s, diag));
    if (s->args->html != NULL)
        INLAY_TRY(write_html(s, diag));
    if (common->json) {
        *out_code = cli_print_json(common, make_json(s), *out_code);
        goto done;
    }
    print_table(s);
    print_best(s);
    if (has_energy(s) && s->args->energy->why[0] != '\0')
        (void)printf("energy: not available here, because %s\n", s->args->energy->why);
    else if (has_energy(s))
        (void)printf("energy: of the whole machine, by %s\n", s->args->energy->source);
    if (s->noisy > 0 && !common->quiet)
        (void)fprintf(stderr,
                      "%s: warning: the machine is noisy: at %u of %u points repeats differ by more than 5 %%; "
                      "end other programs, or give --seconds more\n",
                      common->verb, s->noisy, s->count);
done:
    return status;
}
