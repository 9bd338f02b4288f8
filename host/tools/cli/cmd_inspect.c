/* inlay inspect: shows the contents of a model file. Compiles nothing, and accepts unknown operators. */
#include "base/checked.h"
#include "base/output.h"
#include "tables/words.h"
#include "cli/cli.h"
#include "cli/graph_page.h"
#include "cli/inspect_quant.h"
#include "modelkit/dump.h"
#include "passes/pass.h"
#include "report/dot.h"
#include "report/page.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

static const char doc_inspect[] =
    "Shows the contents of MODEL: producer, opsets, inputs, outputs, operators, parameters, subgraphs, metadata.\v"
    "Examples:\n"
    "  inlay inspect model.onnx\n"
    "  inlay inspect model.onnx --nodes\n"
    "  inlay inspect model.onnx --quantization\n"
    "  inlay inspect model.onnx --json | jq .operators\n"
    "  inlay inspect model.onnx --graph model.html      # or .dot, for Graphviz\n";

typedef struct inspect_args {
    const char *model;
    bool nodes, quantization;
    const char *drawing; /* of --graph, or NULL */
} inspect_args;

/* An operator and how often it occurs. */
typedef struct op_count {
    const char *domain, *op_type;
    uint32_t count;
} op_count;

struct summary {
    op_count *ops; /* [op_kinds] most frequent first, then by name; owned */
    uint32_t op_kinds;
    uint64_t nodes, subgraphs, initializers;
    uint32_t depth;            /* nesting depth of subgraphs */
    uint64_t parameters;       /* elements of initializers and of Constant nodes */
    uint64_t bytes;            /* of the parameters */
    quant_report quantization; /* with --quantization */
    bool out_of_memory;
};

/* The text after the last dot of the file's name. */
static const char *file_extension(const char *path)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');

    return dot != NULL && (slash == NULL || dot > slash) ? dot + 1 : "";
}

static bool finish(void *user, struct argp_state *state)
{
    const char *drawing = ((const inspect_args *)user)->drawing;

    if (drawing != NULL && strcmp(drawing, "/dev/stdout") != 0 && strcmp(file_extension(drawing), "html") != 0 &&
        strcmp(file_extension(drawing), "dot") != 0) /* standard output has no extension */
        cli_refuse(state, CLI_USAGE, "--graph %s: expected a name that ends in .html or .dot", drawing);
    return true;
}

static const cli_option options_of_inspect[] = {
    { "nodes", NULL, "List every node with its inputs, outputs and attributes", CLI_SET(inspect_args, nodes) },
    { "graph", "FILE",
      "Write a page with the graph to FILE (.html), or a file for Graphviz (.dot); - is standard output, in HTML",
      CLI_WRITE(inspect_args, drawing) },
    { "quantization", NULL, "Report accuracy and speed that the model loses by its quantization, and remedies",
      CLI_SET(inspect_args, quantization) },
    CLI_MODEL(inspect_args, model),
    { 0 },
};

/* Adds an entry for the node; merge_ops() counts those of the same operator. */
static void count_op(struct summary *summary, const graph_node *node)
{
    if (!LIST_GROW(summary->ops, summary->op_kinds)) {
        summary->out_of_memory = true;
        return;
    }
    summary->ops[summary->op_kinds++] = (op_count){ node->info.domain.data, node->info.op_type.data, 1 };
}

static void count_tensor(struct summary *summary, const inlay_tensor_view *view)
{
    int64_t elements = 0;

    (void)dims_count(view->dims, view->rank, &elements); /* the loader has checked it */
    summary->parameters += (uint64_t)elements;
    summary->bytes += view->bytes;
}

static void count_constant(struct summary *summary, const inlay_value_info *info)
{
    uint64_t elements = 1;

    for (uint32_t d = 0; d < info->rank; d++)
        elements *= (uint64_t)info->dims[d].value;
    summary->initializers++;
    summary->parameters += elements;
    summary->bytes += info->data_bytes;
}

static void count_graph(struct summary *summary, const struct graph *graph, uint32_t depth)
{
    summary->depth = depth > summary->depth ? depth : summary->depth;
    for (uint32_t value_index = 0; value_index < graph->value_count; value_index++) {
        const inlay_value_info *info = &graph->values[value_index].info;

        if (graph->values[value_index].default_value != NULL)
            count_tensor(summary, graph->values[value_index].default_value);
        if ((info->flags & INLAY_VALUE_CONSTANT) != 0)
            count_constant(summary, info);
    }
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const graph_node *node = graph->nodes[i];
        const inlay_attr_info *value =
            strcmp(node->info.op_type.data, "Constant") == 0 ? graph_attr(node, "value") : NULL;

        summary->nodes++;
        count_op(summary, node);
        if (value != NULL && value->kind == INLAY_ATTR_TENSOR)
            count_tensor(summary, value->tensor);
        for (uint32_t b = 0; b < node->body_count; b++) {
            summary->subgraphs++;
            count_graph(summary, node->bodies[b].graph, depth + 1);
        }
    }
}

static int by_name(const void *a, const void *b)
{
    const op_count *first = a, *second = b;
    int order = strcmp(first->op_type, second->op_type);

    return order != 0 ? order : strcmp(first->domain, second->domain);
}

static int by_count(const void *a, const void *b)
{
    const op_count *first = a, *second = b;

    if (first->count != second->count)
        return first->count < second->count ? 1 : -1;
    return by_name(a, b);
}

/* Replaces the entries of one operator by their sum. */
static void merge_ops(struct summary *summary)
{
    uint32_t kept = 0;

    if (summary->op_kinds == 0)
        return;
    qsort(summary->ops, summary->op_kinds, sizeof *summary->ops, by_name);
    for (uint32_t i = 1; i < summary->op_kinds; i++)
        if (by_name(&summary->ops[kept], &summary->ops[i]) == 0)
            summary->ops[kept].count++;
        else
            summary->ops[++kept] = summary->ops[i];
    summary->op_kinds = kept + 1;
    qsort(summary->ops, summary->op_kinds, sizeof *summary->ops, by_count);
}

static struct summary summarize(const graph_model *model)
{
    struct summary summary = { 0 };

    count_graph(&summary, model->main, 0);
    for (uint32_t i = 0; i < model->function_count; i++)
        count_graph(&summary, model->functions[i].body, 0);
    merge_ops(&summary);
    return summary;
}

static const char *kind_text(uint32_t kind)
{
    static const char *const kinds[] = { "?", "tensor", "sequence", "optional", "map" };
    return kinds[kind < 5 ? kind : 0];
}

/* The name of a dimension that is not a number. */
static const char *dim_name(const graph_model *model, const inlay_dim *dim)
{
    if (dim->kind != INLAY_DIM_SYMBOLIC || dim->symbol >= model->symbol_count)
        return "?";
    return model->symbols[dim->symbol].name.data;
}

/* The type that the file declares; nothing has been inferred. */
static inlay_value_info declared(const graph_value *value)
{
    inlay_value_info info = value->info;

    if (value->declared) {
        info.dtype = value->declared_dtype;
        info.rank = value->declared_rank;
        info.dims = value->declared_dims;
    }
    return info;
}

static void print_value(const graph_model *model, const graph_value *value)
{
    const inlay_value_info type = declared(value), *info = &type;

    (void)printf("  %-24s ", info->name.data);
    if (info->kind != INLAY_VALUE_TENSOR)
        (void)printf("%s of ", kind_text(info->kind));
    if (value->inner_kind > INLAY_VALUE_TENSOR)
        (void)printf("%s of ", kind_text(value->inner_kind));
    (void)printf("%s", inlay_dtype_name(info->dtype));
    if (info->rank == INLAY_RANK_UNKNOWN) {
        (void)printf("[...]");
    } else {
        for (uint32_t i = 0; i < info->rank; i++) {
            (void)printf("%s", i == 0 ? "[" : ", ");
            if (info->dims[i].kind == INLAY_DIM_FIXED)
                (void)printf("%lld", (long long)info->dims[i].value);
            else
                (void)printf("%s", dim_name(model, &info->dims[i]));
        }
        (void)printf("%s", info->rank == 0 ? "[]" : "]");
    }
    (void)printf("%s\n", value->has_default ? "  (has a default)" : "");
}

static json_t *value_to_json(const graph_model *model, const graph_value *value)
{
    const inlay_value_info type = declared(value), *info = &type;
    INLAY_CHECK(value->info.name.data != NULL);
    json_t *shape = json_null();
    json_t *json;

    if (info->rank != INLAY_RANK_UNKNOWN) {
        shape = json_array();
        for (uint32_t i = 0; i < info->rank; i++)
            (void)json_array_append_new(shape, info->dims[i].kind == INLAY_DIM_FIXED
                                                   ? json_integer(info->dims[i].value)
                                                   : json_string(dim_name(model, &info->dims[i])));
    }
    json = json_pack("{s:s, s:s, s:s, s:o}", "name", info->name.data, "kind", kind_text(info->kind), "type",
                     inlay_dtype_name(info->dtype), "shape", shape);
    if (value->inner_kind > INLAY_VALUE_TENSOR)
        (void)json_object_set_new(json, "of", json_string(kind_text(value->inner_kind)));
    if (value->has_default)
        (void)json_object_set_new(json, "has_default", json_true());
    return json;
}

static void print_header(const graph_model *model, const char *path)
{
    (void)printf("%s: IR version %lld", path, (long long)model->ir_version);
    if (model->about.producer_name != NULL && model->about.producer_name[0] != '\0')
        (void)printf(", by %s %s", model->about.producer_name,
                     model->about.producer_version != NULL ? model->about.producer_version : "");
    (void)printf("\nopsets:");
    for (uint32_t i = 0; i < model->opset_count; i++)
        (void)printf(" %s %lld", model->opsets[i].domain, (long long)model->opsets[i].version);
    (void)printf("\ngraph '%s'\n", model->main->name);
}

static void print_text(const inspect_args *args, const graph_model *model, const struct summary *summary)
{
    print_header(model, args->model);
    (void)printf("inputs:\n");
    for (uint32_t i = 0; i < model->main->input_count; i++)
        print_value(model, &model->main->values[model->main->inputs[i]]);
    (void)printf("outputs:\n");
    for (uint32_t i = 0; i < model->main->output_count; i++)
        print_value(model, &model->main->values[model->main->outputs[i]]);
    (void)printf("parameters: %llu in %llu initializers, %.2f MiB\n", (unsigned long long)summary->parameters,
                 (unsigned long long)summary->initializers, (double)summary->bytes / 1048576);
    if (summary->subgraphs > 0)
        (void)printf("subgraphs: %llu, nested %u deep\n", (unsigned long long)summary->subgraphs, summary->depth);
    (void)printf("nodes: %llu of %u kinds\n", (unsigned long long)summary->nodes, summary->op_kinds);
    for (uint32_t i = 0; i < summary->op_kinds; i++) {
        bool onnx = strcmp(summary->ops[i].domain, "ai.onnx") == 0;
        (void)printf("  %6u %s%s%s\n", summary->ops[i].count, onnx ? "" : summary->ops[i].domain, onnx ? "" : ".",
                     summary->ops[i].op_type);
    }
    for (uint32_t i = 0; i < model->function_count; i++)
        (void)printf("%s  %s.%s: %u nodes\n", i == 0 ? "functions:\n" : "", model->functions[i].domain,
                     model->functions[i].name, model->functions[i].body->node_count);
    for (uint32_t i = 0; i < model->metadata_count; i++)
        (void)printf("%s  %s = %.200s\n", i == 0 ? "metadata:\n" : "", model->metadata[i].key,
                     model->metadata[i].value);
    if (args->quantization)
        quant_print(&summary->quantization);
    if (args->nodes)
        graph_dump(model->main, say_to_file, stdout);
}

static json_t *names_to_json(const struct graph *graph, const uint32_t *values, uint32_t count)
{
    json_t *names = json_array();

    for (uint32_t i = 0; i < count; i++)
        (void)json_array_append_new(
            names, values[i] == INLAY_NONE ? json_null() : json_string(graph->values[values[i]].info.name.data));
    return names;
}

static json_t *nodes_to_json(const struct graph *graph)
{
    json_t *nodes = json_array();

    for (uint32_t i = 0; i < graph->node_count; i++) {
        const inlay_node_info *node = &graph->nodes[i]->info;
        json_t *json =
            json_pack("{s:s, s:s, s:s, s:o, s:o}", "name", node->name.data, "domain", node->domain.data, "operator",
                      node->op_type.data, "inputs", names_to_json(graph, node->inputs, node->input_count), "outputs",
                      names_to_json(graph, node->outputs, node->output_count));
        for (uint32_t b = 0; json != NULL && b < graph->nodes[i]->body_count; b++)
            (void)json_object_set_new(json, graph->nodes[i]->bodies[b].attr,
                                      nodes_to_json(graph->nodes[i]->bodies[b].graph));
        (void)json_array_append_new(nodes, json);
    }
    return nodes;
}

static json_t *make_json(const inspect_args *args, const graph_model *model, const struct summary *summary)
{
    json_t *inputs = json_array(), *outputs = json_array(), *ops = json_array(), *opsets = json_object();
    json_t *metadata = json_object(), *functions = json_array(), *json;

    for (uint32_t i = 0; i < model->main->input_count; i++)
        (void)json_array_append_new(inputs, value_to_json(model, &model->main->values[model->main->inputs[i]]));
    for (uint32_t i = 0; i < model->main->output_count; i++)
        (void)json_array_append_new(outputs, value_to_json(model, &model->main->values[model->main->outputs[i]]));
    for (uint32_t i = 0; i < summary->op_kinds; i++)
        (void)json_array_append_new(ops,
                                    json_pack("{s:s, s:s, s:I}", "domain", summary->ops[i].domain, "operator",
                                              summary->ops[i].op_type, "count", (json_int_t)summary->ops[i].count));
    for (uint32_t i = 0; i < model->opset_count; i++)
        (void)json_object_set_new(opsets, model->opsets[i].domain, json_integer(model->opsets[i].version));
    for (uint32_t i = 0; i < model->function_count; i++)
        (void)json_array_append_new(functions, json_pack("{s:s, s:s, s:I}", "domain", model->functions[i].domain,
                                                         "name", model->functions[i].name, "nodes",
                                                         (json_int_t)model->functions[i].body->node_count));
    for (uint32_t i = 0; i < model->metadata_count; i++)
        (void)json_object_set_new(metadata, model->metadata[i].key, json_string(model->metadata[i].value));
    json = json_pack("{s:s, s:I, s:s?, s:s?, s:o, s:s, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "model",
                     cli_text(args->model), "ir_version", (json_int_t)model->ir_version, "producer",
                     model->about.producer_name, "producer_version", model->about.producer_version, "opsets", opsets,
                     "graph", model->main->name, "inputs", inputs, "outputs", outputs, "nodes",
                     (json_int_t)summary->nodes, "parameters", (json_int_t)summary->parameters, "parameter_bytes",
                     (json_int_t)summary->bytes, "initializers", (json_int_t)summary->initializers, "subgraphs",
                     (json_int_t)summary->subgraphs, "subgraph_depth", (json_int_t)summary->depth, "operators", ops,
                     "functions", functions, "metadata", metadata);
    if (args->nodes && json != NULL)
        (void)json_object_set_new(json, "node_list", nodes_to_json(model->main));
    if (args->quantization && json != NULL)
        (void)json_object_set_new(json, "quantization", quant_to_json(&summary->quantization));
    return json;
}

static inlay_status write_dot(const inspect_args *args, const cli_common *common, graph_model *model, inlay_diag *diag)
{
    graph_model *typed = graph_page_types(common, args->model);
    output_file file;
    inlay_status status = output_open_stream(&file, args->drawing, diag);

    if (status == INLAY_OK) {
        status = dot_write(file.to, model, typed, diag);
        if (status == INLAY_OK)
            status = output_commit(&file, NULL, diag);
        else
            output_drop(&file);
    }
    graph_model_destroy(typed);
    return status;
}

static inlay_status draw(const inspect_args *args, const cli_common *common, graph_model *model, inlay_diag *diag)
{
    json_t *json = NULL;
    inlay_status status;

    if (strcmp(file_extension(args->drawing), "dot") == 0)
        return write_dot(args, common, model, diag);
    status = graph_page_json(common, args->model, model, &json, diag);
    if (status == INLAY_OK)
        status = page_script_write(&page_inspect, json, args->drawing, diag);
    json_decref(json);
    return status;
}

static inlay_status inspect_quantization(graph_model *model, quant_report *out, inlay_diag *diag)
{
    pass_ctx passes = { .model = model, .limits.rewrites = -1, .diag = diag };
    bool ignored = false;
    inlay_status status = pass_constant_nodes(&passes, &ignored);

    return status != INLAY_OK ? status : quant_inspect(model, out) ? INLAY_OK : no_memory(diag, "to inspect the model");
}

int cmd_inspect(int argc, char **argv)
{
    static const cli_verb verb = { "MODEL", doc_inspect, options_of_inspect, finish };
    inspect_args args = { 0 };
    cli_common common;
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *model = NULL;
    struct summary summary = { 0 };
    inlay_status status;
    int code = CLI_OK;

    cli_parse(&verb, CLI_SETTINGS_NONE, argc, argv, &common, &args);
    status = model_load_path(args.model, NULL, &model, &diag);
    if (status == INLAY_OK) {
        summary = summarize(model);
        if (summary.out_of_memory)
            status = no_memory(&diag, "to inspect the model");
    }
    if (status == INLAY_OK && args.drawing != NULL)
        status = draw(&args, &common, model, &diag);
    if (status == INLAY_OK && args.quantization) /* must be last: it turns Constant nodes into initializers */
        status = inspect_quantization(model, &summary.quantization, &diag);
    if (status != INLAY_OK)
        code = cli_fail(&common, &diag);
    else if (common.json)
        code = cli_print_json(&common, make_json(&args, model, &summary), CLI_OK);
    else
        print_text(&args, model, &summary);
    free(summary.ops);
    quant_release(&summary.quantization);
    graph_model_destroy(model);
    cli_common_deinit(&common);
    return code;
}
