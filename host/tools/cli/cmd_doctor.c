/* inlay doctor: finds problems of an exported model, and fixes those that are safe to fix. */
#include "tables/words.h"
#include "cli/cells.h"
#include "cli/cli.h"
#include "cli/doctor_costs.h"
#include "cli/doctor_plugins.h"
#include "cli/doctor_repair.h"
#include "cli/doctor_report.h"
#include "cli/inputs.h"
#include "cli/load_model.h"
#include "session/session.h"
#include "cli/verify_equal.h"
#include "data/scratch.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char doc_doctor[] =
    "Finds problems of an exported model: training mode, unused or duplicate weights, NaN, open axes that accept only "
    "one size, needless casts, types that are too wide, poor scales, plugins that crashed. Of a model that does not "
    "load, it names the "
    "mistake "
    "of the export and the flag that avoids it.\v"
    "Each finding has a code, its location, its cost per run (timed on random inputs, unless --seconds 0), and a fix. "
    "With --fix, FILE receives the model with all fixes that do not change results; both models are run on random "
    "inputs, and nothing is written if an output differs by more than 1e-5. Functions are inlined in FILE. If there is "
    "nothing to fix, FILE receives the unchanged model. Of a model that does not load, --fix repairs types that an "
    "operator does not take, where only one repair is possible: int32 indices become int64, float weights the type of "
    "the other inputs, and the opset is raised until operators take bfloat16.\n\n"
    "Exit code: without --fix, 1 if there are warnings or errors; notes may be intended. With --fix, 0 after FILE is "
    "written, regardless of other findings: `inlay doctor FILE` lists those that remain.\n\n"
    "Examples:\n"
    "  inlay doctor model.onnx\n"
    "  inlay doctor model.onnx --json | jq '.findings[].code'\n"
    "  inlay doctor model.onnx --seconds 0              # do not run the model\n"
    "  inlay doctor model.onnx --fix -o better.onnx\n"
    "  inlay doctor --list\n"
    "  inlay doctor --report                            # for the report of a fault\n";

/* --fix: number of samples that both models run on, and the tolerance of the comparison. */
enum { FIX_SAMPLES = 3 };
#define FIX_TOLERANCE 1e-5

typedef struct doctor_args {
    struct feed feed;
    cli_files files;
    bool fix, list, report;
    double seconds;
} doctor_args;

static const cli_option options_of_doctor[] = {
    { "fix", NULL, "Apply the safe fixes and write the model to the file given with -o", CLI_SET(doctor_args, fix) },
    { "output", "FILE", "The file to write with --fix, which may be MODEL; - is standard output",
      CLI_CALL(cli_take_version, doctor_args, files.output), .key = 'o' },
    CLI_EXTERNAL_OPTION(doctor_args, files.external),
    { "seconds", "S", "Run the model for S seconds to time its nodes (default: 0.5; 0: predict)",
      CLI_NUMBER(doctor_args, seconds, 0, 1e6) },
    { "list", NULL, "List the codes of all findings with severity and fix", CLI_SET(doctor_args, list) },
    { "report", NULL, "Print what the report of a fault says of this machine: version, processor, settings, plugins",
      CLI_SET(doctor_args, report) },
    FEED_OPTIONS(doctor_args, feed),
    CLI_MODEL(doctor_args, files.model),
    { 0 },
};

static bool finish(void *user, struct argp_state *state)
{
    const doctor_args *args = user;

    if (args->fix != (args->files.output != NULL))
        cli_refuse(state, CLI_USAGE,
                   args->fix ? "--fix requires an output file: name it with -o" : "-o requires --fix");
    return !args->list && !args->report;
}

struct fix_result {
    uint32_t count; /* findings that were fixed */
    uint64_t bytes; /* size of the written file */
    verify_equal_times times;
};

/* There is nothing to fix: writes the model as it was loaded. */
static inlay_status write_unchanged(const doctor_args *args, const cli_common *common, struct fix_result *out,
                                    inlay_diag *diag)
{
    const model_load_options load = session_load_options(common->options);
    struct scratch scratch = { .dir = "" };
    graph_model *model = NULL;
    char path[PATH_MAX];
    inlay_status status;

    INLAY_TRY(model_load_path(args->files.model, &load, &model, diag));
    INLAY_TRY(scratch_make(args->files.output, args->files.external, &scratch, diag));
    INLAY_TRY(scratch_save(&scratch, "same", model, false, path, diag));
    INLAY_TRY(scratch_publish(&scratch, path, &out->bytes, diag));
done:
    scratch_remove(&scratch);
    graph_model_destroy(model);
    return status;
}

static inlay_status fix(struct doctor *doctor, const doctor_args *args, const cli_common *common,
                        struct fix_result *out, inlay_diag *diag)
{
    struct scratch scratch = { .dir = "" };
    inlay_diag why = INLAY_DIAG_INIT;
    char path[PATH_MAX];
    inlay_status status;

    INLAY_TRY(doctor_fix(doctor, diag));
    for (const doctor_finding *finding = doctor->first; finding != NULL; finding = finding->next)
        out->count += finding->fixed;
    if (out->count == 0)
        return write_unchanged(args, common, out, diag);
    if (doctor->model->function_count > 0) { /* the model's opset may lack operators of the function bodies */
        doctor->model->function_count = 0;
        INLAY_TRY(model_convert_versions(doctor->model, 0, diag));
    }
    INLAY_TRY(scratch_make(args->files.output, args->files.external, &scratch, diag));
    INLAY_TRY(scratch_save(&scratch, "fixed", doctor->model, false, path, diag));
    status = verify_equal_outputs(common, args->files.model, path, FIX_SAMPLES, FIX_TOLERANCE, FIX_TOLERANCE,
                                  args->seconds, &out->times, &why);
    if (status == INLAY_RESULTS_DIFFER)
        status = inlay_fail(diag, status,
                            "nothing was written, because the fixed model computes something else: %.300s", why.text);
    else if (status != INLAY_OK)
        status = inlay_fail(diag, status, "nothing was written, because the two models could not be compared: %.300s",
                            why.text);
    INLAY_TRY(status);
    INLAY_TRY(scratch_publish(&scratch, path, &out->bytes, diag));
done:
    scratch_remove(&scratch);
    return status;
}

static const char *node_of(const doctor_finding *finding)
{
    return finding->node_count > 0 ? finding->nodes[0]->info.name.data : "";
}

static json_t *finding_json(const doctor_finding *finding)
{
    json_t *nodes = json_array(), *json;

    for (uint32_t i = 0; i < finding->node_count; i++)
        (void)json_array_append_new(nodes, json_string(finding->nodes[i]->info.name.data));
    json =
        json_pack("{s:s, s:s, s:s?, s:o, s:s, s:s, s:s, s:I, s:o, s:s?, s:b, s:b}", "severity",
                  doctor_severity_text(doctor_severity_of(finding->kind)), "code", doctor_code(finding->kind), "graph",
                  finding->graph != NULL ? finding->graph->name : NULL, "nodes", nodes, "value", finding->value, "text",
                  finding->text, "fix", doctor_fix_text(finding->kind), "bytes", (json_int_t)finding->bytes, "cost_ms",
                  finding->cost_ms < 0 ? json_null() : json_real(finding->cost_ms), "cost",
                  finding->cost_ms < 0 ? NULL
                  : finding->measured  ? "measured"
                                       : "predicted",
                  "fixable", finding->can_fix, "fixed", finding->fixed);
    return json;
}

static json_t *findings_json(const doctor_args *args, const struct doctor *doctor, const doctor_costs *costs)
{
    json_t *list = json_array();

    for (const doctor_finding *finding = doctor->first; finding != NULL; finding = finding->next)
        (void)json_array_append_new(list, finding_json(finding));
    return json_pack("{s:s, s:o, s:b, s:o}", "model", cli_text(args->files.model), "run_ms",
                     costs->run_ms < 0 ? json_null() : json_real(costs->run_ms), "measured", costs->measured,
                     "findings", list);
}

static json_t *make_json(const doctor_args *args, const struct doctor *doctor, const doctor_costs *costs,
                         const struct fix_result *done)
{
    json_t *json = findings_json(args, doctor, costs);

    if (args->fix && json != NULL)
        (void)json_object_set_new(
            json, "written",
            json_pack("{s:s, s:i, s:I, s:f, s:f, s:f, s:i}", "output", cli_text(args->files.output), "fixed",
                      (int)done->count, "bytes", (json_int_t)done->bytes, "before_ms", done->times.a_ms, "after_ms",
                      done->times.b_ms, "tolerance", FIX_TOLERANCE, "samples", (int)done->times.samples));
    return json;
}

static void print_finding(const doctor_finding *finding, const doctor_costs *costs)
{
    (void)printf("%-8s%s: ", doctor_severity_text(doctor_severity_of(finding->kind)), doctor_code(finding->kind));
    if (finding->node_count > 0)
        (void)printf("node '%.200s': ", node_of(finding));
    (void)printf("%s; %s", finding->text, doctor_fix_text(finding->kind));
    if (finding->cost_ms >= 0)
        (void)printf(" (%.3g of %.3g ms%s)", finding->cost_ms, costs->run_ms, finding->measured ? "" : ", predicted");
    if (finding->bytes > 0)
        (void)printf(" (%.1f KiB)", (double)finding->bytes / 1024);
    (void)printf("%s\n", finding->fixed ? " [fixed]" : finding->can_fix ? " [--fix]" : "");
}

static void print_text(const doctor_args *args, const struct doctor *doctor, const doctor_costs *costs,
                       const struct fix_result *done)
{
    uint32_t counts[3] = { 0 }, can = 0;

    for (const doctor_finding *finding = doctor->first; finding != NULL; finding = finding->next) {
        print_finding(finding, costs);
        counts[doctor_severity_of(finding->kind)]++;
        can += finding->can_fix;
    }
    if (doctor->count == 0)
        (void)printf("%s: no findings\n", args->files.model);
    else
        (void)printf("%u %s, %u %s, %u %s", counts[DOCTOR_ERROR], plural(counts[DOCTOR_ERROR], "error", "errors"),
                     counts[DOCTOR_WARNING], plural(counts[DOCTOR_WARNING], "warning", "warnings"), counts[DOCTOR_NOTE],
                     plural(counts[DOCTOR_NOTE], "note", "notes"));
    if (doctor->count > 0 && can > 0 && !args->fix)
        (void)printf("; --fix -o FILE fixes %u", can);
    if (doctor->count > 0)
        (void)putchar('\n');
    if (!args->fix)
        return;
    if (done->count == 0) {
        (void)printf("%s: the unchanged model, because there is nothing to fix\n", args->files.output);
        return;
    }
    (void)printf("%s: %u fixed, outputs within %g on %u samples", args->files.output, done->count, FIX_TOLERANCE,
                 done->times.samples);
    if (done->times.a_ms > 0)
        (void)printf(", run time %.4g -> %.4g ms", done->times.a_ms, done->times.b_ms);
    (void)putchar('\n');
}

static int verdict_of(const struct doctor *doctor)
{
    for (const doctor_finding *finding = doctor->first; finding != NULL; finding = finding->next)
        if (doctor_severity_of(finding->kind) != DOCTOR_NOTE)
            return CLI_FAILED;
    return CLI_OK;
}

static int list_kinds(const cli_common *common)
{
    enum { SEVERITY, CODE, FIX, COLUMNS };
    static const table_column columns[COLUMNS] = { { "", "severity", TABLE_NAME },
                                                   { "", "code", TABLE_NAME },
                                                   { "", "fix", TABLE_TEXT } };
    struct table table = { .columns = columns, .column_count = COLUMNS };

    for (int i = 0; i < DOCTOR_KIND_COUNT; i++) {
        const doctor_kind kind = (doctor_kind)i;

        table_row(&table);
        table_text(&table, SEVERITY, doctor_severity_text(doctor_severity_of(kind)));
        table_text(&table, CODE, doctor_code(kind));
        table_text(&table, FIX, doctor_fix_text(kind));
    }
    if (common->json)
        return cli_print_json(common, cells_json(&table), CLI_OK);
    cells_print(&table);
    return CLI_OK;
}

/* Can the reason of the failure be in the file? */
static bool is_diagnosable(const inlay_diag *why)
{
    return why->code == INLAY_OK || why->code == INLAY_INVALID_MODEL || why->code == INLAY_UNSUPPORTED ||
           why->code == INLAY_SHAPE_MISMATCH || why->code == INLAY_LIMIT_EXCEEDED ||
           strstr(why->text, "external ") != NULL;
}

/* The first error of a model that did not load; INLAY_OK: it has none. */
static inlay_diag first_error(const graph_model *model, const inlay_diag *why)
{
    inlay_diag first = *why;

    for (const graph_finding *finding = model->findings.first; finding != NULL && first.code == INLAY_OK;
         finding = finding->next)
        if (finding->status != INLAY_OK) {
            (void)inlay_fail(&first, finding->status, "%s", finding->text);
            (void)snprintf(first.node, sizeof first.node, "%s", finding->node);
        }
    return first;
}

/* Reports the findings about a model that does not load. Returns the exit code. */
static int report_broken(struct doctor *doctor, const doctor_args *args, const cli_common *common,
                         const inlay_diag *why, inlay_diag *diag)
{
    static const doctor_costs none = { .run_ms = -1 };
    const inlay_diag first = first_error(doctor->model, why);
    const int code = cli_exit_code(first.code);
    json_t *json;

    if (doctor_diagnose(doctor, args->files.model, why, diag) != INLAY_OK)
        return cli_fail(common, diag);
    if (!common->json) {
        for (const doctor_finding *finding = doctor->first; finding != NULL; finding = finding->next)
            print_finding(finding, &none);
        return code;
    }
    json = findings_json(args, doctor, &none);
    if (json != NULL)
        (void)json_object_set_new(json, "error", cli_diag_json(&first));
    return cli_print_json(common, json, code);
}

/* --fix of a model that does not load. Returns the exit code. */
static int repair(const doctor_args *args, const cli_common *common, inlay_diag *diag)
{
    doctor_repair_result done;

    if (doctor_repair(common, args->files.model, args->files.output, args->files.external, &done, diag) != INLAY_OK)
        return cli_fail(common, diag);
    if (common->json)
        return cli_print_json(common,
                              json_pack("{s:s, s:{s:s, s:i, s:I, s:I}}", "model", cli_text(args->files.model),
                                        "written", "output", cli_text(args->files.output), "casts", (int)done.casts,
                                        "opset", (json_int_t)done.opset, "bytes", (json_int_t)done.bytes),
                              CLI_OK);
    (void)printf("%s: %u Casts inserted", args->files.output, done.casts);
    if (done.opset != 0)
        (void)printf(", opset raised to %lld", (long long)done.opset);
    (void)printf("; the model loads\n");
    return CLI_OK;
}

static int progress(void *user, double fraction, const char *what)
{
    return cli_progress(user, fraction, what);
}

static inlay_status examine(struct doctor *doctor, const doctor_args *args, cli_common *common, doctor_costs *costs,
                            struct fix_result *done, inlay_diag *diag)
{
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status;

    INLAY_TRY(doctor_examine(doctor, diag));
    INLAY_TRY(doctor_plugins_find(doctor, common, diag));
    status = doctor_costs_find(doctor, args->files.model, &args->feed, args->seconds, common, costs, &why);
    if (status == INLAY_CANCELLED || status == INLAY_OUT_OF_MEMORY || cli_is_misuse(status))
        *diag = why;
    else if (status != INLAY_OK) { /* the findings are valid without times */
        if (!common->quiet)
            cli_say(common, "no times, because the model does not run: %s", why.text);
        status = INLAY_OK;
    }
    if (status == INLAY_OK && doctor->failed)
        status = no_memory(diag, "for the findings");
    if (status == INLAY_OK && args->fix)
        status = fix(doctor, args, common, done, diag);
done:
    cli_progress_clear();
    return status;
}

int cmd_doctor(int argc, char **argv)
{
    static const cli_verb verb = { "MODEL", doc_doctor, options_of_doctor, finish };
    model_load_options load;
    doctor_args args = { .seconds = 0.5, .feed.costed_sizes = true };
    struct doctor doctor = { .progress = progress };
    doctor_costs costs = { .run_ms = -1 };
    struct fix_result done = { 0 };
    cli_common common;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;
    int code;

    cli_parse(&verb, CLI_SETTINGS_SESSION, argc, argv, &common, &args);
    if (args.list) {
        cli_reads_none(&common, "--list");
        code = list_kinds(&common);
        goto done;
    }
    if (args.report) {
        code = doctor_report(&common);
        goto done;
    }
    load = session_load_options(common.options);
    load.collect = true;
    status = cli_load_model(&common, args.files.model, &load, &doctor.model, &diag);
    if (doctor.model == NULL && (doctor.model = graph_model_create()) == NULL)
        status = no_memory(&diag, "for the findings");
    if (doctor.model != NULL && is_diagnosable(&diag) && first_error(doctor.model, &diag).code != INLAY_OK) {
        const inlay_diag why = diag;

        code = args.fix ? repair(&args, &common, &diag) : report_broken(&doctor, &args, &common, &why, &diag);
    } else if (status != INLAY_OK || examine(&doctor, &args, &common, &costs, &done, &diag) != INLAY_OK) {
        code = cli_fail(&common, &diag);
    } else {
        code = args.fix ? CLI_OK : verdict_of(&doctor); /* the file was written */
        if (common.json)
            code = cli_print_json(&common, make_json(&args, &doctor, &costs, &done), code);
        else
            print_text(&args, &doctor, &costs, &done);
    }
done:
    graph_model_destroy(doctor.model);
    feed_deinit(&args.feed);
    cli_common_deinit(&common);
    return code;
}
