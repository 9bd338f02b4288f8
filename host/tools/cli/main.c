/* inlay: the command line of libinlay. Finds the verb; cmd_<verb>.c implements it. */
#include "base/nearest.h"
#include "base/output.h"
#include "cli/cli.h"
#include "cli/outputs.h"
#include "inlay/check.h"
#include "shared/elsewhere.h"
#include <stdio.h>
#include <string.h>

struct verb {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
};

static const struct verb verbs[] = {
#define VERB(name, summary) { #name, summary, cmd_##name },
#include "cli/verbs.def"
#undef VERB
};
enum { VERB_COUNT = sizeof verbs / sizeof verbs[0] };

/* The name as users write it: the name of the function with - instead of _. */
static const char *verb_name(const void *ctx, uint32_t i)
{
    static char names[VERB_COUNT][24];

    INLAY_CHECK(i < VERB_COUNT);
    (void)ctx;
    (void)snprintf(names[i], sizeof names[i], "%s", verbs[i].name);
    for (char *c = names[i]; *c != '\0'; c++)
        *c = *c == '_' ? '-' : *c;
    return names[i];
}

static void print_usage(FILE *to)
{
    (void)fprintf(to, "Usage: inlay VERB [ARGUMENT...]\n\nRuns ONNX models, and language models in GGUF, on plug-in "
                      "execution providers.\n\n");
    for (uint32_t i = 0; i < VERB_COUNT; i++)
        (void)fprintf(to, "  %-12s %s\n", verb_name(NULL, i), verbs[i].summary);
    (void)fprintf(to, "  %-12s %s\n", "help",
                  "show the manual of a verb, or the exit codes: inlay help VERB|exit-codes");
    (void)fprintf(to, "\n  --version  print the version\n  --help     print this list\n");
}

static int print_exit_codes(void)
{
#define PRINT(number, name, text) (void)printf("%4d  %s\n", number, text);
    CLI_EXIT_LIST(PRINT)
#undef PRINT
    return CLI_OK;
}

static const struct verb *find_verb(const char *name)
{
    for (uint32_t i = 0; i < VERB_COUNT; i++)
        if (strcmp(verb_name(NULL, i), name) == 0)
            return &verbs[i];
    return NULL;
}

/* Sets argv[0] to the name that argp prints in help and errors. */
static int run_verb(const struct verb *verb, int argc, char **argv)
{
    char name[32];

    (void)snprintf(name, sizeof name, "inlay %s", verb_name(NULL, (uint32_t)(verb - verbs)));
    argv[0] = name;
    return verb->run(argc, argv);
}

static const char *option_name(const void *ctx, uint32_t i)
{
    static const char *const names[] = { "--version", "--help", "--help-all" };

    (void)ctx;
    return names[i];
}

static int unknown_verb(const char *name)
{
    const char *elsewhere = elsewhere_answer(name, NULL, NULL);
    char otherwise[NEAREST_HINT_BYTES], hint[NEAREST_HINT_BYTES];

    if (elsewhere != NULL)
        (void)snprintf(otherwise, sizeof otherwise, "; try %s", elsewhere);
    else
        (void)snprintf(otherwise, sizeof otherwise, "; inlay --help lists the verbs");
    if (name[0] == '-')
        nearest_hint(hint, "; inlay --help lists the verbs", name, option_name, NULL, 3);
    else
        nearest_hint(hint, otherwise, name, verb_name, NULL, VERB_COUNT);
    (void)fprintf(stderr, "inlay: unknown %s '%s'%s\n", name[0] == '-' ? "option" : "verb", name, hint);
    return CLI_USAGE;
}

static int help(int argc, char **argv)
{
    char *help_args[] = { NULL, (char[]){ "--help" }, NULL };
    const struct verb *verb;

    if (argc < 2) {
        print_usage(stdout);
        return CLI_OK;
    }
    if (strcmp(argv[1], "exit-codes") == 0)
        return print_exit_codes();
    verb = find_verb(argv[1]);
    return verb != NULL ? run_verb(verb, 2, help_args) : unknown_verb(argv[1]);
}

static int run(int argc, char **argv)
{
    const struct verb *verb;

    if (argc < 2) {
        print_usage(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        (void)printf("inlay %s\n", inlay_version());
        return CLI_OK;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "--help-all") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "-?") == 0) {
        print_usage(stdout);
        return CLI_OK;
    }
    if (strcmp(argv[1], "help") == 0)
        return help(argc - 1, argv + 1);
    verb = find_verb(argv[1]);
    return verb != NULL ? run_verb(verb, argc - 1, argv + 1) : unknown_verb(argv[1]);
}

int main(int argc, char **argv)
{
    int code;

    output_guard_streams("inlay");
    outputs_protect();
    argp_err_exit_status = CLI_USAGE;
    cli_restart_init(argc, argv);
    code = run(argc, argv);
    return code != CLI_OK && cli_cancelled() ? CLI_CANCELLED : code; /* the interrupt may have caused another error */
}
