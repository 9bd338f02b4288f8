/* inlay pack: a model in several precisions as one package, of which each machine uses the best one. */
#include "base/output.h"
#include "cli/cells.h"
#include "cli/cli.h"
#include "cli/described.h"
#include "config/options.h"
#include "data/scratch.h"
#include "model/model.h"
#include "quantize/low_bit.h"
#include "quantize/quantize.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char doc_pack[] =
    "Writes a package with MODEL in several precisions, to the folder -o. A session of the package uses the variant "
    "that is cheapest on its machine, among those whose error is at most --max-error.\v"
    "The folder is a model package of ONNX Runtime 1.30 (manifest.json). Tensors that several "
    "variants have are stored once. The error of a variant is that of its worst output on the samples: the root mean "
    "square of the differences, relative to that of the outputs of MODEL. `inlay sign` signs the folder.\n\n"
    "  fp32    MODEL itself\n"
    "  fp16    weights in float16, as inlay quantize --weights f16\n"
    "  int8    8-bit integers, as inlay quantize; without --data only the weights\n"
    "  int4    weights in 4 bits, as inlay quantize --weights 4\n\n"
    "Examples:\n"
    "  inlay pack model.onnx --variants fp32,int8,int4 --data samples/ -o model.pkg\n"
    "  inlay run model.pkg --max-error 0.01\n";

/* How a variant is made. bits 0: the model itself. */
static const struct kind {
    const char *name;
    uint32_t bits;
} kinds[] = { { "fp32", 0 }, { "fp16", 16 }, { "int8", 8 }, { "int4", 4 } };
enum { KINDS = sizeof kinds / sizeof kinds[0] };

typedef struct pack_args {
    const char *model, *output, *data;
    const struct kind *kinds[KINDS]; /* [count] */
    uint32_t count, samples;
} pack_args;

static error_t take_variants(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    pack_args *args = field;
    char *rest;

    (void)option;
    args->count = 0;
    for (char *name = strtok_r(arg, ",", &rest); name != NULL; name = strtok_r(NULL, ",", &rest)) {
        const struct kind *found = NULL;

        for (uint32_t i = 0; i < KINDS; i++)
            if (strcmp(kinds[i].name, name) == 0)
                found = &kinds[i];
        for (uint32_t i = 0; i < args->count; i++)
            if (args->kinds[i] == found)
                cli_refuse(state, CLI_USAGE, "--variants: %s is named twice", name);
        if (found == NULL)
            cli_refuse(state, CLI_USAGE, "--variants: '%s' is not one of fp32, fp16, int8 and int4", name);
        args->kinds[args->count++] = found;
    }
    if (args->count == 0)
        cli_refuse(state, CLI_USAGE, "--variants: expected names such as fp32,int8");
    return 0;
}

static const cli_option options_of_pack[] = {
    { "output", "DIR", "The package, a new folder", CLI_TEXT(pack_args, output), .key = 'o',
      .need = "no package given: name it with -o" },
    { "variants", "NAME,...", "fp32, fp16, int8, int4 (default: fp32,int8)", CLI_CALL_ALL(take_variants) },
    { "data", "DIR|FILE", "Samples, as for inlay quantize (default: 8 random ones)", CLI_TEXT(pack_args, data) },
    { "samples", "N", "Use at most N samples (default: all)", CLI_NUMBER(pack_args, samples, 1, 1e7) },
    CLI_MODEL(pack_args, model),
    { 0 },
};

/* A variant that has been made. */
struct made {
    char file[SCRATCH_BYTES + 64]; /* before the tensors are shared */
    graph_model *model;            /* of this file */
    double error, ms;              /* NAN: not measured */
    uint64_t bytes;
};

/* Quantizes the model, or uses it as it is; measures the result. */
static inlay_status make_variant(const pack_args *args, const cli_common *common, const struct samples *samples,
                                 const struct kind *kind, const struct scratch *scratch, struct made *out,
                                 inlay_diag *diag)
{
    const bool integers = kind->bits == 8 && args->data != NULL;
    quantize_args how = { .model = args->model,
                          .output = out->file,
                          .options = common->options,
                          .data = samples,
                          .made_up = args->data == NULL,
                          .mode = integers ? QUANTIZE_STATIC : QUANTIZE_WEIGHTS,
                          .bits = kind->bits,
                          .must = true,
                          .block = 32,
                          .prune = NAN,
                          .demand = { .metric = AGREE_relative, .goal = NAN, .sure = false },
                          .calls.progress = cli_progress };
    quantize_report report = { 0 };
    inlay_status status;

    out->error = 0;
    if (kind->bits == 0) {
        (void)snprintf(out->file, sizeof out->file, "%s", args->model);
        INLAY_TRY(evaluate_time_alone(samples, args->model, common->options, QUANTIZE_TIMED_S, &out->ms, diag));
    } else {
        (void)snprintf(out->file, sizeof out->file, "%s/%s.onnx", scratch->dir, kind->name);
        INLAY_TRY(quantize_model(&how, &report, diag));
        out->ms = report.ms_after;
        out->error = report.agreement.relative;
        if (report.handed == NULL && report.unmeasured == NULL && !isfinite(out->error))
            report.unmeasured = "its error is not finite";
        if (report.handed != NULL || report.unmeasured != NULL) {
            status = inlay_fail(diag, INLAY_UNSUPPORTED, "variant %s: %.300s; omit it", kind->name,
                                report.handed != NULL ? report.handed : report.unmeasured);
            goto done;
        }
    }
    status = model_load_path(out->file, NULL, &out->model, diag);
done:
    quantize_report_deinit(&report);
    return status;
}

/* Writes the models into folder/models, and their sizes. */
static inlay_status write_models(const pack_args *args, struct made *made, const char *folder, inlay_diag *diag)
{
    const model_save_options save = { .external_file = "weights.bin" };
    char paths[KINDS][SCRATCH_BYTES + 128];
    const graph_model *models[KINDS];
    const char *names[KINDS];
    struct stat st;
    inlay_status status;

    for (uint32_t i = 0; i < args->count; i++) {
        (void)snprintf(paths[i], sizeof paths[i], "%s/models/%s.onnx", folder, args->kinds[i]->name);
        models[i] = made[i].model;
        names[i] = paths[i];
    }
    status = model_save_together(models, names, args->count, &save, diag);
    for (uint32_t i = 0; i < args->count; i++)
        made[i].bytes = status == INLAY_OK && stat(paths[i], &st) == 0 ? (uint64_t)st.st_size : 0;
    return status;
}

static inlay_status write_manifest(const pack_args *args, const struct made *made, const char *folder, inlay_diag *diag)
{
    json_t *variants = json_object(), *manifest;
    char path[SCRATCH_BYTES + 128], name[64];
    output_file file = { .fd = -1 };
    inlay_status status;

    for (uint32_t i = 0; i < args->count; i++) {
        json_t *facts = json_pack("{s:f}", "error", made[i].error);

        if (isfinite(made[i].ms))
            (void)json_object_set_new(facts, "ms", json_real(made[i].ms));
        (void)snprintf(name, sizeof name, "%s.onnx", args->kinds[i]->name);
        (void)json_object_set_new(variants, args->kinds[i]->name,
                                  json_pack("{s:s, s:s, s:s, s:{s:{s:s}}, s:{s:o}}", "variant_directory", "models",
                                            "ep", "CPUExecutionProvider", "device", "cpu", "executor_info", "ort",
                                            "model_file", name, "additional_metadata", "inlay", facts));
    }
    manifest = json_pack("{s:s, s:{s:{s:o}}, s:{s:{s:s}}}", "schema_version", "1.0", "components", "model", "variants",
                         variants, "additional_metadata", "inlay", "version", inlay_version());
    if (manifest == NULL)
        return no_memory(diag, "for the package");
    (void)snprintf(path, sizeof path, "%s/manifest.json", folder);
    INLAY_TRY(output_open_stream(&file, path, diag));
    if (json_dumpf(manifest, file.to, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) != 0 || fputc('\n', file.to) == EOF) {
        status = output_failed(&file, diag);
        goto done;
    }
    status = output_commit(&file, NULL, diag);
done:
    output_drop(&file);
    json_decref(manifest);
    return status;
}

static void add_rows(struct table *table, const pack_args *args, const struct made *made)
{
    enum { NAME, ERROR, MS, COLUMNS };
    static const table_column columns[COLUMNS] = {
        [NAME] = { "variant", "name", TABLE_NAME },
        [ERROR] = { "error", "error", TABLE_NUMBER },
        [MS] = { "ms", "ms", TABLE_NUMBER },
    };

    *table = (struct table){ .columns = columns, .column_count = COLUMNS };
    for (uint32_t i = 0; i < args->count; i++) {
        table_row(table);
        table_text(table, NAME, args->kinds[i]->name);
        table_real(table, ERROR, made[i].error, "%.2g", made[i].error);
        if (isfinite(made[i].ms))
            table_real(table, MS, made[i].ms, "%.3g", made[i].ms);
    }
}

static int print_report(const pack_args *args, const cli_common *common, const struct made *made)
{
    char path[4200];
    uint64_t bytes = 0;
    struct table table;
    struct stat st;

    (void)snprintf(path, sizeof path, "%.4000s/models/weights.bin", args->output);
    bytes = stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
    for (uint32_t i = 0; i < args->count; i++)
        bytes += made[i].bytes;
    add_rows(&table, args, made);
    if (common->json)
        return cli_print_json(common,
                              json_pack("{s:s, s:I, s:o}", "output", cli_text(args->output), "bytes", (json_int_t)bytes,
                                        "variants", cells_json(&table)),
                              CLI_OK);
    cells_print(&table);
    (void)printf("%s: %u %s, %.2f MiB\n", args->output, args->count, plural(args->count, "variant", "variants"),
                 (double)bytes / 1048576);
    return CLI_OK;
}

static inlay_status pack(const pack_args *args, cli_common *common, struct made *made, inlay_diag *diag)
{
    char folder[SCRATCH_BYTES + 32], models[SCRATCH_BYTES + 64];
    struct scratch scratch = { .output = NULL };
    inlay_session *session = NULL;
    struct dataset *set = NULL;
    struct samples samples;
    inlay_status status;

    if (options_list(common->options, OPTION_dim, 0) != NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "option dim would set sizes in some variants alone; set them in the model first, with "
                          "inlay edit --fix-dim");
    INLAY_TRY(scratch_make(args->output, NULL, &scratch, diag));
    INLAY_TRY(described_open(common, args->model, args->data, args->samples, &session, &set, diag));
    samples = dataset_samples(set);
    for (uint32_t i = 0; i < args->count; i++)
        INLAY_TRY(make_variant(args, common, &samples, args->kinds[i], &scratch, &made[i], diag));
    (void)snprintf(folder, sizeof folder, "%s/package", scratch.dir);
    (void)snprintf(models, sizeof models, "%s/models", folder);
    if (mkdir(folder, 0777) != 0 || mkdir(models, 0777) != 0) {
        status = output_not_created(folder, diag);
        goto done;
    }
    INLAY_TRY(write_models(args, made, folder, diag));
    INLAY_TRY(write_manifest(args, made, folder, diag));
    if (rename(folder, args->output) != 0)
        status = output_not_created(args->output, diag);
done:
    cli_progress_clear();
    dataset_close(set);
    inlay_session_destroy(session);
    scratch_remove(&scratch);
    return status;
}

int cmd_pack(int argc, char **argv)
{
    static const cli_verb verb = { "MODEL", doc_pack, options_of_pack, NULL };
    pack_args args = { .kinds = { &kinds[0], &kinds[2] }, .count = 2 };
    struct made made[KINDS] = { { .file = "" } };
    cli_common common;
    inlay_diag diag = INLAY_DIAG_INIT;
    int code;

    cli_parse(&verb, CLI_SETTINGS_SESSION, argc, argv, &common, &args);
    common.many_sessions = true;
    code =
        pack(&args, &common, made, &diag) == INLAY_OK ? print_report(&args, &common, made) : cli_fail(&common, &diag);
    for (uint32_t i = 0; i < KINDS; i++)
        graph_model_destroy(made[i].model);
    cli_common_deinit(&common);
    return code;
}
