/* inlay optimize: runs the optimiser's passes on a file and reports each rewrite. */
#include "cli/cells.h"
#include "cli/cli.h"
#include "quantize/convert.h"
#include "modelkit/opset.h"
#include <stdio.h>
#include <stdlib.h>

static const char doc_optimize[] =
    "Runs the optimiser's passes on MODEL and writes the result.\v"
    "Without -o nothing is written, which is useful with --explain. The result contains no operator of a later opset "
    "than MODEL imports. Pass skip_layer_norm adds operators of com.microsoft, which ONNX Runtime supports; with "
    "--no-pass skip_layer_norm every runtime that can load MODEL can load the result. --opset first converts MODEL to "
    "an earlier or later opset from 7 to 28: inputs become attributes or vice versa, and operators that the opset "
    "lacks are expanded into several others. A node that cannot be converted is an error. --level 0 only converts.\n\n"
    "Examples:\n"
    "  inlay optimize model.onnx -o small.onnx\n"
    "  inlay optimize model.onnx -o small.onnx --level 1 --no-pass conv_scale\n"
    "  inlay optimize model.onnx -o old.onnx --opset 9\n"
    "  inlay optimize model.onnx --explain\n"
    "  inlay optimize --list\n";

typedef struct optimize_args {
    cli_files files;
    uint32_t opset;
    bool explain, list, no_metadata;
    bool json;
    json_t *events;
} optimize_args;

static error_t take_opset(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    (void)option;
    *(uint32_t *)field = (uint32_t)cli_number(state, "--opset", arg, OPSET_LOWEST, (double)op_domain_newest("ai.onnx"));
    return 0;
}

static const cli_option options_of_optimize[] = {
    { "output", "FILE", "Write the optimised model to FILE, which may be MODEL; - is standard output",
      CLI_CALL(cli_take_version, optimize_args, files.output), .key = 'o' },
    CLI_EXTERNAL_OPTION(optimize_args, files.external),
    { "opset", "N", "Convert to opset N of ai.onnx, 7 to 28 (default: that of MODEL)",
      CLI_CALL(take_opset, optimize_args, opset) },
    { "no-metadata", NULL, "Drop the metadata of nodes, such as the Python tracebacks of PyTorch's exporter",
      CLI_SET(optimize_args, no_metadata) },
    { "explain", NULL, "Report the rewrites of each pass, node by node, the cost saved, and near misses",
      CLI_SET(optimize_args, explain) },
    { "list", NULL, "List the passes and their levels, in the order in which they run", CLI_SET(optimize_args, list) },
    CLI_MODEL(optimize_args, files.model),
    { 0 },
};

static bool finish(void *args, struct argp_state *state)
{
    (void)state;
    return !((const optimize_args *)args)->list;
}

static int list_passes(const cli_common *common)
{
    enum { LEVEL, PASS, COLUMNS };
    static const table_column columns[COLUMNS] = { { "", "level", TABLE_NUMBER }, { "", "pass", TABLE_NAME } };
    struct table table = { .columns = columns, .column_count = COLUMNS };
    const char *name;
    uint32_t level;

    for (uint32_t i = 0; (name = inlay_optimize_pass(i, &level)) != NULL; i++) {
        table_row(&table);
        table_text(&table, PASS, name);
        table_whole(&table, LEVEL, level);
    }
    if (common->json)
        return cli_print_json(common, cells_json(&table), CLI_OK);
    cells_print(&table);
    return CLI_OK;
}

static void print_event(const optimize_args *args, const inlay_optimize_event *event)
{
    if (event->node != NULL) {
        (void)printf("  %-22s %s: %s\n", event->rewrite > 0 ? event->pass : "near miss", event->node, event->text);
        return;
    }
    (void)printf("%-24s %u -> %u nodes", event->pass, event->nodes_before, event->nodes_after);
    if (args->explain && event->cost_before_ns > 0)
        (void)printf(", expected %.1f -> %.1f us", event->cost_before_ns / 1e3, event->cost_after_ns / 1e3);
    (void)putchar('\n');
}

static void on_event(void *user, const inlay_optimize_event *event)
{
    optimize_args *args = user;

    if (!args->json) {
        cli_progress_clear();
        print_event(args, event);
    } else if (event->node != NULL) {
        (void)json_array_append_new(args->events, json_pack("{s:s, s:s, s:s, s:s, s:b}", "pass", event->pass, "graph",
                                                            event->graph, "node", event->node, "text", event->text,
                                                            "near_miss", event->rewrite == 0));
    } else {
        (void)json_array_append_new(
            args->events, json_pack("{s:s, s:i, s:i, s:f, s:f}", "pass", event->pass, "nodes_before",
                                    (int)event->nodes_before, "nodes_after", (int)event->nodes_after, "cost_before_ns",
                                    event->cost_before_ns, "cost_after_ns", event->cost_after_ns));
    }
}

/* Optimises the model. With --opset, converts it first, in a temporary folder next to the output. */
static inlay_status optimize(const optimize_args *args, const cli_common *common, inlay_optimize_args *work,
                             inlay_diag *diag)
{
    const char *folder = getenv("TMPDIR");
    char converted[PATH_MAX], sibling[PATH_MAX];
    struct scratch scratch = { .dir = "" };
    inlay_options *remaining = NULL;
    inlay_status status = INLAY_OK;

    if (args->no_metadata)
        INLAY_TRY(inlay_options_set_from(common->options, "node_metadata", "0", "--no-metadata", diag));
    if (args->opset == 0)
        return inlay_optimize(args->files.model, common->options, work, diag);
    (void)snprintf(sibling, sizeof sibling, "%s/model.onnx", folder != NULL && folder[0] != '\0' ? folder : P_tmpdir);
    INLAY_TRY(scratch_make(args->files.output != NULL ? args->files.output : sibling, NULL, &scratch, diag));
    INLAY_TRY(convert_file(args->files.model, common->options, args->opset, &scratch, converted, diag));
    INLAY_TRY(convert_options(common->options, &remaining, diag));
    status = inlay_optimize(converted, remaining, work, diag);
done:
    inlay_options_destroy(remaining);
    scratch_remove(&scratch);
    return status;
}

int cmd_optimize(int argc, char **argv)
{
    static const cli_verb verb = { "MODEL", doc_optimize, options_of_optimize, finish };
    optimize_args args = { 0 };
    cli_common common;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_optimize_args work = { .struct_size = sizeof work };
    int code = CLI_OK;

    cli_parse(&verb, CLI_SETTINGS_SESSION, argc, argv, &common, &args);
    if (args.list) {
        cli_reads_none(&common, "--list");
        code = list_passes(&common);
        goto done;
    }
    args.json = common.json;
    args.events = common.json ? json_array() : NULL;
    work.out_path = args.files.output;
    work.external_file = args.files.external;
    work.event = args.explain ? on_event : NULL;
    work.user = &args;
    work.with_costs = args.explain;
    cli_attach(&common);
    if (optimize(&args, &common, &work, &diag) != INLAY_OK) {
        cli_progress_clear();
        code = cli_fail(&common, &diag);
    } else if (common.json) {
        code = cli_print_json(&common,
                              json_pack("{s:i, s:i, s:s?, s:O}", "nodes_before", (int)work.nodes_before, "nodes_after",
                                        (int)work.nodes_after, "output", cli_text(args.files.output), "events",
                                        args.events),
                              CLI_OK);
    } else {
        cli_progress_clear();
        (void)printf("%u -> %u nodes", work.nodes_before, work.nodes_after);
        if (args.opset > 0)
            (void)printf(", opset %u", (unsigned)args.opset);
        if (args.files.output != NULL)
            (void)printf(", written to %s", args.files.output);
        (void)putchar('\n');
    }
    json_decref(args.events);
done:
    cli_common_deinit(&common);
    return code;
}
