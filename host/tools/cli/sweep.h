/* cli/sweep.h - `inlay bench --sweep`: which batch and how many threads give the best rate.
 *
 *     --sweep batch=1..64,threads=1..4     powers of two, and the ends; threads one by one up to 8, N = all processors
 *     --sweep batch=8..32+8                steps of 8
 *     --sweep batch=1/6/24                 these
 *
 * A name is that of a dimension of the model, or threads, or callers; batch is also the first axis of the first input.
 * Each point is measured in two passes over all points, there and back. The best and those that may be as good are then
 * measured anew, in turns and in a session of its own for each slice: what was measured when the best was chosen says
 * too much of it, and slices of one session, or one after the other, are more alike than those of another measurement.
 */
#ifndef CLI_SWEEP_H
#define CLI_SWEEP_H
#include "cli/cli.h"
#include "data/feed.h"
#include "timing/energy.h"

enum { SWEEP_AXES = 3, SWEEP_POINTS = 256, SWEEP_SLICES = 6 };

typedef enum sweep_role { SWEEP_DIM, SWEEP_THREADS, SWEEP_CALLERS } sweep_role;

typedef struct sweep_axis {
    char name[64];    /* as written */
    char symbol[128]; /* of a SWEEP_DIM: the model's name of it */
    sweep_role role;
    int64_t values[SWEEP_POINTS];
    uint32_t count;
    bool dense; /* every value of the range is there, or they were listed: nothing lies between */
} sweep_axis;

/* One setting of all axes, and what came of it. */
typedef struct sweep_point {
    int64_t at[SWEEP_AXES];
    double rates[SWEEP_SLICES]; /* items a second, slice by slice */
    uint32_t slices;
    size_t runs;
    double median_ms, p95_ms, p99_ms; /* of a run; the worse of the two passes */
    double rate, low, high;           /* mean of the slices, and where another measurement lies with 95 % */
    double joules;                    /* an item; negative = not known */
    double spent_joules, items;
    bool again;   /* measured anew since the best was chosen */
    bool skipped; /* a smaller batch takes too long already */
    bool fits;    /* the latency that was asked for */
    bool noisy;   /* the interval is wider than a twentieth of the rate either way */
} sweep_point;

typedef struct sweep_args {
    const char *model, *csv, *html;
    const struct feed *feed;
    double seconds, latency_ms; /* of a point; 0 = any */
    size_t warmup;
    struct energy *energy; /* or NULL */
    sweep_axis axes[SWEEP_AXES];
    uint32_t axis_count;
} sweep_args;

struct sweep {
    sweep_args *args;
    sweep_point points[SWEEP_POINTS];
    uint32_t count, best; /* best: INLAY_NONE = none keeps the latency */
    uint32_t noisy;       /* points */
};

/* Reads the argument of --sweep; a mistake ends the process as argp's do. */
error_t sweep_parse(const cli_option *option, void *field, char *arg, struct argp_state *state);
/* Measures. */
INLAY_NODISCARD inlay_status sweep_run(struct sweep *sweep, cli_common *common, inlay_diag *diag);
/* Rate, interval and noise of a point out of its slices. */
void sweep_settle(sweep_point *point);

/* The table or JSON on stdout, and the files that were asked for. Returns the exit code, or fails. */
INLAY_NODISCARD inlay_status sweep_report(const struct sweep *sweep, const cli_common *common, int *out_code,
                                          inlay_diag *diag);
#endif
