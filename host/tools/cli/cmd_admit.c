/* inlay admit: checks a plugin, measures it on models, and writes where it may run: the nodes of which it is right, and
 * for which it is faster than what is there. */
#include "base/among.h"
#include "base/arena.h"
#include "base/output.h"
#include "check/check.h"
#include "cli/cells.h"
#include "cli/cli.h"
#include "cli/inputs.h"
#include "cli/outputs.h"
#include "config/options.h"
#include "data/scratch.h"
#include "partition/certificate/certificate.h"
#include "plugin/plugin.h"
#include "session/search.h"
#include "session/session.h"
#include "timing/timing.h"
#include <stdlib.h>
#include <string.h>

static const char doc_admit[] =
    "Checks the plugin FILE, measures it on each --model, and writes the certificate -o: option trust with this file "
    "makes sessions use the plugin only for the nodes for which it was right and faster.\v"
    "1. `inlay plugin-check FILE` with the nodes of the models, in separate processes. If one line is FAIL, the plugin "
    "is not admitted.\n"
    "2. `inlay tune` of each model times its kernels and those of the other providers, at the sizes of the model; the "
    "times stay in the cache folder.\n"
    "3. Runs of the model with the plugin and without it take turns. Its nodes are admitted if it makes the runs "
    "faster by "
    "2 % or more; a node that also occurs in a model that is not faster is not admitted.\n\n"
    "The exit code is 1 if nothing is admitted; then no file is written. The digests of the plugin and of the kernels "
    "are "
    "in the certificate: it applies to this build only. The admitted kernels run one node each; offers for groups of "
    "nodes are skipped. In steps 2 and 3 the plugin runs in this process.\n\n"
    "Examples:\n"
    "  inlay admit build/fast_gelu.so --model bert.onnx -o fast_gelu.trust\n"
    "  inlay run bert.onnx --plugin-dirs build/fast_gelu.so --trust fast_gelu.trust\n";

/* Runs with the plugin have to be faster by this factor. */
#define GAIN 0.98
#define CHECK_SECONDS 60

typedef struct admit_args {
    const char *file, *output;
    const char *models[CHECK_MODELS]; /* [model_count] */
    uint32_t model_count;
    double budget_s, seconds;
    bool quick;
} admit_args;

static error_t take_model(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    admit_args *args = field;

    (void)option;
    if (args->model_count == CHECK_MODELS)
        cli_refuse(state, CLI_USAGE, "--model %s: at most %d times", arg, CHECK_MODELS);
    args->models[args->model_count++] = arg;
    return 0;
}

static error_t take_plugin(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    const char **file = field;

    (void)option;
    if (*file != NULL)
        cli_refuse(state, CLI_USAGE, "unexpected argument '%s': only one plugin can be admitted", arg);
    *file = arg;
    return 0;
}

static bool finish(void *user, struct argp_state *state)
{
    const admit_args *args = user;

    if (args->file != NULL && args->model_count == 0)
        cli_refuse(state, CLI_USAGE, "no model given: name it with --model");
    return true;
}

static const cli_option options_of_admit[] = {
    { "output", "FILE", "The certificate to make", CLI_WRITE(admit_args, output), .key = 'o',
      .need = "no certificate given: name it with -o" },
    { "model", "FILE", "A model that is to become faster (repeatable)", CLI_CALL_ALL(take_model) },
    { "quick", NULL, "Check fewer shapes, types and versions", CLI_SET(admit_args, quick) },
    { "budget-s", "S", "Time the kernels of a model for S seconds (default: 20)",
      CLI_NUMBER(admit_args, budget_s, 0.001, 1e6) },
    { "seconds", "S", "Compare runs of a model for S seconds (default: 3)", CLI_NUMBER(admit_args, seconds, 0, 1e6) },
    { .need = "no plugin file given", CLI_CALL(take_plugin, admit_args, file) },
    { 0 },
};

/* A node that the plugin runs. */
struct won_node {
    char exact[TRAITS_EXACT_BYTES];
    bool is_slower; /* in a model that is not faster with it */
};

/* A model that was measured. */
struct measured_model {
    uint32_t nodes, won_count;
    double without_ms, with_ms; /* medians; 0: the plugin runs no node */
    bool is_admitted;
};

struct admission {
    const admit_args *args;
    cli_common *common;
    const char *options[CHECK_OPTIONS]; /* [option_count] PROVIDER.NAME=VALUE, of the plugin's providers */
    uint32_t option_count;
    char dirs[2 * PATH_MAX], trust[PATH_MAX + SCRATCH_BYTES + 32]; /* the options of sessions with the plugin */
    char *own_dirs, *own_trust;                                    /* and of those without */
    const char *certificate;
    const certificate_file *checked;
    struct measured_model models[CHECK_MODELS];
    struct won_node *won; /* [won_count] */
    uint32_t won_count;
    uint32_t failed_count;
    char first_failure[400];
    struct arena arena;
};

static void note_line(void *user, const check_line *line)
{
    struct admission *admission = user;

    if (line->result == CHECK_FAIL && admission->failed_count++ == 0)
        (void)snprintf(admission->first_failure, sizeof admission->first_failure, "%s %s: %s", line->check,
                       line->subject, line->got);
}

/* Step 1: checks the plugin, and reads its certificate. */
static inlay_status check(struct admission *admission, inlay_diag *diag)
{
    const admit_args *args = admission->args;
    check_args checks = { .file = args->file,
                          .certificate = admission->certificate,
                          .time_limit = CHECK_SECONDS,
                          .quick = args->quick,
                          .no_timing = true, /* what is slow is not admitted */
                          .compile_budget = args->quick ? 40 : 400,
                          .option_count = admission->option_count,
                          .model_count = args->model_count };
    check_summary summary = { { 0 } };
    certificate_file *checked;
    inlay_status status;

    memcpy(checks.models, args->models, sizeof checks.models);
    memcpy(checks.options, admission->options, sizeof checks.options);
    INLAY_TRY(check_plugin(&checks, cli_cancel(), note_line, admission, &summary, diag));
    if (cli_cancelled())
        status = inlay_fail(diag, INLAY_CANCELLED, "stopped");
    else if (admission->failed_count == 0)
        status = certificate_load(admission->certificate, &admission->arena, &checked, diag);
    if (status == INLAY_OK && admission->failed_count == 0)
        admission->checked = checked;
done:
    return status;
}

static inlay_status open_model(struct admission *admission, const char *model, bool has_plugin,
                               inlay_session **out_session, inlay_diag *diag)
{
    inlay_options *options = admission->common->options;
    inlay_status status;

    INLAY_TRY(options_set(options, "plugin_dirs", has_plugin ? admission->dirs : admission->own_dirs, diag));
    INLAY_TRY(options_set(options, "trust", has_plugin ? admission->trust : admission->own_trust, diag));
    status = cli_open(admission->common, model, out_session, diag);
done:
    return status;
}

/* Is the provider of the session one of the plugin? */
static bool is_candidate(const struct admission *admission, const inlay_session *session, uint32_t provider)
{
    return provider != INLAY_NONE && certificate_find(admission->checked, session->providers[provider].name) != NULL;
}

/* Notes the nodes that the session runs with the plugin. */
static inlay_status find_won(struct admission *admission, inlay_session *session, struct measured_model *model,
                             inlay_diag *diag)
{
    const uint32_t count = program_count(session->main);
    partition_job *jobs = calloc(count, sizeof *jobs);

    if (jobs == NULL)
        return no_memory(diag, "for the nodes");
    (void)program_jobs(session->main, jobs);
    for (uint32_t i = 0; i < count; i++) {
        model->nodes += jobs[i].request.graph->node_count;
        for (uint32_t r = 0; r < jobs[i].out->region_count; r++) {
            const partition_region *region = &jobs[i].out->regions[r];

            for (uint32_t k = 0; is_candidate(admission, session, region->provider) && k < region->node_count; k++) {
                struct won_node node = { .is_slower = false };

                if (!traits_exact(jobs[i].request.graph, region->nodes[k], node.exact))
                    continue; /* sizes that are open: its certificate cannot name it */
                if (!ARENA_GROW(&admission->arena, admission->won, admission->won_count)) {
                    free(jobs);
                    return no_memory(diag, "for the nodes");
                }
                admission->won[admission->won_count++] = node;
                model->won_count++;
            }
        }
    }
    free(jobs);
    return INLAY_OK;
}

static inlay_status run_once(void *subject, double *out_ms, inlay_diag *diag)
{
    const inlay_run_options options = { .struct_size = sizeof options, .cancel = cli_cancel() };

    return timing_run(subject, &options, out_ms, diag);
}

/* Step 3: the median times of runs without and with the plugin, in turn. */
static inlay_status compare_runs(const struct admission *admission, inlay_session *const sessions[2],
                                 struct measured_model *model, inlay_diag *diag)
{
    const timing_plan plan = {
        .seconds = admission->args->seconds, .least = 5, .most = 100000, .progress = cli_progress, .what = "comparing"
    };
    struct feed feed = { .trial = true };
    inlay_value **inputs = NULL;
    void *contexts[2] = { NULL, NULL };
    run_times times[2] = { { 0 }, { 0 } };
    inlay_status status;

    INLAY_TRY(feed_make(&feed, cli_caller(admission->common), sessions[0], &inputs, diag));
    for (int i = 0; i < 2; i++) {
        inlay_context *context = NULL;

        INLAY_TRY(inlay_context_create(sessions[i], &context, diag));
        contexts[i] = context;
        INLAY_TRY(feed_bind(inputs, sessions[i], context, diag));
        INLAY_TRY(timing_warm_up(context, NULL, 2, diag));
    }
    INLAY_TRY(timing_rounds(&plan, run_once, contexts, 2, times, diag));
    timing_sort(&times[0]);
    timing_sort(&times[1]);
    model->without_ms = timing_quantile(&times[0], 0.5);
    model->with_ms = timing_quantile(&times[1], 0.5);
done:
    cli_progress_clear();
    for (int i = 0; i < 2; i++) {
        free(times[i].ms);
        inlay_context_destroy(contexts[i]);
    }
    feed_release(inputs, sessions[0]);
    feed_deinit(&feed);
    return status;
}

/* Steps 2 and 3 for one model. */
static inlay_status measure(struct admission *admission, uint32_t index, inlay_diag *diag)
{
    const char *path = admission->args->models[index];
    struct measured_model *model = &admission->models[index];
    const uint32_t first = admission->won_count;
    inlay_tune_options how = INLAY_TUNE_OPTIONS_INIT;
    inlay_session *sessions[2] = { NULL, NULL };
    inlay_status status;

    how.budget_s = admission->args->budget_s;
    how.progress = cli_progress;
    INLAY_TRY(open_model(admission, path, true, &sessions[1], diag));
    INLAY_TRY(inlay_tune(sessions[1], &how, NULL, diag));
    inlay_session_destroy(sessions[1]);
    sessions[1] = NULL;
    INLAY_TRY(open_model(admission, path, true, &sessions[1], diag)); /* with the measured times */
    INLAY_TRY(find_won(admission, sessions[1], model, diag));
    if (model->won_count > 0) {
        INLAY_TRY(open_model(admission, path, false, &sessions[0], diag));
        INLAY_TRY(compare_runs(admission, sessions, model, diag));
        model->is_admitted = model->with_ms <= model->without_ms * GAIN;
        for (uint32_t i = first; i < admission->won_count; i++)
            admission->won[i].is_slower = !model->is_admitted;
    }
done:
    cli_progress_clear();
    inlay_session_destroy(sessions[0]);
    inlay_session_destroy(sessions[1]);
    return status;
}

/* Is the node faster with the plugin in some model, and in no model slower? */
static bool is_won(const struct admission *admission, const char *exact)
{
    bool found = false;

    for (uint32_t i = 0; i < admission->won_count; i++) {
        if (strcmp(admission->won[i].exact, exact) != 0)
            continue;
        if (admission->won[i].is_slower)
            return false;
        found = true;
    }
    return found;
}

/* Restricts a certificate to the nodes that were won; returns how many these are. */
static size_t restrict_nodes(const struct admission *admission, json_t *root)
{
    json_t *provider, *op, *name;
    size_t i, k, n, count = 0;

    json_array_foreach(json_object_get(root, "providers"), i, provider) {
        (void)json_object_set_new(provider, "groups", json_array());
        json_array_foreach(json_object_get(provider, "operators"), k, op) {
            json_t *nodes = json_array();

            json_array_foreach(json_object_get(op, "nodes"), n, name)
                if (is_won(admission, json_string_value(name)))
                    (void)json_array_append(nodes, name);
            count += json_array_size(nodes);
            (void)json_object_set_new(op, "nodes", nodes);
            (void)json_object_set_new(op, "outside", json_string("it is none of the admitted nodes"));
        }
    }
    return count;
}

static inlay_status write_certificate(const struct admission *admission, size_t *out_nodes, inlay_diag *diag)
{
    output_file file = { .fd = -1 };
    json_error_t error;
    json_t *root = json_load_file(admission->certificate, 0, &error);
    inlay_status status = INLAY_OK;

    *out_nodes = root != NULL ? restrict_nodes(admission, root) : 0;
    if (root == NULL)
        status = inlay_fail(diag, INLAY_IO_ERROR, "the certificate of the check cannot be read: %.200s", error.text);
    if (status != INLAY_OK || *out_nodes == 0)
        goto done;
    INLAY_TRY(output_open_stream(&file, admission->args->output, diag));
    if (json_dumpf(root, file.to, JSON_INDENT(1)) != 0 || fputc('\n', file.to) == EOF)
        status = output_failed(&file, diag);
    else
        status = output_commit(&file, NULL, diag);
done:
    output_drop(&file);
    json_decref(root);
    return status;
}

/* Refuses a file that sessions would not load, and finds the options of its providers. */
static inlay_status find_options(struct admission *admission, inlay_diag *diag)
{
    const inlay_options *options = admission->common->options;
    inlay_setting item = { .struct_size = sizeof item };
    char providers[PLUGIN_NAMES_BYTES], provider[PLUGIN_NAMES_BYTES];
    config_search search;
    inlay_status status;

    config_search_init(&search, options, NULL, NULL);
    INLAY_TRY(plugin_check_file(&search.search, admission->args->file, providers, diag));
    for (uint32_t i = 0; inlay_options_setting(options, i, &item) == INLAY_OK; i++) {
        (void)snprintf(provider, sizeof provider, "%.*s", (int)strcspn(item.name, "."), item.name);
        if (strchr(item.name, '.') == NULL || !is_among(provider, providers))
            continue;
        if (admission->option_count == CHECK_OPTIONS)
            return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "more than %d options of the plugin are set", CHECK_OPTIONS);
        admission->options[admission->option_count] = arena_format(&admission->arena, "%s=%s", item.name, item.text);
        if (admission->options[admission->option_count++] == NULL)
            return no_memory(diag, "for the options");
    }
done:
    return status;
}

/* "FIRST:REST"; false: too long. */
static bool join_lists(char *list, size_t bytes, const char *first, const char *rest)
{
    return (size_t)snprintf(list, bytes, "%s%s%s", first, rest[0] != '\0' ? ":" : "", rest) < bytes;
}

static inlay_status admit(struct admission *admission, size_t *out_nodes, inlay_diag *diag)
{
    const admit_args *args = admission->args;
    const inlay_options *options = admission->common->options;
    struct scratch scratch = { .output = NULL };
    char certificate[SCRATCH_BYTES + 32];
    inlay_status status;

    *out_nodes = 0;
    output_note_read_path(args->file);
    for (uint32_t i = 0; i < args->model_count; i++)
        output_note_read_path(args->models[i]);
    INLAY_TRY(outputs_check(diag));
    if (strchr(args->file, ':') != NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%.300s: a ':' separates folders of plugins; rename the file",
                          args->file);
    if (strchr(args->output, ':') != NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "-o %.300s: a ':' separates certificates; choose another name",
                          args->output);
    INLAY_TRY(find_options(admission, diag));
    admission->own_dirs = arena_string(&admission->arena, options_text(options, OPTION_plugin_dirs));
    admission->own_trust = arena_string(&admission->arena, options_text(options, OPTION_trust));
    if (admission->own_dirs == NULL || admission->own_trust == NULL)
        return no_memory(diag, "for the options");
    INLAY_TRY(scratch_make_temporary(&scratch, diag));
    (void)snprintf(certificate, sizeof certificate, "%s/certificate", scratch.dir);
    admission->certificate = certificate;
    if (!join_lists(admission->dirs, sizeof admission->dirs, args->file, admission->own_dirs) ||
        !join_lists(admission->trust, sizeof admission->trust, certificate, admission->own_trust)) {
        status = inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "option plugin_dirs or trust is too long for inlay admit");
        goto done;
    }
    INLAY_TRY(check(admission, diag));
    for (uint32_t i = 0; i < args->model_count && admission->failed_count == 0; i++)
        INLAY_TRY(measure(admission, i, diag));
    if (admission->failed_count == 0)
        INLAY_TRY(write_certificate(admission, out_nodes, diag));
done:
    scratch_remove(&scratch);
    return status;
}

static void add_rows(struct table *table, const struct admission *admission)
{
    enum { MODEL, NODES, PLUGIN, WITHOUT, WITH, ADMITTED, COLUMNS };
    static const table_column columns[COLUMNS] = {
        [MODEL] = { "model", "model", TABLE_NAME },      [NODES] = { "nodes", "nodes", TABLE_NUMBER },
        [PLUGIN] = { "plugin", "plugin", TABLE_NUMBER }, [WITHOUT] = { "ms", "without_ms", TABLE_NUMBER },
        [WITH] = { "with it", "with_ms", TABLE_NUMBER }, [ADMITTED] = { "", "admitted", TABLE_NAME },
    };

    *table = (struct table){ .columns = columns, .column_count = COLUMNS };
    for (uint32_t i = 0; admission->failed_count == 0 && i < admission->args->model_count; i++) {
        const struct measured_model *model = &admission->models[i];

        table_row(table);
        table_text(table, MODEL, admission->args->models[i]);
        table_whole(table, NODES, model->nodes);
        table_whole(table, PLUGIN, model->won_count);
        if (model->won_count > 0) {
            table_real(table, WITHOUT, model->without_ms, "%.4g", model->without_ms);
            table_real(table, WITH, model->with_ms, "%.4g", model->with_ms);
        }
        table_truth(table, ADMITTED, model->is_admitted, model->is_admitted ? "admitted" : "");
    }
}

/* Prints an option and its value as words of a shell. */
static void print_option(const char *option, const char *value)
{
    const bool is_plain = value[0] != '\0' && value[strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                                                  "0123456789_-+=./,:@%")] == '\0';

    (void)printf(" %s %s", option, is_plain ? value : "'");
    for (const char *at = value; !is_plain && *at != '\0'; at++)
        (void)(*at == '\'' ? fputs("'\\''", stdout) : putchar(*at));
    (void)fputs(is_plain ? "" : "'", stdout);
}

static int print_result(const struct admission *admission, size_t nodes)
{
    const admit_args *args = admission->args;
    const int code = nodes > 0 ? CLI_OK : CLI_FAILED;
    struct table table;

    if (cli_stdout_is_file())
        return code;
    add_rows(&table, admission);
    if (admission->common->json)
        return cli_print_json(admission->common,
                              json_pack("{s:s, s:b, s:I, s:i, s:s, s:o}", "plugin", cli_text(args->file), "admitted",
                                        (int)(nodes > 0), "nodes", (json_int_t)nodes, "failed",
                                        (int)admission->failed_count, "failure", cli_text(admission->first_failure),
                                        "models", cells_json(&table)),
                              code);
    cells_print(&table);
    if (admission->failed_count > 0)
        (void)printf("not admitted: %u %s failed, the first: %s\n", admission->failed_count,
                     plural(admission->failed_count, "check", "checks"), admission->first_failure);
    else if (nodes == 0)
        (void)printf("not admitted: no model is faster with it\n");
    if (nodes == 0)
        return code;
    (void)printf("admitted for %zu %s:", nodes, plural(nodes, "node", "nodes"));
    print_option("--plugin-dirs", args->file);
    print_option("--trust", args->output);
    for (uint32_t i = 0; i < admission->option_count; i++)
        print_option("--option", admission->options[i]);
    (void)putchar('\n');
    return code;
}

int cmd_admit(int argc, char **argv)
{
    static const cli_verb verb = { "FILE", doc_admit, options_of_admit, finish };
    static admit_args args = { .budget_s = 20, .seconds = 3 };
    static struct admission admission; /* large */
    cli_common common;
    inlay_diag diag = INLAY_DIAG_INIT;
    size_t nodes;
    int code;

    cli_parse(&verb, CLI_SETTINGS_SESSION, argc, argv, &common, &args);
    common.many_sessions = true;
    admission = (struct admission){ .args = &args, .common = &common };
    cli_catch_interrupt();
    code = admit(&admission, &nodes, &diag) == INLAY_OK ? print_result(&admission, nodes) : cli_fail(&common, &diag);
    arena_deinit(&admission.arena);
    cli_common_deinit(&common);
    return code;
}
