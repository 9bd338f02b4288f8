/* inlay lock: records what this version gives for a model, and says what another version changes. */
#include "cli/cells.h"
#include "cli/cli.h"
#include "cli/fork_server.h"
#include "cli/inputs.h"
#include "data/dataset.h"
#include "lock/lock.h"
#include "timing/timing.h"
#include "inlay/check.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char doc_lock[] =
    "Writes what this version of inlay gives for MODEL to a file: the results on samples, time, memory, providers, "
    "kernels and warnings. With --check, makes the same again and reports what has changed since the file was "
    "written.\v"
    "Results are a SHA-256 and the values of each output. Time is relative to a fixed loop, measured alternately with "
    "runs in new processes, on one thread unless --intra-threads is given. A check uses the model, the samples, the "
    "settings and the limits of the file, unless the command line has others; options that are paths, such as --plan, "
    "have to be given again.\n\n"
    "A check prints a row for each change. A regression is an output whose error exceeds the limit (the largest "
    "difference, relative to the largest element; float16 2e-3, bfloat16 1.6e-2), whose largest element in a row is "
    "another one (metric top1), or that is not the same and not of floats; a time or memory above its limit; a node "
    "that its provider no longer takes; a new warning. Exit code 0: no regression; 1: regressions.\n\n"
    "--against runs another version on the first sample and reports the first region with another result. It is the "
    "folder of an installation with bin/inlay, or command:COMMAND, which is run with the arguments MODEL INPUTS "
    "OUTPUTS: the model, a folder with NAME.npy for each input, and a folder in which to write NAME.npy for each "
    "output.\n\n"
    "Examples:\n"
    "  inlay lock model.onnx --data samples -o model.lock\n"
    "  inlay lock --check model.lock\n"
    "  inlay lock --check model.lock --no-time --json     # deterministic\n"
    "  inlay lock --check model.lock --against /opt/inlay-0.1\n";

enum { RANDOM_SAMPLES = 2 };

typedef struct lock_args {
    const char *model, *output, *check, *data, *against;
    uint32_t samples;
    bool no_time, strict;
    lock_limits limits;      /* negative: not given */
    char paths[2][PATH_MAX]; /* of the record's model and data */
} lock_args;

static const cli_option options_of_lock[] = {
    CLI_OUTPUT_OPTION(lock_args, output),
    { "check", "FILE", "Report what has changed since FILE was written", CLI_READ(lock_args, check) },
    { "data", "DIR|FILE", "Samples, as for inlay compare (default: 2 random ones)", CLI_TEXT(lock_args, data) },
    { "samples", "N", "Use at most N samples (default: all)", CLI_NUMBER(lock_args, samples, 1, 1e6) },
    { "max-error", "X", "Largest error of a float output, relative to its largest element (default: 1e-5)",
      CLI_NUMBER(lock_args, limits.error, 0, 1e300) },
    { "max-time", "X", "Largest ratio of times (default: 1.1)", CLI_NUMBER(lock_args, limits.time, 1, 1e6) },
    { "max-memory", "X", "Largest ratio of memory sizes (default: 1.1)", CLI_NUMBER(lock_args, limits.memory, 1, 1e6) },
    { "no-time", NULL, "Neither measure nor compare times", CLI_SET(lock_args, no_time) },
    { "strict", NULL, "With --check: other bits, providers, kernels and nodes are regressions",
      CLI_SET(lock_args, strict) },
    { "against", "PREFIX", "With --check: find the first region that differs from the installation in PREFIX",
      CLI_TEXT(lock_args, against) },
    CLI_MODEL(lock_args, model),
    { 0 },
};

static bool finish(void *user, struct argp_state *state)
{
    const lock_args *args = user;

    if (args->check != NULL && args->output != NULL)
        cli_refuse(state, CLI_USAGE, "--check and -o exclude each other: a check writes no file");
    if (args->check == NULL && (args->strict || args->against != NULL))
        cli_refuse(state, CLI_USAGE, "--strict and --against require --check");
    return args->check == NULL;
}

/* Warnings of the log, each once. */
struct warnings {
    cli_common *common;
    json_t *list;
};

static void collect_warning(void *user, uint32_t level, const char *text)
{
    struct warnings *warnings = user;
    json_t *entry = level <= 1 ? json_string(text) : NULL, *other;
    bool known = entry == NULL;
    size_t i;

    json_array_foreach(warnings->list, i, other)
        known = known || json_equal(entry, other);
    if (!known)
        (void)json_array_append(warnings->list, entry);
    json_decref(entry);
}

/* A session, its samples and a context. */
struct subject {
    inlay_session *session;
    struct dataset *set;
    struct samples samples;
    inlay_context *context;
};

static inlay_status open_subject(const lock_args *args, cli_common *common, struct warnings *warnings,
                                 struct subject *out, inlay_diag *diag)
{
    inlay_status status;

    *out = (struct subject){ 0 };
    cli_attach(common);
    if (warnings != NULL)
        inlay_options_set_log(common->options, collect_warning, warnings);
    INLAY_TRY(inlay_session_create(args->model, common->options, &out->session, diag));
    INLAY_TRY(dataset_open(args->data,
                           args->samples > 0    ? args->samples
                           : args->data == NULL ? RANDOM_SAMPLES
                                                : 0,
                           cli_samples_caller(common), out->session, &out->set, diag));
    out->samples = dataset_samples(out->set);
    if (out->samples.count == 0) {
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s has no samples", args->data);
        goto done;
    }
    status = inlay_context_create(out->session, &out->context, diag);
done:
    return status;
}

static void close_subject(struct subject *subject)
{
    inlay_context_destroy(subject->context);
    dataset_close(subject->set);
    inlay_session_destroy(subject->session);
    *subject = (struct subject){ 0 };
}

/* The user of measure_fresh(). */
struct fresh {
    const lock_args *args;
    cli_common common;
};

/* Runs in a new process. "time": a round, see lock_time_round(). "memory": the MiB that the session and
 * three runs add to the peak of the process. */
static double measure_fresh(void *user, const char *what)
{
    struct fresh *fresh = user;
    const double before_mb = timing_peak_mb(); /* this process shares the record with its parent */
    struct subject subject = { 0 };
    inlay_value **values = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;
    double result = NAN;
    inlay_status status;

    fresh->common.quiet = true; /* the other process reports warnings */
    fresh->common.verbose = false;
    fresh->common.many_sessions = true;
    INLAY_TRY(open_subject(fresh->args, &fresh->common, NULL, &subject, &diag));
    if (strcmp(what, "time") == 0) {
        status = lock_time_round(&subject.samples, subject.session, subject.context, &result, &diag);
        goto done;
    }
    INLAY_TRY(samples_load(&subject.samples, 0, &values, &diag));
    for (int i = 0; i < 3; i++)
        INLAY_TRY(samples_run(&subject.samples, values, subject.session, subject.context, &diag));
    result = timing_peak_mb() - before_mb;
done:
    samples_release(&subject.samples, values);
    close_subject(&subject);
    return status == INLAY_OK ? result : NAN;
}

/* Measures the rounds of a record, or of a check, see lock.h. was: the earlier record, for a check; NULL: none. */
static void measure_times(const struct fork_server *server, const json_t *was, double limit, json_t *record)
{
    const json_t *before = json_object_get(json_object_get(was, "time"), "ratios");
    json_t *ratios = json_array();
    double ratio;

    if (was != NULL && before == NULL)
        goto done;
    for (uint32_t round = 0; round < LOCK_ROUNDS; round++) {
        if (was != NULL && round >= LOCK_LEAST_ROUNDS && !lock_is_slower(before, ratios, limit))
            break;
        if (cli_progress(NULL, (double)round / LOCK_ROUNDS, "timing") != 0 || !fork_server_call(server, "time", &ratio))
            goto done;
        (void)json_array_append_new(ratios, json_real(ratio));
    }
    (void)json_object_set_new(record, "time", json_pack("{s:O}", "ratios", ratios));
done:
    json_decref(ratios);
}

/* The first process fills the caches. */
static void measure_memory(const struct fork_server *server, json_t *record)
{
    double peak_mb;

    if (fork_server_call(server, "memory", &peak_mb) && fork_server_call(server, "memory", &peak_mb))
        (void)json_object_set_new(json_object_get(record, "memory"), "peak_bytes",
                                  json_integer((json_int_t)(peak_mb * 1048576)));
}

static json_t *date_json(void)
{
    const time_t now = time(NULL);
    struct tm parts;
    char text[32] = "";

    if (gmtime_r(&now, &parts) != NULL)
        (void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return json_string(text);
}

/* All members of a record but those of the verb's arguments. *out_explanation: see lock_placement(). */
static inlay_status make_record(const lock_args *args, cli_common *common, const struct fork_server *server,
                                const json_t *was, json_t *record, json_t **out_explanation, inlay_diag *diag)
{
    struct warnings warnings = { common, json_array() };
    struct subject subject = { 0 };
    json_t *origin = NULL;
    file_hash hash;
    inlay_status status;

    INLAY_TRY(open_subject(args, common, &warnings, &subject, diag));
    file_hash_begin(&hash, args->model);
    INLAY_TRY(lock_origin(&hash, &origin, diag));
    (void)json_object_set_new(record, "made",
                              json_pack("{s:O, s:o, s:O}", "inlay", json_object_get(origin, "inlay"), "date",
                                        date_json(), "cpu", json_object_get(origin, "cpu")));
    (void)json_object_set_new(record, "model", json_pack("{s:O}", "sha256", json_object_get(origin, "sha256")));
    (void)json_object_set_new(record, "settings", lock_settings(common->options));
    INLAY_TRY(lock_outputs(subject.session, subject.context, &subject.samples, was, record, diag));
    INLAY_TRY(lock_placement(subject.session, subject.context, record, out_explanation, diag));
    (void)json_object_set(record, "warnings", warnings.list);
    measure_memory(server, record);
    if (!args->no_time)
        measure_times(server, was, args->limits.time, record);
    if (cli_cancelled())
        status = inlay_fail(diag, INLAY_CANCELLED, "stopped");
done:
    cli_progress_clear();
    close_subject(&subject);
    inlay_options_set_log(common->options, NULL, NULL);
    json_decref(warnings.list);
    json_decref(origin);
    return status;
}

/* Takes the arguments that the command line leaves open from the record. */
static inlay_status read_record(lock_args *args, cli_common *common, json_t **out_record, inlay_diag *diag)
{
    const struct {
        const char *key;
        double *value, standard;
    } limits[] = { { "error", &args->limits.error, 1e-5 },
                   { "time", &args->limits.time, 1.1 },
                   { "memory", &args->limits.memory, 1.1 } };
    json_t *record = NULL;
    const char *model, *data;
    inlay_status status = INLAY_OK;

    if (args->check == NULL) {
        json_t *settings = json_pack("[s]", "intra_threads=1"); /* the time of one thread varies least */

        status = lock_apply_settings(settings, common->options, diag);
        json_decref(settings);
    } else {
        INLAY_TRY(lock_load(args->check, out_record, diag));
        record = *out_record;
        status = lock_apply_settings(json_object_get(record, "settings"), common->options, diag);
    }
    if (status != INLAY_OK)
        goto done;
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        const json_t *recorded = json_object_get(json_object_get(record, "limits"), limits[i].key);

        if (*limits[i].value < 0)
            *limits[i].value = json_is_number(recorded) ? json_number_value(recorded) : limits[i].standard;
    }
    model = json_string_value(json_object_get(json_object_get(record, "model"), "path"));
    data = json_string_value(json_object_get(record, "data"));
    if (args->model == NULL && model != NULL) {
        if (!lock_path_from(args->check, model, args->paths[0]))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: the path of the model is too long", args->check);
        args->model = args->paths[0];
    }
    if (args->data == NULL && data != NULL) {
        if (!lock_path_from(args->check, data, args->paths[1]))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: the path of the samples is too long", args->check);
        args->data = args->paths[1];
    }
    if (args->samples == 0)
        args->samples = (uint32_t)json_array_size(json_object_get(record, "inputs"));
done:
    return status;
}

static inlay_status write_record(const lock_args *args, json_t *record, inlay_diag *diag)
{
    char path[PATH_MAX];

    if (!lock_path_in(args->output, args->model, path)) /* without a folder, lock_save() fails and names it */
        (void)snprintf(path, sizeof path, "%s", args->model);
    (void)json_object_set_new(json_object_get(record, "model"), "path", json_string(path));
    if (args->data != NULL && lock_path_in(args->output, args->data, path))
        (void)json_object_set_new(record, "data", json_string(path));
    (void)json_object_set_new(record, "limits",
                              json_pack("{s:f, s:f, s:f}", "error", args->limits.error, "time", args->limits.time,
                                        "memory", args->limits.memory));
    return lock_save(args->output, record, diag);
}

static int print_written(const lock_args *args, const cli_common *common, json_t *record)
{
    const size_t samples = json_array_size(json_object_get(record, "inputs")),
                 outputs = json_array_size(json_object_get(record, "outputs")),
                 regions = json_array_size(json_object_get(record, "regions"));
    const json_t *warnings = json_object_get(record, "warnings");

    for (size_t i = 0; i < json_array_size(warnings) && !common->quiet; i++)
        cli_say(common, "warning: %s", json_string_value(json_array_get(warnings, i)));
    if (common->json)
        return cli_print_json(common, json_incref(record), CLI_OK);
    (void)printf("%s: %zu %s on %zu %s, %zu %s%s\n", args->output, outputs, plural(outputs, "output", "outputs"),
                 samples, plural(samples, "sample", "samples"), regions, plural(regions, "region", "regions"),
                 json_object_get(record, "time") == NULL ? ", no times" : "");
    return CLI_OK;
}

/* --against: the first sample on another version. */
static inlay_status find_first_difference(const lock_args *args, cli_common *common, const json_t *was, json_t **out,
                                          inlay_diag *diag)
{
    const lock_other other = { .program = args->against,
                               .settings = json_object_get(was, "settings"),
                               .limit = args->limits.error,
                               .stop = cli_cancelled };
    struct subject subject = { 0 };
    inlay_status status;

    INLAY_TRY(open_subject(args, common, NULL, &subject, diag));
    INLAY_TRY(lock_against(&other, args->model, common->options, &subject.samples, out, diag));
done:
    cli_progress_clear();
    close_subject(&subject);
    return status;
}

static void print_first_difference(const lock_args *args, const json_t *first)
{
    const char *value = json_string_value(json_object_get(first, "value"));
    const json_t *nodes = json_object_get(first, "nodes"), *relative = json_object_get(first, "relative"), *name;
    size_t i;

    if (value == NULL) {
        (void)printf("no region differs from %s: largest relative error %.3g in %d values\n", args->against,
                     json_number_value(json_object_get(first, "before")),
                     (int)json_integer_value(json_object_get(first, "values")));
        return;
    }
    (void)printf(
        "the first region that differs from %s is region %d, on %s: relative error %.3g in '%s', at most %.3g before\n",
        args->against, (int)json_integer_value(json_object_get(first, "region")),
        json_string_value(json_object_get(first, "provider")),
        json_is_number(relative) ? json_number_value(relative) : (double)INFINITY, value,
        json_number_value(json_object_get(first, "before")));
    (void)printf("  nodes");
    json_array_foreach(nodes, i, name)
        (void)printf("%s %s", i > 0 ? "," : "", json_string_value(name));
    (void)printf("\n");
}

static int print_report(const lock_args *args, const cli_common *common, const json_t *was, lock_report *report,
                        json_t *first)
{
    const json_t *made = json_object_get(was, "made");
    const char *version = json_string_value(json_object_get(made, "inlay")),
               *date = json_string_value(json_object_get(made, "date"));
    const int code = report->regressions > 0 ? CLI_FAILED : CLI_OK;

    if (common->json) {
        json_t *all = json_pack("{s:s, s:O, s:o, s:i, s:i, s:b}", "since", args->check, "made", made, "rows",
                                cells_json(&report->table), "changes", (int)report->changes, "regressions",
                                (int)report->regressions, "times_compared", report->timed);

        if (first != NULL)
            (void)json_object_set(all, "first_difference", first);
        return cli_print_json(common, all, code);
    }
    cells_print(&report->table);
    (void)printf("%u %s, %u other %s since %s (inlay %s, %s)%s\n", report->regressions,
                 plural(report->regressions, "regression", "regressions"), report->changes,
                 plural(report->changes, "change", "changes"), args->check, version, date,
                 report->timed ? "" : "; times were not compared");
    if (first != NULL)
        print_first_difference(args, first);
    return code;
}

int cmd_lock(int argc, char **argv)
{
    static const cli_verb verb = { "[MODEL]", doc_lock, options_of_lock, finish };
    static lock_args args = { .limits = { -1, -1, -1 } };
    cli_common common;
    struct fresh fresh = { .args = &args };
    struct fork_server server = { .in = -1 };
    inlay_diag diag = INLAY_DIAG_INIT;
    json_t *was = NULL, *record = json_object(), *explanation = NULL, *first = NULL;
    lock_report report = { 0 };
    int code = CLI_OK;
    inlay_status status;

    cli_parse(&verb, CLI_SETTINGS_SESSION, argc, argv, &common, &args);
    common.many_sessions = true;
    INLAY_TRY(read_record(&args, &common, &was, &diag));
    fresh.common = common;
    (void)fork_server_start(&server, measure_fresh, &fresh);
    INLAY_TRY(make_record(&args, &common, &server, was, record, &explanation, &diag));
    if (was == NULL) {
        INLAY_TRY(write_record(&args, record, &diag));
        code = print_written(&args, &common, record);
        goto done;
    }
    report = (lock_report){ .all = common.json || common.verbose, .strict = args.strict };
    lock_compare(was, record, explanation, args.limits, &report);
    if (args.against != NULL)
        INLAY_TRY(find_first_difference(&args, &common, was, &first, &diag));
    code = print_report(&args, &common, was, &report, first);
done:
    if (status != INLAY_OK)
        code = cli_fail(&common, &diag);
    fork_server_stop(&server);
    table_deinit(&report.table);
    json_decref(was);
    json_decref(record);
    json_decref(explanation);
    json_decref(first);
    cli_common_deinit(&common);
    return code;
}
