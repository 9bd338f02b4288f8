/* inlay explain: shows which provider runs which nodes, and why. The library writes the text. */
#include "base/output.h"
#include "cli/cache_file.h"
#include "cli/cli.h"
#include "cli/explain_errors.h"
#include "cli/screen.h"
#include "cli/inputs.h"
#include "cli/measured.h"
#include "cli/on_kind.h"
#include "config/options.h"
#include "data/scratch.h"
#include "explain/explain.h"
#include "partition/cost/cost_profile.h"
#include "report/page.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char doc_explain[] =
    "Shows which provider runs which part of MODEL, and why: the answers of all providers, and predicted or, with "
    "--measure, measured times.\v"
    "Examples:\n"
    "  inlay explain model.onnx --providers openblas,reference --dim batch=1 --json\n"
    "  inlay explain model.onnx --if fleet.cache\n"
    "  inlay explain model.onnx --on zen4 --intra-threads 8\n"
    "  inlay explain model.onnx --node '/layer1/*'     or --node op:Conv\n"
    "  inlay explain model.onnx --what-if op:MatMul=reference\n"
    "  inlay explain model.onnx --errors --data samples/ --save model.errors\n\n"
    "A RULE is PATTERN=PROVIDER (these nodes run there), PATTERN!=PROVIDER (these nodes do not run there), -PROVIDER "
    "(no node runs there), policy=cost, policy=priority, objective=latency, objective=energy, objective=memory or "
    "threads=N. A PATTERN is a glob that matches names of nodes, "
    "or op:GLOB for their operators.";

typedef struct explain_args {
    struct feed feed;
    const char *model;
    bool all, measure, kernels, objectives, scaling, errors;
    double seconds;
    explain_errors_args reduced; /* of --errors */
    const char *node, *html, *from, *elsewhere, *kind;
    const char **what_ifs; /* [what_if_count] owned */
    uint32_t what_if_count;
} explain_args;

static error_t add_what_if(const cli_option *option, void *field, char *rule, struct argp_state *state)
{
    explain_args *args = field;

    (void)option;
    (void)state;
    if (!LIST_GROW(args->what_ifs, args->what_if_count))
        return ENOMEM;
    args->what_ifs[args->what_if_count++] = rule;
    return 0;
}

static const cli_option options_of_explain[] = {
    { "all", NULL, "Show everything: every region, refused node and copy", CLI_SET(explain_args, all) },
    { "kernels", NULL,
      "Show the kernel of each layer, its time and the second best\v(predicted, or measured by `inlay tune`)",
      CLI_SET(explain_args, kernels) },
    { "measure", NULL,
      "Run the model and show the time of each part\vas the median of several runs; open dimensions have the sizes "
      "that the cost model assumes",
      CLI_SET(explain_args, measure) },
    { "seconds", "S", "Measure for S seconds (default: 1)", CLI_NUMBER(explain_args, seconds, 0, 1e6) },
    { "objectives", NULL,
      "Compare the assignments by latency, energy and memory\v(see --objective; energy requires --power-watts)",
      CLI_SET(explain_args, objectives) },
    { "scaling", NULL,
      "Predict the time on 1 to 16 threads\v(with the waiting, the barriers and the longest chain of nodes)",
      CLI_SET(explain_args, scaling) },
    { "node", "PATTERN", "Show each provider's answer for these nodes\vand why it was not chosen",
      CLI_TEXT(explain_args, node) },
    { "html", "FILE", "Write an HTML page with the graph to FILE\v(- is standard output)",
      CLI_WRITE(explain_args, html) },
    { "from", "FILE",
      "With --html: show the JSON in FILE instead of MODEL\v(written by --json or by a program that calls the "
      "library)",
      CLI_READ(explain_args, from) },
    { "if", "FILE",
      "Explain as on another machine: the plan and times\v(FILE: inlay cache export wrote it there, after inlay tune "
      "MODEL with the same sizes and build of inlay)",
      CLI_READ(explain_args, elsewhere) },
    { "on", "KIND",
      "Predict for another kind of CPU\v(from the speeds that a table of kinds has, for instance zen4; an unknown name "
      "lists all)",
      CLI_TEXT(explain_args, kind) },
    { "errors", NULL,
      "Show what each node saves and changes in 8 bits\v(MatMul, Gemm and Conv; int8: weights and activations; "
      "weights8: weights alone, not of Conv), measured on samples with one node after the other; with --max-error also "
      "the nodes that a session with this option and --error-table chooses",
      CLI_SET(explain_args, errors) },
    { "data", "DIR|FILE", "With --errors: samples, as for inlay compare\v(default: 8 random ones)",
      CLI_TEXT(explain_args, reduced.data) },
    { "samples", "N", "With --errors: use at most N samples (default: all)",
      CLI_NUMBER(explain_args, reduced.samples, 1, 1e6) },
    { "save", "FILE", "With --errors: write them to FILE, for --error-table\v(- is standard output)",
      CLI_WRITE(explain_args, reduced.save) },
    { "what-if", "RULE", "Show the effect of a rule\v(several rules are applied together)", CLI_CALL_ALL(add_what_if) },
    FEED_OPTIONS(explain_args, feed),
    CLI_MODEL(explain_args, model),
    { 0 },
};

static bool finish(void *user, struct argp_state *state)
{
    const explain_args *args = user;

    if (args->html != NULL && args->node != NULL)
        cli_refuse(state, CLI_USAGE, "--html shows the whole session: omit --node");
    if (args->elsewhere != NULL && args->measure)
        cli_refuse(state, CLI_USAGE, "--if explains another machine, --measure runs the model on this one");
    if (args->kind != NULL && (args->elsewhere != NULL || args->measure || args->errors))
        cli_refuse(state, CLI_USAGE, "--on predicts for another machine: omit --if, --measure and --errors");
    if (!args->errors && (args->reduced.data != NULL || args->reduced.samples > 0 || args->reduced.save != NULL))
        cli_refuse(state, CLI_USAGE, "--data, --samples and --save require --errors");
    if (args->errors && (args->html != NULL || args->node != NULL || args->elsewhere != NULL || args->from != NULL ||
                         args->measure || args->what_if_count > 0))
        cli_refuse(state, CLI_USAGE,
                   "--errors shows only errors and times of nodes: omit --html, --node, --if, --from, --measure "
                   "and --what-if");
    if (args->from == NULL)
        return true;
    if (args->html == NULL || args->model != NULL)
        cli_refuse(state, CLI_USAGE, "--from requires --html, and no MODEL");
    return false;
}

/* Writes the page to a file; after a failure no partial file remains. */
static inlay_status write_page(const char *path, const inlay_session *session, inlay_explain_options options,
                               inlay_diag *diag)
{
    output_file file;
    inlay_status status = output_open_stream(&file, path, diag);

    if (status != INLAY_OK)
        return status;
    options.format = "json";
    options.flags |= INLAY_EXPLAIN_KERNELS | INLAY_EXPLAIN_OBJECTIVES;
    page_script_begin(file.to, &page_explain);
    status = inlay_session_explain(session, &options, page_script_json, file.to, diag);
    page_script_end(file.to, &page_explain);
    if (status != INLAY_OK) {
        output_drop(&file);
        return status;
    }
    return output_commit(&file, NULL, diag);
}

/* Has some node an offer whose time was measured or calibrated? */
static bool has_times(const json_t *explanation)
{
    const json_t *node, *offer;
    size_t i, k;

    json_array_foreach(json_object_get(json_object_get(explanation, "main"), "nodes"), i, node) {
        json_array_foreach(json_object_get(node, "offers"), k, offer) {
            const char *price = json_string_value(json_object_get(offer, "price"));

            if (price != NULL && (strcmp(price, "measured") == 0 || strcmp(price, "calibrated") == 0))
                return true;
        }
    }
    return false;
}

/* Opens the session with the measurements of the other machine, as if it were there. */
static inlay_status open_elsewhere(const explain_args *args, cli_common *common, inlay_session **out_session,
                                   inlay_diag *diag)
{
    const uint32_t threads = (uint32_t)options_int(common->options, OPTION_intra_threads);
    cache_file_machine machine;
    json_t *explanation = NULL;
    char folder[PATH_MAX];
    inlay_status status;

    INLAY_TRY(cache_file_costs(args->elsewhere, folder, &machine, diag));
    profile_assume(machine.cpu, threads > 0 ? threads : machine.threads);
    INLAY_TRY(inlay_options_set(common->options, "cache_dir", folder, diag));
    INLAY_TRY(inlay_options_set(common->options, "cache_max_bytes", "0", diag)); /* the folder is only read */
    INLAY_TRY(inlay_options_set(common->options, "profile", "auto", diag));
    INLAY_TRY(cli_open(common, args->model, out_session, diag));
    INLAY_TRY(measured_explain(*out_session, NULL, &explanation, diag));
    if (!has_times(explanation))
        status = inlay_fail(diag, INLAY_NOT_FOUND,
                            "%.150s has no times of %.150s at these sizes, for %u threads and this build of inlay: run "
                            "`inlay tune` with the model there, then `inlay cache export FILE`",
                            args->elsewhere, args->model, profile_threads(threads));
done:
    json_decref(explanation);
    if (folder[0] != '\0')
        scratch_remove_folder(folder);
    return status;
}

static inlay_status explain(const explain_args *args, cli_common *common, inlay_diag *diag)
{
    inlay_explain_options options = { .struct_size = sizeof options, .format = common->json ? "json" : "text" };
    const explain_sink screen = screen_sink();
    inlay_session *session = NULL;
    inlay_context *context = NULL;
    inlay_status status;

    if (args->from != NULL) {
        cli_reads_none(common, "--from");
        return page_script_convert(&page_explain, args->from, args->html, diag);
    }
    options.columns = (uint32_t)screen.columns; /* 0: the usual width */
    options.node = args->node;
    options.what_ifs = args->what_ifs;
    options.what_if_count = args->what_if_count;
    options.flags = (args->all ? INLAY_EXPLAIN_ALL : 0u) | (args->kernels ? INLAY_EXPLAIN_KERNELS : 0u) |
                    (args->objectives ? INLAY_EXPLAIN_OBJECTIVES : 0u) | (args->scaling ? INLAY_EXPLAIN_SCALING : 0u) |
                    (screen.bold ? EXPLAIN_BOLD : 0u);
    if (args->elsewhere != NULL)
        INLAY_TRY(open_elsewhere(args, common, &session, diag));
    else if (args->kind != NULL)
        INLAY_TRY(on_kind_open(args->kind, common, args->model, &session, diag));
    else
        INLAY_TRY(cli_open(common, args->model, &session, diag));
    if (args->measure) {
        INLAY_TRY(inlay_context_create(session, &context, diag));
        INLAY_TRY(measured_runs(&args->feed, args->seconds, common, session, context, diag));
        options.measured = context;
    }
    if (args->html != NULL)
        INLAY_TRY(write_page(args->html, session, options, diag));
    if (args->html == NULL || common->json)
        INLAY_TRY(inlay_session_explain(session, &options, screen.write, screen.user, diag));
    if (common->json)
        (void)putchar('\n');
done:
    inlay_context_destroy(context);
    inlay_session_destroy(session);
    return status;
}

int cmd_explain(int argc, char **argv)
{
    static const cli_verb verb = { "MODEL", doc_explain, options_of_explain, finish };
    explain_args args = { .seconds = 1, .feed.costed_sizes = true };
    inlay_diag diag = INLAY_DIAG_INIT;
    cli_common common;
    int code = CLI_OK;

    cli_parse(&verb, CLI_SETTINGS_SESSION, argc, argv, &common, &args);
    args.reduced.model = args.model;
    if ((args.errors ? explain_errors(&args.reduced, &common, &diag) : explain(&args, &common, &diag)) != INLAY_OK)
        code = cli_fail(&common, &diag);
    free(args.what_ifs);
    feed_deinit(&args.feed);
    cli_common_deinit(&common);
    return code;
}
