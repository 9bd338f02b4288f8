#include "cli/inputs.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

error_t feed_parse(feed *f, int key, char *arg, struct argp_state *state)
{
    char *end = NULL;

    switch (key) {
    case FEED_KEY_INPUT:
        if (strchr(arg, '=') == NULL)
            argp_failure(state, CLI_USAGE, 0, "--input %s: expected NAME=FILE.npy, .npz or .pb, or NAME=random", arg);
        if (!LIST_GROW(f->specs, f->spec_count))
            return ENOMEM;
        f->specs[f->spec_count++] = arg;
        return 0;
    case FEED_KEY_INPUTS:
        f->dir = arg;
        return 0;
    case FEED_KEY_SEED:
        errno = 0;
        f->seed = strtoull(arg, &end, 0);
        if (*end != '\0' || end == arg || errno != 0)
            argp_failure(state, CLI_USAGE, 0, "--seed %s: expected a number", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}
