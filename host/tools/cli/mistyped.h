/* cli/mistyped.h - the answer to options that do not exist. */
#ifndef CLI_MISTYPED_H
#define CLI_MISTYPED_H
#include <argp.h>
#include <stdint.h>

/* Checks that every long option in argv is one of the lists known[count] (each ends with {0}; NULL: empty), or the
 * beginning of one. Otherwise prints one line with the nearest option and ends the process with CLI_USAGE. argv[0] is
 * the name of the verb, "inlay run". */
void mistyped_check(const struct argp_option *const *known, uint32_t count, int argc, char **argv);
#endif
