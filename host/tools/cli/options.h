/* cli/options.h - the options of a verb as a table: names, help, and the fields that receive the values.
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
#include "inlay/status.h"
#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cli_option cli_option;
/* Handles the argument of an option, or a positional argument. `field` is the field that the row names. */
typedef error_t (*cli_take_fn)(const cli_option *option, void *field, char *arg, struct argp_state *state);

typedef enum cli_kind {
    CLI_KIND_YES, /* bool, set to true */
    CLI_KIND_ONE, /* uint32_t, set to 1 */
    CLI_KIND_TEXT,
    CLI_KIND_READ,   /* text, see cli_input_file() */
    CLI_KIND_WRITE,  /* text, see cli_output_file() */
    CLI_KIND_UPDATE, /* text: a file that is read, if it exists, and written */
    CLI_KIND_U32,    /* numbers in [least, most] */
    CLI_KIND_U64,
    CLI_KIND_DOUBLE,
    CLI_KIND_CALL
} cli_kind;

struct cli_option {
    const char *name; /* NULL: the row of positional arguments */
    const char *arg;  /* NULL: the option has no argument */
    const char *doc;
    cli_kind kind;
    size_t at; /* offset of the field in the verb's arguments */
    double least, most;
    cli_take_fn take;
    int key;          /* of argp_option: a letter such as 'o'; 0: a unique number is chosen */
    int flags;        /* of argp_option */
    const char *need; /* error message if a field of type text is not set, or NULL */
};

/* Initialisers for a row, chosen by the type of the field. */
#define CLI_SET(type, field)                                                                                           \
    .kind = _Generic(((type *)0)->field, bool : CLI_KIND_YES, uint32_t : CLI_KIND_ONE), .at = offsetof(type, field)
#define CLI_TEXT_AS(kind_of, type, field)                                                                              \
    .kind = _Generic(((type *)0)->field, const char * : kind_of), .at = offsetof(type, field)
#define CLI_TEXT(type, field) CLI_TEXT_AS(CLI_KIND_TEXT, type, field)
#define CLI_READ(type, field) CLI_TEXT_AS(CLI_KIND_READ, type, field)
#define CLI_WRITE(type, field) CLI_TEXT_AS(CLI_KIND_WRITE, type, field)
#define CLI_UPDATE(type, field) CLI_TEXT_AS(CLI_KIND_UPDATE, type, field)
#define CLI_NUMBER(type, field, min, max)                                                                              \
    .kind = _Generic(((type *)0)->field, uint32_t                                                                      \
                     : CLI_KIND_U32, uint64_t                                                                          \
                     : CLI_KIND_U64, double                                                                            \
                     : CLI_KIND_DOUBLE),                                                                               \
    .at = offsetof(type, field), .least = (min), .most = (max)
#define CLI_CALL(function, type, field) .kind = CLI_KIND_CALL, .take = (function), .at = offsetof(type, field)
/* For a function that receives all arguments of the verb. */
#define CLI_CALL_ALL(function) .kind = CLI_KIND_CALL, .take = (function)

/* Complete rows: a file or folder; MODEL, with --variant; -o and --external of a verb that writes a model. */
error_t cli_take_path(const cli_option *option, void *field, char *arg, struct argp_state *state);
#define CLI_PATH(type, field)                                                                                          \
    {                                                                                                                  \
        .need = "no model given", CLI_CALL(cli_take_path, type, field)                                                 \
    }
error_t cli_take_model(const cli_option *option, void *field, char *arg, struct argp_state *state);
error_t cli_take_variant(const cli_option *option, void *field, char *arg, struct argp_state *state);
#define CLI_MODEL(type, field)                                                                                         \
    { "variant", "NAME", "Weights of a published folder: fp16, q8, q4 ...", CLI_CALL(cli_take_variant, type, field) }, \
    {                                                                                                                  \
        .need = "no model given", CLI_CALL(cli_take_model, type, field)                                                \
    }
/* The same for inlay_text_model_create(), which finds the files of a published folder, with cli_folder_variant(). */
error_t cli_take_texts(const cli_option *option, void *field, char *arg, struct argp_state *state);
#define CLI_TEXT_MODEL(type, field)                                                                                    \
    { "variant", "NAME", "Weights of a published folder: fp16, q8, q4 ...", CLI_CALL(cli_take_variant, type, field) }, \
    {                                                                                                                  \
        .need = "no model given", CLI_CALL(cli_take_texts, type, field)                                                \
    }
const char *cli_folder_variant(void); /* NULL: none was given, or the model is a file */
#define CLI_OUTPUT_NEED "no output file given: name it with -o"
error_t cli_take_output(const cli_option *option, void *field, char *arg, struct argp_state *state);
/* The same for a new version of MODEL, which may have its name. */
error_t cli_take_version(const cli_option *option, void *field, char *arg, struct argp_state *state);
#define CLI_OUTPUT_OPTION(type, field)                                                                                 \
    {                                                                                                                  \
        "output", "FILE", "The file to write; - is standard output", CLI_CALL(cli_take_output, type, field),           \
            .key = 'o', .need = CLI_OUTPUT_NEED                                                                        \
    }
#define CLI_VERSION_DOC "The file to write, which may be MODEL; - is standard output"
error_t cli_take_external(const cli_option *option, void *field, char *arg, struct argp_state *state);
#define CLI_EXTERNAL_OPTION(type, field)                                                                               \
    {                                                                                                                  \
        "external", "NAME", "Put large tensors into the file NAME in the folder of the output",                        \
            CLI_CALL(cli_take_external, type, field)                                                                   \
    }
/* All three, for a field of type cli_files; of a verb that writes a part of MODEL, or a new version. */
#define CLI_PART_OPTIONS(type, field)                                                                                  \
    CLI_OUTPUT_OPTION(type, field.output), CLI_EXTERNAL_OPTION(type, field.external), CLI_MODEL(type, field.model)
#define CLI_FILE_OPTIONS(type, field)                                                                                  \
    { "output",        "FILE",                                                                                         \
      CLI_VERSION_DOC, CLI_CALL(cli_take_version, type, field.output),                                                 \
      .key = 'o',      .need = CLI_OUTPUT_NEED },                                                                      \
        CLI_EXTERNAL_OPTION(type, field.external), CLI_MODEL(type, field.model)
/* A and B, a verb's two models: const char *[2]. */
error_t cli_take_two_models(const cli_option *option, void *field, char *arg, struct argp_state *state);
#define CLI_TWO_MODELS(type, field)                                                                                    \
    { CLI_CALL(cli_take_two_models, type, field) },                                                                    \
    {                                                                                                                  \
        .need = "two models are required: A and B", CLI_CALL(cli_take_two_models, type, field[1])                      \
    }

/* The files of a verb that reads a model and writes another. */
typedef struct cli_files {
    const char *model, *output, *external;
} cli_files;

typedef struct cli_verb {
    const char *words;         /* positional arguments in the usage line, such as "MODEL"; NULL: none */
    const char *doc;           /* text above the options, \v, and text below them */
    const cli_option *options; /* ends with {0}; may be NULL */
    /* Validates all arguments after parsing; may be NULL. False: skip the `need` checks of the rows. */
    bool (*finish)(void *args, struct argp_state *state);
} cli_verb;

/* Input of the parser of a verb's own options. */
typedef struct cli_verb_input {
    const cli_verb *verb;
    void *args;
} cli_verb_input;
/* The parser of a verb's own options; its input is a cli_verb_input. */
struct argp cli_verb_argp(const cli_verb *verb);

/* Replaces a MODEL that is a folder by the file in it. *out_folder: that folder; NULL: MODEL is a file, or missing.
 * Called once, after all options are parsed. */
INLAY_NODISCARD inlay_status cli_choose_model(const cli_verb *verb, void *args, const char **out_folder,
                                              inlay_diag *diag);

/* Ends the process with the exit code and one line on stderr; with --json among the words of the verb, stdout gets
 * {"error": ...}. For parsers of options. */
INLAY_PRINTF(3, 4) _Noreturn void cli_refuse(const struct argp_state *state, int code, const char *format, ...);

/* Parses arg as a number in [min, max]. An error ends the process with CLI_USAGE and a message that names the flag,
 * such as "--seconds". */
double cli_number(struct argp_state *state, const char *flag, const char *arg, double min, double max);
/* The same for at most `most` whole numbers with commas between them. Returns how many. */
uint32_t cli_whole_numbers(struct argp_state *state, const char *flag, const char *list, double min, double max,
                           uint32_t most, uint32_t *out);

/* For a verb's parser: the name of a file to read or write, where "-" is standard input or standard output. A verb that
 * writes a file to standard output prints everything else to stderr, JSON too; only one of its files can go there.
 * Errors end the process. */
const char *cli_input_file(struct argp_state *state, const char *arg);
const char *cli_output_file(struct argp_state *state, const char *arg);
#endif
