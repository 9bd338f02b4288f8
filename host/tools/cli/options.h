/* cli/options.h - the options of a verb as a table: names, help, and where values go.
 *
 *     static const cli_option options[] = {
 *         { "seconds", "S", "Run for S seconds (default: 1)", CLI_NUMBER(my_args, seconds, 0, 1e6) },
 *         { "html", "FILE", "Write a page to FILE", CLI_WRITE(my_args, html) },
 *         { "watch", "NODE", "Print what these nodes read, too", CLI_CALL(watched_add, my_args, watched) },
 *         CLI_MODEL(my_args, model),
 *         { 0 },
 *     };
 *
 * argp parses them and prints --help. Each mistake in a value ends the process with CLI_USAGE. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H
#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cli_option cli_option;
/* Takes the argument of an option, or a word that is none; field is the one that the row names. */
typedef error_t (*cli_take_fn)(const cli_option *option, void *field, char *arg, struct argp_state *state);

typedef enum cli_kind {
    CLI_KIND_YES, /* bool, set to true */
    CLI_KIND_ONE, /* uint32_t, set to 1 */
    CLI_KIND_TEXT,
    CLI_KIND_READ,  /* text, see cli_input_file() */
    CLI_KIND_WRITE, /* text, see cli_output_file() */
    CLI_KIND_U32,   /* numbers from least to most */
    CLI_KIND_U64,
    CLI_KIND_DOUBLE,
    CLI_KIND_CALL
} cli_kind;

struct cli_option {
    const char *name; /* NULL: the row of words that are no options */
    const char *arg;  /* NULL: it takes none */
    const char *doc;
    cli_kind kind;
    size_t at; /* of the field within the verb's arguments */
    double least, most;
    cli_take_fn take;
    int key;          /* of argp_option: a letter such as 'o'; 0: a number that no other row has */
    int flags;        /* of argp_option */
    const char *need; /* of a text: the question that a command line without it ends with, or NULL */
};

/* What may stand in a row, by the field's type. */
#define CLI_SET(type, field)                                                                                           \
    .kind = _Generic(((type *)0)->field, bool : CLI_KIND_YES, uint32_t : CLI_KIND_ONE), .at = offsetof(type, field)
#define CLI_TEXT_AS(kind_of, type, field)                                                                              \
    .kind = _Generic(((type *)0)->field, const char * : kind_of), .at = offsetof(type, field)
#define CLI_TEXT(type, field) CLI_TEXT_AS(CLI_KIND_TEXT, type, field)
#define CLI_READ(type, field) CLI_TEXT_AS(CLI_KIND_READ, type, field)
#define CLI_WRITE(type, field) CLI_TEXT_AS(CLI_KIND_WRITE, type, field)
#define CLI_NUMBER(type, field, min, max)                                                                              \
    .kind = _Generic(((type *)0)->field, uint32_t                                                                      \
                     : CLI_KIND_U32, uint64_t                                                                          \
                     : CLI_KIND_U64, double                                                                            \
                     : CLI_KIND_DOUBLE),                                                                               \
    .at = offsetof(type, field), .least = (min), .most = (max)
#define CLI_CALL(function, type, field) .kind = CLI_KIND_CALL, .take = (function), .at = offsetof(type, field)
/* The same for a function that takes the verb's arguments as a whole. */
#define CLI_CALL_ALL(function) .kind = CLI_KIND_CALL, .take = (function)

/* Whole rows: MODEL; -o and --external of a verb that makes a model of a model. */
error_t cli_take_model(const cli_option *option, void *field, char *arg, struct argp_state *state);
#define CLI_MODEL(type, field)                                                                                         \
    {                                                                                                                  \
        .need = "which model?", CLI_CALL(cli_take_model, type, field)                                                  \
    }
#define CLI_OUTPUT_NEED "which file is to be written? Name it with -o"
#define CLI_OUTPUT_OPTION(type, field)                                                                                 \
    {                                                                                                                  \
        "output", "FILE", "The file to write; - is standard output", CLI_WRITE(type, field), .key = 'o',               \
                                                                                             .need = CLI_OUTPUT_NEED   \
    }
#define CLI_EXTERNAL_OPTION(type, field)                                                                               \
    {                                                                                                                  \
        "external", "NAME", "Put large tensors into the file NAME beside it", CLI_TEXT(type, field)                    \
    }
/* All three, for a field of type cli_files. */
#define CLI_FILE_OPTIONS(type, field)                                                                                  \
    CLI_OUTPUT_OPTION(type, field.output), CLI_EXTERNAL_OPTION(type, field.external), CLI_MODEL(type, field.model)
/* A and B, a verb's two models: const char *[2]. */
error_t cli_take_two_models(const cli_option *option, void *field, char *arg, struct argp_state *state);
#define CLI_TWO_MODELS(type, field)                                                                                    \
    { CLI_CALL(cli_take_two_models, type, field) },                                                                    \
    {                                                                                                                  \
        .need = "which models? A and B", CLI_CALL(cli_take_two_models, type, field[1])                                 \
    }

/* What a verb reads and writes that makes a model of a model. */
typedef struct cli_files {
    const char *model, *output, *external;
} cli_files;

typedef struct cli_verb {
    const char *words;         /* "MODEL" in the line of usage; NULL: it takes no words */
    const char *doc;           /* above the options, \v, and below them */
    const cli_option *options; /* ends with {0}; may be NULL */
    /* Checks everything, after the last word; may be NULL. False: it does without what rows need. */
    bool (*finish)(void *args, struct argp_state *state);
} cli_verb;

/* The parser of a verb's own options, for cli_parse(): its input is a cli_verb_input. */
typedef struct cli_verb_input {
    const cli_verb *verb;
    void *args;
} cli_verb_input;
struct argp cli_verb_argp(const cli_verb *verb);

/* The number in arg, within [min, max]; anything else ends the process with CLI_USAGE and a line that names the flag,
 * "--seconds". */
double cli_number(struct argp_state *state, const char *flag, const char *arg, double min, double max);

/* For a verb's parser: a file to read and a file to write, of which "-" is standard input and standard output. A verb
 * that writes to standard output prints to stderr instead, JSON too; only one of its files can. What is wrong ends the
 * process. */
const char *cli_input_file(struct argp_state *state, const char *arg);
const char *cli_output_file(struct argp_state *state, const char *arg);
#endif
