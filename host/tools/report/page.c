#include "report/page.h"
#include "base/output.h"
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

/* The files of this folder, converted by embed.cmake. */
extern const char page_theme_css[], page_document_css[], page_words_js[];
extern const char page_graph_css[], page_graph_html[], page_graph_js[];
extern const char page_profile_html[], page_profile_js[];

const page_script page_explain = {
    "inlay explain", "main", { page_graph_css }, { page_graph_html }, { page_graph_js }
};
const page_script page_inspect = {
    "inlay inspect", "main", { page_graph_css }, { page_graph_html }, { page_graph_js }
};
const page_script page_diff = { "inlay diff", "a", { page_graph_css }, { page_graph_html }, { page_graph_js } };
const page_script page_profile = { "inlay profile",
                                   "timeline",
                                   { page_document_css, page_graph_css },
                                   { page_profile_html, page_graph_html },
                                   { page_profile_js, page_graph_js } };

void page_text(FILE *to, const char *text, size_t columns)
{
    for (size_t i = 0; text[i] != '\0'; i++) {
        const unsigned char c = (unsigned char)text[i];

        if (columns > 0 && i >= columns && (c & 0xc0) != 0x80) {
            (void)fputs("...", to);
            return;
        }
        if (c == '<' || c == '>' || c == '&' || c == '"' || c == '\'')
            (void)fprintf(to, "&#%u;", (unsigned)c);
        else
            (void)fputc(c < ' ' || c == 0x7f ? '?' : c, to);
    }
}

/* Writes everything up to the style. The policy forbids requests and, without scripts, also code in
 * a model's names. */
static void put_head(FILE *to, const char *title, bool with_scripts)
{
    (void)fprintf(to,
                  "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\" />\n"
                  "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\" />\n"
                  "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
                  "'unsafe-inline'%s\" />\n<title>",
                  with_scripts ? "; script-src 'unsafe-inline'" : "");
    page_text(to, title, 0);
    (void)fprintf(to, "</title>\n<style>%s", page_theme_css);
}

void page_begin(FILE *to, const char *title)
{
    put_head(to, title, false);
    (void)fprintf(to, "%s</style>\n</head>\n<body>\n<div id=\"page\">\n<h1>", page_document_css);
    page_text(to, title, 0);
    (void)fputs("</h1>\n", to);
}

void page_end(FILE *to)
{
    (void)fputs("</div>\n</body>\n</html>\n", to);
}

static void put_parts(FILE *to, const char *before, const char *const parts[PAGE_PARTS], const char *after)
{
    for (uint32_t i = 0; i < PAGE_PARTS && parts[i] != NULL; i++)
        (void)fprintf(to, "%s%s%s", before, parts[i], after);
}

void page_script_begin(FILE *to, const page_script *page)
{
    put_head(to, page->title, true);
    put_parts(to, "", page->styles, "");
    (void)fputs("</style>\n</head>\n<body>\n", to);
    put_parts(to, "", page->bodies, "");
    (void)fputs("<script type=\"application/json\" id=\"facts\">\n", to);
}

void page_script_graph(FILE *to)
{
    (void)fputs("\n</script>\n<script type=\"application/json\" id=\"graph-facts\">\n", to);
}

void page_script_json(void *to, const char *json, size_t bytes)
{
    /* These characters occur only in strings, where an escape is equivalent; so no string can end the script. */
    for (size_t i = 0; i < bytes; i++)
        if (json[i] == '<' || json[i] == '>' || json[i] == '&')
            (void)fprintf(to, "\\u%04x", (unsigned)(unsigned char)json[i]);
        else
            (void)fputc(json[i], to);
}

void page_script_end(FILE *to, const page_script *page)
{
    (void)fputs("\n</script>\n<script>\n'use strict';\n(function () {", to);
    (void)fputs(page_words_js, to);
    put_parts(to, "{", page->scripts, "}\n"); /* each has its own names */
    (void)fputs("})();\n</script>\n</body>\n</html>\n", to);
}

static int put_json(const char *json, size_t bytes, void *to)
{
    page_script_json(to, json, bytes);
    return 0;
}

inlay_status page_script_write(const page_script *page, const json_t *facts, const char *path, inlay_diag *diag)
{
    output_file file;
    inlay_status status = output_open_stream(&file, path, diag);

    if (status != INLAY_OK)
        return status;
    page_script_begin(file.to, page);
    (void)json_dump_callback(facts, put_json, file.to, JSON_COMPACT);
    page_script_end(file.to, page);
    return output_commit(&file, NULL, diag);
}

inlay_status page_script_convert(const page_script *page, const char *from, const char *path, inlay_diag *diag)
{
    json_error_t error;
    json_t *facts = json_load_file(from, 0, &error);
    inlay_status status;

    output_note_read_path(from);
    if (facts == NULL)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "%s:%d: %s", from, error.line, error.text);
    if (json_object_get(facts, page->member) == NULL)
        status = inlay_fail(diag, INLAY_INVALID_MODEL, "%s is not the JSON of `%s --json`: \"%s\" is missing", from,
                            page->title, page->member);
    else
        status = page_script_write(page, facts, path, diag);
    json_decref(facts);
    return status;
}

enum { WIDTH = 900, HEIGHT = 340, LEFT = 70, RIGHT = 20, TOP = 30, BOTTOM = 45 };
static const char *const colors[] = { "#2a6fdb", "#c2410c", "#1a7f37", "#8250df",
                                      "#b42318", "#0e7490", "#9a6700", "#57606a" };

struct frame {
    double x_low, x_high, y_high;
    bool log_x;
};

static double place_x(const struct frame *frame, double x)
{
    const double low = frame->log_x ? log2(frame->x_low) : frame->x_low,
                 high = frame->log_x ? log2(frame->x_high) : frame->x_high;
    const double at = frame->log_x ? log2(x) : x;

    return LEFT + (high > low ? (at - low) / (high - low) : 0.5) * (WIDTH - LEFT - RIGHT);
}

static double place_y(const struct frame *frame, double y)
{
    return TOP + (1 - (frame->y_high > 0 ? y / frame->y_high : 0)) * (HEIGHT - TOP - BOTTOM);
}

/* Rounds up to 1, 2 or 5 times a power of ten. */
static double round_up(double value)
{
    const double power = pow(10, floor(log10(value > 0 ? value : 1)));

    for (double step = 1; step < 10; step = step < 2 ? 2 : step < 5 ? 5 : 10)
        if (value <= step * power)
            return step * power;
    return 10 * power;
}

static void put_axes(FILE *to, const struct frame *frame, const char *title, const char *x_name, const char *y_name)
{
    (void)fprintf(to, "<text x=\"%d\" y=\"18\">", LEFT);
    page_text(to, title, 0);
    (void)fprintf(to, "</text>\n<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", WIDTH - RIGHT, HEIGHT - 8);
    page_text(to, x_name, 0);
    (void)fprintf(to, "</text>\n<text x=\"8\" y=\"18\">");
    page_text(to, y_name, 0);
    (void)fprintf(to, "</text>\n");
    for (int i = 0; i <= 4; i++) {
        const double y = frame->y_high * i / 4;

        (void)fprintf(to,
                      "<line class=\"axis\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
                      "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>\n",
                      LEFT, WIDTH - RIGHT, place_y(frame, y), place_y(frame, y), LEFT - 6, place_y(frame, y) + 4, y);
    }
}

static void put_curve(FILE *to, const struct frame *frame, const page_curve *curve, const char *color)
{
    (void)fprintf(to, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", color);
    for (uint32_t i = 0; i < curve->count; i++)
        (void)fprintf(to, "%s%.1f,%.1f", i > 0 ? " " : "", place_x(frame, curve->points[i].x),
                      place_y(frame, curve->points[i].y));
    (void)fprintf(to, "\"/>\n");
    for (uint32_t i = 0; i < curve->count; i++) {
        const page_point *point = &curve->points[i];

        if (point->high > point->low)
            (void)fprintf(to, "<line stroke=\"%s\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n", color,
                          place_x(frame, point->x), place_x(frame, point->x),
                          place_y(frame, point->low > 0 ? point->low : 0),
                          place_y(frame, point->high < frame->y_high ? point->high : frame->y_high));
        (void)fprintf(to, "<circle fill=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\"><title>", color,
                      place_x(frame, point->x), place_y(frame, point->y), point->marked ? 6 : 3);
        page_text(to, curve->name, 0);
        (void)fprintf(to, ", %.6g: %.6g</title></circle>\n", point->x, point->y);
    }
}

void page_curves(FILE *to, const char *title, const char *x_name, const char *y_name, const page_curve *curves,
                 uint32_t count, bool log_x)
{
    struct frame frame = { .x_low = INFINITY, .x_high = -INFINITY, .log_x = log_x };
    double last = -1;

    for (uint32_t curve = 0; curve < count; curve++)
        for (uint32_t i = 0; i < curves[curve].count; i++) {
            frame.x_low = fmin(frame.x_low, curves[curve].points[i].x);
            frame.x_high = fmax(frame.x_high, curves[curve].points[i].x);
            frame.y_high = fmax(frame.y_high, curves[curve].points[i].y);
        }
    if (!(frame.x_low <= frame.x_high))
        return;
    frame.y_high = round_up(frame.y_high * 1.02);
    (void)fprintf(to, "<svg viewBox=\"0 0 %d %d\" role=\"img\">\n", WIDTH, HEIGHT);
    put_axes(to, &frame, title, x_name, y_name);
    for (uint32_t i = 0; i < curves[0].count; i++) {
        const double at = place_x(&frame, curves[0].points[i].x);

        if (at - last < 30)
            continue;
        (void)fprintf(to, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.6g</text>\n", at, HEIGHT - BOTTOM + 18,
                      curves[0].points[i].x);
        last = at;
    }
    for (uint32_t curve = 0; curve < count; curve++)
        put_curve(to, &frame, &curves[curve], colors[curve % (sizeof colors / sizeof colors[0])]);
    (void)fprintf(to, "</svg>\n<p class=\"legend\">");
    for (uint32_t curve = 0; curve < count; curve++) {
        (void)fprintf(to, "<span><i style=\"background:%s\"></i>", colors[curve % (sizeof colors / sizeof colors[0])]);
        page_text(to, curves[curve].name, 0);
        (void)fputs("</span>", to);
    }
    (void)fputs("</p>\n", to);
}
