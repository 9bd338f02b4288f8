#include "report/front.h"
#include "base/output.h"
#include "report/page.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Tables with text columns, and the points. */
static const char style[] =
    "<style>th, td { text-align: left; white-space: normal } th.n, td.n { text-align: right }\n"
    "circle { fill: var(--accent) } .dominated circle { fill: var(--line) } .chosen circle { fill: var(--bad) }\n"
    ".front { fill: none; stroke: var(--accent); stroke-opacity: .4 } tr.chosen td { font-weight: bold }\n"
    "i.result { background: var(--bad) } i.front { background: var(--accent) } i.rest { background: var(--line) }\n"
    "svg.narrow { display: none }\n"
    "@media (max-width: 700px) { svg.narrow { display: block } svg.roomy { display: none }\n"
    "  th, td { padding: 3px 4px } td { overflow-wrap: anywhere } td.n { overflow-wrap: normal } }</style>\n";

enum { HEIGHT = 360, LEFT = 60, RIGHT = 20, TOP = 36, BOTTOM = 40 };

static bool is_better(const quantize_report *report, double first, double second)
{
    return report->agreement.metric == AGREE_kl ? first < second : first > second;
}

/* Whether another point is no slower and agrees better, or is faster and agrees no worse. */
static bool is_dominated(const quantize_report *report, const quantize_point *point)
{
    for (uint32_t i = 0; i < report->point_count; i++) {
        const quantize_point *other = &report->points[i];

        if ((other->ms < point->ms && !is_better(report, point->score, other->score)) ||
            (other->ms <= point->ms && is_better(report, other->score, point->score)))
            return true;
    }
    return false;
}

/* Whether the point is the model that was written. */
static bool is_result(const quantize_report *report, const quantize_point *point)
{
    return point->chosen && report->handed == NULL;
}

static int by_time(const void *left, const void *right)
{
    const quantize_point *first = left, *second = right;

    return (first->ms > second->ms) - (first->ms < second->ms);
}

struct frame {
    double low_ms, high_ms, low, high; /* ranges of the axes */
    int width;                         /* of the drawing */
};

static bool is_share(agree_metric metric)
{
    return metric != AGREE_kl && metric != AGREE_psnr && metric != AGREE_custom;
}

static struct frame frame_of(const quantize_report *report, int width)
{
    const double around = is_share(report->agreement.metric) ? 0.05 : 0.5; /* a score that all points have */
    struct frame frame = { INFINITY, 0, INFINITY, -INFINITY, width };

    for (uint32_t i = 0; i < report->point_count; i++) {
        const quantize_point *point = &report->points[i];

        frame.low_ms = fmin(frame.low_ms, point->ms);
        frame.high_ms = fmax(frame.high_ms, point->ms);
        frame.low = isfinite(point->score) ? fmin(frame.low, point->score) : frame.low;
        frame.high = isfinite(point->score) ? fmax(frame.high, point->score) : frame.high;
    }
    if (!(frame.high_ms > frame.low_ms)) {
        frame.low_ms = 0;
        frame.high_ms = frame.high_ms > 0 ? 2 * frame.high_ms : 1;
    }
    if (!(frame.high > frame.low)) {
        frame.high = isfinite(frame.low) ? frame.low + around : 1;
        frame.low = isfinite(frame.low) ? frame.low - around : 0;
    }
    frame.low_ms = fmax(frame.low_ms - (frame.high_ms - frame.low_ms) * 0.05, 0);
    frame.high_ms += (frame.high_ms - frame.low_ms) * 0.05;
    frame.low -= (frame.high - frame.low) * 0.05;
    frame.high += (frame.high - frame.low) * 0.05;
    if (is_share(report->agreement.metric)) {
        frame.low = fmax(frame.low, 0);
        frame.high = fmin(frame.high, 1);
    } else if (report->agreement.metric == AGREE_kl) {
        frame.low = fmax(frame.low, 0);
    }
    return frame;
}

static double x_of(const struct frame *frame, double ms)
{
    return LEFT + (ms - frame->low_ms) / (frame->high_ms - frame->low_ms) * (frame->width - LEFT - RIGHT);
}

static double y_of(const struct frame *frame, double score)
{
    const double value = isfinite(score) ? score : frame->low;

    return HEIGHT - BOTTOM - (value - frame->low) / (frame->high - frame->low) * (HEIGHT - TOP - BOTTOM);
}

static void draw_axes(FILE *out, const struct frame *frame, const char *metric)
{
    const int ticks = frame->width / 140;

    (void)fprintf(out, "<path class=\"axis\" fill=\"none\" d=\"M%d %dV%dH%d\"/>\n", LEFT, TOP, HEIGHT - BOTTOM,
                  frame->width - RIGHT);
    for (int i = 0; i <= ticks; i++) {
        const double ms = frame->low_ms + (frame->high_ms - frame->low_ms) * i / ticks;
        const double score = frame->low + (frame->high - frame->low) * i / ticks;

        (void)fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.3g</text>\n", x_of(frame, ms),
                      HEIGHT - BOTTOM + 16, ms);
        (void)fprintf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>\n", LEFT - 6,
                      y_of(frame, score) + 4, score);
    }
    (void)fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">milliseconds per run</text>\n",
                  frame->width - RIGHT, HEIGHT - 6);
    (void)fprintf(out, "<text x=\"%d\" y=\"%d\">agreement (%s)</text>\n", 8, 18, metric);
}

/* The style of the page shows the class that fits the window. */
static void draw(FILE *out, const quantize_report *report, int width, const char *class)
{
    const struct frame frame = frame_of(report, width);
    char pen = 'M';

    (void)fprintf(out,
                  "<svg class=\"%s\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"time and agreement of the "
                  "variants\">\n",
                  class, width, HEIGHT);
    draw_axes(out, &frame, agree_metric_name(report->agreement.metric));
    (void)fputs("<path class=\"front\" d=\"", out);
    for (uint32_t i = 0; i < report->point_count; i++)
        if (!is_dominated(report, &report->points[i])) {
            (void)fprintf(out, "%c%.1f %.1f", pen, x_of(&frame, report->points[i].ms),
                          y_of(&frame, report->points[i].score));
            pen = 'L';
        }
    (void)fputs("\"/>\n", out);
    for (uint32_t i = 0; i < report->point_count; i++) {
        const quantize_point *point = &report->points[i];

        (void)fprintf(out, "<g class=\"%s\"><circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\"><title>",
                      is_result(report, point)      ? "chosen"
                      : is_dominated(report, point) ? "dominated"
                                                    : "best",
                      x_of(&frame, point->ms), y_of(&frame, point->score));
        page_text(out, point->what, 0);
        (void)fprintf(out, ": %.4g ms, %.5g</title></circle></g>\n", point->ms, point->score);
    }
    (void)fputs("</svg>\n", out);
}

static void draw_points(FILE *out, const quantize_report *report)
{
    draw(out, report, 800, "roomy");
    draw(out, report, 360, "narrow");
    (void)fprintf(
        out,
        "<p class=\"legend\">%s<span><i class=\"front\"></i>no other is both faster and closer</span><span><i "
        "class=\"rest\"></i>others</span></p>\n",
        report->handed == NULL ? "<span><i class=\"result\"></i>the result</span>" : "");
}

/* Whether a layer stays in floats for a reason. */
static bool has_reasons(const quantize_report *report)
{
    for (uint32_t i = 0; i < report->layer_count; i++)
        if (report->layers[i].kept != NULL)
            return true;
    return false;
}

static void put_tables(FILE *out, const quantize_report *report)
{
    const bool reasons = has_reasons(report);

    (void)fputs("<div class=\"wide\">\n<table>\n<tr><th>variant</th><th class=\"n\">ms per run</th>"
                "<th class=\"n\">agreement</th></tr>\n",
                out);
    if (report->ms_before > 0)
        (void)fprintf(out, "<tr%s><td>floats, the original</td><td class=\"n\">%.4g</td><td class=\"n\"></td></tr>\n",
                      report->handed != NULL ? " class=\"chosen\"" : "", report->ms_before);
    for (uint32_t i = 0; i < report->point_count; i++) {
        const quantize_point *point = &report->points[i];

        (void)fprintf(out, "<tr%s><td>", is_result(report, point) ? " class=\"chosen\"" : "");
        page_text(out, point->what, 0);
        if (point->measured > 1)
            (void)fprintf(out, " (measured %u times)", point->measured);
        (void)fprintf(out, "</td><td class=\"n\">%.4g</td><td class=\"n\">%.5g</td></tr>\n", point->ms, point->score);
    }
    (void)fprintf(
        out,
        "</table>\n</div>\n<p>The result is bold: %s. Other times are single measurements.</p>\n<p>For another "
        "row, repeat the command with <code>--at-least X</code>, where X is slightly %s than the agreement of "
        "that row, and <code>--mode static --weights 8</code>, which accepts any time. <code>--skip "
        "LAYER</code> keeps a layer as floats.</p>\n",
        report->handed != NULL ? "the original, because no variant was accepted"
                               : "of the variants that agree as the bound asks, it was the fastest when each "
                                 "was run in turns with the original",
        report->agreement.metric == AGREE_kl ? "more" : "less");
    (void)fputs("<h2>Layers</h2>\n<div class=\"wide\">\n<table>\n<tr><th>layer</th><th>operator</th><th>weights</th>"
                "<th class=\"n\">bytes before</th><th class=\"n\">after</th>",
                out);
    (void)fputs(reasons ? "<th>reason</th></tr>\n" : "</tr>\n", out);
    for (uint32_t i = 0; i < report->layer_count; i++) {
        const quantize_layer *layer = &report->layers[i];

        (void)fputs("<tr><td>", out);
        page_text(out, layer->name, 0);
        (void)fputs("</td><td>", out);
        page_text(out, layer->op, 0);
        if (layer->bits == 32)
            (void)fputs("</td><td>float", out);
        else
            (void)fprintf(out, "</td><td>%u bits%s", layer->bits, layer->integers ? ", integers" : "");
        (void)fprintf(out, "</td><td class=\"n\">%llu</td><td class=\"n\">%llu",
                      (unsigned long long)layer->bytes_before, (unsigned long long)layer->bytes_after);
        if (reasons)
            (void)fputs("</td><td>", out);
        page_text(out, layer->kept != NULL ? layer->kept : "", 0);
        (void)fputs("</td></tr>\n", out);
    }
    (void)fputs("</table>\n</div>\n", out);
}

static void put_page(FILE *out, const char *model, const quantize_report *report)
{
    page_begin(out, model);
    (void)fprintf(out, "%s<p>", style);
    if (report->handed != NULL) {
        (void)fputs("The model is unchanged: ", out);
        page_text(out, report->handed, 0);
    } else {
        page_text(out, report->what, 0);
    }
    (void)fprintf(out, ". %llu bytes before, %llu after.", (unsigned long long)report->bytes_before,
                  (unsigned long long)report->bytes_after);
    if (report->agreement.samples > 0)
        (void)fprintf(out, " Agreement %.5g (%s, 95 %%: %.5g to %.5g) on %u samples, relative error %.3g.",
                      report->agreement.score.value, agree_metric_name(report->agreement.metric),
                      report->agreement.score.low, report->agreement.score.high, report->agreement.samples,
                      report->agreement.relative);
    (void)fputs("</p>\n", out);
    if (report->point_count > 0)
        draw_points(out, report);
    put_tables(out, report);
    page_end(out);
}

inlay_status front_write(const char *path, const char *model, const quantize_report *report, inlay_diag *diag)
{
    output_file file;
    inlay_status status;

    INLAY_TRY(output_open_stream(&file, path, diag));
    if (report->point_count > 0)
        qsort(report->points, report->point_count, sizeof *report->points, by_time);
    put_page(file.to, model, report);
    status = output_commit(&file, NULL, diag);
done:
    return status;
}
