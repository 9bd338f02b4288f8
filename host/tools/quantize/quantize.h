/* quantize/quantize.h - stores or computes a model in fewer bits: the work of `inlay quantize`.
 *
 * The model is first optimised at level 1, which folds constants (the intermediate file is kept in a scratch folder
 * next to the output), and raised to the opset that the new nodes need. The result is run, compared with the original
 * model, and timed before it is written. */
#ifndef QUANTIZE_QUANTIZE_H
#define QUANTIZE_QUANTIZE_H
#include "base/arena.h"
#include "quantize/evaluate.h"

typedef enum quantize_mode { QUANTIZE_WEIGHTS, QUANTIZE_STATIC, QUANTIZE_DYNAMIC } quantize_mode;
typedef enum quantize_method {
    QUANTIZE_AUTO,
    QUANTIZE_MINMAX,
    QUANTIZE_PERCENTILE,
    QUANTIZE_ENTROPY,
    QUANTIZE_MSE,
} quantize_method;

#define QUANTIZE_TIMED_S 0.15 /* Functions of the caller; each may be NULL. */
typedef struct quantize_calls {
    int (*progress)(void *user, double fraction, const char *what); /* non-zero stops */
    void (*note)(void *user, const char *text);                     /* called with one line for each candidate */
    void *progress_user;                                            /* argument of both */
    /* Measures the milliseconds of one run of the model at path, which is the original or a candidate. If the function
     * returns false, or is NULL, the time is measured in this process. */
    bool (*timer)(void *user, const char *path, double *out_ms);
    void *timer_user;
} quantize_calls;

/* seconds for which a session is timed */

typedef struct quantize_args {
    const char *model, *output;
    const char *external;         /* name of the file next to the output for large tensors, or NULL */
    bool pack;                    /* compress that file (pack.h) */
    const inlay_options *options; /* options of all sessions; cache and progress as set by the caller */
    const struct samples *data;   /* samples to compare on; QUANTIZE_STATIC also calibrates with them */
    bool made_up;                 /* the samples are random: the comparison is reported, but decides nothing */
    quantize_mode mode;
    uint32_t bits;    /* bits of a weight: 4, 8, 16, LOW_BIT_EXACT or LOW_BIT_MIXED */
    double most_bits; /* LOW_BIT_MIXED: largest average bits of a weight, scales included */
    bool must;        /* the caller chose these bits: write the result even if it is not faster */
    bool small;       /* prefer small files: write the result unless it is slower than the original */
    double prune;     /* share of blocks to set to zero (prune.h); weights stay floats; NAN: no pruning */
    bool nbits;       /* see low_bit_options */
    bool qoperator;   /* QUANTIZE_STATIC: write QLinearConv and QLinearMatMul, see qoperator.h */
    uint32_t block;   /* see low_bit_options */
    quantize_method method;
    const char *const *skip; /* [skip_count] */
    uint32_t skip_count;
    agree_demand demand; /* goal NAN: the default of the metric */
    bool front;          /* QUANTIZE_STATIC: also run points between all floats and all integers */
    const char *stats;   /* QUANTIZE_STATIC: file with the results of an earlier search, read and extended; or NULL */
    quantize_calls calls;
} quantize_args;

typedef struct quantize_layer {
    const char *name, *op;
    uint32_t bits; /* 32: float */
    bool integers; /* activations are integers as well */
    uint64_t bytes_before, bytes_after;
    const char *kept; /* why the layer stays float, or NULL */
} quantize_layer;

/* A model that was run on samples and timed. */
typedef struct quantize_point {
    const char *what;
    double ms, score;
    bool chosen;
    uint32_t measured; /* times; ms and score are those of the chosen measurement, or else of the fastest */
} quantize_point;

/* The result. Strings belong to the arena. */
typedef struct quantize_report {
    struct arena arena;
    quantize_layer *layers;
    uint32_t layer_count;
    uint64_t bytes_before, bytes_after; /* of the files, external data included */
    double ms_before, ms_after;
    struct verdict agreement;
    const char *what;       /* description of the result: "weights in 8 bits" */
    const char *handed;     /* NULL, or why the original model was written unchanged */
    const char *unmeasured; /* NULL, or why random samples could not be run; then nothing was compared or timed */
    quantize_point *points; /* [point_count] candidates, QUANTIZE_STATIC only */
    uint32_t point_count;
    double seconds;
} quantize_report;

/* Writes args->output, or nothing on failure. Release *report with quantize_report_deinit() in both cases. */
INLAY_NODISCARD inlay_status quantize_model(const quantize_args *args, quantize_report *report, inlay_diag *diag);
void quantize_report_deinit(quantize_report *report);
#endif
