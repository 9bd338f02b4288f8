/* inlay extract: writes a part of a model as a separate model. */
#include "base/output.h"
#include "cli/cli.h"
#include "cli/stages.h"
#include "inlay/check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char doc_extract[] =
    "Writes a part of MODEL as a separate model: the nodes that compute --outputs from --inputs, or the --nodes that "
    "match a pattern with their neighbours, or the whole model in stages: --split, --partition.\v"
    "Names are those of values of the main graph, or globs; `inlay inspect --nodes` lists them. Without --inputs the "
    "part begins at the inputs of the model, without --outputs it ends at its outputs. Constants, functions and bodies "
    "are included. --split N inserts .0, .1 ... before the extension of FILE; run in sequence, the stages compute the "
    "same as MODEL. --partition writes a stage for each group of consecutive nodes that one provider runs, without "
    "optimisation; --providers, --pin and the other options choose the providers.\n\n"
    "Examples:\n"
    "  inlay extract model.onnx --outputs features -o backbone.onnx\n"
    "  inlay extract model.onnx --inputs features --outputs scores -o head.onnx\n"
    "  inlay extract model.onnx --nodes 'op:Softmax' --depth 2 -o softmax.onnx\n"
    "  inlay extract model.onnx --outputs 'layer3/*' -o layer3.onnx\n"
    "  inlay extract model.onnx --split 3 -o stage.onnx\n"
    "  inlay extract model.onnx --partition --providers cpu,reference -o stage.onnx\n";

enum { MOST_NAMES = 1024, MOST_STAGES = 1000 };
struct names {
    const char *list[MOST_NAMES];
    uint32_t count;
};

typedef struct extract_args {
    cli_files files;
    struct names inputs, outputs, nodes;
    uint32_t depth, split;
    bool partition;
    struct stages parts; /* of --partition */
} extract_args;

static error_t add_names(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    struct names *names = field;
    char *rest = NULL;

    (void)option;
    for (char *name = strtok_r(arg, ",", &rest); name != NULL; name = strtok_r(NULL, ",", &rest)) {
        if (names->count == MOST_NAMES)
            cli_refuse(state, CLI_USAGE, "more than %d names", MOST_NAMES);
        names->list[names->count++] = name;
    }
    return 0;
}

static const cli_option options_of_extract[] = {
    { "inputs", "NAME,...", "Values at which the part begins; may be repeated",
      CLI_CALL(add_names, extract_args, inputs) },
    { "outputs", "NAME,...", "Values that the part computes; may be repeated",
      CLI_CALL(add_names, extract_args, outputs) },
    { "nodes", "GLOB,...", "Nodes by name, or op:GLOB by operator; may be repeated",
      CLI_CALL(add_names, extract_args, nodes) },
    { "depth", "N", "With --nodes: include neighbours up to N edges away (default: 0)",
      CLI_NUMBER(extract_args, depth, 0, 1000000) },
    { "split", "N", "Write N stages with equal numbers of nodes", CLI_NUMBER(extract_args, split, 1, MOST_STAGES) },
    { "partition", NULL, "Write a stage for each group of consecutive nodes of one provider",
      CLI_SET(extract_args, partition) },
    CLI_PART_OPTIONS(extract_args, files),
    { 0 },
};

static bool finish(void *user, struct argp_state *state)
{
    const extract_args *args = user;

    if ((args->nodes.count > 0) + (args->split > 0) + (args->inputs.count + args->outputs.count > 0) +
            args->partition !=
        1)
        cli_refuse(state, CLI_USAGE,
                   "name the part with --inputs and --outputs, or --nodes, or --split, or --partition");
    if (args->files.output != NULL && (args->split > 0 || args->partition) &&
        strcmp(args->files.output, "/dev/stdout") == 0)
        cli_refuse(state, CLI_USAGE, "stages are several files: name one with -o, not standard output");
    return true;
}

/* stage.onnx -> stage.2.onnx */
static void stage_path(const char *path, uint32_t number, char *out, size_t bytes)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    const size_t stem = dot != NULL && (slash == NULL || dot > slash) ? (size_t)(dot - path) : strlen(path);

    (void)snprintf(out, bytes, "%.*s.%u%s", (int)stem, path, number, path + stem);
}

static void report_part(const cli_common *common, const inlay_extract_args *work, const char *provider, json_t *files)
{
    json_t *file;

    cli_progress_clear();
    if (!common->json) {
        (void)printf("%u of %u nodes%s%s written to %s\n", work->nodes_kept, work->nodes_all,
                     provider != NULL ? ", run by " : "", provider != NULL ? provider : "", work->out_path);
        return;
    }
    file = json_pack("{s:s, s:i, s:i}", "output", work->out_path, "nodes", (int)work->nodes_kept, "of",
                     (int)work->nodes_all);
    if (provider != NULL)
        (void)json_object_set_new(file, "provider", json_string(provider));
    (void)json_array_append_new(files, file);
}

/* The file names of stage `number`. */
static void name_stage(const cli_files *files, uint32_t number, char path[4096], char external[4096])
{
    stage_path(files->output, number, path, 4096);
    if (files->external != NULL)
        stage_path(files->external, number, external, 4096);
}

static void path_of_external(const cli_files *files, const char *name, char path[8192])
{
    const char *slash = strrchr(files->output, '/');

    (void)snprintf(path, 8192, "%.*s%s", slash != NULL ? (int)(slash - files->output) + 1 : 0, files->output, name);
}

static void remove_regular(const char *path)
{
    struct stat st;

    if (lstat(path, &st) == 0 && S_ISREG(st.st_mode))
        (void)unlink(path);
}

/* Removes the stages written so far, because an incomplete set is useless. */
static void remove_stages(const cli_files *files, uint32_t count)
{
    char path[4096], external[4096], external_path[8192];

    for (uint32_t i = 0; i < count; i++) {
        name_stage(files, i, path, external);
        remove_regular(path);
        if (files->external == NULL)
            continue;
        path_of_external(files, external, external_path);
        remove_regular(external_path);
    }
}

/* Checks the files of all stages before the first is written. */
static inlay_status check_stages(const cli_files *files, uint32_t count, inlay_diag *diag)
{
    char path[4096], external[4096], external_path[8192];
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < count; i++) {
        name_stage(files, i, path, external);
        INLAY_TRY(output_check(path, diag));
        if (files->external == NULL)
            continue;
        path_of_external(files, external, external_path);
        INLAY_TRY(output_check(external_path, diag));
    }
done:
    return status;
}

/* Writes one part; INLAY_NONE as number: the only part. */
static inlay_status write_part(const extract_args *args, const cli_common *common, inlay_extract_args *work,
                               uint32_t number, json_t *files, inlay_diag *diag)
{
    const struct stage *stage = args->partition ? &args->parts.list[number] : NULL;
    char path[4096], external[4096];
    inlay_status status;

    INLAY_CHECK(!args->partition || number < args->parts.count);
    work->out_path = args->files.output;
    work->external_file = args->files.external;
    if (number != INLAY_NONE) {
        name_stage(&args->files, number, path, external);
        work->out_path = path;
        if (args->files.external != NULL)
            work->external_file = external;
    }
    work->part = number != INLAY_NONE ? number : 0;
    if (stage != NULL) {
        work->nodes = stage->nodes;
        work->node_count = stage->count;
    }
    status = inlay_extract(args->files.model, common->options, work, diag);
    if (status == INLAY_OK)
        report_part(common, work, stage != NULL ? stage->provider : NULL, files);
    return status;
}

/* --inputs and --outputs after expansion of their globs; owned. */
struct edges {
    char **names[2];
    uint32_t count[2];
};

static inlay_status extract(extract_args *args, cli_common *common, json_t *files, inlay_diag *diag)
{
    inlay_extract_args work = INLAY_EXTRACT_ARGS_INIT;
    struct edges edges = { .count = { 0 } };
    uint32_t parts;
    inlay_status status = INLAY_OK;

    if (args->inputs.count > 0)
        INLAY_TRY(stages_expand(common, args->files.model, args->inputs.list, args->inputs.count, "--inputs",
                                &edges.names[0], &edges.count[0], diag));
    if (args->outputs.count > 0)
        INLAY_TRY(stages_expand(common, args->files.model, args->outputs.list, args->outputs.count, "--outputs",
                                &edges.names[1], &edges.count[1], diag));
    if (args->partition)
        INLAY_TRY(stages_find(common, args->files.model, &args->parts, diag));
    work.inputs = (const char *const *)edges.names[0];
    work.input_count = edges.count[0];
    work.outputs = (const char *const *)edges.names[1];
    work.output_count = edges.count[1];
    work.nodes = args->nodes.list;
    work.node_count = args->nodes.count;
    work.depth = args->depth;
    work.part_count = args->split;
    cli_attach(common);
    parts = args->partition ? args->parts.count : args->split;
    INLAY_TRY(check_stages(&args->files, parts, diag));
    for (uint32_t i = 0; i < parts; i++) {
        status = write_part(args, common, &work, i, files, diag);
        if (status != INLAY_OK) {
            remove_stages(&args->files, i);
            goto done;
        }
    }
    if (parts == 0)
        INLAY_TRY(write_part(args, common, &work, INLAY_NONE, files, diag));
done:
    stages_deinit(&args->parts);
    for (int k = 0; k < 2; k++)
        stages_free_names(edges.names[k], edges.count[k]);
    return status;
}

int cmd_extract(int argc, char **argv)
{
    static const cli_verb verb = { "MODEL", doc_extract, options_of_extract, finish };
    static extract_args args;
    cli_common common;
    inlay_diag diag = INLAY_DIAG_INIT;
    json_t *files = NULL;
    int code = CLI_OK;

    cli_parse(&verb, CLI_SETTINGS_SESSION, argc, argv, &common, &args);
    files = json_array();
    if (extract(&args, &common, files, &diag) != INLAY_OK)
        code = cli_fail(&common, &diag);
    else if (common.json)
        code = cli_print_json(&common, json_incref(files), CLI_OK);
    json_decref(files);
    cli_common_deinit(&common);
    return code;
}
