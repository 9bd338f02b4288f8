#include "report/draw.h"
#include "inlay/check.h"
#include "base/names.h"
#include "base/memory.h"
#include "report/layout.h"
#include "modelkit/lines.h"
#include "report/page.h"
#include <stdlib.h>
#include <string.h>

/* Shared by all graphs of one drawing. */
struct picture {
    FILE *to;
    struct arena arena;
    const graph_model *model, *typed;
    names_table types; /* of the main graph of `typed`: name -> value */
    uint32_t graphs;   /* graphs drawn so far */
    bool failed;
};

static void begin(struct picture *picture, FILE *to, const graph_model *model, const graph_model *typed)
{
    *picture = (struct picture){ .to = to, .model = model, .typed = typed };
    for (uint32_t value = 0; typed != NULL && value < typed->main->value_count && !picture->failed; value++)
        picture->failed = !names_add(&picture->types, typed->main->values[value].info.name.data,
                                     typed->main->values[value].info.name.bytes, value, NULL);
}

static inlay_status end(struct picture *picture, inlay_diag *diag)
{
    const bool failed = picture->failed;

    names_deinit(&picture->types);
    arena_deinit(&picture->arena);
    return failed ? no_memory(diag, "to draw the model") : INLAY_OK;
}

/* The type of a value, for example "float[N, 3]"; "" if it is unknown. */
static const char *type_of(struct picture *picture, const struct graph *graph, uint32_t value_index)
{
    const graph_value *value = &graph->values[value_index];
    const uint32_t at =
        graph->parent == NULL ? names_find(&picture->types, value->info.name.data, value->info.name.bytes) : NAMES_NONE;
    const graph_model *model = picture->model;
    char *text;

    if (!value->declared && at != NAMES_NONE) {
        value = &picture->typed->main->values[at];
        model = picture->typed;
    }
    if (!value->declared && value->info.dtype == INLAY_UNDEFINED)
        return "";
    text = lines_type(&picture->arena, model, value);
    picture->failed = picture->failed || text == NULL;
    return text != NULL ? text : "";
}

/* The type of a node's weights: its first constant with rank 2 or more. */
static const char *weights_of(struct picture *picture, const struct graph *graph, const graph_node *node)
{
    for (uint32_t i = 0; i < node->info.input_count; i++) {
        const uint32_t value = node->info.inputs[i];

        if (value != INLAY_NONE && (graph->values[value].info.flags & INLAY_VALUE_CONSTANT) != 0 &&
            graph->values[value].info.rank > 1)
            return type_of(picture, graph, value);
    }
    return "";
}

static const char *attributes_of(struct picture *picture, const graph_node *node)
{
    const char *text = lines_attributes(&picture->arena, node);

    picture->failed = picture->failed || text == NULL;
    return text != NULL ? text : "";
}

static const char *name_of_box(const struct graph *graph, const layout_box *box)
{
    return box->node != NULL ? box->node->info.name.data : graph->values[box->value].info.name.data;
}

/* The colour of an operator's family. */
static const char *color_of(const graph_node *node)
{
    static const struct {
        const char *part, *color;
    } families[] = {
        { "Conv", "#2a6fdb" },    { "Gemm", "#2a6fdb" },      { "MatMul", "#2a6fdb" },  { "LSTM", "#2a6fdb" },
        { "GRU", "#2a6fdb" },     { "Attention", "#2a6fdb" }, { "Pool", "#1a7f37" },    { "Norm", "#8250df" },
        { "Softmax", "#8250df" }, { "Quantize", "#b42318" },  { "Reshape", "#7d8590" }, { "Transpose", "#7d8590" },
        { "queeze", "#7d8590" },  { "Concat", "#7d8590" },    { "Split", "#7d8590" },   { "Slice", "#7d8590" },
        { "Gather", "#7d8590" },  { "Shape", "#7d8590" },     { "Cast", "#7d8590" },
    };

    if (node->body_count > 0)
        return "#c2410c";
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        if (strstr(node->info.op_type.data, families[i].part) != NULL)
            return families[i].color;
    return "#0e7490";
}

/* ------------------------------------------------------------------ DOT */

static void put_quoted(FILE *to, const char *text)
{
    (void)fputc('"', to);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            (void)fputc('\\', to);
        (void)fputc((unsigned char)*text < ' ' ? '?' : *text, to);
    }
    (void)fputc('"', to);
}

static void dot_graph(struct picture *picture, const struct graph *graph, const char *title)
{
    const uint32_t number = picture->graphs++;
    struct layout layout;

    if (picture->failed || !layout_graph(graph, &picture->arena, &layout)) {
        picture->failed = true;
        return;
    }
    (void)fprintf(picture->to, "  subgraph cluster_%u {\n    label=", number);
    put_quoted(picture->to, title);
    (void)fputs(";\n", picture->to);
    for (uint32_t i = 0; i < layout.box_count; i++) {
        const layout_box *box = &layout.boxes[i];

        (void)fprintf(picture->to, "    b%u_%u [label=", number, i);
        put_quoted(picture->to, box->node != NULL ? box->node->info.op_type.data : name_of_box(graph, box));
        (void)fputs(", tooltip=", picture->to);
        put_quoted(picture->to, name_of_box(graph, box));
        if (box->node != NULL)
            (void)fprintf(picture->to, ", color=\"%s\"];\n", color_of(box->node));
        else
            (void)fputs(", shape=ellipse];\n", picture->to);
    }
    for (uint32_t i = 0; i < layout.edge_count; i++) {
        (void)fprintf(picture->to, "    b%u_%u -> b%u_%u [label=", number, layout.edges[i].from, number,
                      layout.edges[i].to);
        put_quoted(picture->to, type_of(picture, graph, layout.edges[i].value));
        (void)fputs("];\n", picture->to);
    }
    (void)fputs("  }\n", picture->to);
    for (uint32_t i = 0; i < graph->node_count; i++)
        for (uint32_t body = 0; body < graph->nodes[i]->body_count; body++) {
            const char *name = arena_format(&picture->arena, "%s of %s", graph->nodes[i]->bodies[body].attr,
                                            graph->nodes[i]->info.name.data);

            dot_graph(picture, graph->nodes[i]->bodies[body].graph, name != NULL ? name : "");
        }
}

inlay_status draw_dot(FILE *to, graph_model *model, const graph_model *typed, inlay_diag *diag)
{
    struct picture picture;

    begin(&picture, to, model, typed);
    (void)fputs("digraph model {\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n"
                "  edge [fontsize=9, fontname=\"sans-serif\"];\n",
                to);
    dot_graph(&picture, model->main, model->main->name);
    (void)fputs("}\n", to);
    return end(&picture, diag);
}

/* ------------------------------------------------------------------ SVG */

enum {
    BOX_WIDTH = 132,
    BOX_HEIGHT = 36,
    STEP_X = 160,
    STEP_Y = 78,
    MARGIN = 24,
    TITLE = 30,
    MAX_NAME = 19,
    BEND = 115
};

static double left_of(const layout_box *box)
{
    return MARGIN + box->x * STEP_X;
}

static double top_of(const layout_box *box, double y)
{
    return y + TITLE + (double)box->row * STEP_Y;
}

static void svg_edge(struct picture *picture, const struct graph *graph, const struct layout *layout,
                     const layout_edge *edge, double y)
{
    const double x1 = left_of(&layout->boxes[edge->from]) + BOX_WIDTH / 2.0,
                 x2 = left_of(&layout->boxes[edge->to]) + BOX_WIDTH / 2.0;
    const double y1 = top_of(&layout->boxes[edge->from], y) + BOX_HEIGHT, y2 = top_of(&layout->boxes[edge->to], y);
    const bool is_long = layout->boxes[edge->to].row > layout->boxes[edge->from].row + 1;
    const double aside = is_long ? BEND : 0, bend = is_long ? (y2 - y1) / 4 : 24; /* around the boxes in between */
    const char *type = type_of(picture, graph, edge->value);

    INLAY_CHECK(edge->from < layout->box_count && edge->to < layout->box_count);
    (void)fprintf(picture->to,
                  "<path fill=\"none\" stroke=\"#98a2ac\" d=\"M%.0f %.0f C%.0f %.0f %.0f %.0f %.0f %.0f\"><title>", x1,
                  y1, x1 + aside, y1 + bend, x2 + aside, y2 - bend, x2, y2);
    page_text(picture->to, graph->values[edge->value].info.name.data, 200);
    (void)fputs(": ", picture->to);
    page_text(picture->to, type, 200);
    (void)fputs("</title></path>\n", picture->to);
    if (type[0] == '\0')
        return;
    (void)fprintf(picture->to, "<text x=\"%.0f\" y=\"%.0f\" font-size=\"9\" fill=\"#66707a\" text-anchor=\"middle\">",
                  (x1 * 3 + x2) / 4, y1 + 14);
    page_text(picture->to, type, 28);
    (void)fputs("</text>\n", picture->to);
}

static void svg_box(struct picture *picture, const struct graph *graph, const layout_box *box, double y)
{
    const double x = left_of(box), top = top_of(box, y);
    const char *second =
        box->node != NULL ? weights_of(picture, graph, box->node) : type_of(picture, graph, box->value);

    (void)fprintf(
        picture->to, "<g><rect x=\"%.0f\" y=\"%.0f\" width=\"%d\" height=\"%d\" rx=\"%d\" fill=\"%s\"/><title>", x, top,
        BOX_WIDTH, BOX_HEIGHT, box->node != NULL ? 5 : 18, box->node != NULL ? color_of(box->node) : "#3a424a");
    page_text(picture->to, name_of_box(graph, box), 300);
    if (box->node != NULL)
        page_text(picture->to, attributes_of(picture, box->node), 600);
    (void)fprintf(picture->to,
                  "</title><text x=\"%.0f\" y=\"%.0f\" font-size=\"12\" fill=\"#ffffff\" text-anchor=\"middle\">",
                  x + BOX_WIDTH / 2.0, top + (second[0] != '\0' ? 15 : 22));
    page_text(picture->to, box->node != NULL ? box->node->info.op_type.data : name_of_box(graph, box), MAX_NAME);
    (void)fputs("</text>", picture->to);
    if (second[0] != '\0') {
        (void)fprintf(picture->to,
                      "<text x=\"%.0f\" y=\"%.0f\" font-size=\"9\" fill=\"#ffffff\" text-anchor=\"middle\">",
                      x + BOX_WIDTH / 2.0, top + 29);
        page_text(picture->to, second, 26);
        (void)fputs("</text>", picture->to);
    }
    (void)fputs("</g>\n", picture->to);
}

/* Draws a graph at *out_y, and sets that to where the next graph begins. */
static void svg_graph(struct picture *picture, const struct graph *graph, const char *title, double *out_y,
                      double *width)
{
    struct layout layout;

    if (picture->failed || !layout_graph(graph, &picture->arena, &layout)) {
        picture->failed = true;
        return;
    }
    (void)fprintf(picture->to, "<text x=\"%d\" y=\"%.0f\" font-size=\"14\" font-weight=\"bold\" fill=\"#66707a\">",
                  MARGIN, *out_y + 16);
    page_text(picture->to, title, 200);
    (void)fputs("</text>\n", picture->to);
    for (uint32_t i = 0; i < layout.edge_count; i++)
        svg_edge(picture, graph, &layout, &layout.edges[i], *out_y);
    for (uint32_t i = 0; i < layout.box_count; i++)
        svg_box(picture, graph, &layout.boxes[i], *out_y);
    *out_y += TITLE + (double)layout.row_count * STEP_Y + MARGIN;
    *width = layout.width * STEP_X + 3 * MARGIN > *width ? layout.width * STEP_X + 3 * MARGIN : *width;
    for (uint32_t i = 0; i < graph->node_count; i++)
        for (uint32_t body = 0; body < graph->nodes[i]->body_count; body++) {
            const char *name = arena_format(&picture->arena, "%s of %s", graph->nodes[i]->bodies[body].attr,
                                            graph->nodes[i]->info.name.data);

            svg_graph(picture, graph->nodes[i]->bodies[body].graph, name != NULL ? name : "", out_y, width);
        }
}

inlay_status draw_svg(FILE *to, graph_model *model, const graph_model *typed, inlay_diag *diag)
{
    char *body = NULL;
    size_t bytes = 0;
    FILE *inner = open_memstream(&body, &bytes); /* the size of the drawing comes first */
    double height = MARGIN, width = 0;
    inlay_status status;
    struct picture picture;

    if (inner == NULL)
        return no_memory(diag, "to draw the model");
    begin(&picture, inner, model, typed);
    svg_graph(&picture, model->main, model->main->name, &height, &width);
    picture.failed = fclose(inner) != 0 || picture.failed;
    status = end(&picture, diag);
    if (status == INLAY_OK) {
        (void)fprintf(to,
                      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f "
                      "%.0f\" font-family=\"sans-serif\">\n",
                      width, height, width, height);
        (void)fwrite(body, 1, bytes, to);
        (void)fputs("</svg>\n", to);
    }
    free(body);
    return status;
}

/* ------------------------------------------------------------------ the page */

inlay_status draw_html(FILE *to, graph_model *model, const graph_model *typed, const char *title, inlay_diag *diag)
{
    inlay_status status;

    page_begin(to, title);
    (void)fprintf(to, "<p>%u node%s in the main graph; names, attributes and types are shown as tooltips.</p>\n",
                  model->main->node_count, model->main->node_count == 1 ? "" : "s");
    /* Drawn at full size: the page scrolls. */
    (void)fputs("<style>#page { max-width: none; } svg { width: auto; }</style>\n<div>\n", to);
    status = draw_svg(to, model, typed, diag);
    (void)fputs("</div>\n", to);
    page_end(to);
    return status;
}
