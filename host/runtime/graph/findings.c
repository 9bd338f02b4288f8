/* graph/findings.c - records faults of a model that do not prevent running it, and all errors for `inlay check`.
 *
 * Some files violate rules of ONNX that other runtimes do not enforce. The host accepts such files, too, and records a
 * finding for each violation; option strict_model makes it an error. `inlay check` also records errors as findings:
 * binding and inference continue after each error, so that one call reports all of them. */
#include "graph/graph.h"
#include "inlay/check.h"
#include <stdarg.h>
#include <string.h>

static const struct {
    const char *code, *fix;
} faults[] = {
#define FAULT(name, code, fix) { code, fix },
#include "graph/faults.def"
#undef FAULT
};

/* The node of the parent graph that owns this body, and the index of the body. */
static const graph_node *owner_of(const struct graph *body, uint32_t *out_index)
{
    const struct graph *graph = body->parent;

    for (uint32_t i = 0; graph != NULL && i < graph->node_count; i++) {
        for (uint32_t b = 0; b < graph->nodes[i]->body_count; b++) {
            if (graph->nodes[i]->bodies[b].graph == body) {
                *out_index = b;
                return graph->nodes[i];
            }
        }
    }
    return NULL;
}

static void add_text(char *text, size_t bytes, const char *more)
{
    size_t used = strlen(text);

    (void)snprintf(text + used, bytes - used, "%s", more);
}

static void add_node(char *text, size_t bytes, const graph_node *node)
{
    char part[32];

    if (node->place == 0) /* not from the file */
        return;
    (void)snprintf(part, sizeof part, ".node[%u]", node->place - 1);
    add_text(text, bytes, part);
}

static void add_graph(char *text, size_t bytes, const struct graph *graph)
{
    uint32_t index = 0, first;
    const graph_node *node = owner_of(graph, &index);
    char part[160];

    if (node == NULL) {
        for (uint32_t i = 0; i < graph->model->function_count; i++) {
            if (graph->model->functions[i].body == graph) {
                (void)snprintf(text, bytes, "$.functions[%u]", i);
                return;
            }
        }
        (void)snprintf(text, bytes, "$.graph");
        return;
    }
    add_graph(text, bytes, graph->parent); /* the loader limits the nesting of graphs */
    add_node(text, bytes, node);
    for (first = index; first > 0 && strcmp(node->bodies[first - 1].attr, node->bodies[index].attr) == 0; first--)
        ;
    if (node->bodies[index].in_list)
        (void)snprintf(part, sizeof part, ".attribute[?@.name=='%.64s'].graphs[%u]", node->bodies[index].attr,
                       index - first);
    else
        (void)snprintf(part, sizeof part, ".attribute[?@.name=='%.64s'].g", node->bodies[index].attr);
    add_text(text, bytes, part);
}

enum { MAX_FINDINGS = 1000 };

/* Sets the path of a finding. While the file is being loaded, bodies are not yet connected to their nodes. */
static bool set_path(graph_model *model, graph_finding *finding)
{
    char path[512] = "$";

    if (finding->graph != NULL)
        add_graph(path, sizeof path, finding->graph);
    if (finding->n != NULL)
        add_node(path, sizeof path, finding->n);
    finding->path = arena_string(&model->arena, path);
    return finding->path != NULL;
}

bool graph_update_finding_paths(graph_model *model)
{
    for (graph_finding *finding = model->findings.first; finding != NULL; finding = finding->next)
        if (!set_path(model, finding))
            return false;
    return true;
}

static inlay_status add_finding(graph_model *model, inlay_status error, const char *code, const char *fix,
                                const struct graph *graph, const graph_node *node, const char *text)
{
    graph_finding *finding;

    if (model->findings.count == MAX_FINDINGS)
        return INLAY_OK;
    for (finding = model->findings.first; finding != NULL;
         finding = finding->next) /* bodies of loops are inferred repeatedly */
        if (strcmp(finding->text, text) == 0)
            return INLAY_OK;
    finding = arena_alloc(&model->arena, sizeof *finding);
    if (finding == NULL)
        return INLAY_OUT_OF_MEMORY;
    *finding = (graph_finding){ .status = error,
                                .code = code,
                                .fix = fix,
                                .graph = graph,
                                .n = node,
                                .text = arena_string(&model->arena, text),
                                .node = node == NULL ? "" : node->info.name.data };
    if (!set_path(model, finding) || finding->text == NULL)
        return INLAY_OUT_OF_MEMORY;
    INLAY_CHECK((model->findings.last == NULL) == (model->findings.count == 0));
    if (model->findings.last == NULL)
        model->findings.first = finding;
    else
        model->findings.last->next = finding;
    model->findings.last = finding;
    model->findings.count++;
    return INLAY_OK;
}

inlay_status graph_tolerate(graph_model *model, const struct graph *graph, const graph_node *node, const char *tensor,
                            graph_fault fault, inlay_diag *diag, const char *format, ...)
{
    inlay_diag located = INLAY_DIAG_INIT;
    char text[448];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    INLAY_CHECK((size_t)fault < sizeof faults / sizeof faults[0]);
    if (model->findings.strict) {
        model->findings.fault = (uint32_t)fault + 1;
        return graph_fail(graph, node, tensor, INLAY_INVALID_MODEL, diag, "%s; %s", text, faults[fault].fix);
    }
    (void)graph_fail(graph, node, tensor, INLAY_INVALID_MODEL, &located, "%s", text);
    if (add_finding(model, INLAY_OK, faults[fault].code, faults[fault].fix, graph, node, located.text) != INLAY_OK)
        return graph_fail(graph, node, NULL, INLAY_OUT_OF_MEMORY, diag, "out of memory while loading");
    return INLAY_OK;
}

inlay_status graph_fault_fail(const struct graph *graph, const graph_node *node, const char *tensor, graph_fault fault,
                              inlay_status code, inlay_diag *diag, const char *format, ...)
{
    char text[448];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    graph->model->findings.fault = (uint32_t)fault + 1;
    return graph_fail(graph, node, tensor, code, diag, "%s", text);
}

/* Codes of errors that are not in faults.def. */
static const char *code_of(inlay_status status)
{
    return status == INLAY_SHAPE_MISMATCH   ? "shape-mismatch"
           : status == INLAY_UNSUPPORTED    ? "unsupported"
           : status == INLAY_LIMIT_EXCEEDED ? "limit-exceeded"
                                            : "invalid-model";
}

void graph_fault_text(uint32_t fault, inlay_status status, const char **out_code, const char **out_fix)
{
    INLAY_CHECK(fault <= sizeof faults / sizeof faults[0]);
    *out_code = fault > 0 ? faults[fault - 1].code : code_of(status);
    *out_fix = fault > 0 ? faults[fault - 1].fix : "";
}

bool graph_continue_after_error(graph_model *model, const struct graph *graph, const graph_node *node,
                                inlay_status *status, inlay_diag *diag)
{
    const char *code, *fix;

    if (*status == INLAY_OK || !model->findings.collect || *status == INLAY_OUT_OF_MEMORY || *status == INLAY_CANCELLED)
        return *status == INLAY_OK;
    graph_fault_text(model->findings.fault, *status, &code, &fix);
    if (add_finding(model, *status, code, fix, graph, node, diag == NULL ? "" : diag->text) != INLAY_OK)
        return false;
    model->findings.fault = 0;
    *status = INLAY_OK;
    return true;
}

static bool matches_declared(const graph_value *value)
{
    if (value->declared_rank == INLAY_RANK_UNKNOWN || value->info.rank == INLAY_RANK_UNKNOWN)
        return true;
    if (value->declared_rank != value->info.rank)
        return false;
    for (uint32_t d = 0; d < value->info.rank; d++)
        if (value->declared_dims[d].kind == INLAY_DIM_FIXED && value->info.dims[d].kind == INLAY_DIM_FIXED &&
            value->declared_dims[d].value != value->info.dims[d].value)
            return false;
    return true;
}

static void shape_text(uint32_t rank, const inlay_dim *dims, char *text, size_t bytes)
{
    size_t at = (size_t)snprintf(text, bytes, "[");

    for (uint32_t d = 0; d < rank && at + 24 < bytes; d++)
        at += (size_t)(dims[d].kind == INLAY_DIM_FIXED
                           ? snprintf(text + at, bytes - at, "%s%lld", d > 0 ? "," : "", (long long)dims[d].value)
                           : snprintf(text + at, bytes - at, "%s?", d > 0 ? "," : ""));
    (void)snprintf(text + at, bytes - at, "]");
}

inlay_status graph_check_declared(graph_model *model, inlay_diag *diag)
{
    struct graph *graph = model->main;
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < graph->value_count; i++) {
        const graph_value *value = &graph->values[i];
        const char *role = value->info.flags & INLAY_VALUE_GRAPH_OUTPUT ? "output" : "value";
        char declared[160], computed[160];

        if (!value->declared || value->info.producer == INLAY_NONE || value->info.kind != INLAY_VALUE_TENSOR)
            continue;
        if (value->declared_dtype != INLAY_UNDEFINED && value->info.dtype != INLAY_UNDEFINED &&
            value->declared_dtype != value->info.dtype)
            INLAY_TRY(graph_tolerate(model, graph, graph->nodes[value->info.producer], value->info.name.data,
                                     GRAPH_DECLARED_TYPE, diag, "%s '%.96s' is declared as %s and computed as %s", role,
                                     value->info.name.data, inlay_dtype_name(value->declared_dtype),
                                     inlay_dtype_name(value->info.dtype)));
        INLAY_CHECK(value->info.producer < graph->node_count);
        if (matches_declared(value))
            continue;
        shape_text(value->declared_rank, value->declared_dims, declared, sizeof declared);
        shape_text(value->info.rank, value->info.dims, computed, sizeof computed);
        INLAY_TRY(graph_tolerate(model, graph, graph->nodes[value->info.producer], value->info.name.data,
                                 GRAPH_DECLARED_SHAPE, diag, "%s '%.96s' is declared as %s and computed as %s", role,
                                 value->info.name.data, declared, computed));
    }
done:
    return status;
}
