/* profile/internal.h - what the files of the profiler share; private to this folder. */
#ifndef PROFILE_INTERNAL_H
#define PROFILE_INTERNAL_H
#include "base/memory.h"
#include "profile/profile.h"

/* One step of one run. */
typedef struct profile_event {
    const struct program *program;
    struct plan *plan;
    const plan_step *step;
    uint64_t begin_ns, end_ns;
    uint32_t run;
    uint32_t node;  /* INLAY_NONE, or the kernel of that node within the step */
    uint32_t depth; /* 0 = of the main graph; of a body: one more than the step that runs it; likewise of a
                     * kernel within a step */
} profile_event;

typedef struct profile_run {
    uint64_t begin_ns, end_ns;
    uint32_t first_event, first_span;
} profile_run;

enum { PROFILE_RUNS = 4096, PROFILE_PLANS = 256 };

struct profile {
    watch_hook hook;
    const inlay_session *session;
    struct arena arena;
    profile_event *events; /* [event_capacity] */
    uint32_t event_count, event_capacity;
    uint64_t lost;     /* events that found no room */
    profile_run *runs; /* [PROFILE_RUNS] */
    uint32_t run_count;
    run_spans spans;
    struct plan *plans[PROFILE_PLANS]; /* referenced, so that events can be read after the cache has let go of a plan */
    uint32_t plan_count;
    double peak_integers, peak_halves; /* of the machine, per second; 0 = unknown */
};

/* The same step over all runs. */
typedef struct profile_row {
    const profile_event *sample;     /* one of its events */
    const char *provider;            /* "host", or "copy" */
    double ns;                       /* median over runs of what it took in a run; 0 in most = 0 */
    double calls;                    /* in a run, on average */
    double flops, bytes;             /* of a call, as its provider states them */
    double integer_ops, half_flops;  /* of flops, those with integers of 8 bits and with floats of 16 */
    double predicted_ns;             /* of a call */
    uint64_t live_bytes;             /* of the plan's slabs while it runs */
    const struct profile_row *whole; /* of a kernel within a region: the region; otherwise NULL */
    bool leaf;                       /* there is nothing within it: no bodies' steps, no kernels that are told of */
    double inner_ns;                 /* of kernels within it */
    double share;                    /* of the run; of steps of bodies: also part of the step that runs the body */
} profile_row;

typedef struct profile_report {
    const struct profile *profile;
    struct arena arena;
    profile_row *rows; /* [row_count] in the order of their first event */
    uint32_t *row_of;  /* [event_count] the row of each event */
    uint32_t row_count;
    double run_ns;                 /* median */
    double peak_flops, peak_bytes; /* per second; 0 = unknown */
    double peak_integers, peak_halves;
    uint64_t slab_bytes, lower_bound_bytes;
} profile_report;

INLAY_NODISCARD inlay_status profile_report_make(const struct profile *profile, profile_report *out, inlay_diag *diag);
void profile_report_deinit(profile_report *report);

/* The node's name, or for several "first .. last (N nodes)"; the operator likewise. Returns text. */
enum { PROFILE_NAME = 256 };
const char *profile_name(const profile_event *event, char text[PROFILE_NAME]);
const char *profile_op(const profile_event *event, char text[PROFILE_NAME]);
/* What the time of a call is of the best that the machine could do: the larger of flops / peak and bytes / peak, over
 * the time. Negative: not known. */
double profile_roofline(const profile_report *report, const profile_row *row);

void profile_text(const profile_report *report, const explain_sink *sink);
void profile_json(const profile_report *report, const explain_sink *sink);
void profile_trace(const profile_report *report, const explain_sink *sink);
void profile_stacks(const profile_report *report, const explain_sink *sink);
#endif
