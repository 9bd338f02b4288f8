/* inlay inspect: what is in a model file. Nothing is compiled, and unknown operators are no obstacle. */
#include "base/checked.h"
#include "base/output.h"
#include "cli/cli.h"
#include "cli/inspect_quant.h"
#include "cli/look.h"
#include "passes/pass.h"
#include "report/draw.h"
#include "report/page.h"
#include <stdlib.h>
#include <string.h>

static const char doc[] =
    "Shows what is in MODEL: producer, opsets, inputs, outputs, operators, parameters, subgraphs, metadata.\v"
    "Examples:\n"
    "  inlay inspect model.onnx\n"
    "  inlay inspect model.onnx --nodes\n"
    "  inlay inspect model.onnx --quantization\n"
    "  inlay inspect model.onnx --json | jq .operators\n"
    "  inlay inspect model.onnx --graph model.html      # or .svg, or .dot\n";

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
    uint32_t depth;            /* of subgraphs within each other */
    uint64_t parameters;       /* elements of initializers and of Constant nodes */
    uint64_t bytes;            /* that they take */
    quant_report quantization; /* where it was asked for */
    bool out_of_memory;
};

/* What follows the last dot of the file's name. */
static const char *kind_of_file(const char *path)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');

    return dot != NULL && (slash == NULL || dot > slash) ? dot + 1 : "";
}

static error_t take_drawing(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    const char **drawing = field;

    (void)option;
    *drawing = cli_output_file(state, arg);
    if (*drawing == arg && strcmp(kind_of_file(arg), "html") != 0 && strcmp(kind_of_file(arg), "svg") != 0 &&
        strcmp(kind_of_file(arg), "dot") != 0) /* standard output has no name */
        argp_failure(state, CLI_USAGE, 0, "--graph %s: expected a name that ends in .html, .svg or .dot", arg);
    return 0;
}

static const cli_option own_options[] = {
    { "nodes", NULL, "List every node with its inputs, outputs and attributes", CLI_SET(inspect_args, nodes) },
    { "graph", "FILE", "Draw the model into FILE: .html, .svg or .dot; - is standard output, as HTML",
      CLI_CALL(take_drawing, inspect_args, drawing) },
    { "quantization", NULL, "Tell what the file loses by the way it was quantized, and what to do about it",
      CLI_SET(inspect_args, quantization) },
    CLI_MODEL(inspect_args, model),
    { 0 },
};

/* ------------------------------------------------------------------ counting */

static void count_op(struct summary *s, const graph_node *n)
{
    for (uint32_t i = 0; i < s->op_kinds; i++) {
        if (strcmp(s->ops[i].op_type, n->info.op_type.data) == 0 &&
            strcmp(s->ops[i].domain, n->info.domain.data) == 0) {
            s->ops[i].count++;
            return;
        }
    }
    if (!LIST_GROW(s->ops, s->op_kinds)) {
        s->out_of_memory = true;
        return;
    }
    s->ops[s->op_kinds++] = (op_count){ n->info.domain.data, n->info.op_type.data, 1 };
}

static void count_tensor(struct summary *s, const inlay_tensor_view *t)
{
    int64_t elements = 0;

    (void)dims_count(t->dims, t->rank, &elements); /* the loader has checked it */
    s->parameters += (uint64_t)elements;
    s->bytes += t->bytes;
}

static void count_constant(struct summary *s, const inlay_value_info *info)
{
    uint64_t elements = 1;

    for (uint32_t d = 0; d < info->rank; d++)
        elements *= (uint64_t)info->dims[d].value;
    s->initializers++;
    s->parameters += elements;
    s->bytes += info->data_bytes;
}

static void count_graph(struct summary *s, const struct graph *g, uint32_t depth)
{
    s->depth = depth > s->depth ? depth : s->depth;
    for (uint32_t v = 0; v < g->value_count; v++) {
        const inlay_value_info *info = &g->values[v].info;

        if (g->values[v].default_value != NULL)
            count_tensor(s, g->values[v].default_value);
        if ((info->flags & INLAY_VALUE_CONSTANT) != 0)
            count_constant(s, info);
    }
    for (uint32_t i = 0; i < g->node_count; i++) {
        const graph_node *n = g->nodes[i];
        const inlay_attr_info *value = strcmp(n->info.op_type.data, "Constant") == 0 ? graph_attr(n, "value") : NULL;

        s->nodes++;
        count_op(s, n);
        if (value != NULL && value->kind == INLAY_ATTR_TENSOR)
            count_tensor(s, value->tensor);
        for (uint32_t b = 0; b < n->body_count; b++) {
            s->subgraphs++;
            count_graph(s, n->bodies[b].graph, depth + 1);
        }
    }
}

static int by_count(const void *a, const void *b)
{
    const op_count *x = a, *y = b;

    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    int order = strcmp(x->op_type, y->op_type);
    return order != 0 ? order : strcmp(x->domain, y->domain);
}

static struct summary summarize(const graph_model *m)
{
    struct summary s = { 0 };

    count_graph(&s, m->main, 0);
    for (uint32_t i = 0; i < m->function_count; i++)
        count_graph(&s, m->functions[i].body, 0);
    if (s.op_kinds > 0)
        qsort(s.ops, s.op_kinds, sizeof *s.ops, by_count);
    return s;
}

/* ------------------------------------------------------------------ types of inputs and outputs */

static const char *kind_text(uint32_t kind)
{
    static const char *const kinds[] = { "?", "tensor", "sequence", "optional", "map" };
    return kinds[kind < 5 ? kind : 0];
}

/* The name of a dimension that is not a number. */
static const char *dim_name(const graph_model *m, const inlay_dim *d)
{
    if (d->kind != INLAY_DIM_SYMBOLIC || d->symbol >= m->symbol_count)
        return "?";
    return m->symbols[d->symbol].name.data;
}

/* What the file says; nothing has been inferred. */
static inlay_value_info declared(const graph_value *v)
{
    inlay_value_info info = v->info;

    if (v->declared) {
        info.dtype = v->declared_dtype;
        info.rank = v->declared_rank;
        info.dims = v->declared_dims;
    }
    return info;
}

static void print_value(const graph_model *m, const graph_value *v)
{
    const inlay_value_info type = declared(v), *info = &type;

    (void)printf("  %-24s ", info->name.data);
    if (info->kind != INLAY_VALUE_TENSOR)
        (void)printf("%s of ", kind_text(info->kind));
    if (v->inner_kind > INLAY_VALUE_TENSOR)
        (void)printf("%s of ", kind_text(v->inner_kind));
    (void)printf("%s", inlay_dtype_name(info->dtype));
    if (info->rank == INLAY_RANK_UNKNOWN) {
        (void)printf("[...]");
    } else {
        for (uint32_t i = 0; i < info->rank; i++) {
            (void)printf("%s", i == 0 ? "[" : ", ");
            if (info->dims[i].kind == INLAY_DIM_FIXED)
                (void)printf("%lld", (long long)info->dims[i].value);
            else
                (void)printf("%s", dim_name(m, &info->dims[i]));
        }
        (void)printf("%s", info->rank == 0 ? "[]" : "]");
    }
    (void)printf("%s\n", v->has_default ? "  (has a default)" : "");
}

static json_t *value_to_json(const graph_model *m, const graph_value *v)
{
    const inlay_value_info type = declared(v), *info = &type;
    json_t *shape = json_null();
    json_t *json;

    if (info->rank != INLAY_RANK_UNKNOWN) {
        shape = json_array();
        for (uint32_t i = 0; i < info->rank; i++)
            (void)json_array_append_new(shape, info->dims[i].kind == INLAY_DIM_FIXED
                                                   ? json_integer(info->dims[i].value)
                                                   : json_string(dim_name(m, &info->dims[i])));
    }
    json = json_pack("{s:s, s:s, s:s, s:o}", "name", info->name.data, "kind", kind_text(info->kind), "type",
                     inlay_dtype_name(info->dtype), "shape", shape);
    if (v->inner_kind > INLAY_VALUE_TENSOR)
        (void)json_object_set_new(json, "of", json_string(kind_text(v->inner_kind)));
    if (v->has_default)
        (void)json_object_set_new(json, "has_default", json_true());
    return json;
}

/* ------------------------------------------------------------------ output */

static void write_out(void *ctx, const char *text, size_t bytes)
{
    (void)fwrite(text, 1, bytes, ctx);
}

static void print_header(const graph_model *m, const char *path)
{
    (void)printf("%s: IR version %lld", path, (long long)m->ir_version);
    if (m->producer_name != NULL && m->producer_name[0] != '\0')
        (void)printf(", by %s %s", m->producer_name, m->producer_version != NULL ? m->producer_version : "");
    (void)printf("\nopsets:");
    for (uint32_t i = 0; i < m->opset_count; i++)
        (void)printf(" %s %lld", m->opsets[i].domain, (long long)m->opsets[i].version);
    (void)printf("\ngraph '%s'\n", m->main->name);
}

static void print_text(const inspect_args *args, const graph_model *m, const struct summary *s)
{
    print_header(m, args->model);
    (void)printf("inputs:\n");
    for (uint32_t i = 0; i < m->main->input_count; i++)
        print_value(m, &m->main->values[m->main->inputs[i]]);
    (void)printf("outputs:\n");
    for (uint32_t i = 0; i < m->main->output_count; i++)
        print_value(m, &m->main->values[m->main->outputs[i]]);
    (void)printf("parameters: %llu in %llu initializers, %.2f MiB\n", (unsigned long long)s->parameters,
                 (unsigned long long)s->initializers, (double)s->bytes / 1048576);
    if (s->subgraphs > 0)
        (void)printf("subgraphs: %llu, nested %u deep\n", (unsigned long long)s->subgraphs, s->depth);
    (void)printf("nodes: %llu of %u kinds\n", (unsigned long long)s->nodes, s->op_kinds);
    for (uint32_t i = 0; i < s->op_kinds; i++) {
        bool onnx = strcmp(s->ops[i].domain, "ai.onnx") == 0;
        (void)printf("  %6u %s%s%s\n", s->ops[i].count, onnx ? "" : s->ops[i].domain, onnx ? "" : ".",
                     s->ops[i].op_type);
    }
    for (uint32_t i = 0; i < m->function_count; i++)
        (void)printf("%s  %s.%s: %u nodes\n", i == 0 ? "functions:\n" : "", m->functions[i].domain,
                     m->functions[i].name, m->functions[i].body->node_count);
    for (uint32_t i = 0; i < m->metadata_count; i++)
        (void)printf("%s  %s = %.200s\n", i == 0 ? "metadata:\n" : "", m->metadata[i].key, m->metadata[i].value);
    if (args->quantization)
        quant_print(&s->quantization);
    if (args->nodes)
        graph_dump(m->main, write_out, stdout);
}

static json_t *names_to_json(const struct graph *g, const uint32_t *values, uint32_t count)
{
    json_t *names = json_array();

    for (uint32_t i = 0; i < count; i++)
        (void)json_array_append_new(names, values[i] == INLAY_NONE ? json_null()
                                                                   : json_string(g->values[values[i]].info.name.data));
    return names;
}

static json_t *nodes_to_json(const struct graph *g)
{
    json_t *nodes = json_array();

    for (uint32_t i = 0; i < g->node_count; i++) {
        const inlay_node_info *n = &g->nodes[i]->info;
        json_t *json = json_pack("{s:s, s:s, s:s, s:o, s:o}", "name", n->name.data, "domain", n->domain.data,
                                 "operator", n->op_type.data, "inputs", names_to_json(g, n->inputs, n->input_count),
                                 "outputs", names_to_json(g, n->outputs, n->output_count));
        for (uint32_t b = 0; json != NULL && b < g->nodes[i]->body_count; b++)
            (void)json_object_set_new(json, g->nodes[i]->bodies[b].attr, nodes_to_json(g->nodes[i]->bodies[b].graph));
        (void)json_array_append_new(nodes, json);
    }
    return nodes;
}

static json_t *make_json(const inspect_args *args, const graph_model *m, const struct summary *s)
{
    json_t *inputs = json_array(), *outputs = json_array(), *ops = json_array(), *opsets = json_object();
    json_t *metadata = json_object(), *functions = json_array(), *json;

    for (uint32_t i = 0; i < m->main->input_count; i++)
        (void)json_array_append_new(inputs, value_to_json(m, &m->main->values[m->main->inputs[i]]));
    for (uint32_t i = 0; i < m->main->output_count; i++)
        (void)json_array_append_new(outputs, value_to_json(m, &m->main->values[m->main->outputs[i]]));
    for (uint32_t i = 0; i < s->op_kinds; i++)
        (void)json_array_append_new(ops, json_pack("{s:s, s:s, s:I}", "domain", s->ops[i].domain, "operator",
                                                   s->ops[i].op_type, "count", (json_int_t)s->ops[i].count));
    for (uint32_t i = 0; i < m->opset_count; i++)
        (void)json_object_set_new(opsets, m->opsets[i].domain, json_integer(m->opsets[i].version));
    for (uint32_t i = 0; i < m->function_count; i++)
        (void)json_array_append_new(functions, json_pack("{s:s, s:s, s:I}", "domain", m->functions[i].domain, "name",
                                                         m->functions[i].name, "nodes",
                                                         (json_int_t)m->functions[i].body->node_count));
    for (uint32_t i = 0; i < m->metadata_count; i++)
        (void)json_object_set_new(metadata, m->metadata[i].key, json_string(m->metadata[i].value));
    json = json_pack("{s:s, s:I, s:s?, s:s?, s:o, s:s, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "model",
                     args->model, "ir_version", (json_int_t)m->ir_version, "producer", m->producer_name,
                     "producer_version", m->producer_version, "opsets", opsets, "graph", m->main->name, "inputs",
                     inputs, "outputs", outputs, "nodes", (json_int_t)s->nodes, "parameters", (json_int_t)s->parameters,
                     "parameter_bytes", (json_int_t)s->bytes, "initializers", (json_int_t)s->initializers, "subgraphs",
                     (json_int_t)s->subgraphs, "subgraph_depth", (json_int_t)s->depth, "operators", ops, "functions",
                     functions, "metadata", metadata);
    if (args->nodes && json != NULL)
        (void)json_object_set_new(json, "node_list", nodes_to_json(m->main));
    if (args->quantization && json != NULL)
        (void)json_object_set_new(json, "quantization", quant_to_json(&s->quantization));
    return json;
}

/* Types come from inference where the model can be bound, otherwise from the file alone. */
static inlay_status draw(const inspect_args *args, const cli_common *common, graph_model *model, inlay_diag *diag)
{
    const model_load_options load = { .out_fault = NULL };
    const char *kind = kind_of_file(args->drawing);
    inlay_diag unheard = INLAY_DIAG_INIT;
    graph_model *typed = NULL;
    output_file file = { .to = NULL };
    inlay_status status;

    if (cli_look(common, args->model, &load, &typed, &unheard) != INLAY_OK) {
        graph_model_destroy(typed);
        typed = NULL;
    }
    INLAY_TRY(output_open_stream(&file, args->drawing, diag));
    (void)cli_progress(NULL, 0.8, "drawing");
    if (strcmp(kind, "dot") == 0)
        status = draw_dot(file.to, model, typed, diag);
    else if (strcmp(kind, "svg") == 0)
        status = draw_svg(file.to, model, typed, diag);
    else
        status = draw_html(file.to, model, typed, args->model, diag);
    if (status == INLAY_OK && cli_cancelled())
        status = inlay_fail(diag, INLAY_CANCELLED, "stopped");
done:
    cli_progress_clear();
    if (status == INLAY_OK)
        status = output_commit(&file, NULL, diag);
    else
        output_drop(&file);
    graph_model_destroy(typed);
    return status;
}

static inlay_status look_at_quantization(graph_model *model, quant_report *out, inlay_diag *diag)
{
    pass_ctx passes = { .model = model, .rewrite_limit = -1, .diag = diag };
    bool ignored = false;
    inlay_status status = pass_constant_nodes(&passes, &ignored);

    return status != INLAY_OK ? status : quant_look(model, out) ? INLAY_OK : no_memory(diag, "to look at the model");
}

int cmd_inspect(int argc, char **argv)
{
    static const cli_verb verb = { "MODEL", doc, own_options, NULL };
    inspect_args args = { 0 };
    cli_common common;
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *model = NULL;
    struct summary s = { 0 };
    inlay_status status;
    int code = CLI_OK;

    cli_parse(&verb, false, argc, argv, &common, &args);
    status = model_load_path(args.model, NULL, &model, &diag);
    if (status == INLAY_OK) {
        s = summarize(model);
        if (s.out_of_memory)
            status = no_memory(&diag, "to look at the model");
    }
    if (status == INLAY_OK && args.drawing != NULL)
        status = draw(&args, &common, model, &diag);
    if (status == INLAY_OK && args.quantization) /* last, for it makes constants of Constant nodes */
        status = look_at_quantization(model, &s.quantization, &diag);
    if (status != INLAY_OK)
        code = cli_fail(&common, &diag);
    else if (common.json)
        code = cli_print_json(&common, make_json(&args, model, &s), CLI_OK);
    else
        print_text(&args, model, &s);
    free(s.ops);
    quant_release(&s.quantization);
    graph_model_destroy(model);
    cli_common_deinit(&common);
    return code;
}
