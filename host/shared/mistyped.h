/* cli/mistyped.h - the words of a command line before argp: options that do not exist, switches. */
#ifndef CLI_MISTYPED_H
#define CLI_MISTYPED_H
#include <argp.h>
#include <stdint.h>

/* Checks that every option in argv is one of the lists known[count] (each ends with {0}; NULL: empty), or the beginning
 * of one, and has a value if it needs one. Otherwise ends the process by cli_refuse(), with the nearest option; argp
 * would print two lines, and no JSON. argv[0] is the name of the verb, "inlay run". Also makes -h --help, and gives an
 * option whose argument is optional a following 0 or 1. Returns the number of words that argv then has. */
int mistyped_check(const struct argp_option *const *known, uint32_t count, int argc, char **argv);
/* What inlay calls a verb ("convert") or an option ("--batch") of other tools, from elsewhere.def; NULL: unknown. */
const char *mistyped_elsewhere(const char *word);
#endif
