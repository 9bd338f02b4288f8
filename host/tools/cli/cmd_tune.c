/* inlay tune: measures the providers' offers for one model. */
#include "cli/cells.h"
#include "cli/cli.h"
#include "cli/inputs.h"
#include "cli/tune_machine.h"

static const char doc_tune[] =
    "Times the kernels of every plausible offer for MODEL, at the sizes of the inputs, and saves the results in the "
    "cache folder. Later sessions of this model, or of others with the same layers, use them to choose providers. If "
    "they lead to another assignment, the model is run with both, and the faster one is used. Then the model is run "
    "without each provider in use, and with each one alone. Where that is faster, later sessions of the model, with "
    "the same sizes, providers and threads, leave the others out.\v"
    "Equal layers are timed once. Ctrl-C, or the end of the time budget, keeps the measurements so far. Whole runs are "
    "timed after the kernels, for at most half of the budget more. Sizes that neither --input nor --dim gives are "
    "assumed; see --dim NAME~=N.\n\n"
    "With --machine there is no MODEL: operators of every kind are timed on every provider, and copies to and from "
    "every "
    "device, for about half a minute for each provider and number of threads. costs/machine.json in the cache folder "
    "then scales the providers' predictions in later sessions, on this machine and with these builds of the plugins. "
    "Times of a model's own kernels are more accurate. Ctrl-C leaves the file unchanged.\n\n"
    "Examples:\n"
    "  inlay tune model.onnx\n"
    "  inlay tune model.onnx --dim batch=8 --budget-s 20\n"
    "  inlay tune model.onnx --inputs data/ --json\n"
    "  inlay tune --machine --threads 1,4 --providers reference\n";

enum { SHOWN_CHANGES = 20, SHOWN_RUNS = 32 };

typedef struct tune_args {
    struct feed feed;
    const char *model; /* NULL with --machine */
    inlay_tune_options how;
    tune_machine_args machine;
} tune_args;

/* The changes of providers and the compared runs, for printing. */
struct changes {
    bool all; /* not only those that a terminal shows */
    struct table list, runs;
    uint32_t hidden;   /* changes that are not in the list */
    char verdict[512]; /* the sentence about the providers that are left out; "" = none */
};

static const cli_option options_of_tune[] = {
    FEED_OPTIONS(tune_args, feed),
    { "runs", "N", "Run each kernel at most N times (default: chosen from the time budget)",
      CLI_NUMBER(tune_args, how.runs, 1, 200) },
    { "budget-s", "S",
      "Time kernels for S seconds, the most expensive first and at least that one, and whole runs for S/2 (default: "
      "60; with --machine 60 for each provider and number of threads, or 15 with --quick)",
      CLI_NUMBER(tune_args, how.budget_s, 0.001, 1e6) },
    { "machine", NULL, "Measure this machine instead of a model", CLI_SET(tune_args, machine.wanted) },
    { "threads", "LIST", "With --machine: measure with these numbers of threads, comma-separated (default: 1 and all)",
      CLI_CALL(tune_take_threads, tune_args, machine) },
    { "record", NULL,
      "With --machine: only print this CPU's row for inlay's table of kinds\v(host/runtime/base/core_kind.def)",
      CLI_SET(tune_args, machine.record) },
    { "quick", NULL, "With --machine: fewer runs of each kernel; less accurate on a busy machine",
      CLI_SET(tune_args, machine.options.quick) },
    CLI_MODEL(tune_args, model),
    { 0 },
};

static bool check_machine(void *args_, struct argp_state *state)
{
    tune_args *args = args_;
    const bool has_own = args->machine.options.thread_count > 0 || args->machine.options.quick != 0;

    if (!args->machine.wanted && has_own)
        cli_refuse(state, CLI_USAGE, "%s needs --machine", args->machine.options.quick != 0 ? "--quick" : "--threads");
    if (args->machine.record && (has_own || !args->machine.wanted))
        cli_refuse(state, CLI_USAGE, "--record needs --machine, without --threads and --quick");
    if (args->machine.wanted && args->model != NULL)
        cli_refuse(state, CLI_USAGE, "--machine measures no model: omit %s", args->model);
    if (args->machine.wanted && args->how.runs > 0)
        cli_refuse(state, CLI_USAGE, "--machine chooses the number of runs itself: omit --runs");
    if (args->machine.wanted && (args->feed.spec_count > 0 || args->feed.dir != NULL))
        cli_refuse(state, CLI_USAGE, "--machine reads no inputs: omit --input and --inputs");
    args->machine.options.budget_s = args->how.budget_s;
    return !args->machine.wanted;
}

enum { NODE, OP, FROM, TO, FROM_NS, TO_NS, CHANGE_COLUMNS };
static const table_column change_columns[CHANGE_COLUMNS] = {
    [NODE] = { "node", "node", TABLE_NAME },           [OP] = { "operator", "op_type", TABLE_NAME },
    [FROM] = { "from", "from", TABLE_NAME },           [TO] = { "to", "to", TABLE_NAME },
    [FROM_NS] = { "before", "from_ns", TABLE_NUMBER }, [TO_NS] = { "now", "to_ns", TABLE_NUMBER },
};

static void note_change(void *user, const inlay_tune_change *change)
{
    struct changes *changes = user;
    struct table *table = &changes->list;
    char text[FORMATTED_BYTES];

    if (!changes->all && table->row_count == SHOWN_CHANGES) {
        changes->hidden++;
        return;
    }
    table_row(table);
    table_text(table, NODE, change->node);
    table_text(table, OP, change->op_type);
    table_text(table, FROM, change->from);
    table_text(table, TO, change->to);
    table_real(table, FROM_NS, change->from_ns, "%s", format_ns(change->from_ns, text));
    table_real(table, TO_NS, change->to_ns, "%s", format_ns(change->to_ns, text));
}

enum { WHAT, LEFT_OUT, ALONE, RUN_MS, ASSIGNED_MS, ROUNDS, CHOSEN, NOTE, RUN_COLUMNS };
static const table_column run_columns[RUN_COLUMNS] = {
    [WHAT] = { "providers", NULL, TABLE_NAME },
    [LEFT_OUT] = { NULL, "left_out", TABLE_NAME },
    [ALONE] = { NULL, "alone", TABLE_NAME },
    [RUN_MS] = { "a run", "run_ms", TABLE_NUMBER },
    [ASSIGNED_MS] = { "as assigned", "assigned_ms", TABLE_NUMBER },
    [ROUNDS] = { NULL, "rounds", TABLE_NUMBER },
    [CHOSEN] = { NULL, "chosen", TABLE_NAME },
    [NOTE] = { "", NULL, TABLE_TEXT },
};

static void note_run(void *user, const inlay_tune_run *run)
{
    struct changes *changes = user;
    struct table *table = &changes->runs;

    if (!changes->all && table->row_count == SHOWN_RUNS)
        return;
    table_row(table);
    table_say(table, WHAT, "%s %s", run->alone != NULL ? "with only" : "without",
              run->alone != NULL ? run->alone : run->left_out);
    table_text(table, LEFT_OUT, run->left_out);
    if (run->alone != NULL)
        table_text(table, ALONE, run->alone);
    else
        table_null(table, ALONE);
    table_real(table, RUN_MS, run->ns * 1e-6, "%.3f ms", run->ns * 1e-6);
    table_real(table, ASSIGNED_MS, run->assigned_ns * 1e-6, "%.3f ms", run->assigned_ns * 1e-6);
    table_whole(table, ROUNDS, run->rounds);
    table_truth(table, CHOSEN, run->chosen, "");
    if (run->rounds < 3 && run->ns < run->assigned_ns)
        table_say(table, NOTE, "too few runs to decide");
    if (run->chosen)
        (void)snprintf(changes->verdict, sizeof changes->verdict,
                       "later sessions of this model do not use %.200s: a run takes %.3f ms without, %.3f ms with",
                       run->left_out, run->ns * 1e-6, run->assigned_ns * 1e-6);
}

/* Prints which measurements were made, and which were left out. */
static void print_timed(const tune_args *args, const inlay_tune_result *result, const struct changes *changes)
{
    const uint32_t runs = changes->runs.row_count + (result->run_before_ns > 0 ? 2 : 0);
    const uint32_t rest = result->kernel_count - result->measured_count - result->known_count - result->failed_count;

    (void)printf("timed            %u of %u kernels, of %u offers, and %u assignment%s in whole runs, in %.1f s\n",
                 result->measured_count, result->kernel_count, result->offer_count, runs, runs == 1 ? "" : "s",
                 result->seconds);
    (void)printf("not timed        %u kernels known before, %u that could not be run, %u offers much too expensive\n",
                 result->known_count, result->failed_count, result->pruned_count);
    if (result->stopped && rest > 0 && !cli_cancelled())
        (void)printf("                 %u kernels beyond --budget-s %g\n", rest,
                     args->how.budget_s > 0 ? args->how.budget_s : 60.0);
    else if (result->stopped && rest > 0)
        (void)printf("                 %u kernels after Ctrl-C\n", rest);
}

static int print_result(const tune_args *args, const cli_common *common, const inlay_tune_result *result,
                        struct changes *changes)
{
    const int code = cli_cancelled() ? CLI_CANCELLED : CLI_OK; /* after Ctrl-C, the results so far are printed */

    if (common->json)
        return cli_print_json(
            common,
            json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:f, s:f, s:f, s:f, s:f, s:f, s:b, s:i, s:s, s:o, s:o}",
                      "model", cli_text(args->model), "offers", (int)result->offer_count, "kernels",
                      (int)result->kernel_count, "known", (int)result->known_count, "measured",
                      (int)result->measured_count, "failed", (int)result->failed_count, "pruned",
                      (int)result->pruned_count, "stopped", (int)result->stopped, "before_ms", result->before_ns * 1e-6,
                      "measured_ms", result->measured_ns * 1e-6, "after_ms", result->after_ns * 1e-6, "seconds",
                      result->seconds, "run_before_ms", result->run_before_ns * 1e-6, "run_after_ms",
                      result->run_after_ns * 1e-6, "dropped", (int)result->dropped, "left_out",
                      (int)result->left_out_count, "verdict", changes->verdict, "runs", cells_json(&changes->runs),
                      "changes", cells_json(&changes->list)),
            code);
    print_timed(args, result, changes);
    if (result->measured_count == 0 && result->known_count == 0) {
        (void)printf("expected         %10.3f ms; nothing was measured\n", result->before_ns * 1e-6);
        return code;
    }
    (void)printf("expected before  %10.3f ms\nexpected now     %10.3f ms, from measurements\nbest assignment  "
                 "%10.3f ms, %u node%s change provider\n",
                 result->before_ns * 1e-6, result->measured_ns * 1e-6, result->after_ns * 1e-6, result->changed_count,
                 result->changed_count == 1 ? "" : "s");
    if (result->run_before_ns > 0)
        (void)printf("measured run     %10.3f ms with the current assignment, %.3f ms with the best one%s\n",
                     result->run_before_ns * 1e-6, result->run_after_ns * 1e-6,
                     result->dropped ? ": the best one is not used" : "");
    cells_print(&changes->runs);
    if (changes->verdict[0] != '\0')
        (void)printf("%s\n", changes->verdict);
    cells_print(&changes->list);
    if (changes->hidden > 0)
        (void)printf("  and %u more; --json lists all\n", changes->hidden);
    return code;
}

static inlay_status tune(tune_args *args, cli_common *common, inlay_tune_result *result, struct changes *changes,
                         inlay_diag *diag)
{
    inlay_session *session = NULL;
    inlay_value **inputs = NULL;
    inlay_status status;

    INLAY_TRY(cli_open(common, args->model, &session, diag));
    args->feed.trial = true;
    INLAY_TRY(feed_make(&args->feed, cli_caller(common), session, &inputs, diag));
    args->how.inputs = inputs;
    args->how.input_count = inlay_session_input_count(session);
    args->how.progress = cli_progress;
    args->how.change = note_change;
    args->how.change_user = changes;
    args->how.run = note_run;
    args->how.run_user = changes;
    INLAY_TRY(inlay_tune(session, &args->how, result, diag));
done:
    cli_progress_clear();
    feed_release(inputs, session);
    inlay_session_destroy(session);
    return status;
}

int cmd_tune(int argc, char **argv)
{
    static const cli_verb verb = { "MODEL", doc_tune, options_of_tune, check_machine };
    tune_args args = { .how = { .struct_size = sizeof args.how } };
    inlay_tune_result result = { .struct_size = sizeof result };
    struct changes changes = {
        .list = { .columns = change_columns, .column_count = CHANGE_COLUMNS, .indent = 2 },
        .runs = { .columns = run_columns, .column_count = RUN_COLUMNS, .indent = 2 },
    };
    cli_common common;
    inlay_diag diag = INLAY_DIAG_INIT;
    int code;

    cli_parse(&verb, CLI_SETTINGS_SESSION, argc, argv, &common, &args);
    changes.all = common.json;
    if (args.machine.wanted)
        code = tune_machine(&args.machine, &common);
    else
        code = tune(&args, &common, &result, &changes, &diag) == INLAY_OK
                   ? print_result(&args, &common, &result, &changes)
                   : cli_fail(&common, &diag);
    table_deinit(&changes.list);
    table_deinit(&changes.runs);
    feed_deinit(&args.feed);
    cli_common_deinit(&common);
    return code;
}
