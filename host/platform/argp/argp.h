/* argp.h: the part of glibc's parser of command lines that inlay uses; in argp.c. Options may be abbreviated; help is
 * not printed. */
#ifndef PLATFORM_ARGP_H
#define PLATFORM_ARGP_H
#include <stddef.h>

typedef int error_t;

struct argp_option {
    const char *name; /* NULL, with key 0: the end of a list */
    int key;
    const char *arg;
    int flags;
    const char *doc;
    int group;
};
#define OPTION_ARG_OPTIONAL 1
#define OPTION_HIDDEN 2

struct argp_state {
    int argc;
    char **argv;
    int next; /* the word after the current one */
    void *input;
    void **child_inputs;
    const char *name; /* of the program, for messages */
};
typedef error_t (*argp_parser_t)(int key, char *arg, struct argp_state *state);

struct argp_child {
    const struct argp *argp;
    int flags;
    const char *header;
    int group;
};
struct argp {
    const struct argp_option *options;
    argp_parser_t parser;
    const char *args_doc;
    const char *doc;
    const struct argp_child *children; /* ends with {0}; these have no children */
    char *(*help_filter)(int key, const char *text, void *input);
    const char *argp_domain;
};

#define ARGP_ERR_UNKNOWN 7
#define ARGP_KEY_ARG 0
#define ARGP_KEY_END 0x1000001
#define ARGP_KEY_INIT 0x1000003
#define ARGP_KEY_SUCCESS 0x1000004
#define ARGP_NO_HELP 0x10

extern int argp_err_exit_status;
error_t argp_parse(const struct argp *argp, int argc, char **argv, unsigned flags, int *out_index, void *input);
/* Prints a message and ends the process with argp_err_exit_status. */
void argp_error(const struct argp_state *state, const char *format, ...) __attribute__((format(gnu_printf, 2, 3)));
/* Prints a message, with the text of an error number unless it is 0, and ends the process unless status is 0. */
void argp_failure(const struct argp_state *state, int status, int number, const char *format, ...)
    __attribute__((format(gnu_printf, 4, 5)));
#endif
