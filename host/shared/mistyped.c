#include "cli/mistyped.h"
#include "base/among.h"
#include "base/nearest.h"
#include "cli/cli.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SWITCHES = 64 };

typedef struct option_lists {
    const struct argp_option *const *lists;
    uint32_t count;
} option_lists;

/* The i-th option of all lists; NULL: there are fewer. */
static const struct argp_option *option_at(const option_lists *known, uint32_t i)
{
    for (uint32_t list = 0; list < known->count; list++)
        for (const struct argp_option *row = known->lists[list]; row != NULL && row->name != NULL; row++)
            if (i-- == 0)
                return row;
    return NULL;
}

static const char *name_at(const void *ctx, uint32_t i)
{
    const struct argp_option *row = option_at(ctx, i);

    return (row->flags & OPTION_HIDDEN) != 0 ? "" : row->name;
}

/* The option with that name, or the one that begins with it; *out_other: another one that begins with it, or NULL. */
static const struct argp_option *find_option(const option_lists *known, const char *name, size_t bytes,
                                             const struct argp_option **out_other)
{
    const struct argp_option *begun = NULL, *row;

    *out_other = NULL;

    for (uint32_t i = 0; (row = option_at(known, i)) != NULL; i++) {
        if (strncmp(row->name, name, bytes) != 0)
            continue;
        if (row->name[bytes] == '\0') {
            *out_other = NULL;
            return row;
        }
        if (begun == NULL)
            begun = row;
        else if (strcmp(begun->name, row->name) != 0)
            *out_other = row;
    }
    return begun;
}

static bool takes_next(const struct argp_option *row)
{
    return row != NULL && row->arg != NULL && (row->flags & OPTION_ARG_OPTIONAL) == 0;
}

static void refuse_without_value(const struct argp_state *state, const struct argp_option *row)
{
    cli_refuse(state, CLI_USAGE, "option '--%s' needs a value: --%s %s", row->name, row->name, row->arg);
}

static const struct argp_option *find_letter(const option_lists *known, char letter)
{
    const struct argp_option *row = NULL;

    for (uint32_t i = 0; (row = option_at(known, i)) != NULL && row->key != letter; i++)
        ;
    return row;
}

/* Checks a cluster of short options ("-o"); whether it ends with one whose argument is the next word. */
static bool short_takes_next(const option_lists *known, const struct argp_state *state, int i)
{
    for (const char *c = state->argv[i] + 1; *c != '\0'; c++) {
        const struct argp_option *row = find_letter(known, *c);

        if (row == NULL)
            cli_refuse(state, CLI_USAGE, "unknown option '-%c'; %s --help-all lists the options", *c, state->name);
        if (takes_next(row) && c[1] == '\0' && i + 1 >= state->argc)
            refuse_without_value(state, row);
        if (takes_next(row))
            return c[1] == '\0';
    }
    return false;
}

const char *mistyped_elsewhere(const char *word)
{
    static const char *const rows[][2] = {
#define ELSEWHERE(words, answer) { words, answer },
#include "cli/elsewhere.def"
#undef ELSEWHERE
    };
    const size_t bytes = strlen(word);

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (const char *at = rows[i][0]; *at != '\0'; at += strcspn(at, " "), at += *at == ' ')
            if (strcspn(at, " ") == bytes && strncmp(at, word, bytes) == 0)
                return rows[i][1];
    return NULL;
}

static void refuse_unknown(const option_lists *known, const struct argp_state *state, const char *name, size_t bytes)
{
    char wanted[128];
    const char *near, *elsewhere;
    uint32_t option_count = 0;

    while (option_at(known, option_count) != NULL)
        option_count++;
    (void)snprintf(wanted, sizeof wanted, "--%.*s", (int)bytes, name);
    near = nearest_name(wanted + 2, name_at, known, option_count);
    elsewhere = mistyped_elsewhere(wanted);
    if (elsewhere != NULL) /* what the name means in other tools comes before names that look like it */
        cli_refuse(state, CLI_USAGE, "unknown option '%s'; try %s", wanted, elsewhere);
    if (near != NULL)
        cli_refuse(state, CLI_USAGE, "unknown option '%s'; did you mean '--%s'?", wanted, near);
    cli_refuse(state, CLI_USAGE, "unknown option '%s'; %s --help-all lists the options", wanted, state->name);
}

/* Checks a long option, name[bytes], of which the word i of the command line has more. */
static const struct argp_option *check_long(const option_lists *known, const struct argp_state *state, const char *name,
                                            size_t bytes, int i)
{
    const struct argp_option *other, *row = find_option(known, name, bytes, &other);
    char word[128];

    (void)snprintf(word, sizeof word, "--%.*s", (int)bytes, name);
    if (row == NULL || (row->name[bytes] != '\0' && mistyped_elsewhere(word) != NULL))
        refuse_unknown(known, state, name, bytes);
    if (other != NULL)
        cli_refuse(state, CLI_USAGE, "option '--%.*s' is ambiguous: '--%s' or '--%s'", (int)bytes, name, row->name,
                   other->name);
    if (row->arg == NULL && name[bytes] == '=')
        cli_refuse(state, CLI_USAGE, "option '--%s' takes no value", row->name);
    if (takes_next(row) && name[bytes] == '\0' && i + 1 >= state->argc)
        refuse_without_value(state, row);
    return row;
}

/* Joins "--name" and "1" to "--name=1" for an option whose argument is optional, since getopt would take the 1 for an
 * argument of the verb; also another of its choices, "0|1|cpu". Returns the number of words that went. */
static int join_switch(const struct argp_option *row, char **argv, int i, int argc)
{
    static char joined[MOST_SWITCHES][80];
    static uint32_t used;

    if (i + 1 >= argc || !(is_choice(argv[i + 1], "0|1") || is_choice(argv[i + 1], row->arg)) || used == MOST_SWITCHES)
        return 0;
    (void)snprintf(joined[used], sizeof joined[used], "%s=%s", argv[i], argv[i + 1]);
    argv[i] = joined[used++];
    for (int next = i + 1; next < argc; next++) /* and the NULL after the last */
        argv[next] = argv[next + 1];
    return 1;
}

int mistyped_check(const struct argp_option *const *known, uint32_t count, int argc, char **argv)
{
    static char help[] = "--help";
    const option_lists lists = { known, count };
    struct argp_state state = { .argc = argc, .argv = argv, .name = argv[0] };

    for (int i = 1; i < state.argc && strcmp(argv[i], "--") != 0; i++) {
        const char *name = argv[i] + 2;
        const size_t bytes = argv[i][0] == '-' && argv[i][1] == '-' ? strcspn(name, "=") : 0;
        const struct argp_option *row = bytes > 0 ? check_long(&lists, &state, name, bytes, i) : NULL;

        if (bytes > 0 && name[bytes] == '\0' && (row->flags & OPTION_ARG_OPTIONAL) != 0)
            state.argc -= join_switch(row, argv, i, state.argc);
        else if (bytes > 0)
            i += name[bytes] == '\0' && takes_next(row);
        else if (strcmp(argv[i], "-h") == 0)
            argv[i] = help;
        else if (argv[i][0] == '-')
            i += short_takes_next(&lists, &state, i);
    }
    return state.argc;
}
