/* data/feed.h - the inputs of a run: from files, from a folder, or random.
 *
 *     --input NAME=FILE.npy | NAME=FILE.npz | NAME=FILE.pb | NAME=random | NAME=random:2,3,224,224
 *     --input NAME=1,2,3 | NAME=[[1,2],[3,4]] | NAME=FILE.csv | NAME=FILE.csv:COLUMN,...
 *     --inputs DIR | FILE.npz | FILE.csv     --seed N
 *
 * NAME=FILE with any other file, such as a picture, sets an input of bytes ([N]) to the bytes of the file, and an input
 * of strings to its lines. NAME=text:WORDS is a string.
 *
 * An input that --input does not name is read from DIR/<name>.npy, .pb or .npz, or is an array of FILE.npz; without
 * --inputs it is random. Random contents depend only on the seed and the input's name. Random integers are 0 or 1,
 * which are valid indexes of most tables. Unspecified sizes are guessed until the model accepts them. */
#ifndef DATA_FEED_H
#define DATA_FEED_H
#include "inlay/inlay.h"
#include <stdbool.h>

/* The caller's part of making inputs. */
typedef struct feed_caller {
    const inlay_options *options; /* the option `dim` sets sizes */
    const char *name;             /* "inlay run", the prefix of notes on stderr */
    bool quiet;                   /* print no notes */
    const uint32_t *cancel;       /* see inlay_run_options.cancel; may be NULL */
    bool takes_samples;           /* by --data; otherwise values by --input. Messages name the flag */
} feed_caller;

struct feed {
    const char **specs; /* [spec_count] arguments of --input */
    uint32_t spec_count;
    const char *dir; /* --inputs, or NULL */
    uint64_t seed;
    /* Random inputs have the sizes that costs assume, even if these do not fit together; integers are 0 or 1. */
    bool costed_sizes;
    bool trial;        /* feed_make() runs the model once if sizes were guessed, to check that it accepts them */
    uint32_t attempt;  /* index of the guessed sizes, see feed_next_sizes() */
    bool guessed;      /* out: sizes were guessed */
    bool defer_report; /* the caller calls feed_report_sizes() itself, after a run */
    uint8_t *made;     /* [input_count] out: 1 if the shape was guessed */
    const char *const *starts; /* [start_count] NAME=START+...: sizes from --grow, in addition to --dim */
    uint32_t start_count;
};

void feed_deinit(struct feed *feed);

/* Makes every input of the session: *out_values is an array of inlay_session_input_count() values, NULL for an input
 * that uses its default. Release it with feed_release(). Guessed dimensions are reported on stderr, unless
 * defer_report. */
INLAY_NODISCARD inlay_status feed_make(struct feed *feed, feed_caller caller, const inlay_session *session,
                                       inlay_value ***out_values, inlay_diag *diag);
/* The model refused the inputs with `status`. True: there are other sizes to guess, which the next feed_make() uses.
 * The order is fixed, so that all callers get the same sizes. */
bool feed_next_sizes(struct feed *feed, inlay_status status);
/* Reports the guessed sizes in one line on stderr, each name once. */
void feed_report_sizes(const struct feed *feed, feed_caller caller, const inlay_session *session,
                       inlay_value *const *values);
/* Whether the inputs have the sizes that the session's costs assume. */
bool feed_has_costed_sizes(inlay_value *const *values, const inlay_session *session);
/* Sets the values as inputs of the context. */
INLAY_NODISCARD inlay_status feed_bind(inlay_value *const *values, const inlay_session *session, inlay_context *context,
                                       inlay_diag *diag);
void feed_release(inlay_value **values, const inlay_session *session); /* NULL is a no-op */

/* Fills count elements of a tensor: floats in [-1, 1], mostly near 0; integers from 0 to 7; booleans. Strings are not
 * changed. */
void feed_random(inlay_dtype dtype, void *data, int64_t count, uint64_t seed);
#endif
