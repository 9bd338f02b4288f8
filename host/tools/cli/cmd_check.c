/* inlay check: validates a model. Loads, verifies, binds and infers; compiles nothing and opens no device. */
#include "cli/cli.h"
#include "cli/load_model.h"
#include "session/session.h"
#include "config/options.h"
#include <string.h>

static const char doc_check[] =
    "Checks whether MODEL is valid: the file, the graph, operators and their versions, attributes, types, shapes.\v"
    "Prints OK with some counts, or a line for each error with its location and its fix (exit code 3). A violation of "
    "ONNX's rules that can be run nevertheless is a warning; with --strict-model 1 it is an error.\n\n"
    "Examples:\n"
    "  inlay check model.onnx\n"
    "  inlay check model.onnx --plugin-dirs /opt/my/plugins --json\n";

typedef struct check_args {
    const char *model;
} check_args;

static const cli_option options_of_check[] = {
    CLI_MODEL(check_args, model),
    { 0 },
};

/* Results of inference. */
struct counts {
    uint64_t nodes, values;
    uint64_t typed;  /* values with a type */
    uint64_t ranked; /* with a rank as well */
    uint64_t shaped; /* with every dimension fixed or named */
};

static void count_graph(const struct graph *graph, struct counts *counts)
{
    for (uint32_t value = 0; value < graph->value_count; value++) {
        const inlay_value_info *info = &graph->values[value].info;
        bool shaped = info->rank != INLAY_RANK_UNKNOWN;

        if (info->flags & INLAY_VALUE_CONSTANT)
            continue;
        counts->values++;
        counts->typed += info->dtype != INLAY_UNDEFINED;
        counts->ranked += shaped;
        for (uint32_t d = 0; shaped && d < info->rank; d++)
            shaped = info->dims[d].kind != INLAY_DIM_UNKNOWN;
        counts->shaped += shaped;
    }
    for (uint32_t i = 0; i < graph->node_count; i++) {
        counts->nodes++;
        for (uint32_t b = 0; b < graph->nodes[i]->body_count; b++)
            count_graph(graph->nodes[i]->bodies[b].graph, counts);
    }
}

static uint32_t count_errors(const graph_model *model)
{
    uint32_t count = 0;

    for (const graph_finding *finding = model->findings.first; finding != NULL; finding = finding->next)
        count += finding->status != INLAY_OK;
    return count;
}

static json_t *finding_json(const graph_finding *finding)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "severity", finding->status != INLAY_OK ? "error" : "warning",
                     "code", finding->code, "path", finding->path, "node", finding->node, "text", finding->text, "fix",
                     finding->fix);
}

static json_t *findings_json(const graph_finding *first)
{
    json_t *list = json_array();

    for (const graph_finding *finding = first; finding != NULL; finding = finding->next)
        (void)json_array_append_new(list, finding_json(finding));
    return list;
}

static void print_findings(const cli_common *common, const graph_finding *first)
{
    for (const graph_finding *finding = first; finding != NULL; finding = finding->next) {
        const bool has_fix = finding->fix[0] == '\0' || strchr(finding->text, ';') != NULL; /* in the text itself */

        if (finding->status != INLAY_OK || !common->quiet)
            cli_say(common, "%s%s%s%s [%s at %s]", finding->status != INLAY_OK ? "" : "warning: ", finding->text,
                    has_fix ? "" : "; ", has_fix ? "" : finding->fix, finding->code, finding->path);
    }
}

/* The analysis stopped early (failure holds an error), or some findings are errors. */
static int print_errors(const cli_common *common, const char *path, const graph_model *model, uint32_t fault,
                        const inlay_diag *failure)
{
    inlay_diag first = *failure;
    graph_finding last = { .path = "$", .node = failure->node, .text = failure->text, .status = failure->code };
    const bool stopped_early = last.status != INLAY_OK;
    json_t *list;

    for (const graph_finding *finding = model == NULL ? NULL : model->findings.first;
         finding != NULL && first.code == INLAY_OK; finding = finding->next) {
        if (finding->status == INLAY_OK)
            continue;
        first.code = finding->status;
        (void)snprintf(first.text, sizeof first.text, "%s", finding->text);
        (void)snprintf(first.node, sizeof first.node, "%s", finding->node);
    }
    if (stopped_early)
        graph_fault_text(fault, last.status, &last.code, &last.fix);
    print_findings(common, model == NULL ? NULL : model->findings.first);
    if (stopped_early)
        print_findings(common, &last);
    if (!common->json)
        return cli_exit_code(first.code);
    list = findings_json(model == NULL ? NULL : model->findings.first);
    if (stopped_early)
        (void)json_array_append_new(list, finding_json(&last));
    return cli_print_json(
        common,
        json_pack("{s:s, s:b, s:o, s:o}", "model", path, "ok", 0, "error", cli_diag_json(&first), "findings", list),
        cli_exit_code(first.code));
}

static int print_ok(const cli_common *common, const char *path, const graph_model *model)
{
    struct counts counts = { 0 };

    count_graph(model->main, &counts);
    if (common->json)
        return cli_print_json(common,
                              json_pack("{s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:o}", "model", path, "ok", 1, "nodes",
                                        (json_int_t)counts.nodes, "values", (json_int_t)counts.values, "typed",
                                        (json_int_t)counts.typed, "ranked", (json_int_t)counts.ranked, "shaped",
                                        (json_int_t)counts.shaped, "findings", findings_json(model->findings.first)),
                              CLI_OK);
    print_findings(common, model->findings.first);
    (void)printf(
        "%s: OK: %llu nodes; of %llu values %llu have a type, %llu a rank, %llu a fully fixed or named shape\n", path,
        (unsigned long long)counts.nodes, (unsigned long long)counts.values, (unsigned long long)counts.typed,
        (unsigned long long)counts.ranked, (unsigned long long)counts.shaped);
    return CLI_OK;
}

int cmd_check(int argc, char **argv)
{
    static const cli_verb verb = { "MODEL", doc_check, options_of_check, NULL };
    check_args args = { NULL };
    cli_common common;
    inlay_diag diag = INLAY_DIAG_INIT;
    model_load_options load;
    graph_model *graphs = NULL;
    uint32_t fault = 0;
    int code;

    cli_parse(&verb, CLI_SETTINGS_CHECK, argc, argv, &common, &args);
    load = session_load_options(common.options);
    load.collect = true;
    load.out_fault = &fault;
    if (cli_load_model(&common, args.model, &load, &graphs, &diag) != INLAY_OK || count_errors(graphs) > 0)
        code = print_errors(&common, args.model, graphs, fault, &diag);
    else
        code = print_ok(&common, args.model, graphs);
    graph_model_destroy(graphs);
    cli_common_deinit(&common);
    return code;
}
