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

/* The option with that name, or the first one that begins with it; getopt refuses an ambiguous beginning. */
static const struct argp_option *find_option(const option_lists *known, const char *name, size_t bytes)
{
    const struct argp_option *begun = NULL, *row;

    for (uint32_t i = 0; (row = option_at(known, i)) != NULL; i++) {
        if (strncmp(row->name, name, bytes) != 0)
            continue;
        if (row->name[bytes] == '\0')
            return row;
        begun = begun != NULL ? begun : row;
    }
    return begun;
}

static bool takes_next(const struct argp_option *row)
{
    return row != NULL && row->arg != NULL && (row->flags & OPTION_ARG_OPTIONAL) == 0;
}

/* Whether the cluster of short options in arg ("-o") ends with one whose argument is the next word. */
static bool short_takes_next(const option_lists *known, const char *arg)
{
    const struct argp_option *row;

    for (const char *c = arg + 1; *c != '\0'; c++)
        for (uint32_t i = 0; (row = option_at(known, i)) != NULL; i++)
            if (row->key == *c && takes_next(row))
                return c[1] == '\0';
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

static void refuse(const option_lists *known, const char *verb, const char *name, size_t bytes)
{
    char wanted[128];
    const char *near, *elsewhere;
    uint32_t option_count = 0;

    while (option_at(known, option_count) != NULL)
        option_count++;
    (void)snprintf(wanted, sizeof wanted, "--%.*s", (int)bytes, name);
    near = nearest_name(wanted + 2, name_at, known, option_count);
    elsewhere = mistyped_elsewhere(wanted);
    (void)fprintf(stderr, "%s: unknown option '%s'", verb, wanted);
    if (near != NULL)
        (void)fprintf(stderr, "; did you mean '--%s'?\n", near);
    else if (elsewhere != NULL)
        (void)fprintf(stderr, "; try %s\n", elsewhere);
    else
        (void)fprintf(stderr, "; %s --help-all lists the options\n", verb);
    exit(CLI_USAGE);
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

    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const char *name = argv[i] + 2;
        const size_t bytes = argv[i][0] == '-' && argv[i][1] == '-' ? strcspn(name, "=") : 0;
        const struct argp_option *row = bytes > 0 ? find_option(&lists, name, bytes) : NULL;

        if (bytes > 0 && row == NULL)
            refuse(&lists, argv[0], name, bytes);
        if (bytes > 0 && name[bytes] == '\0' && (row->flags & OPTION_ARG_OPTIONAL) != 0)
            argc -= join_switch(row, argv, i, argc);
        else if (bytes > 0)
            i += name[bytes] == '\0' && takes_next(row);
        else if (strcmp(argv[i], "-h") == 0)
            argv[i] = help;
        else if (argv[i][0] == '-')
            i += short_takes_next(&lists, argv[i]);
    }
    return argc;
}
