#include "report/dot.h"
#include "base/memory.h"
#include "modelkit/lines.h"
#include "report/model_types.h"
#include <string.h>

/* Shared by all graphs of a file. */
struct dot {
    FILE *to;
    struct arena arena;
    uint32_t graphs; /* written so far */
    bool failed;
};

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

static void put_box(struct dot *dot, uint32_t graph_number, uint32_t box, const char *label, const char *name,
                    const char *shape)
{
    (void)fprintf(dot->to, "    b%u_%u [label=", graph_number, box);
    put_quoted(dot->to, label);
    (void)fputs(", tooltip=", dot->to);
    put_quoted(dot->to, name);
    (void)fprintf(dot->to, ", shape=%s];\n", shape);
}

/* An edge for a value, unless it is a constant or omitted: these have no box. */
static void put_edge(struct dot *dot, const model_types *types, const struct graph *graph, uint32_t graph_number,
                     const uint32_t *maker, uint32_t value, uint32_t to)
{
    const graph_value *typed;
    const graph_model *model;
    const char *text = "";

    if (value == INLAY_NONE || maker[value] == INLAY_NONE)
        return;
    typed = model_types_find(types, graph, value, &model);
    if (typed != NULL)
        text = lines_type(&dot->arena, model, typed);
    dot->failed = dot->failed || text == NULL;
    (void)fprintf(dot->to, "    b%u_%u -> b%u_%u [label=", graph_number, maker[value], graph_number, to);
    put_quoted(dot->to, text != NULL ? text : "");
    (void)fputs("];\n", dot->to);
}

static void put_graph(struct dot *dot, const struct graph *graph, const struct graph *typed, const char *title)
{
    const uint32_t number = dot->graphs++;
    uint32_t *maker = arena_array(&dot->arena, (size_t)graph->value_count + 1, sizeof *maker), boxes = 0;
    model_types types;

    if (dot->failed || maker == NULL || !model_types_init(&types, typed)) {
        dot->failed = true;
        return;
    }
    memset(maker, 0xff, graph->value_count * sizeof *maker);
    (void)fprintf(dot->to, "  subgraph cluster_%u {\n    label=", number);
    put_quoted(dot->to, title);
    (void)fputs(";\n", dot->to);
    for (uint32_t i = 0; i < graph->input_count + graph->captured_count; i++) {
        const uint32_t value = i < graph->input_count ? graph->inputs[i] : graph->captured[i - graph->input_count];
        const char *name = graph->values[value].info.name.data;

        maker[value] = boxes;
        put_box(dot, number, boxes++, name, name, "ellipse");
    }
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];

        if (strcmp(node->info.op_type.data, "Constant") == 0)
            continue; /* its output is drawn as the other constants are */
        put_box(dot, number, boxes, node->info.op_type.data, node->info.name.data, "box");
        for (uint32_t k = 0; k < node->info.input_count; k++)
            put_edge(dot, &types, graph, number, maker, node->info.inputs[k], boxes);
        for (uint32_t k = 0; k < node->capture_count; k++)
            put_edge(dot, &types, graph, number, maker, node->captures[k], boxes);
        for (uint32_t k = 0; k < node->info.output_count; k++)
            if (node->info.outputs[k] != INLAY_NONE)
                maker[node->info.outputs[k]] = boxes;
        boxes++;
    }
    for (uint32_t i = 0; i < graph->output_count; i++) {
        const char *name = graph->values[graph->outputs[i]].info.name.data;

        put_box(dot, number, boxes, name, name, "ellipse");
        put_edge(dot, &types, graph, number, maker, graph->outputs[i], boxes++);
    }
    (void)fputs("  }\n", dot->to);
    for (uint32_t i = 0; i < graph->node_count; i++)
        for (uint32_t body = 0; body < graph->nodes[i]->body_count; body++) {
            const graph_node *node = graph->nodes[i];
            const char *name = arena_format(&dot->arena, "%s of %s", node->bodies[body].attr, node->info.name.data);

            put_graph(dot, node->bodies[body].graph, model_types_body(&types, node, body), name != NULL ? name : "");
        }
    model_types_deinit(&types);
}

inlay_status dot_write(FILE *to, graph_model *model, const graph_model *typed, inlay_diag *diag)
{
    struct dot dot = { .to = to };

    (void)fputs("digraph model {\n  node [style=rounded, fontname=\"sans-serif\"];\n"
                "  edge [fontsize=9, fontname=\"sans-serif\"];\n",
                to);
    put_graph(&dot, model->main, typed != NULL ? typed->main : NULL, model->main->name);
    (void)fputs("}\n", to);
    arena_deinit(&dot.arena);
    return dot.failed ? no_memory(diag, "to draw the model") : INLAY_OK;
}
