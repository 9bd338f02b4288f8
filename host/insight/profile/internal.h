/* profile/internal.h - declarations shared by the files of the profiler; private to this folder. */
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
    uint32_t node;    /* INLAY_NONE, or the kernel of that node within the step */
    uint32_t depth;   /* 0 = step of the main graph; one more for each enclosing body, and for a kernel within a
                     * step */
    const char *name; /* of a kernel that has one, in profile.names; otherwise NULL */
} profile_event;

typedef struct profile_run {
    uint64_t begin_ns, end_ns;
    uint32_t first_event, first_span;
} profile_run;

enum { PROFILE_RUNS = 4096, PROFILE_PLANS = 256, PROFILE_KERNEL_NAMES = 1024, PROFILE_KERNEL_NAME = 96 };

struct profile {
    run_observer observer;
    const inlay_session *session;
    struct arena arena;
    profile_event *events; /* [event_capacity] */
    uint32_t event_count, event_capacity;
    uint64_t dropped;  /* number of events that did not fit */
    profile_run *runs; /* [PROFILE_RUNS] */
    uint32_t run_count;
    run_spans spans;
    /* References to plans, because the plan cache may release a plan before its events are read. */
    struct plan *plans[PROFILE_PLANS];
    uint32_t plan_count;
    /* The different names of kernels; of further ones only the node is known. Allocated with the first one. */
    char (*names)[PROFILE_KERNEL_NAME]; /* [name_count] */
    uint32_t name_count;
};

/* A step or kernel, summarised over all runs. */
typedef struct profile_row {
    const profile_event *sample;      /* one of its events */
    const char *provider;             /* "host", or "copy" */
    double ns;                        /* time per run, median over runs */
    double calls;                     /* per run, on average */
    double flops, bytes;              /* per call, as its provider reports them */
    double integer_ops, half_flops;   /* the part of flops with 8-bit integers and with 16-bit floats */
    double predicted_ns;              /* per call */
    uint64_t live_bytes;              /* bytes of the plan's slabs in use while it runs */
    const struct profile_row *region; /* for a kernel: the region that contains it; otherwise NULL */
    bool leaf;                        /* contains no steps of bodies and no reported kernels */
    double inner_ns;                  /* time of the kernels within it */
    double share; /* of the run; the time of body steps is also part of the step that runs the body */
} profile_row;

typedef struct profile_report {
    const struct profile *profile;
    struct arena arena;
    profile_row *rows; /* [row_count] in the order of their first event */
    uint32_t *row_of;  /* [event_count] the row of each event */
    uint32_t row_count;
    uint32_t typical_run;          /* whose time is nearest to run_ns */
    double run_ns;                 /* median */
    double outside_ns;             /* part of run_ns in no leaf row; 0 if concurrent leaves need more than run_ns */
    double peak_flops, peak_bytes; /* per second; 0 = unknown */
    double peak_integers, peak_halves;
    double cache_bytes; /* of the last-level cache */
    uint64_t slab_bytes, lower_bound_bytes;
} profile_report;

INLAY_NODISCARD inlay_status profile_report_make(const struct profile *profile, profile_report *out, inlay_diag *diag);
void profile_report_deinit(profile_report *report);

/* profile_name() writes the name of the event's node, or "first .. last (N nodes)" for several nodes; profile_op()
 * writes the operators, or the name of a kernel that has one. Both return text. */
enum { PROFILE_NAME = 256 };
const char *profile_name(const profile_event *event, char text[PROFILE_NAME]);
const char *profile_op(const profile_event *event, char text[PROFILE_NAME]);
/* "host", or "copy", where no provider runs it. */
const char *profile_provider_name(const profile_event *event);
/* The module of the program that the event's nodes were exported from (graph_node_scope()): for several nodes, what
 * their modules have in common, "model.layers.0" of its parts. NULL: none is known, or nothing is common. */
const char *profile_module(const profile_event *event, char text[PROFILE_NAME]);
/* The fraction of the roofline that a call achieves: the larger of flops / peak and bytes / peak, divided by the time.
 * bytes count only if they exceed the last-level cache, since the peak is that of memory. Negative: unknown, or neither
 * arithmetic nor memory limits the call: it has fewer operations than bytes, and these fit in the cache. */
double profile_roofline(const profile_report *report, const profile_row *row);

void profile_text(const profile_report *report, const explain_sink *sink);
void profile_json(const profile_report *report, const explain_sink *sink);
void profile_ort(const profile_report *report, const explain_sink *sink);
void profile_trace(const profile_report *report, const explain_sink *sink);
void profile_stacks(const profile_report *report, const explain_sink *sink);
#endif
