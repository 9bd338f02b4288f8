/* inlay edit: changes metadata, names and open dimensions of a model. */
#include "cli/cli.h"
#include "cli/load_model.h"
#include "session/session.h"
#include "data/scratch.h"
#include "modelkit/change.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char doc_edit[] =
    "Changes metadata, names of inputs and outputs, and open dimensions of MODEL, and writes the result.\v"
    "Changes are made in the order of the flags, each of which may be repeated. If a valid model would become invalid, "
    "nothing is written. `inlay inspect` shows names and metadata, `inlay diff` the changes.\n\n"
    "Examples:\n"
    "  inlay edit model.onnx --set-metadata author=me -o out.onnx\n"
    "  inlay edit model.onnx --rename-input x=image -o out.onnx\n"
    "  inlay edit model.onnx --fix-dim N=1 -o out.onnx\n"
    "  inlay edit model.onnx --fix-dim x:0=1 -o out.onnx         # axis 0 of input x\n";

enum { KEY_SET = 0x100, KEY_REMOVE, KEY_INPUT, KEY_OUTPUT, KEY_DIM };

struct change {
    const cli_option *option;
    const char *name;
    const char *value; /* NULL: none */
    int64_t size;
};

enum { MOST_CHANGES = 1024 };
typedef struct edit_args {
    cli_files files;
    struct change list[MOST_CHANGES];
    uint32_t count;
} edit_args;

static error_t add_change(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    edit_args *args = field;
    const int key = option->key;
    char *equals = key == KEY_DIM ? strrchr(arg, '=') : strchr(arg, '='), *end = NULL;
    struct change *change;

    if (args->count == MOST_CHANGES)
        cli_refuse(state, CLI_USAGE, "more than %d changes", MOST_CHANGES);
    change = &args->list[args->count++];
    *change = (struct change){ .option = option, .name = arg };
    if (key == KEY_REMOVE)
        return 0;
    if (equals == NULL || equals == arg)
        cli_refuse(state, CLI_USAGE, "--%s %s: expected NAME=%s", option->name, arg,
                   key == KEY_DIM   ? "N"
                   : key == KEY_SET ? "VALUE"
                                    : "NEW");
    *equals = '\0';
    change->value = equals + 1;
    if (key != KEY_DIM)
        return 0;
    errno = 0;
    change->size = strtoll(change->value, &end, 10);
    if (end == change->value || *end != '\0' || errno != 0 || change->size < 0)
        cli_refuse(state, CLI_USAGE, "--fix-dim %s=%s: expected a whole number of at least 0", change->name,
                   change->value);
    return 0;
}

static const cli_option options_of_edit[] = {
    { "set-metadata", "KEY=VALUE", "Set an entry of the metadata", CLI_CALL_ALL(add_change), .key = KEY_SET },
    { "remove-metadata", "KEY", "Remove an entry of the metadata", CLI_CALL_ALL(add_change), .key = KEY_REMOVE },
    { "rename-input", "OLD=NEW", "Rename an input", CLI_CALL_ALL(add_change), .key = KEY_INPUT },
    { "rename-output", "OLD=NEW", "Rename an output", CLI_CALL_ALL(add_change), .key = KEY_OUTPUT },
    { "fix-dim", "NAME=N", "Set an open dimension to N, by its name or as INPUT:AXIS", CLI_CALL_ALL(add_change),
      .key = KEY_DIM },
    CLI_FILE_OPTIONS(edit_args, files),
    { 0 },
};

static bool finish(void *user, struct argp_state *state)
{
    const edit_args *args = user;

    if (args->count == 0)
        cli_refuse(state, CLI_USAGE,
                   "no change given: use --set-metadata, --remove-metadata, --rename-input, --rename-output or "
                   "--fix-dim");
    return true;
}

static inlay_status apply(graph_model *model, const struct change *change, inlay_diag *diag)
{
    switch (change->option->key) {
    case KEY_SET:
    case KEY_REMOVE:
        return change_metadata(model, change->name, change->value, diag);
    case KEY_INPUT:
        return change_input_name(model, change->name, change->value, diag);
    case KEY_OUTPUT:
        return change_output_name(model, change->name, change->value, diag);
    default:
        return change_dim(model, change->name, change->size, diag);
    }
}

/* Is the file a valid model, as far as shape inference can determine? */
static inlay_status validate(const cli_common *common, const char *path, const model_load_options *load,
                             inlay_diag *diag)
{
    graph_model *model = NULL;
    inlay_status status = cli_load_model(common, path, load, &model, diag);

    graph_model_destroy(model);
    return status;
}

static inlay_status edit(const edit_args *args, const cli_common *common, uint64_t *out_bytes, inlay_diag *diag)
{
    const model_load_options load = session_load_options(common->options), load_edited = { .out_fault = NULL };
    graph_model *model = NULL;
    struct scratch scratch = { .dir = "" };
    inlay_diag before = INLAY_DIAG_INIT, after = INLAY_DIAG_INIT;
    char path[PATH_MAX];
    inlay_status status;

    INLAY_TRY(model_load_path(args->files.model, &load, &model, diag));
    for (uint32_t i = 0; i < args->count; i++) {
        status = apply(model, &args->list[i], &before);
        if (status != INLAY_OK) {
            status = inlay_fail(diag, status, "--%s: %s", args->list[i].option->name, before.text);
            goto done;
        }
    }
    INLAY_TRY(scratch_make(args->files.output, args->files.external, &scratch, diag));
    INLAY_TRY(scratch_save(&scratch, "edited", model, false, path, diag));
    if (!cli_cancelled() && validate(common, path, &load_edited, &after) != INLAY_OK) {
        status = validate(common, args->files.model, &load, &before);
        if (cli_is_misuse(status))
            *diag = before;
        else if (status == INLAY_OK)
            status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the changed model would be invalid: %s", after.text);
        else
            status = INLAY_OK; /* it was invalid before */
        INLAY_TRY(status);
    }
    if (cli_cancelled()) {
        status = inlay_fail(diag, INLAY_CANCELLED, "stopped");
        goto done;
    }
    INLAY_TRY(scratch_publish(&scratch, path, out_bytes, diag));
done:
    cli_progress_clear();
    scratch_remove(&scratch);
    graph_model_destroy(model);
    return status;
}

static int print_result(const edit_args *args, const cli_common *common, uint64_t bytes)
{
    json_t *changes;

    if (!common->json) {
        (void)printf("%u change%s written to %s\n", args->count, args->count > 1 ? "s" : "", args->files.output);
        return CLI_OK;
    }
    changes = json_array();
    for (uint32_t i = 0; i < args->count; i++)
        (void)json_array_append_new(changes, json_pack("{s:s, s:s, s:s?}", "change", args->list[i].option->name, "name",
                                                       args->list[i].name, "value", args->list[i].value));
    return cli_print_json(common,
                          json_pack("{s:s, s:s, s:I, s:o}", "model", cli_text(args->files.model), "output",
                                    cli_text(args->files.output), "bytes", (json_int_t)bytes, "changes", changes),
                          CLI_OK);
}

int cmd_edit(int argc, char **argv)
{
    static const cli_verb verb = { "MODEL", doc_edit, options_of_edit, finish };
    static edit_args args;
    cli_common common;
    inlay_diag diag = INLAY_DIAG_INIT;
    uint64_t bytes = 0;
    int code;

    cli_parse(&verb, CLI_SETTINGS_CHECK, argc, argv, &common, &args);
    code = edit(&args, &common, &bytes, &diag) == INLAY_OK ? print_result(&args, &common, bytes)
                                                           : cli_fail(&common, &diag);
    cli_common_deinit(&common);
    return code;
}
