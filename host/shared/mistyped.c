#include "shared/mistyped.h"
#include "inlay/status.h"
#include "base/among.h"
#include "base/nearest.h"
#include "shared/elsewhere.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SWITCHES = 64 };

/* The i-th option of all lists; NULL: there are fewer. */
static const struct argp_option *option_at(const mistyped_options *known, uint32_t i)
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
static const struct argp_option *find_option(const mistyped_options *known, const char *name, size_t bytes,
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

INLAY_PRINTF(3, 4)
static _Noreturn void refuse(const mistyped_options *known, const struct argp_state *state, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    known->refuse(state, text);
    exit(2);
}

/* Whether the help lists the option; hidden ones are of other verbs. */
static bool has_option(const void *ctx, const char *name, size_t bytes)
{
    const struct argp_option *row;

    for (uint32_t i = 0; (row = option_at(ctx, i)) != NULL; i++)
        if (strncmp(row->name, name, bytes) == 0 && row->name[bytes] == '\0' && (row->flags & OPTION_HIDDEN) == 0)
            return true;
    return false;
}

/* What the word means in other tools comes before options that look like it. */
static void refuse_elsewhere(const mistyped_options *known, const struct argp_state *state, const char *word)
{
    const char *answer = elsewhere_answer(word, has_option, known);

    if (answer != NULL)
        refuse(known, state, "unknown option '%s'; try %s", word, answer);
}

static void refuse_without_value(const mistyped_options *known, const struct argp_state *state,
                                 const struct argp_option *row)
{
    refuse(known, state, "option '--%s' needs a value: --%s %s", row->name, row->name, row->arg);
}

static const struct argp_option *find_letter(const mistyped_options *known, char letter)
{
    const struct argp_option *row = NULL;

    for (uint32_t i = 0; (row = option_at(known, i)) != NULL && row->key != letter; i++)
        ;
    return row;
}

/* Checks a cluster of short options ("-o"); whether it ends with one whose argument is the next word. */
static bool short_takes_next(const mistyped_options *known, const struct argp_state *state, int i)
{
    if (state->argv[i][1] != '\0' && state->argv[i][2] != '\0') /* "-ngl" is no cluster */
        refuse_elsewhere(known, state, state->argv[i]);
    for (const char *c = state->argv[i] + 1; *c != '\0'; c++) {
        const struct argp_option *row = find_letter(known, *c);

        if (row == NULL)
            refuse_elsewhere(known, state, (char[]){ '-', *c, '\0' });
        if (row == NULL)
            refuse(known, state, "unknown option '-%c'; %s --help-all lists the options", *c, state->name);
        if (takes_next(row) && c[1] == '\0' && i + 1 >= state->argc)
            refuse_without_value(known, state, row);
        if (takes_next(row))
            return c[1] == '\0';
    }
    return false;
}

static void refuse_unknown(const mistyped_options *known, const struct argp_state *state, const char *name,
                           size_t bytes)
{
    char wanted[128];
    const char *near;
    uint32_t option_count = 0;

    while (option_at(known, option_count) != NULL)
        option_count++;
    (void)snprintf(wanted, sizeof wanted, "--%.*s", (int)bytes, name);
    near = nearest_name(wanted + 2, name_at, known, option_count);
    refuse_elsewhere(known, state, wanted);
    if (near != NULL)
        refuse(known, state, "unknown option '%s'; did you mean '--%s'?", wanted, near);
    refuse(known, state, "unknown option '%s'; %s --help-all lists the options", wanted, state->name);
}

/* Whether word, the beginning of row's name, is the name of another option in other tools. */
static bool means_other(const mistyped_options *known, const char *word, const struct argp_option *row)
{
    const char *answer = elsewhere_answer(word, has_option, known);
    const size_t bytes = strlen(row->name);

    return answer != NULL && (strncmp(answer, "--", 2) != 0 || strncmp(answer + 2, row->name, bytes) != 0 ||
                              strcspn(answer + 2, "= ") != bytes);
}

/* Whether the last word of the option's name is the unit of its value, which an abbreviation would hide. */
static bool ends_in_unit(const char *name)
{
    static const char *const units[] = { "ms", "us", "s", "seconds", "bytes", "percent", "watts" };
    const char *last = strrchr(name, '-');

    for (size_t i = 0; last != NULL && i < sizeof units / sizeof units[0]; i++)
        if (strcmp(last + 1, units[i]) == 0)
            return true;
    return false;
}

/* Checks a long option: name[bytes] is the name in word i of the command line, without its "--" and its value. */
static const struct argp_option *check_long(const mistyped_options *known, const struct argp_state *state,
                                            const char *name, size_t bytes, int i)
{
    const struct argp_option *other, *row = find_option(known, name, bytes, &other);
    char word[128];

    (void)snprintf(word, sizeof word, "--%.*s", (int)bytes, name);
    if (row == NULL || (row->name[bytes] != '\0' && means_other(known, word, row)))
        refuse_unknown(known, state, name, bytes);
    if (other != NULL)
        refuse(known, state, "option '--%.*s' is ambiguous: '--%s' or '--%s'", (int)bytes, name, row->name,
               other->name);
    if (row->name[bytes] != '\0' && ends_in_unit(row->name))
        refuse(known, state, "unknown option '%s'; did you mean '--%s'?", word, row->name);
    if (row->arg == NULL && name[bytes] == '=')
        refuse(known, state, "option '--%s' takes no value", row->name);
    if (takes_next(row) && name[bytes] == '\0' && i + 1 >= state->argc)
        refuse_without_value(known, state, row);
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

int mistyped_check(const mistyped_options *options, int argc, char **argv)
{
    static char help[] = "--help";
    struct argp_state state = { .argc = argc, .argv = argv, .name = argv[0] };

    for (int i = 1; i < state.argc && strcmp(argv[i], "--") != 0; i++) {
        const char *name = argv[i] + 2;
        const size_t bytes = argv[i][0] == '-' && argv[i][1] == '-' ? strcspn(name, "=") : 0;
        const struct argp_option *row = bytes > 0 ? check_long(options, &state, name, bytes, i) : NULL;

        if (bytes > 0 && name[bytes] == '\0' && (row->flags & OPTION_ARG_OPTIONAL) != 0)
            state.argc -= join_switch(row, argv, i, state.argc);
        else if (bytes > 0)
            i += name[bytes] == '\0' && takes_next(row);
        else if (strcmp(argv[i], "-h") == 0)
            argv[i] = help;
        else if (argv[i][0] == '-')
            i += short_takes_next(options, &state, i);
    }
    return state.argc;
}
