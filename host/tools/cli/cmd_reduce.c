/* inlay reduce: the smallest part of a model that still fails a check. */
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/command.h"
#include "cli/load_model.h"
#include "model/cut.h"
#include "data/scratch.h"
#include "modelkit/reduce.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char doc[] =
    "Finds the smallest part of MODEL that still fails --check, and writes it: for reports of bugs.\v"
    "COMMAND is run by /bin/sh with the path of a model as its last argument. A part fails if COMMAND ends with the "
    "same "
    "exit code, not 0, as for MODEL itself, and, with --text, prints that text. Values at which a part begins become "
    "inputs, so COMMAND has to take models with other inputs: inlay run makes them up. Ctrl-C ends the search; the "
    "smallest part so far is written.\n\n"
    "Examples:\n"
    "  inlay reduce model.onnx --check 'inlay run' -o small.onnx\n"
    "  inlay reduce model.onnx --check 'inlay run' --text 'wrong shape' -o small.onnx\n"
    "  inlay reduce model.onnx --check './differs.sh' --timeout 20 -o small.onnx\n";

typedef struct reduce_args {
    cli_files files;
    const char *check, *text;
    double timeout;
    uint32_t tries;
} reduce_args;

static const cli_option own_options[] = {
    { "check", "COMMAND", "Fails (exit code other than 0) for what is looked for", CLI_TEXT(reduce_args, check),
      .need = "which check? A command with --check" },
    { "text", "TEXT", "What COMMAND must print besides", CLI_TEXT(reduce_args, text) },
    { "timeout", "S", "Kill COMMAND after S seconds: exit code 124 (default: never)",
      CLI_NUMBER(reduce_args, timeout, 0, 1e6) },
    { "tries", "N", "Run COMMAND at most N times (default: 10000)", CLI_NUMBER(reduce_args, tries, 1, 1e9) },
    CLI_FILE_OPTIONS(reduce_args, files),
    { 0 },
};

/* ------------------------------------------------------------------ tries */

struct trying {
    const reduce_args *args;
    const struct scratch *scratch;
    const struct graph *typed; /* the model inferred, or NULL: `why` says why */
    inlay_diag why;
    char smallest[PATH_MAX]; /* the part that failed last; "" = none */
    int code;                /* of the whole model */
    uint32_t all, left;      /* nodes */
    uint32_t tries;
};

/* Is the text in what the command printed? */
static bool has_text(const char *path, const char *text)
{
    char *data = NULL;
    size_t capacity = 0;
    bool found = false;
    FILE *file = fopen(path, "re");

    while (file != NULL && !found && getline(&data, &capacity, file) >= 0)
        found = strstr(data, text) != NULL;
    free(data);
    if (file != NULL)
        (void)fclose(file);
    return found;
}

static inlay_status run_check(const struct trying *trying, const char *model, int *out_code, bool *out_text,
                              inlay_diag *diag)
{
    char printed[PATH_MAX];
    struct command command = {
        .line = trying->args->check, .flag = "--check", .args = { model }, .seconds = trying->args->timeout
    };
    inlay_status status;

    (void)snprintf(printed, sizeof printed, "%s/printed", trying->scratch->dir);
    command.output = trying->args->text != NULL ? printed : NULL;
    status = command_run(&command, out_code, diag);
    *out_text = status == INLAY_OK && (trying->args->text == NULL || has_text(printed, trying->args->text));
    return status;
}

/* The part of these nodes as a file; INLAY_INVALID_ARGUMENT or INLAY_UNSUPPORTED: there is no such model. */
static inlay_status write_part(const struct trying *trying, const uint32_t *list, uint32_t count, char *path,
                               inlay_diag *diag)
{
    char name[32];
    graph_model *model = NULL;
    model_part part = { 0 };
    bool *nodes;
    inlay_status status;

    INLAY_TRY(model_load_path(trying->args->files.model, NULL, &model, diag));
    nodes = arena_array(&model->arena, (size_t)model->main->node_count + 1, sizeof *nodes);
    if (nodes == NULL) {
        status = no_memory(diag, "for %u nodes", model->main->node_count);
        goto done;
    }
    for (uint32_t i = 0; i < count; i++)
        nodes[list[i]] = true;
    INLAY_TRY(model_part_of(model, nodes, 0, &part, diag));
    INLAY_TRY(model_cut(model, &part, trying->typed, trying->typed == NULL ? trying->why.text : NULL, diag));
    /* Two names in turn: the smallest so far stays. */
    (void)snprintf(name, sizeof name, "part%u", (unsigned)(strstr(trying->smallest, "/part0/") != NULL));
    INLAY_TRY(scratch_save(trying->scratch, name, model, false, path, diag));
done:
    graph_model_destroy(model);
    return status;
}

static reduce_answer try_part(void *ctx, const uint32_t *list, uint32_t count, inlay_status *status, inlay_diag *diag)
{
    struct trying *trying = ctx;
    char path[PATH_MAX], what[64];
    inlay_diag unheard = INLAY_DIAG_INIT;
    bool text;
    int code;

    (void)snprintf(what, sizeof what, "%u of %u nodes", trying->left, trying->all);
    if (cli_progress(NULL, 1 - 8.0 / (8 + trying->tries++), what) != 0) {
        *status = inlay_fail(diag, INLAY_CANCELLED, "stopped");
        return REDUCE_STOP;
    }
    *status = write_part(trying, list, count, path, &unheard);
    if (*status == INLAY_INVALID_ARGUMENT || *status == INLAY_UNSUPPORTED) {
        *status = INLAY_OK;
        return REDUCE_PASSES;
    }
    if (*status != INLAY_OK) {
        *diag = unheard;
        return REDUCE_STOP;
    }
    *status = run_check(trying, path, &code, &text, diag);
    if (*status != INLAY_OK)
        return REDUCE_STOP;
    if (code != trying->code || !text)
        return REDUCE_PASSES;
    memcpy(trying->smallest, path, sizeof path);
    trying->left = count;
    return REDUCE_FAILS;
}

/* ------------------------------------------------------------------ the search */

/* All nodes that may be left out: Constant nodes come along with those that read them. */
static inlay_status list_nodes(struct trying *trying, struct reduction *reduction, inlay_diag *diag)
{
    graph_model *model = NULL;
    inlay_status status;

    INLAY_TRY(model_load_path(trying->args->files.model, NULL, &model, diag));
    reduction->list = malloc(((size_t)model->main->node_count + 1) * sizeof *reduction->list);
    if (reduction->list == NULL) {
        status = no_memory(diag, "for %u nodes", model->main->node_count);
        goto done;
    }
    for (uint32_t i = 0; i < model->main->node_count; i++)
        if (strcmp(model->main->nodes[i]->info.op_type.data, "Constant") != 0)
            reduction->list[reduction->count++] = i;
    trying->all = trying->left = reduction->count;
done:
    graph_model_destroy(model);
    return status;
}

static inlay_status search_all(struct trying *trying, cli_common *common, inlay_diag *diag)
{
    const model_load_options load = { .out_fault = NULL };
    graph_model *typed = NULL;
    struct reduction reduction = { .most = trying->args->tries };
    bool text;
    inlay_status status;

    INLAY_TRY(list_nodes(trying, &reduction, diag));
    if (cli_load_model(common, trying->args->files.model, &load, &typed, &trying->why) == INLAY_OK)
        trying->typed = typed->main;
    INLAY_TRY(run_check(trying, trying->args->files.model, &trying->code, &text, diag));
    if (trying->code == 0 || !text)
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                            trying->code == 0 ? "--check: '%.200s' does not fail for the whole model: exit code 0"
                                              : "--text: '%.200s' does not print it for the whole model",
                            trying->args->check);
    else
        status = reduce_nodes(&reduction, try_part, trying, diag);
done:
    free(reduction.list);
    graph_model_destroy(typed);
    return status;
}

/* The smallest part to the output; the whole model, if no part of it fails. */
static inlay_status publish(struct trying *trying, uint64_t *out_bytes, inlay_diag *diag)
{
    graph_model *model = NULL;
    inlay_status status = INLAY_OK;

    if (trying->smallest[0] == '\0') {
        INLAY_TRY(model_load_path(trying->args->files.model, NULL, &model, diag));
        INLAY_TRY(scratch_save(trying->scratch, "whole", model, false, trying->smallest, diag));
    }
    INLAY_TRY(scratch_publish(trying->scratch, trying->smallest, out_bytes, diag));
done:
    graph_model_destroy(model);
    return status;
}

static int print_result(const struct trying *trying, const cli_common *common, uint64_t bytes, double seconds,
                        bool stopped)
{
    const int code = stopped ? CLI_CANCELLED : CLI_OK;

    if (common->json)
        return cli_print_json(common,
                              json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:I, s:f, s:b}", "model",
                                        trying->args->files.model, "output", trying->args->files.output, "nodes",
                                        (int)trying->left, "of", (int)trying->all, "tries", (int)trying->tries,
                                        "exit_code", trying->code, "bytes", (json_int_t)bytes, "seconds", seconds,
                                        "stopped", stopped),
                              code);
    (void)printf("%u of %u nodes still fail with exit code %d; %s after %u tries, written to %s\n", trying->left,
                 trying->all, trying->code, stopped ? "stopped" : "found", trying->tries, trying->args->files.output);
    return code;
}

int cmd_reduce(int argc, char **argv)
{
    static const cli_verb verb = { "MODEL", doc, own_options, NULL };
    reduce_args args = { .tries = 10000 };
    struct scratch scratch = { .dir = "" };
    struct trying trying = { .args = &args, .scratch = &scratch, .why = INLAY_DIAG_INIT };
    const double begin = clock_ms();
    cli_common common;
    inlay_diag diag = INLAY_DIAG_INIT;
    uint64_t bytes = 0;
    inlay_status status;
    bool stopped = false;
    int code;

    cli_parse(&verb, true, argc, argv, &common, &args);
    INLAY_TRY(scratch_make(args.files.output, args.files.external, &scratch, &diag));
    status = search_all(&trying, &common, &diag);
    cli_progress_clear();
    stopped = status == INLAY_CANCELLED && trying.smallest[0] != '\0';
    if (status == INLAY_OK || stopped)
        status = publish(&trying, &bytes, &diag);
done:
    if (status != INLAY_OK)
        code = cli_fail(&common, &diag);
    else
        code = print_result(&trying, &common, bytes, (clock_ms() - begin) / 1e3, stopped);
    scratch_remove(&scratch);
    cli_common_deinit(&common);
    return code;
}
