/* inlay check: is the model valid? Loads, verifies, binds and infers; compiles nothing, opens no device. */
#include "cli/cli.h"
#include "cli/plugins.h"
#include "model/model.h"
#include <string.h>

static const char doc[] =
    "Says whether MODEL is valid: the file, the graph, operators and their versions, attributes, types, shapes.\v"
    "Prints OK with some numbers, or one line with what is wrong, where, and how to fix it (exit code 3).\n\n"
    "Examples:\n"
    "  inlay check model.onnx\n"
    "  inlay check model.onnx --plugin-dirs /opt/my/plugins --json\n";

static error_t parse(int key, char *arg, struct argp_state *state)
{
    return cli_parse_model(key, arg, state, state->input);
}

/* What inference found out. */
typedef struct counts {
    uint64_t nodes, values;
    uint64_t typed;  /* values with a type */
    uint64_t ranked; /* with a rank as well */
    uint64_t shaped; /* with every dimension fixed or named */
} counts;

static void count_graph(const graph *g, counts *c)
{
    for (uint32_t v = 0; v < g->value_count; v++) {
        const inlay_value_info *info = &g->values[v].info;
        bool shaped = info->rank != INLAY_RANK_UNKNOWN;

        if (info->flags & INLAY_VALUE_CONSTANT)
            continue;
        c->values++;
        c->typed += info->dtype != INLAY_UNDEFINED;
        c->ranked += shaped;
        for (uint32_t d = 0; shaped && d < info->rank; d++)
            shaped = info->dims[d].kind != INLAY_DIM_UNKNOWN;
        c->shaped += shaped;
    }
    for (uint32_t i = 0; i < g->node_count; i++) {
        c->nodes++;
        for (uint32_t b = 0; b < g->nodes[i]->body_count; b++)
            count_graph(g->nodes[i]->bodies[b].graph, c);
    }
}

static inlay_status check(const cli_common *common, const char *path, counts *out_counts, inlay_diag *diag)
{
    graph_model *model = NULL;
    plugin_set *plugins = NULL;
    inlay_status status;

    INLAY_TRY(model_load_path(path, NULL, &model, diag));
    (void)cli_progress(NULL, 0.3, "binding operators");
    INLAY_TRY(cli_plugins(common, &plugins, diag));
    INLAY_TRY(graph_inline_functions(model, diag));
    INLAY_TRY(graph_bind(model, plugin_set_operators(plugins), diag));
    (void)cli_progress(NULL, 0.6, "inferring shapes");
    INLAY_TRY(graph_infer(model, diag));
    *out_counts = (counts){ 0 };
    count_graph(model->main, out_counts);
done:
    cli_progress_clear();
    graph_model_destroy(model);
    plugin_set_destroy(plugins);
    return status;
}

int cmd_check(int argc, char **argv)
{
    static const struct argp argp = { NULL, parse, "MODEL", doc, NULL, NULL, NULL };
    const char *model = NULL;
    cli_common common;
    inlay_diag diag = INLAY_DIAG_INIT;
    counts c;
    int code = CLI_OK;

    cli_parse(&argp, true, argc, argv, &common, &model);
    if (check(&common, model, &c, &diag) != INLAY_OK)
        code = cli_fail(&common, &diag);
    else if (common.json)
        code =
            cli_print_json(&common,
                           json_pack("{s:s, s:b, s:I, s:I, s:I, s:I, s:I}", "model", model, "ok", 1, "nodes",
                                     (json_int_t)c.nodes, "values", (json_int_t)c.values, "typed", (json_int_t)c.typed,
                                     "ranked", (json_int_t)c.ranked, "shaped", (json_int_t)c.shaped),
                           CLI_OK);
    else
        (void)printf("%s: OK: %llu nodes; of %llu values %llu have a type, %llu a rank, %llu a shape of fixed or named "
                     "sizes\n",
                     model, (unsigned long long)c.nodes, (unsigned long long)c.values, (unsigned long long)c.typed,
                     (unsigned long long)c.ranked, (unsigned long long)c.shaped);
    cli_common_deinit(&common);
    return code;
}
