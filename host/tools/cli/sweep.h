/* cli/sweep.h - `inlay bench --sweep`: finds the batch size and the number of threads with the best rate.
 *
 *     --sweep batch=1..64,threads=1..4     powers of two, and the ends; threads one by one up to 8, N = all processors
 *     --sweep batch=8..32+8                steps of 8
 *     --sweep batch=1/6/24                 these
 *
 * NAME is a dimension of the model, threads, or callers; batch is also the first axis of the first input. Each point is
 * measured in two passes over all points, forward and backward. The best point and all points that may be as good are
 * then measured again, interleaved, with a new session for each slice. The first rates of the best point are biased by
 * the choice, and slices of one session, or consecutive ones, vary less than independent measurements. */
#ifndef CLI_SWEEP_H
#define CLI_SWEEP_H
#include "cli/cli.h"
#include "data/feed.h"
#include "timing/energy.h"

enum { SWEEP_AXES = 3, SWEEP_POINTS = 256, SWEEP_SLICES = 6 }; /* limits; a slice is one timed piece of a point */

typedef enum sweep_role { SWEEP_DIM, SWEEP_THREADS, SWEEP_CALLERS } sweep_role;

typedef struct sweep_axis {
    char name[64];    /* as in the argument */
    char symbol[128]; /* SWEEP_DIM: the model's name of the dimension */
    sweep_role role;
    int64_t values[SWEEP_POINTS];
    uint32_t count;
    bool dense; /* no further values to try: the range is complete, or the values were listed */
} sweep_axis;

/* One setting of all axes, and its results. */
typedef struct sweep_point {
    int64_t at[SWEEP_AXES];
    double rates[SWEEP_SLICES]; /* items per second of each slice */
    uint32_t slices;
    size_t runs;
    double median_ms, p95_ms, p99_ms; /* of a run; the worse of the two passes */
    double rate, low, high;           /* mean of the slices, and the 95 % interval for a repeated measurement */
    double joules;                    /* per item; negative = unknown */
    double spent_joules, items;
    bool again;   /* measured again after the best point was chosen */
    bool skipped; /* not measured: the median of a smaller batch is far above the latency limit */
    bool fits;    /* p95 is within the latency limit */
    bool noisy;   /* the interval is wider than 5 % of the rate in either direction */
} sweep_point;

typedef struct sweep_args {
    const char *model, *csv, *html;
    const struct feed *feed;
    double seconds, latency_ms; /* per point; limit of p95, 0 = none */
    size_t warmup;
    struct energy *energy; /* or NULL */
    sweep_axis axes[SWEEP_AXES];
    uint32_t axis_count;
} sweep_args;

struct sweep {
    sweep_args *args;
    sweep_point points[SWEEP_POINTS];
    uint32_t count, best; /* best: INLAY_NONE = no point is within the latency limit */
    uint32_t noisy;       /* points */
};

/* Parses the argument of --sweep; a mistake ends the process as in argp. */
error_t sweep_parse(const cli_option *option, void *field, char *arg, struct argp_state *state);
/* Measures all points and chooses the best. */
INLAY_NODISCARD inlay_status sweep_run(struct sweep *sweep, cli_common *common, inlay_diag *diag);
/* Computes rate, interval and noise of a point from its slices. */
void sweep_estimate(sweep_point *point);

/* Prints the table or JSON to stdout and writes the requested files. *out_code is the exit code. */
INLAY_NODISCARD inlay_status sweep_report(const struct sweep *sweep, const cli_common *common, int *out_code,
                                          inlay_diag *diag);
#endif
