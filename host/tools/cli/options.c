#include "base/model_folder.h"
#include "base/model_package.h"
#include "cli/cli.h"
#include "cli/outputs.h"
#include "inlay/check.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_OPTIONS = 40, KEY_FIRST = 0x4000 };

double cli_number(struct argp_state *state, const char *flag, const char *arg, double min, double max)
{
    char *end = NULL;
    double value = strtod(arg, &end);

    if (end == arg || *end != '\0' || !(value >= min && value <= max))
        cli_refuse(state, CLI_USAGE, "%s %s: expected a number from %.10g to %.10g", flag, arg, min, max);
    return value;
}

static double whole_number(struct argp_state *state, const char *flag, const char *arg, double min, double max)
{
    const double value = cli_number(state, flag, arg, min, max);

    if (value != floor(value))
        cli_refuse(state, CLI_USAGE, "%s %s: expected a whole number", flag, arg);
    return value;
}

uint32_t cli_whole_numbers(struct argp_state *state, const char *flag, const char *list, double min, double max,
                           uint32_t most, uint32_t *out)
{
    char *copy = strdup(list), *next = NULL;
    uint32_t count = 0;

    for (char *text = copy == NULL ? NULL : strtok_r(copy, ",", &next); text != NULL;
         text = strtok_r(NULL, ",", &next)) {
        if (count == most)
            cli_refuse(state, CLI_USAGE, "%s %s: more than %u numbers", flag, list, most);
        out[count++] = (uint32_t)whole_number(state, flag, text, min, max);
    }
    free(copy);
    if (count == 0)
        cli_refuse(state, CLI_USAGE, "%s %s: expected numbers with commas between them", flag, list);
    return count;
}

static double number_of(const cli_option *option, const char *arg, struct argp_state *state)
{
    char flag[64];

    (void)snprintf(flag, sizeof flag, "--%s", option->name);
    return (option->kind == CLI_KIND_DOUBLE ? cli_number : whole_number)(state, flag, arg, option->least, option->most);
}

static error_t take(const cli_option *option, void *args, char *arg, struct argp_state *state)
{
    void *field = (char *)args + option->at;

    switch (option->kind) {
    case CLI_KIND_YES:
        *(bool *)field = true;
        break;
    case CLI_KIND_ONE:
        *(uint32_t *)field = 1;
        break;
    case CLI_KIND_TEXT:
        *(const char **)field = arg;
        break;
    case CLI_KIND_UPDATE:
        *(const char **)field = arg;
        outputs_add(option->name, arg);
        break;
    case CLI_KIND_READ:
        *(const char **)field = cli_input_file(state, arg);
        break;
    case CLI_KIND_WRITE:
        *(const char **)field = cli_output_file(state, arg);
        outputs_add(option->name, *(const char **)field);
        break;
    case CLI_KIND_U32:
        *(uint32_t *)field = (uint32_t)number_of(option, arg, state);
        break;
    case CLI_KIND_U64:
        *(uint64_t *)field = (uint64_t)number_of(option, arg, state);
        break;
    case CLI_KIND_DOUBLE:
        *(double *)field = number_of(option, arg, state);
        break;
    case CLI_KIND_CALL:
        return option->take(option, field, arg, state);
    }
    return 0;
}

static bool is_end(const cli_option *option)
{
    return option == NULL || (option->name == NULL && option->take == NULL);
}

static int key_of(const cli_verb *verb, const cli_option *option)
{
    return option->key != 0 ? option->key : KEY_FIRST + (int)(option - verb->options);
}

static void check_needs(const cli_verb *verb, void *args, struct argp_state *state)
{
    if (verb->finish != NULL && !verb->finish(args, state))
        return;
    for (const cli_option *option = verb->options; !is_end(option); option++) {
        const void *value = NULL;

        if (option->need != NULL)
            memcpy(&value, (const char *)args + option->at, sizeof value);
        if (option->need != NULL && value == NULL)
            cli_refuse(state, CLI_USAGE, "%s; %s --help has examples", option->need, state->name);
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    const cli_verb_input *in = state->input;

    if (key == ARGP_KEY_END) {
        check_needs(in->verb, in->args, state);
        return 0;
    }
    for (const cli_option *option = in->verb->options; !is_end(option); option++)
        if (option->name == NULL ? key == ARGP_KEY_ARG : key == key_of(in->verb, option))
            return take(option, in->args, arg, state);
    if (key == ARGP_KEY_ARG)
        cli_refuse(state, CLI_USAGE, "'%s': this verb accepts no arguments", arg);
    return ARGP_ERR_UNKNOWN;
}

struct argp cli_verb_argp(const cli_verb *verb)
{
    static struct argp_option rows[MOST_OPTIONS + 1];
    uint32_t count = 0;

    for (const cli_option *option = verb->options; !is_end(option); option++) {
        INLAY_CHECK(count < MOST_OPTIONS);
        if (option->name != NULL)
            rows[count++] = (struct argp_option){
                .name = option->name,
                .key = key_of(verb, option),
                .arg = option->arg,
                .flags = option->flags,
                .doc = option->doc,
            };
    }
    /* argp leaks memory in --help if the list is empty. */
    return (struct argp){ .options = count > 0 ? rows : NULL, .parser = parse };
}

error_t cli_take_path(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    const char **model = field;

    (void)option;
    if (*model != NULL)
        cli_refuse(state, CLI_USAGE, "unexpected argument '%s': only one model can be given", arg);
    *model = cli_input_file(state, arg);
    return 0;
}

error_t cli_take_model(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    return cli_take_path(option, field, arg, state);
}

error_t cli_take_texts(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    return cli_take_path(option, field, arg, state);
}

/* --variant of the verb's model; NULL: not given. folder_variant: the same for a folder whose files are found later. */
static const char *variant, *folder_variant;

const char *cli_folder_variant(void)
{
    return folder_variant;
}

error_t cli_take_variant(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    (void)option;
    (void)field;
    if (arg[0] == '\0')
        cli_refuse(state, CLI_USAGE, "--variant: the name is empty");
    variant = arg;
    return 0;
}

/* The file of the variant of --variant. */
static inlay_status choose_of_package(const char *path, char out_path[PATH_MAX], inlay_diag *diag)
{
    const package_variant *found;
    model_package package;
    inlay_status status;

    INLAY_TRY(package_read(path, &package, diag));
    INLAY_TRY(package_find(&package, path, variant, &found, diag));
    (void)snprintf(out_path, PATH_MAX, "%s", found->file);
    if (found->external_dir != NULL)
        status = inlay_fail(diag, INLAY_UNSUPPORTED,
                            "%.200s: the weights of variant '%.60s' are in another folder: name %.300s, with "
                            "--external-dir %.300s",
                            path, variant, found->file, found->external_dir);
done:
    package_deinit(&package);
    return status;
}

inlay_status cli_choose_model(const cli_verb *verb, void *args, const char **out_folder, inlay_diag *diag)
{
    static char chosen[PATH_MAX];
    inlay_status status = INLAY_OK;
    struct stat st;

    *out_folder = NULL;
    for (const cli_option *option = verb->options; status == INLAY_OK && !is_end(option); option++) {
        const char **model = (const char **)(void *)((char *)args + option->at);

        const bool is_texts = option->take == cli_take_texts;

        if ((option->take != cli_take_model && !is_texts) || *model == NULL)
            continue;
        if (package_is(*model)) { /* a session chooses the variant by its price */
            if (variant != NULL)
                status = choose_of_package(*model, chosen, diag);
            *out_folder = *model;
            *model = variant != NULL ? chosen : *model;
        } else if (stat(*model, &st) == 0 && S_ISDIR(st.st_mode)) {
            folder_variant = is_texts ? variant : NULL;
            if (!is_texts)
                status = model_folder_find(*model, variant != NULL ? variant : "", chosen, diag);
            *out_folder = *model;
            *model = is_texts ? *model : chosen;
        } else if (variant != NULL) {
            status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "--variant %.60s: %s is not a folder", variant, *model);
        }
        outputs_set_model(*model);
    }
    return status;
}

error_t cli_take_output(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    const size_t bytes = strlen(arg);
    const char **output = field;

    if (bytes >= 5 && strcmp(arg + bytes - 5, ".gguf") == 0)
        cli_refuse(state, CLI_USAGE, "--output %s: inlay writes ONNX, not GGUF; name the file %.*s.onnx", arg,
                   (int)(bytes - 5), arg);
    *output = cli_output_file(state, arg);
    if (option->take == cli_take_version)
        outputs_add_version(option->name, *output);
    else
        outputs_add(option->name, *output);
    return 0;
}

error_t cli_take_version(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    return cli_take_output(option, field, arg, state);
}

error_t cli_take_external(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    (void)option;
    (void)state;
    *(const char **)field = arg;
    outputs_set_external(arg);
    return 0;
}

error_t cli_take_two_models(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    const char **models = field;

    (void)option;
    if (models[1] != NULL)
        cli_refuse(state, CLI_USAGE, "unexpected argument '%s': only two models, A and B, can be given", arg);
    models[models[0] != NULL] = cli_input_file(state, arg);
    return 0;
}
