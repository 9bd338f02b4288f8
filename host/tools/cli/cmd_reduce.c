/* inlay reduce: finds the smallest part of a model that still fails a check. */
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/command.h"
#include "cli/load_model.h"
#include "session/session.h"
#include "model/model_part.h"
#include "data/scratch.h"
#include "modelkit/reduce.h"
#include "inlay/check.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char doc_reduce[] =
    "Finds the smallest part of MODEL that still fails --check, and writes it, for example for a bug report.\v"
    "COMMAND is run by /bin/sh with the path of a model as its last argument. A part fails if COMMAND ends with the "
    "same nonzero exit code as for MODEL and, with --text, prints that text. Values at which a part begins become "
    "inputs, so COMMAND must accept models with other inputs; inlay run generates random inputs. Ctrl-C ends the "
    "search and writes the smallest part so far.\n\n"
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

static const cli_option options_of_reduce[] = {
    { "check", "COMMAND", "Command with a nonzero exit code if a model has the fault", CLI_TEXT(reduce_args, check),
      .need = "no check given: name a command with --check" },
    { "text", "TEXT", "COMMAND must also print TEXT", CLI_TEXT(reduce_args, text) },
    { "timeout", "S", "Kill COMMAND after S seconds: exit code 124 (default: never)",
      CLI_NUMBER(reduce_args, timeout, 0, 1e6) },
    { "tries", "N", "Run COMMAND at most N times (default: 10000)", CLI_NUMBER(reduce_args, tries, 1, 1e9) },
    CLI_PART_OPTIONS(reduce_args, files),
    { 0 },
};

struct reduce_search {
    const reduce_args *args;
    model_load_options load;
    const struct scratch *scratch;
    const struct graph *typed; /* the model after inference, or NULL: `why` has the reason */
    inlay_diag why;
    char smallest[PATH_MAX]; /* the smallest part that failed; "" = none */
    int code;                /* exit code for the whole model */
    uint32_t all, left;      /* numbers of nodes: of the model, of the smallest part */
    uint32_t tries;
};

/* Did the command print the text? */
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

static inlay_status run_check(const struct reduce_search *search, const char *model, int *out_code, bool *out_text,
                              inlay_diag *diag)
{
    char printed[PATH_MAX];
    struct command command = {
        .line = search->args->check, .flag = "--check", .args = { model }, .seconds = search->args->timeout
    };
    inlay_status status;

    (void)snprintf(printed, sizeof printed, "%s/printed", search->scratch->dir);
    command.output = search->args->text != NULL ? printed : NULL;
    status = command_run(&command, out_code, diag);
    *out_text = status == INLAY_OK && (search->args->text == NULL || has_text(printed, search->args->text));
    return status;
}

/* Writes the part with these nodes. INLAY_INVALID_ARGUMENT or INLAY_UNSUPPORTED: they do not form a valid model. */
static inlay_status write_part(const struct reduce_search *search, const uint32_t *list, uint32_t count, char *path,
                               inlay_diag *diag)
{
    char name[32];
    graph_model *model = NULL;
    model_part part = { 0 };
    bool *nodes;
    inlay_status status;

    INLAY_TRY(model_load_path(search->args->files.model, &search->load, &model, diag));
    nodes = arena_array(&model->arena, (size_t)model->main->node_count + 1, sizeof *nodes);
    if (nodes == NULL) {
        status = no_memory(diag, "for %u nodes", model->main->node_count);
        goto done;
    }
    for (uint32_t i = 0; i < count; i++) {
        INLAY_CHECK(list[i] < model->main->node_count);
        nodes[list[i]] = true;
    }
    INLAY_TRY(model_part_of(model, nodes, 0, &part, diag));
    INLAY_TRY(model_cut(model, &part, search->typed, search->typed == NULL ? search->why.text : NULL, diag));
    /* Alternate between two names, so that the smallest part so far is not overwritten. */
    (void)snprintf(name, sizeof name, "part%u", (unsigned)(strstr(search->smallest, "/part0/") != NULL));
    INLAY_TRY(scratch_save(search->scratch, name, model, false, path, diag));
done:
    graph_model_destroy(model);
    return status;
}

static reduce_answer try_part(void *ctx, const uint32_t *list, uint32_t count, inlay_status *status, inlay_diag *diag)
{
    struct reduce_search *search = ctx;
    char path[PATH_MAX], label[64];
    inlay_diag ignored = INLAY_DIAG_INIT;
    bool text;
    int code;

    (void)snprintf(label, sizeof label, "%u of %u nodes", search->left, search->all);
    if (cli_progress(NULL, 1 - 8.0 / (8 + search->tries++), label) != 0) {
        *status = inlay_fail(diag, INLAY_CANCELLED, "stopped");
        return REDUCE_STOP;
    }
    *status = write_part(search, list, count, path, &ignored);
    if (*status == INLAY_INVALID_ARGUMENT || *status == INLAY_UNSUPPORTED) {
        *status = INLAY_OK;
        return REDUCE_PASSES;
    }
    if (*status != INLAY_OK) {
        *diag = ignored;
        return REDUCE_STOP;
    }
    *status = run_check(search, path, &code, &text, diag);
    if (*status != INLAY_OK)
        return REDUCE_STOP;
    if (code != search->code || !text)
        return REDUCE_PASSES;
    memcpy(search->smallest, path, sizeof path);
    search->left = count;
    return REDUCE_FAILS;
}

/* All nodes that can be removed. Constant nodes are excluded: they are kept with their consumers. */
static inlay_status list_nodes(struct reduce_search *search, struct reduction *reduction, inlay_diag *diag)
{
    graph_model *model = NULL;
    inlay_status status;

    INLAY_TRY(model_load_path(search->args->files.model, &search->load, &model, diag));
    reduction->list = malloc(((size_t)model->main->node_count + 1) * sizeof *reduction->list);
    if (reduction->list == NULL) {
        status = no_memory(diag, "for %u nodes", model->main->node_count);
        goto done;
    }
    for (uint32_t i = 0; i < model->main->node_count; i++)
        if (strcmp(model->main->nodes[i]->info.op_type.data, "Constant") != 0)
            reduction->list[reduction->count++] = i;
    search->all = search->left = reduction->count;
done:
    graph_model_destroy(model);
    return status;
}

static inlay_status search_all(struct reduce_search *search, cli_common *common, inlay_diag *diag)
{
    graph_model *typed = NULL;
    struct reduction reduction = { .most = search->args->tries };
    bool text;
    inlay_status status;

    INLAY_TRY(list_nodes(search, &reduction, diag));
    status = cli_load_model(common, search->args->files.model, &search->load, &typed, &search->why);
    if (cli_is_misuse(status)) {
        *diag = search->why;
        goto done;
    }
    if (status == INLAY_OK)
        search->typed = typed->main;
    INLAY_TRY(run_check(search, search->args->files.model, &search->code, &text, diag));
    if (search->code == 0 || !text)
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                            search->code == 0 ? "--check: '%.200s' does not fail for the whole model: exit code 0"
                                              : "--text: '%.200s' does not print the text for the whole model",
                            search->args->check);
    else
        status = reduce_nodes(&reduction, try_part, search, diag);
done:
    free(reduction.list);
    graph_model_destroy(typed);
    return status;
}

/* Writes the smallest part to the output; the whole model, if no part fails. */
static inlay_status publish(struct reduce_search *search, uint64_t *out_bytes, inlay_diag *diag)
{
    graph_model *model = NULL;
    inlay_status status = INLAY_OK;

    if (search->smallest[0] == '\0') {
        INLAY_TRY(model_load_path(search->args->files.model, &search->load, &model, diag));
        INLAY_TRY(scratch_save(search->scratch, "whole", model, false, search->smallest, diag));
    }
    INLAY_TRY(scratch_publish(search->scratch, search->smallest, out_bytes, diag));
done:
    graph_model_destroy(model);
    return status;
}

static int print_result(const struct reduce_search *search, const cli_common *common, uint64_t bytes, double seconds,
                        bool stopped)
{
    const int code = stopped ? CLI_CANCELLED : CLI_OK;

    if (common->json)
        return cli_print_json(common,
                              json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:I, s:f, s:b}", "model",
                                        cli_text(search->args->files.model), "output",
                                        cli_text(search->args->files.output), "nodes", (int)search->left, "of",
                                        (int)search->all, "tries", (int)search->tries, "exit_code", search->code,
                                        "bytes", (json_int_t)bytes, "seconds", seconds, "stopped", stopped),
                              code);
    (void)printf("%u of %u nodes still fail with exit code %d; %s after %u tries, written to %s\n", search->left,
                 search->all, search->code, stopped ? "stopped" : "found", search->tries, search->args->files.output);
    return code;
}

int cmd_reduce(int argc, char **argv)
{
    static const cli_verb verb = { "MODEL", doc_reduce, options_of_reduce, NULL };
    reduce_args args = { .tries = 10000 };
    struct scratch scratch = { .dir = "" };
    struct reduce_search search = { .args = &args, .scratch = &scratch, .why = INLAY_DIAG_INIT };
    const double begin = clock_ms();
    cli_common common;
    inlay_diag diag = INLAY_DIAG_INIT;
    uint64_t bytes = 0;
    inlay_status status;
    bool stopped = false;
    int code;

    cli_parse(&verb, CLI_SETTINGS_CHECK, argc, argv, &common, &args);
    search.load = session_load_options(common.options);
    INLAY_TRY(scratch_make(args.files.output, args.files.external, &scratch, &diag));
    status = search_all(&search, &common, &diag);
    cli_progress_clear();
    stopped = status == INLAY_CANCELLED && search.smallest[0] != '\0';
    if (status == INLAY_OK || stopped)
        status = publish(&search, &bytes, &diag);
done:
    if (status != INLAY_OK)
        code = cli_fail(&common, &diag);
    else
        code = print_result(&search, &common, bytes, (clock_ms() - begin) / 1e3, stopped);
    scratch_remove(&scratch);
    cli_common_deinit(&common);
    return code;
}
