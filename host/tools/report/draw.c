#include "report/draw.h"
#include "base/names.h"
#include "base/memory.h"
#include "report/layout.h"
#include "modelkit/lines.h"
#include "report/page.h"
#include <stdlib.h>
#include <string.h>

/* What all graphs of one picture share. */
struct picture {
    FILE *to;
    struct arena a;
    const graph_model *model, *typed;
    names_table types; /* of the main graph of `typed`: name -> value */
    uint32_t graphs;   /* so far */
    bool failed;
};

static void begin(struct picture *p, FILE *to, const graph_model *model, const graph_model *typed)
{
    *p = (struct picture){ .to = to, .model = model, .typed = typed };
    for (uint32_t v = 0; typed != NULL && v < typed->main->value_count && !p->failed; v++)
        p->failed = !names_add(&p->types, typed->main->values[v].info.name.data, typed->main->values[v].info.name.bytes,
                               v, NULL);
}

static inlay_status end(struct picture *p, inlay_diag *diag)
{
    const bool failed = p->failed;

    names_deinit(&p->types);
    arena_deinit(&p->a);
    return failed ? no_memory(diag, "to draw the model") : INLAY_OK;
}

/* "float[N, 3]" of a value; "" where it is not known. */
static const char *type_of(struct picture *p, const struct graph *g, uint32_t v)
{
    const graph_value *value = &g->values[v];
    const uint32_t at =
        g->parent == NULL ? names_find(&p->types, value->info.name.data, value->info.name.bytes) : NAMES_NONE;
    const graph_model *m = p->model;
    char *text;

    if (!value->declared && at != NAMES_NONE) {
        value = &p->typed->main->values[at];
        m = p->typed;
    }
    if (!value->declared && value->info.dtype == INLAY_UNDEFINED)
        return "";
    text = lines_type(&p->a, m, value);
    p->failed = p->failed || text == NULL;
    return text != NULL ? text : "";
}

/* The first constant of a node with more than one element: its weights. */
static const char *weights_of(struct picture *p, const struct graph *g, const graph_node *n)
{
    for (uint32_t i = 0; i < n->info.input_count; i++) {
        const uint32_t v = n->info.inputs[i];

        if (v != INLAY_NONE && (g->values[v].info.flags & INLAY_VALUE_CONSTANT) != 0 && g->values[v].info.rank > 1)
            return type_of(p, g, v);
    }
    return "";
}

static const char *attributes_of(struct picture *p, const graph_node *n)
{
    const char *text = lines_attributes(&p->a, n);

    p->failed = p->failed || text == NULL;
    return text != NULL ? text : "";
}

static const char *name_of_box(const struct graph *g, const layout_box *b)
{
    return b->n != NULL ? b->n->info.name.data : g->values[b->v].info.name.data;
}

/* Families of operators have a colour each. */
static const char *color_of(const graph_node *n)
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

    if (n->body_count > 0)
        return "#c2410c";
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        if (strstr(n->info.op_type.data, families[i].part) != NULL)
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

static void dot_graph(struct picture *p, const struct graph *g, const char *title)
{
    const uint32_t number = p->graphs++;
    struct layout l;

    if (p->failed || !layout_graph(g, &p->a, &l)) {
        p->failed = true;
        return;
    }
    (void)fprintf(p->to, "  subgraph cluster_%u {\n    label=", number);
    put_quoted(p->to, title);
    (void)fputs(";\n", p->to);
    for (uint32_t i = 0; i < l.box_count; i++) {
        const layout_box *b = &l.boxes[i];

        (void)fprintf(p->to, "    b%u_%u [label=", number, i);
        put_quoted(p->to, b->n != NULL ? b->n->info.op_type.data : name_of_box(g, b));
        (void)fputs(", tooltip=", p->to);
        put_quoted(p->to, name_of_box(g, b));
        if (b->n != NULL)
            (void)fprintf(p->to, ", color=\"%s\"];\n", color_of(b->n));
        else
            (void)fputs(", shape=ellipse];\n", p->to);
    }
    for (uint32_t i = 0; i < l.edge_count; i++) {
        (void)fprintf(p->to, "    b%u_%u -> b%u_%u [label=", number, l.edges[i].from, number, l.edges[i].to);
        put_quoted(p->to, type_of(p, g, l.edges[i].v));
        (void)fputs("];\n", p->to);
    }
    (void)fputs("  }\n", p->to);
    for (uint32_t i = 0; i < g->node_count; i++)
        for (uint32_t b = 0; b < g->nodes[i]->body_count; b++) {
            const char *name =
                arena_format(&p->a, "%s of %s", g->nodes[i]->bodies[b].attr, g->nodes[i]->info.name.data);

            dot_graph(p, g->nodes[i]->bodies[b].graph, name != NULL ? name : "");
        }
}

inlay_status draw_dot(FILE *to, graph_model *model, const graph_model *typed, inlay_diag *diag)
{
    struct picture p;

    begin(&p, to, model, typed);
    (void)fputs("digraph model {\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n"
                "  edge [fontsize=9, fontname=\"sans-serif\"];\n",
                to);
    dot_graph(&p, model->main, model->main->name);
    (void)fputs("}\n", to);
    return end(&p, diag);
}

/* ------------------------------------------------------------------ SVG */

enum { BOX_WIDTH = 132, BOX_HEIGHT = 36, STEP_X = 160, STEP_Y = 78, MARGIN = 24, TITLE = 30, SHOWN = 19, BOW = 115 };

static double left_of(const layout_box *b)
{
    return MARGIN + b->x * STEP_X;
}

static double top_of(const layout_box *b, double y)
{
    return y + TITLE + (double)b->row * STEP_Y;
}

static void svg_edge(struct picture *p, const struct graph *g, const struct layout *l, const layout_edge *e, double y)
{
    const double x1 = left_of(&l->boxes[e->from]) + BOX_WIDTH / 2.0, x2 = left_of(&l->boxes[e->to]) + BOX_WIDTH / 2.0;
    const double y1 = top_of(&l->boxes[e->from], y) + BOX_HEIGHT, y2 = top_of(&l->boxes[e->to], y);
    const bool is_long = l->boxes[e->to].row > l->boxes[e->from].row + 1;
    const double aside = is_long ? BOW : 0, bend = is_long ? (y2 - y1) / 4 : 24; /* round the boxes in between */
    const char *type = type_of(p, g, e->v);

    (void)fprintf(p->to,
                  "<path fill=\"none\" stroke=\"#98a2ac\" d=\"M%.0f %.0f C%.0f %.0f %.0f %.0f %.0f %.0f\"><title>", x1,
                  y1, x1 + aside, y1 + bend, x2 + aside, y2 - bend, x2, y2);
    page_text(p->to, g->values[e->v].info.name.data, 200);
    (void)fputs(": ", p->to);
    page_text(p->to, type, 200);
    (void)fputs("</title></path>\n", p->to);
    if (type[0] == '\0')
        return;
    (void)fprintf(p->to, "<text x=\"%.0f\" y=\"%.0f\" font-size=\"9\" fill=\"#66707a\" text-anchor=\"middle\">",
                  (x1 * 3 + x2) / 4, y1 + 14);
    page_text(p->to, type, 28);
    (void)fputs("</text>\n", p->to);
}

static void svg_box(struct picture *p, const struct graph *g, const layout_box *b, double y)
{
    const double x = left_of(b), top = top_of(b, y);
    const char *second = b->n != NULL ? weights_of(p, g, b->n) : type_of(p, g, b->v);

    (void)fprintf(p->to, "<g><rect x=\"%.0f\" y=\"%.0f\" width=\"%d\" height=\"%d\" rx=\"%d\" fill=\"%s\"/><title>", x,
                  top, BOX_WIDTH, BOX_HEIGHT, b->n != NULL ? 5 : 18, b->n != NULL ? color_of(b->n) : "#3a424a");
    page_text(p->to, name_of_box(g, b), 300);
    if (b->n != NULL)
        page_text(p->to, attributes_of(p, b->n), 600);
    (void)fprintf(p->to,
                  "</title><text x=\"%.0f\" y=\"%.0f\" font-size=\"12\" fill=\"#ffffff\" text-anchor=\"middle\">",
                  x + BOX_WIDTH / 2.0, top + (second[0] != '\0' ? 15 : 22));
    page_text(p->to, b->n != NULL ? b->n->info.op_type.data : name_of_box(g, b), SHOWN);
    (void)fputs("</text>", p->to);
    if (second[0] != '\0') {
        (void)fprintf(p->to, "<text x=\"%.0f\" y=\"%.0f\" font-size=\"9\" fill=\"#ffffff\" text-anchor=\"middle\">",
                      x + BOX_WIDTH / 2.0, top + 29);
        page_text(p->to, second, 26);
        (void)fputs("</text>", p->to);
    }
    (void)fputs("</g>\n", p->to);
}

/* Where the next graph begins. */
static void svg_graph(struct picture *p, const struct graph *g, const char *title, double *y, double *width)
{
    struct layout l;

    if (p->failed || !layout_graph(g, &p->a, &l)) {
        p->failed = true;
        return;
    }
    (void)fprintf(p->to, "<text x=\"%d\" y=\"%.0f\" font-size=\"14\" font-weight=\"bold\" fill=\"#66707a\">", MARGIN,
                  *y + 16);
    page_text(p->to, title, 200);
    (void)fputs("</text>\n", p->to);
    for (uint32_t i = 0; i < l.edge_count; i++)
        svg_edge(p, g, &l, &l.edges[i], *y);
    for (uint32_t i = 0; i < l.box_count; i++)
        svg_box(p, g, &l.boxes[i], *y);
    *y += TITLE + (double)l.row_count * STEP_Y + MARGIN;
    *width = l.width * STEP_X + 3 * MARGIN > *width ? l.width * STEP_X + 3 * MARGIN : *width;
    for (uint32_t i = 0; i < g->node_count; i++)
        for (uint32_t b = 0; b < g->nodes[i]->body_count; b++) {
            const char *name =
                arena_format(&p->a, "%s of %s", g->nodes[i]->bodies[b].attr, g->nodes[i]->info.name.data);

            svg_graph(p, g->nodes[i]->bodies[b].graph, name != NULL ? name : "", y, width);
        }
}

inlay_status draw_svg(FILE *to, graph_model *model, const graph_model *typed, inlay_diag *diag)
{
    char *body = NULL;
    size_t bytes = 0;
    FILE *inner = open_memstream(&body, &bytes); /* the size of the whole stands in front */
    double height = MARGIN, width = 0;
    inlay_status status;
    struct picture p;

    if (inner == NULL)
        return no_memory(diag, "to draw the model");
    begin(&p, inner, model, typed);
    svg_graph(&p, model->main, model->main->name, &height, &width);
    p.failed = fclose(inner) != 0 || p.failed;
    status = end(&p, diag);
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
    (void)fprintf(to,
                  "<p>%u node%s in the main graph; names, attributes and types stand where the pointer rests.</p>\n",
                  model->main->node_count, model->main->node_count == 1 ? "" : "s");
    /* As large as it is drawn: the page scrolls. */
    (void)fputs("<style>#page { max-width: none; } svg { width: auto; }</style>\n<div>\n", to);
    status = draw_svg(to, model, typed, diag);
    (void)fputs("</div>\n", to);
    page_end(to);
    return status;
}
