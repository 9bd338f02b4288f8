#include "report/front.h"
#include "base/output.h"
#include "report/page.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tables of words rather than of numbers, and the points. */
static const char style[] =
    "<style>th, td { text-align: left; white-space: normal } th.n, td.n { text-align: right }\n"
    "circle { fill: var(--accent) } .dominated circle { fill: var(--line) } .chosen circle { fill: var(--bad) }\n"
    ".front { fill: none; stroke: var(--accent); stroke-opacity: .4 } tr.chosen td { font-weight: bold }</style>\n";

enum { WIDTH = 800, HEIGHT = 360, LEFT = 60, RIGHT = 20, TOP = 16, BOTTOM = 40 };

/* ------------------------------------------------------------------ which points count */

static bool is_better(const quantize_report *r, double a, double b)
{
    return r->agreement.metric == AGREE_kl ? a < b : a > b;
}

/* Is another one no slower and agrees better, or is faster and agrees no worse? */
static bool is_dominated(const quantize_report *r, const quantize_point *p)
{
    for (uint32_t i = 0; i < r->point_count; i++) {
        const quantize_point *o = &r->points[i];

        if ((o->ms < p->ms && !is_better(r, p->score, o->score)) ||
            (o->ms <= p->ms && is_better(r, o->score, p->score)))
            return true;
    }
    return false;
}

static int by_time(const void *a, const void *b)
{
    const quantize_point *x = a, *y = b;

    return (x->ms > y->ms) - (x->ms < y->ms);
}

/* ------------------------------------------------------------------ the drawing */

struct frame {
    double low_ms, high_ms, low, high; /* of the axes */
};

static struct frame frame_of(const quantize_report *r)
{
    struct frame f = { INFINITY, 0, INFINITY, -INFINITY };

    for (uint32_t i = 0; i < r->point_count; i++) {
        const quantize_point *p = &r->points[i];

        f.low_ms = fmin(f.low_ms, p->ms);
        f.high_ms = fmax(f.high_ms, p->ms);
        f.low = isfinite(p->score) ? fmin(f.low, p->score) : f.low;
        f.high = isfinite(p->score) ? fmax(f.high, p->score) : f.high;
    }
    if (!(f.high_ms > f.low_ms))
        f = (struct frame){ 0, f.high_ms > 0 ? 2 * f.high_ms : 1, f.low, f.high };
    if (!(f.high > f.low))
        f = (struct frame){ f.low_ms, f.high_ms, isfinite(f.low) ? f.low - 0.5 : 0, isfinite(f.low) ? f.low + 0.5 : 1 };
    f.low_ms -= (f.high_ms - f.low_ms) * 0.05;
    f.high_ms += (f.high_ms - f.low_ms) * 0.05;
    f.low -= (f.high - f.low) * 0.05;
    f.high += (f.high - f.low) * 0.05;
    return f;
}

static double x_of(const struct frame *f, double ms)
{
    return LEFT + (ms - f->low_ms) / (f->high_ms - f->low_ms) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct frame *f, double score)
{
    const double s = isfinite(score) ? score : f->low;

    return HEIGHT - BOTTOM - (s - f->low) / (f->high - f->low) * (HEIGHT - TOP - BOTTOM);
}

static void draw_axes(FILE *out, const struct frame *f, const char *metric)
{
    enum { TICKS = 5 };

    (void)fprintf(out, "<path class=\"axis\" fill=\"none\" d=\"M%d %dV%dH%d\"/>\n", LEFT, TOP, HEIGHT - BOTTOM,
                  WIDTH - RIGHT);
    for (int i = 0; i <= TICKS; i++) {
        const double ms = f->low_ms + (f->high_ms - f->low_ms) * i / TICKS;
        const double score = f->low + (f->high - f->low) * i / TICKS;

        (void)fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.3g</text>\n", x_of(f, ms),
                      HEIGHT - BOTTOM + 16, ms);
        (void)fprintf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>\n", LEFT - 6, y_of(f, score) + 4,
                      score);
    }
    (void)fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">milliseconds a run</text>\n", WIDTH - RIGHT,
                  HEIGHT - 6);
    (void)fprintf(out, "<text x=\"%d\" y=\"%d\">agreement (%s)</text>\n", LEFT + 6, TOP, metric);
}

static void draw(FILE *out, const quantize_report *r)
{
    const struct frame f = frame_of(r);
    char pen = 'M';

    (void)fprintf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"time and agreement of what was tried\">\n",
                  WIDTH, HEIGHT);
    draw_axes(out, &f, agree_metric_name(r->agreement.metric));
    (void)fputs("<path class=\"front\" d=\"", out);
    for (uint32_t i = 0; i < r->point_count; i++)
        if (!is_dominated(r, &r->points[i])) {
            (void)fprintf(out, "%c%.1f %.1f", pen, x_of(&f, r->points[i].ms), y_of(&f, r->points[i].score));
            pen = 'L';
        }
    (void)fputs("\"/>\n", out);
    for (uint32_t i = 0; i < r->point_count; i++) {
        const quantize_point *p = &r->points[i];

        (void)fprintf(out, "<g class=\"%s\"><circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\"><title>",
                      p->chosen            ? "chosen"
                      : is_dominated(r, p) ? "dominated"
                                           : "best",
                      x_of(&f, p->ms), y_of(&f, p->score));
        page_text(out, p->what, 0);
        (void)fprintf(out, ": %.4g ms, %.5g</title></circle></g>\n", p->ms, p->score);
    }
    (void)fputs("</svg>\n", out);
}

/* ------------------------------------------------------------------ the page */

static void put_tables(FILE *out, const quantize_report *r)
{
    (void)fputs("<table>\n<tr><th>tried</th><th class=\"n\">ms a run</th><th class=\"n\">agreement</th></tr>\n", out);
    for (uint32_t i = 0; i < r->point_count; i++) {
        (void)fprintf(out, "<tr%s><td>", r->points[i].chosen ? " class=\"chosen\"" : "");
        page_text(out, r->points[i].what, 0);
        (void)fprintf(out, "</td><td class=\"n\">%.4g</td><td class=\"n\">%.5g</td></tr>\n", r->points[i].ms,
                      r->points[i].score);
    }
    (void)fputs("</table>\n<h2>Layers</h2>\n<table>\n<tr><th>layer</th><th>operator</th><th>weights</th>"
                "<th class=\"n\">bytes before</th><th class=\"n\">after</th><th>why not</th></tr>\n",
                out);
    for (uint32_t i = 0; i < r->layer_count; i++) {
        const quantize_layer *l = &r->layers[i];

        (void)fputs("<tr><td>", out);
        page_text(out, l->name, 0);
        (void)fputs("</td><td>", out);
        page_text(out, l->op, 0);
        if (l->bits == 32)
            (void)fputs("</td><td>float", out);
        else
            (void)fprintf(out, "</td><td>%u bits%s", l->bits, l->integers ? ", integers" : "");
        (void)fprintf(out, "</td><td class=\"n\">%llu</td><td class=\"n\">%llu</td><td>",
                      (unsigned long long)l->bytes_before, (unsigned long long)l->bytes_after);
        page_text(out, l->kept != NULL ? l->kept : "", 0);
        (void)fputs("</td></tr>\n", out);
    }
    (void)fputs("</table>\n", out);
}

static void put_page(FILE *out, const char *model, const quantize_report *r)
{
    page_begin(out, model);
    (void)fprintf(out, "%s<p>", style);
    if (r->handed != NULL) {
        (void)fputs("The model stays as it is: ", out);
        page_text(out, r->handed, 0);
    } else {
        page_text(out, r->what, 0);
    }
    (void)fprintf(out, ". %llu bytes before, %llu after.</p>\n", (unsigned long long)r->bytes_before,
                  (unsigned long long)r->bytes_after);
    if (r->point_count > 0)
        draw(out, r);
    put_tables(out, r);
    page_end(out);
}

inlay_status front_write(const char *path, const char *model, const quantize_report *r, inlay_diag *diag)
{
    output_file file;
    inlay_status status;

    INLAY_TRY(output_open_stream(&file, path, diag));
    if (r->point_count > 0)
        qsort(r->points, r->point_count, sizeof *r->points, by_time);
    put_page(file.to, model, r);
    status = output_commit(&file, NULL, diag);
done:
    return status;
}
