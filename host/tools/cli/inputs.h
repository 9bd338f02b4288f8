/* cli/inputs.h - the flags for inputs of a run: --input, --inputs, --seed (data/feed.h); the first run with them. */
#ifndef CLI_INPUTS_H
#define CLI_INPUTS_H
#include "cli/cli.h"
#include "cli/grow.h"
#include "data/feed.h"

/* Handlers of --input and --seed; `field` is a struct feed, or its seed. */
error_t feed_take_input(const cli_option *option, void *field, char *arg, struct argp_state *state);
error_t feed_take_seed(const cli_option *option, void *field, char *arg, struct argp_state *state);
/* Rows of a verb's options. */
#define FEED_OPTIONS(type, field)                                                                                      \
    { "input", "NAME=FILE",                                                                                            \
      "Input NAME: FILE.npy, .npz or .pb; rows of FILE.csv; 1,2,3 or [[1,2],[3,4]]; a picture; random or "             \
      "random:2,3,4; a file of bytes or text, or text:WORDS, if the input takes these\v. FILE.csv:a,b selects "        \
      "columns "                                                                                                       \
      "by name or number from 1. Other element types are converted if nothing is lost",                                \
      CLI_CALL(feed_take_input, type, field) },                                                                        \
        { "inputs", "DIR|FILE",                                                                                        \
          "Inputs from DIR/<name>.npy, the arrays of FILE.npz or the columns of FILE.csv\v(also DIR/<name>.npz and "   \
          ".pb; '/' and ':' in names read as '_')",                                                                    \
          CLI_TEXT(type, field.dir) },                                                                                 \
    {                                                                                                                  \
        "seed", "N", "Seed of random inputs (default: 0)", CLI_CALL(feed_take_seed, type, field.seed)                  \
    }

/* A context, its inputs, and the time of its first run. {0} is none. */
typedef struct first_run {
    inlay_context *context;
    inlay_value **inputs;
    double ms;
} first_run;

/* Creates inputs and runs the session once; if the model rejects guessed sizes, tries others. Prints notes about
 * assumed sizes. grow (may be NULL): uses the inputs of its step 0, and does not guess again. The caller calls
 * first_run_deinit(), also after a failure. */
INLAY_NODISCARD inlay_status first_run_make(struct feed *feed, const struct grow *grow, const cli_common *common,
                                            inlay_session *session, const inlay_run_options *options, first_run *out,
                                            inlay_diag *diag);
void first_run_deinit(first_run *run, const inlay_session *session);

/* The caller description for feed_make(), and that of a verb with --data for dataset_open(). */
static inline feed_caller cli_caller(const cli_common *common)
{
    return (feed_caller){
        .options = common->options, .name = common->verb, .quiet = common->quiet, .cancel = cli_cancel()
    };
}
static inline feed_caller cli_samples_caller(const cli_common *common)
{
    feed_caller caller = cli_caller(common);

    caller.takes_samples = true;
    return caller;
}
#endif
