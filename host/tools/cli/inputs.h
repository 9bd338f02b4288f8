/* cli/inputs.h - the flags of a run's inputs: --input, --inputs, --seed (data/feed.h); the first run with them. */
#ifndef CLI_INPUTS_H
#define CLI_INPUTS_H
#include "cli/cli.h"
#include "cli/grow.h"
#include "data/feed.h"

enum { FEED_KEY_INPUT = 0x3000, FEED_KEY_INPUTS, FEED_KEY_SEED };
/* Rows for a verb's argp_option table. */
#define FEED_FLAGS                                                                                                     \
    { "input",                                                                                                         \
      FEED_KEY_INPUT,                                                                                                  \
      "NAME=FILE",                                                                                                     \
      0,                                                                                                               \
      "Input NAME from a .npy, .npz or .pb file, or random, or random:2,3,4 to give its shape; inputs of bytes and "   \
      "of strings "                                                                                                    \
      "also from a picture, a sound file, a text file, or text:WORDS",                                                 \
      0 },                                                                                                             \
        { "inputs",                                                                                                    \
          FEED_KEY_INPUTS,                                                                                             \
          "DIR|FILE.npz",                                                                                              \
          0,                                                                                                           \
          "Inputs from DIR/<name>.npy, .npz or .pb, or the arrays of FILE.npz; '/' and ':' in names read as '_'",      \
          0 },                                                                                                         \
    {                                                                                                                  \
        "seed", FEED_KEY_SEED, "N", 0, "Of random inputs (default: 0)", 0                                              \
    }

/* Handles the keys above; ARGP_ERR_UNKNOWN for others. Sizes are checked when the inputs are made. */
error_t feed_parse(feed *f, int key, char *arg, struct argp_state *state);
/* The same, for a verb whose one argument is the model. */
static inline error_t feed_parse_model(feed *f, const char **model, int key, char *arg, struct argp_state *state)
{
    return key == ARGP_KEY_ARG || key == ARGP_KEY_END ? cli_parse_model(key, arg, state, model)
                                                      : feed_parse(f, key, arg, state);
}

/* A context, its inputs, and the time of its first run. {0} is none. */
typedef struct first_run {
    inlay_context *context;
    inlay_value **inputs;
    double ms;
} first_run;

/* Makes inputs and runs the session once; where the model refuses sizes that were guessed, again with others. Notes
 * which sizes were assumed. grow, or NULL: the inputs of its step 0; their sizes are not guessed again. Also after a
 * failure the caller calls first_run_deinit(). */
INLAY_NODISCARD inlay_status first_run_make(feed *f, const grow *g, const cli_common *common, inlay_session *session,
                                            const inlay_run_options *options, first_run *out, inlay_diag *diag);
void first_run_deinit(first_run *r, const inlay_session *session);

/* For whom the verb makes inputs. */
static inline feed_caller cli_caller(const cli_common *common)
{
    return (feed_caller){ common->options, common->verb, common->quiet, cli_cancel() };
}
#endif
