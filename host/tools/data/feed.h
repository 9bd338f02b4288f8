/* data/feed.h - the inputs of a run: from files, from a folder, or random.
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
#ifndef DATA_FEED_H
#define DATA_FEED_H
#include "inlay/inlay.h"
#include <stdbool.h>

/* For whom inputs are made. */
typedef struct feed_caller {
    const inlay_options *options; /* their `dim` gives names a size */
    const char *name;             /* "inlay run", in front of notes on stderr */
    bool quiet;                   /* no notes */
    const uint32_t *cancel;       /* see inlay_run_options.cancel; may be NULL */
} feed_caller;

struct feed {
    const char **specs; /* [spec_count] arguments of --input */
    uint32_t spec_count;
    const char *dir; /* of --inputs, or NULL */
    uint64_t seed;
    bool as_priced;   /* random inputs are as those that costs are for, also where their sizes do not go together;
                         integers   are 0 or 1 */
    bool trial;       /* feed_make() runs the model once where sizes had to be guessed, to see that it takes them */
    uint32_t attempt; /* which of the sizes that are guessed, see feed_again() */
    bool guessed;     /* out: some were */
    bool tells_later; /* the caller calls feed_tell() itself, after a run */
    uint8_t *made;    /* [input_count] out: 1 where the shape was made up */
    const char *const *starts; /* [start_count] NAME=START+...: sizes as --grow has them, beside those of --dim */
    uint32_t start_count;
};

void feed_deinit(struct feed *feed);

/* Makes every input of the session: *out_values is an array of inlay_session_input_count() values, NULL where an input
 * with a default is left to it. Release with feed_release(). Dimensions that had to
 * be assumed are noted on stderr, unless tells_later. */
INLAY_NODISCARD inlay_status feed_make(struct feed *feed, feed_caller caller, const inlay_session *session,
                                       inlay_value ***out_values, inlay_diag *diag);
/* The model refused the inputs with that status: are there other sizes to guess? Then the next feed_make() takes them.
 * The order is fixed, so all callers come to the same. */
bool feed_again(struct feed *feed, inlay_status status);
/* Says which sizes had to be assumed, a line each on stderr. */
void feed_tell(const struct feed *feed, feed_caller caller, const inlay_session *session, inlay_value *const *values);
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
