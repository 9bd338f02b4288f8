/* shared/mistyped.h - the words of a command line before argp: options that do not exist, switches. */
#ifndef SHARED_MISTYPED_H
#define SHARED_MISTYPED_H
#include <argp.h>
#include <stdint.h>

/* The options of a program, and how it refuses a word. */
typedef struct mistyped_options {
    const struct argp_option *const *lists; /* [count] each ends with {0}; NULL: empty */
    uint32_t count;
    /* Prints text; if it returns, the process ends with status 2. Of state, name, argc and argv are set. */
    void (*refuse)(const struct argp_state *state, const char *text);
} mistyped_options;

/* Checks that every option in argv is one of the lists, or the only beginning of one, and has a value if it needs one.
 * A name that ends in a unit, as timeout-ms does, has to be complete. Otherwise calls refuse() with one line that has
 * what elsewhere.h says, or the nearest option; argp would print two lines, and no JSON. argv[0] is the name of the
 * verb, "inlay run". Also makes -h --help, and gives an option whose argument is optional a following 0 or 1. Returns
 * the number of words that argv then has. */
int mistyped_check(const mistyped_options *options, int argc, char **argv);
#endif
