/* quantize/quantize.h - a model in fewer bits: what `inlay quantize` does.
 *
 * The model is optimised at level 1, so that what can be folded is (kept in a scratch folder beside the output), and
 * raised to the opset that the new nodes need. What is written has been run, compared with the model, and timed. */
#ifndef QUANTIZE_QUANTIZE_H
#define QUANTIZE_QUANTIZE_H
#include "base/arena.h"
#include "quantize/judge.h"

typedef enum quantize_mode { QUANTIZE_WEIGHTS, QUANTIZE_STATIC, QUANTIZE_DYNAMIC } quantize_mode;
typedef enum quantize_method {
    QUANTIZE_AUTO,
    QUANTIZE_MINMAX,
    QUANTIZE_PERCENTILE,
    QUANTIZE_ENTROPY,
    QUANTIZE_MSE,
} quantize_method;

#define QUANTIZE_TIMED_S 0.15 /* for so long runs of a session are timed */

typedef struct quantize_args {
    const char *model, *output;
    const char *external;         /* file beside the output for large tensors, or NULL */
    bool pack;                    /* that file is compressed (pack.h) */
    const inlay_options *options; /* of all sessions; with cache and progress as the caller has them */
    const struct samples *data;   /* to compare with, and for QUANTIZE_STATIC to calibrate with */
    bool made_up;                 /* the samples' contents are: they are no ground for anything but a look */
    quantize_mode mode;
    uint32_t bits;    /* of weights: 4, 8, 16, NARROW_EXACT or NARROW_MIXED */
    double most_bits; /* of NARROW_MIXED: a weight on average, scales included */
    bool must;        /* the caller asked for these bits: written also where that is no faster */
    bool small;       /* bytes are what matters: written also where it is as fast, but not where it is slower */
    double prune;     /* share of blocks that become zeros (prune.h) while weights stay floats; NAN: none */
    bool nbits;
    bool qoperator; /* of QUANTIZE_STATIC: QLinearConv and QLinearMatMul, see qoperator.h */
    uint32_t block;
    quantize_method method;
    const char *const *skip; /* [skip_count] */
    uint32_t skip_count;
    agree_metric metric;
    double goal;       /* the agreement that is to be kept; NAN: what suits the metric */
    bool sure;         /* as of verdict_holds(); so where the goal is left open */
    bool front;        /* of QUANTIZE_STATIC: run what else there is between floats and integers, too */
    const char *stats; /* of QUANTIZE_STATIC: the file that keeps what was found, and has it; or NULL */
    int (*progress)(void *user, double fraction, const char *what); /* or NULL; non-zero stops */
    void *progress_user;
    void (*note)(void *user, const char *text); /* hears what was tried, a line each; or NULL */
    /* The milliseconds of a run of the model at path, the one that is given or what was made of it; false: they are to
     * be measured in this process. Or NULL. */
    bool (*timer)(void *user, const char *path, double *out_ms);
    void *timer_user;
} quantize_args;

typedef struct quantize_layer {
    const char *name, *op;
    uint32_t bits; /* 32: float */
    bool integers; /* activations are integers, too */
    uint64_t bytes_before, bytes_after;
    const char *kept; /* why it stays, or NULL */
} quantize_layer;

/* A model that was run on samples and timed. */
typedef struct quantize_point {
    const char *what;
    double ms, score;
    bool chosen;
} quantize_point;

/* What came of it. Texts are the arena's. */
typedef struct quantize_report {
    struct arena arena;
    quantize_layer *layers;
    uint32_t layer_count;
    uint64_t bytes_before, bytes_after; /* of the files, external data included */
    double ms_before, ms_after;
    struct verdict agreement;
    const char *what;       /* "weights in 8 bits" */
    const char *handed;     /* NULL, or why the model was handed back as it is */
    const char *unmeasured; /* NULL, or why made-up samples could not be run: then nothing was compared or timed */
    quantize_point *points; /* [point_count] what was tried, of QUANTIZE_STATIC */
    uint32_t point_count;
    double seconds;
} quantize_report;

/* Writes args->output, or nothing. *report is to be released with quantize_report_deinit() whatever comes of it. */
INLAY_NODISCARD inlay_status quantize_model(const quantize_args *args, quantize_report *report, inlay_diag *diag);
void quantize_report_deinit(quantize_report *report);
#endif
