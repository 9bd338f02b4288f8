/* cli/help.h - the text of --help and of --help-all.
 *
 * --help has at most 40 lines of at most 80 columns: what the verb does, examples, its own options. --help-all adds the
 * details and all other options; manual pages, completion and the site are generated from it. Both are wrapped at the
 * width of the terminal, or at COLUMNS. */
#ifndef CLI_HELP_H
#define CLI_HELP_H
#include "cli/options.h"
#include <stdio.h>

/* Each list of options ends with {0}; NULL: none. */
typedef struct help_page {
    const char *name; /* "inlay run" */
    const cli_verb *verb;
    const struct argp_option *own, *common, *session;
    bool has_all_session; /* otherwise some rows of session are hidden */
} help_page;

/* The text before '\v' in the documentation of an option is what --help prints; --help-all prints both parts. */
void help_print(const help_page *help, bool all, FILE *to);
/* The lines with the syntax alone. */
void help_print_usage(const help_page *page, FILE *to);
#endif
