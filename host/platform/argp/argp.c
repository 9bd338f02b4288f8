/* The parser of command lines: argp.h. */
#include <argp.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int argp_err_exit_status = 64; /* EX_USAGE */

enum { MOST_PARSERS = 8 };

/* The parsers of a command line: those of the children, then the root's own. */
struct parsers {
    const struct argp *list[MOST_PARSERS];
    void *inputs[MOST_PARSERS];
    uint32_t count;
};

static void print(const struct argp_state *state, int number, const char *format, va_list args)
{
    (void)fprintf(stderr, "%s: ", state != NULL ? state->name : "inlay");
    (void)vfprintf(stderr, format, args);
    (void)fprintf(stderr, "%s%s\n", number != 0 ? ": " : "", number != 0 ? strerror(number) : "");
}

void argp_error(const struct argp_state *state, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    print(state, 0, format, args);
    va_end(args);
    exit(argp_err_exit_status);
}

void argp_failure(const struct argp_state *state, int status, int number, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    print(state, number, format, args);
    va_end(args);
    if (status != 0)
        exit(status);
}

static error_t call(const struct parsers *parsers, uint32_t i, struct argp_state *state, int key, char *arg)
{
    state->input = parsers->inputs[i];
    return parsers->list[i]->parser != NULL ? parsers->list[i]->parser(key, arg, state) : ARGP_ERR_UNKNOWN;
}

/* Gives every parser a key. */
static error_t call_all(const struct parsers *parsers, struct argp_state *state, int key)
{
    for (uint32_t i = 0; i < parsers->count; i++) {
        const error_t error = call(parsers, i, state, key, NULL);

        if (error != 0 && error != ARGP_ERR_UNKNOWN)
            return error;
    }
    return 0;
}

/* The option of that name, or the only one that begins with it; NULL: none, *out_ambiguous: several. */
static const struct argp_option *find_long(const struct parsers *parsers, const char *name, size_t bytes,
                                           uint32_t *out_parser, bool *out_ambiguous)
{
    const struct argp_option *found = NULL;

    *out_ambiguous = false;
    for (uint32_t i = 0; i < parsers->count; i++) {
        const struct argp_option *option = parsers->list[i]->options;

        for (; option != NULL && (option->name != NULL || option->key != 0); option++) {
            if (option->name == NULL || strncmp(option->name, name, bytes) != 0)
                continue;
            if (option->name[bytes] == '\0') {
                *out_ambiguous = false;
                *out_parser = i;
                return option;
            }
            *out_ambiguous |= found != NULL;
            if (found == NULL)
                *out_parser = i;
            found = option;
        }
    }
    return *out_ambiguous ? NULL : found;
}

static const struct argp_option *find_short(const struct parsers *parsers, char letter, uint32_t *out_parser)
{
    for (uint32_t i = 0; i < parsers->count; i++) {
        const struct argp_option *option = parsers->list[i]->options;

        for (; option != NULL && (option->name != NULL || option->key != 0); option++) {
            *out_parser = i;
            if (option->key == letter)
                return option;
        }
    }
    return NULL;
}

static char *argument_of(const struct argp_option *option, char *attached, struct argp_state *state, const char *shown)
{
    if (option->arg == NULL && attached != NULL)
        argp_error(state, "option '%s' doesn't allow an argument", shown);
    if (option->arg == NULL || attached != NULL || (option->flags & OPTION_ARG_OPTIONAL) != 0)
        return attached;
    if (state->next >= state->argc)
        argp_error(state, "option '%s' requires an argument", shown);
    return state->argv[state->next++];
}

static error_t parse_long(const struct parsers *parsers, struct argp_state *state, char *word)
{
    char *equals = strchr(word, '=');
    const size_t bytes = equals != NULL ? (size_t)(equals - word) : strlen(word);
    uint32_t parser = 0;
    bool ambiguous;
    const struct argp_option *option = find_long(parsers, word + 2, bytes - 2, &parser, &ambiguous);
    char shown[128];

    (void)snprintf(shown, sizeof shown, "%.*s", (int)bytes, word);
    if (option == NULL)
        argp_error(state, "%s option '%s'", ambiguous ? "ambiguous" : "unrecognized", shown);
    return call(parsers, parser, state, option->key,
                argument_of(option, equals != NULL ? equals + 1 : NULL, state, shown));
}

static error_t parse_short(const struct parsers *parsers, struct argp_state *state, char *letters)
{
    error_t error = 0;

    while (*letters != '\0' && error == 0) {
        uint32_t parser = 0;
        const struct argp_option *option = find_short(parsers, *letters, &parser);
        const char shown[] = { '-', *letters, '\0' };
        char *attached = letters[1] != '\0' ? letters + 1 : NULL;

        if (option == NULL)
            argp_error(state, "invalid option -- '%c'", *letters);
        if (option->arg != NULL) {
            letters += strlen(letters);
            error = call(parsers, parser, state, option->key, argument_of(option, attached, state, shown));
        } else {
            letters++;
            error = call(parsers, parser, state, option->key, NULL);
        }
    }
    return error;
}

static error_t parse_word(const struct parsers *parsers, struct argp_state *state, char *word)
{
    for (uint32_t i = 0; i < parsers->count; i++) {
        const error_t error = call(parsers, i, state, ARGP_KEY_ARG, word);

        if (error != ARGP_ERR_UNKNOWN)
            return error;
    }
    argp_error(state, "too many arguments: '%s'", word);
    return EINVAL;
}

error_t argp_parse(const struct argp *argp, int argc, char **argv, unsigned flags, int *out_index, void *input)
{
    void *inputs[MOST_PARSERS] = { NULL };
    struct argp_state state = { .argc = argc, .argv = argv, .next = 1, .child_inputs = inputs, .name = argv[0] };
    struct parsers parsers = { .count = 0 };
    bool only_words = false;
    error_t error = 0;

    (void)flags;
    state.input = input;
    if (argp->parser != NULL)
        error = argp->parser(ARGP_KEY_INIT, NULL, &state);
    for (const struct argp_child *child = argp->children; child != NULL && child->argp != NULL; child++) {
        if (parsers.count + 1 == MOST_PARSERS)
            return E2BIG;
        parsers.inputs[parsers.count] = inputs[parsers.count];
        parsers.list[parsers.count++] = child->argp;
    }
    if (error == ARGP_ERR_UNKNOWN)
        error = 0;
    for (uint32_t i = 0; i < parsers.count && error == 0; i++) {
        error = call(&parsers, i, &state, ARGP_KEY_INIT, NULL);
        if (error == ARGP_ERR_UNKNOWN)
            error = 0;
    }
    parsers.inputs[parsers.count] = input;
    parsers.list[parsers.count++] = argp;
    while (state.next < argc && error == 0) {
        char *word = argv[state.next++];

        if (!only_words && strcmp(word, "--") == 0)
            only_words = true;
        else if (!only_words && strncmp(word, "--", 2) == 0)
            error = parse_long(&parsers, &state, word);
        else if (!only_words && word[0] == '-' && word[1] != '\0')
            error = parse_short(&parsers, &state, word + 1);
        else
            error = parse_word(&parsers, &state, word);
    }
    if (out_index != NULL)
        *out_index = state.next;
    if (error == 0)
        error = call_all(&parsers, &state, ARGP_KEY_END);
    return error != 0 ? error : call_all(&parsers, &state, ARGP_KEY_SUCCESS);
}
