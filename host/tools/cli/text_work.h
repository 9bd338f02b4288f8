/* cli/text_work.h - language models for the verbs generate, tokenize and chat, by inlay/text.h. */
#ifndef CLI_TEXT_WORK_H
#define CLI_TEXT_WORK_H
#include "cli/cli.h"
#include "base/strbuf.h"
#include "inlay/text.h"

enum { TEXT_STOPS = 16, TEXT_IMAGES = 16 };

/* What a verb reads of the command line to generate texts. Starts as TEXT_ARGS_INIT. */
typedef struct text_args {
    const char *model, *tokenizer, *draft;
    const char *schema, *grammar;             /* files */
    const char *stops[TEXT_STOPS + 1];        /* [stop_count] */
    const char *vision, *images[TEXT_IMAGES]; /* [image_count]; of chat */
    uint32_t image_count;
    uint32_t stop_count, max_tokens, min_tokens, no_repeat, top_k, lookup, context;
    uint64_t seed;
    double temperature, top_p, min_p, typical_p, penalty;
    const char *prompt, *system; /* of generate; of chat */
    bool ignores_ends, is_rendered;
} text_args;
/* Numbers that no flag sets: those of the model; a seed by the clock. */
#define TEXT_OPEN UINT32_MAX
#define TEXT_ARGS_INIT                                                                                                 \
    {                                                                                                                  \
        .min_tokens = TEXT_OPEN, .no_repeat = TEXT_OPEN, .top_k = TEXT_OPEN, .seed = UINT64_MAX, .temperature = -1,    \
        .top_p = -1, .min_p = -1, .typical_p = -1, .penalty = -1                                                       \
    }

/* Refuses options that exclude each other. */
bool text_finish(void *user, struct argp_state *state);
error_t text_take_stop(const cli_option *option, void *field, char *arg, struct argp_state *state);
/* The rows of generate and chat. */
#define TEXT_OPTIONS                                                                                                   \
    { "tokens", "N", "Stop after N tokens (default: when the text ends)", CLI_NUMBER(text_args, max_tokens, 1, 1e9),   \
      .key = 'n' },                                                                                                    \
        { "temperature", "T", "0: the most probable token (default: the model's)",                                     \
          CLI_NUMBER(text_args, temperature, 0, 2) },                                                                  \
        { "top-k", "K", "Sample from the K most probable tokens; 0: all", CLI_NUMBER(text_args, top_k, 0, 1e9) },      \
        { "top-p", "P", "Sample from the fewest tokens of this probability", CLI_NUMBER(text_args, top_p, 0, 1) },     \
        { "min-p", "P", "Sample from tokens of this part of the highest one", CLI_NUMBER(text_args, min_p, 0, 1) },    \
        { "typical-p", "P", "Sample from the most typical tokens of this probability",                                 \
          CLI_NUMBER(text_args, typical_p, 0, 1) },                                                                    \
        { "repetition-penalty", "R", "Make tokens of the text less probable",                                          \
          CLI_NUMBER(text_args, penalty, 0.01, 100) },                                                                 \
        { "no-repeat-ngram-size", "N", "Repeat no N tokens in succession", CLI_NUMBER(text_args, no_repeat, 0, 1e6) }, \
        { "min-tokens", "N", "End after at least N tokens", CLI_NUMBER(text_args, min_tokens, 0, 1e9) },               \
        { "seed", "N", "The same seed gives the same text", CLI_NUMBER(text_args, seed, 0, 9e15) },                    \
        { "stop", "TEXT", "End before this text; may be repeated", CLI_CALL_ALL(text_take_stop) },                     \
        { "schema", "FILE", "JSON Schema that the text matches", CLI_READ(text_args, schema) },                        \
        { "grammar", "FILE", "GBNF grammar that the text matches", CLI_READ(text_args, grammar) },                     \
        { "tokenizer", "FILE", "tokenizer.json (default: the model folder)", CLI_READ(text_args, tokenizer) },         \
        { "draft", "FILE", "A draft model, which guesses tokens", CLI_READ(text_args, draft) },                        \
        { "lookup", "N", "Guess N tokens from the text's own ones", CLI_NUMBER(text_args, lookup, 0, 16) },            \
        { "context", "N", "Most tokens of the text with its prompt (default: the model's)",                            \
          CLI_NUMBER(text_args, context, 1, 1e9) },                                                                    \
    {                                                                                                                  \
        "ignore-ends", NULL, "Continue after the end of the text", CLI_SET(text_args, ignores_ends)                    \
    }

/* Opens the model, which is the caller's. */
INLAY_NODISCARD inlay_status text_work_open(cli_common *common, const text_args *args, inlay_text_model **out_model,
                                            inlay_diag *diag);
/* Sets what the options say; the texts of files are kept in `files` [2], which starts as {0}, for strbuf_deinit(). */
INLAY_NODISCARD inlay_status text_work_request(const text_args *args, inlay_text_request *request, struct strbuf *files,
                                               inlay_diag *diag);
/* Generates the text, adding it to `to`; prints: and writes it to stdout as it comes. is_over: whether the user has
 * stopped it. */
INLAY_NODISCARD inlay_status text_work_run(inlay_text_model *model, const inlay_text_request *request, bool prints,
                                           bool (*is_over)(void), struct strbuf *to, json_t **out_facts,
                                           inlay_diag *diag);
/* Reads a file; "-" is standard input. */
INLAY_NODISCARD inlay_status text_work_bytes(const char *path, struct strbuf *to, inlay_diag *diag);
/* Reads a text, and ends it by a NUL. */
INLAY_NODISCARD inlay_status text_work_read(const char *path, struct strbuf *to, inlay_diag *diag);
#endif
