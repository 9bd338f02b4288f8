#include "cli/mistyped.h"
#include "base/nearest.h"
#include "cli/cli.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAMES = 256 };

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
    static char names[MAX_NAMES][64];
    const struct argp_option *row = option_at(ctx, i);

    (void)snprintf(names[i], sizeof names[i], "--%s", (row->flags & OPTION_HIDDEN) != 0 ? "" : row->name);
    return names[i];
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

static void refuse(const option_lists *known, const char *verb, const char *name, size_t bytes)
{
    char wanted[128], otherwise[NEAREST_HINT_BYTES], hint[NEAREST_HINT_BYTES];
    uint32_t option_count = 0;

    while (option_count < MAX_NAMES && option_at(known, option_count) != NULL)
        option_count++;
    (void)snprintf(wanted, sizeof wanted, "--%.*s", (int)bytes, name);
    (void)snprintf(otherwise, sizeof otherwise, "; %s --help-all lists the options", verb);
    nearest_hint(hint, otherwise, wanted, name_at, known, option_count);
    (void)fprintf(stderr, "%s: unknown option '%s'%s\n", verb, wanted, hint);
    exit(CLI_USAGE);
}

void mistyped_check(const struct argp_option *const *known, uint32_t count, int argc, char **argv)
{
    const option_lists lists = { known, count };

    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const char *name = argv[i] + 2;
        const size_t bytes = argv[i][0] == '-' && argv[i][1] == '-' ? strcspn(name, "=") : 0;
        const struct argp_option *row = bytes > 0 ? find_option(&lists, name, bytes) : NULL;

        if (bytes > 0 && row == NULL)
            refuse(&lists, argv[0], name, bytes);
        if (bytes > 0)
            i += name[bytes] == '\0' && takes_next(row);
        else if (argv[i][0] == '-')
            i += short_takes_next(&lists, argv[i]);
    }
}
