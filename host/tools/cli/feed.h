/* cli/feed.h - the inputs of a run: from files, from a folder, or random.
 *
 *     --input NAME=FILE.npy | NAME=FILE.npz | NAME=FILE.pb | NAME=random | NAME=random:2,3,224,224
 *     --inputs DIR | FILE.npz     --seed N
 *
 * An input of bytes ([N]) or of strings takes any other file as it is: its bytes, such as those of a picture, or its
 * lines; NAME=text:WORDS is a string itself.
 *
 * An input that --input does not name is read from DIR/<name>.npy, .pb or .npz, or is an array of FILE.npz; without
 * --inputs it is random. Random contents depend on the seed and the input's name alone; integers are 0 or 1, which most
 * tables have. Sizes that nobody has said are guessed until the model takes them. */
#ifndef CLI_FEED_H
#define CLI_FEED_H
#include "cli/cli.h"

typedef struct feed {
    const char **specs; /* [spec_count] arguments of --input */
    uint32_t spec_count;
    const char *dir; /* of --inputs, or NULL */
    uint64_t seed;
    bool as_priced;   /* random inputs are as those that costs are for, also where their sizes do not go together;
                         integers   are 0 or 1 */
    bool trial;       /* feed_make() runs the model once where sizes had to be guessed, to see that it takes them */
    uint32_t attempt; /* which of the sizes that are guessed, see feed_again() */
    bool guessed;     /* out: some were */
    bool tells_later; /* the verb calls feed_tell(), after a run */
    uint8_t *made;    /* [input_count] out: 1 where the shape was made up */
    const char *const *starts; /* [start_count] NAME=START+...: sizes as --grow has them, beside those of --dim */
    uint32_t start_count;
} feed;

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
void feed_deinit(feed *f);

/* Makes every input of the session: *out_values is an array of inlay_session_input_count() values, NULL where an input
 * with a default is left to it. Release with feed_release(). Dimensions that had to
 * be assumed are noted on stderr, but where the verb tells later. */
INLAY_NODISCARD inlay_status feed_make(feed *f, const cli_common *common, const inlay_session *session,
                                       inlay_value ***out_values, inlay_diag *diag);
/* The model refused the inputs with that status: are there other sizes to guess? Then the next feed_make() takes them.
 * The order is fixed, so all verbs come to the same. */
bool feed_again(feed *f, inlay_status status);
/* Says which sizes had to be assumed, a line each on stderr. */
void feed_tell(const feed *f, const cli_common *common, const inlay_session *session, inlay_value *const *values);
/* Do the inputs have the sizes that the session's costs assume? */
bool feed_is_as_priced(inlay_value *const *values, const inlay_session *session);
/* Binds them. */
INLAY_NODISCARD inlay_status feed_bind(inlay_value *const *values, const inlay_session *session, inlay_context *context,
                                       inlay_diag *diag);
void feed_release(inlay_value **values, const inlay_session *session); /* NULL is a no-op */

/* Fills count elements of a tensor: floats in [-1, 1], more of them near 0; integers from 0 to 7; booleans. Strings are
 * left alone. */
void feed_random(inlay_dtype dtype, void *data, int64_t count, uint64_t seed);
#endif
