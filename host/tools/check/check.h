/* check/check.h - what `inlay plugin-check` does: a plugin held against its contract (inlay/plugin.h), point by point.
 *
 * The plugin's code never runs in the process that the user started. That one (parent.c) starts this executable again,
 * once for each group of checks, reads what it found from a pipe, and watches over it: a group that crashes or hangs
 * gives a FAIL line with the phase and the operator at hand, and goes on behind that operator in a new process.
 *
 *     parent.c  ->  child.c  ->  group_<name>.c, one for each line of groups.def
 *
 * Everything in the child runs on one thread unless it says otherwise. */
#ifndef CHECK_CHECK_H
#define CHECK_CHECK_H
#include "base/arena.h"
#include "graph/graph.h"
#include <jansson.h>
#include <stdbool.h>

enum { CHECK_PASS, CHECK_FAIL, CHECK_WARN, CHECK_SKIP, CHECK_RESULTS };

enum { CHECK_OPTIONS = 16 };

/* What the user asked for. */
typedef struct check_args {
    const char *file;                   /* the plugin */
    const char *with;                   /* another plugin to compare with, whose operators are known too; or NULL */
    const char *provider;               /* look at this provider only; NULL = at all */
    const char *op;                     /* at operators whose type matches this glob; NULL = at all */
    const char *data;                   /* a folder of ONNX test cases to run besides; or NULL */
    const char *options[CHECK_OPTIONS]; /* [option_count] "name=value", for the providers that are checked */
    uint32_t option_count;
    uint64_t seed;
    double time_limit; /* seconds that a plugin may be silent */
    bool quick;
    bool no_timing; /* nothing that looks at the clock */
    /* In the child only: */
    const char *group;
    uint32_t from; /* the first unit to look at; those before it are done, or crashed */
} check_args;

/* A line of the report. */
typedef struct check_line {
    uint32_t result;      /* CHECK_PASS ... */
    const char *check;    /* "results" */
    const char *subject;  /* "Relu-14", or empty */
    const char *expected; /* empty for those that pass */
    const char *got;
    const char *fix; /* what the author should do; empty for those that pass */
} check_line;

typedef void (*check_line_fn)(void *user, const check_line *line);

#define CHECK_NO_UNIT UINT32_MAX

/* What a child says of itself, in memory that it shares with its parent: readable after it died. */
typedef struct check_beacon {
    uint32_t ticks;    /* atomic: grows with each sign of life */
    uint32_t unit;     /* number of the unit at hand; CHECK_NO_UNIT: outside of all */
    int32_t signal;    /* that the handler caught, 0 = none */
    uint32_t open;     /* 1 while the plugin is being opened, without which nothing else can be checked */
    uint32_t broken;   /* 1: the plugin cannot be opened or described: no other group has anything to say */
    uint32_t forked;   /* atomic: how often it forked */
    uint32_t closed;   /* 1: the checker's own descriptors were closed */
    char phase[48];    /* "execute": whose code runs, ours or the plugin's */
    char subject[256]; /* "Relu-14 float[3,5]" */
    char crash[256];   /* the handler's words about the address */
} check_beacon;

/* File descriptors of a child. */
enum { CHECK_BEACON_FD = 3, CHECK_REPORT_FD = 4 };

/* ------------------------------------------------------------------ parent.c */

typedef struct check_summary {
    uint32_t counts[CHECK_RESULTS];
} check_summary;

/* Runs all groups and hands each line to say. A failure is one of ours (no memory, no process); what is wrong with the
 * plugin is in the lines. cancel: see cli_cancel(). */
INLAY_NODISCARD inlay_status check_plugin(const check_args *args, const uint32_t *cancel, check_line_fn say, void *user,
                                          check_summary *out_summary, inlay_diag *diag);

/* ------------------------------------------------------------------ child.c */

/* One run of a group. */
struct check {
    const check_args *args;
    check_beacon *beacon;
    FILE *report;
    uint32_t unit; /* number of the next unit */
    bool fork_reported;
};

/* The child's main(); returns its exit code. */
int check_child(const check_args *args);

/* Names what the plugin does next, for the report of a crash. phase is a literal. */
void check_phase(struct check *check, const char *phase);
INLAY_PRINTF(2, 3)
void check_subject(struct check *check, const char *format, ...);
/* A sign of life. */
void check_tick(struct check *check);
/* Begins the next unit of the group, called subject. False: it was looked at before, leave it out. */
INLAY_PRINTF(2, 3)
bool check_unit(struct check *check, const char *format, ...);

/* Lines of the report. The texts are cut at a few hundred bytes. */
INLAY_PRINTF(4, 5)
void check_pass(struct check *check, const char *name, const char *subject, const char *format, ...);
INLAY_PRINTF(4, 5)
void check_skip(struct check *check, const char *name, const char *subject, const char *format, ...);
INLAY_PRINTF(6, 7)
void check_fail(struct check *check, const char *name, const char *subject, const char *expected, const char *fix,
                const char *format, ...);
INLAY_PRINTF(6, 7)
void check_warn(struct check *check, const char *name, const char *subject, const char *expected, const char *fix,
                const char *format, ...);

/* ------------------------------------------------------------------ crash.c */

/* From here on a fatal signal leaves its story in the beacon and ends the process. */
void crash_watch(check_beacon *beacon);
/* Words for an address within [from, from + bytes), said when a signal names it: "past the end of the workspace". what
 * is kept, not copied. Any thread. */
void crash_name_range(const void *from, size_t bytes, const char *what);
void crash_forget_range(const void *from);

/* ------------------------------------------------------------------ the groups */

#define GROUP(name, doc) void check_group_##name(struct check *c);
#include "check/groups.def"
#undef GROUP
#endif
