/* check/check.h - implementation of `inlay plugin-check`: tests a plugin against its contract (inlay/plugin.h).
 *
 * The plugin's code never runs in the process that the user started. That process (parent.c) starts this executable
 * again for each group of checks, reads the results from a pipe and supervises the child. If a group crashes or hangs,
 * the report gets a FAIL line with the phase and the operator, and a new process continues with the next operator.
 *
 *     parent.c  ->  child.c  ->  group_<name>.c, one for each line of groups.def
 *
 * Everything in the child runs on one thread unless a comment says otherwise. */
#ifndef CHECK_CHECK_H
#define CHECK_CHECK_H
#include "base/arena.h"
#include "graph/graph.h"
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>

enum { CHECK_PASS, CHECK_FAIL, CHECK_WARN, CHECK_SKIP, CHECK_RESULTS };

enum { CHECK_OPTIONS = 16, CHECK_MODELS = 128 };

struct graph_model;

/* What the process that runs one group of checks is told. */
typedef struct check_child_args {
    const char *work; /* a private folder: "cwd" in it is the working directory, "blobs" the engine cache; or NULL */
    const char *group;
    uint32_t from; /* the first unit to check; the units before it are done or crashed */
    bool certify;  /* record the cases, for a certificate: see certify.h */
    bool again;    /* this is the second process of the group, see check_progress.again */
} check_child_args;

/* The options of the command line. */
typedef struct check_args {
    const char *file;        /* the plugin */
    const char *with;        /* another plugin to compare with, whose operators are registered too; or NULL */
    const char *provider;    /* check this provider only; NULL = all */
    const char *op;          /* check operators whose type matches this glob; NULL = all */
    const char *certificate; /* file to write where the providers agreed with others; or NULL */
    const char *data;        /* a folder of ONNX test cases to run, too; or NULL */
    /* [option_count] "NAME=VALUE" for the providers that are checked, "PROVIDER.NAME=VALUE" for one of them */
    const char *options[CHECK_OPTIONS];
    uint32_t option_count;
    const char *models[CHECK_MODELS]; /* [model_count] files whose nodes are checked */
    uint32_t model_count;
    /* Loads and optimises a model as a session does. *out_owner keeps it alive until close_model(). */
    inlay_status (*open_model)(const char *path, const struct graph_model **out, void **out_owner, inlay_diag *diag);
    void (*close_model)(void *owner);
    uint64_t seed;
    double time_limit;     /* seconds without a sign of life after which the child counts as hung */
    double compile_budget; /* seconds that all compiles of the plugin may take together */
    uint32_t max_compiles; /* most compiles of the plugin; 0 = any number */
    bool may_abort;        /* an abort when memory runs out is a warning; also for files that rustc compiled */
    bool quick;
    bool strict;    /* an operator that the check cannot run is a failure */
    bool no_timing; /* skip the checks that measure time */
    bool isolate;   /* the plugin runs in a separate process, as with option isolate; only the groups that call it */
    bool foreign;   /* the provider runs a library with another interface, so its heap use in execute is a warning */
    check_child_args child;
} check_args;

/* "NAME=VALUE" of an entry of check_args.options; NULL: it is for another provider. */
const char *check_option_of(const char *option, const char *provider);

/* A line of the report. */
typedef struct check_line {
    uint32_t result;      /* CHECK_PASS ... */
    const char *check;    /* "results" */
    const char *subject;  /* "Relu-14", or empty */
    const char *expected; /* empty for a pass */
    const char *got;
    const char *fix; /* what the author should do; empty for a pass */
} check_line;

typedef void (*check_line_fn)(void *user, const check_line *line);

#define CHECK_NO_UNIT UINT32_MAX

/* The child's progress, in memory shared with the parent: readable after the child died. */
typedef struct check_progress {
    uint32_t ticks;    /* atomic: incremented at each sign of life */
    uint32_t unit;     /* number of the current unit; CHECK_NO_UNIT: outside of all units */
    int32_t signal;    /* caught by the handler, 0 = none */
    uint32_t open;     /* 1 while the plugin is being opened */
    uint32_t broken;   /* 1: it cannot be opened or described, or no provider created: skip the other groups */
    uint32_t forked;   /* atomic: calls of fork since the child last checked for them */
    uint32_t closed;   /* 1: the plugin closed the checker's own descriptors */
    uint32_t again;    /* 1: when this process has ended, the group runs in another one with check_args.again */
    char phase[48];    /* "execute": the entry of the plugin that runs, or "the checker" */
    char subject[256]; /* "Relu-14 float[3,5]" */
    char crash[256];   /* the signal handler's description of the address */
} check_progress;

/* File descriptors of a child. */
enum { CHECK_PROGRESS_FD = 3, CHECK_REPORT_FD = 4 };

typedef struct check_summary {
    uint32_t counts[CHECK_RESULTS];
} check_summary;

/* Runs all groups and passes each line of the report to say. The status reports failures of the checker itself (no
 * memory, no process); defects of the plugin are in the lines. cancel: see cli_cancel(). */
INLAY_NODISCARD inlay_status check_plugin(const check_args *args, const uint32_t *cancel, check_line_fn say, void *user,
                                          check_summary *out_summary, inlay_diag *diag);

/* Texts that the arguments refer to. */
typedef struct check_ort_ep_texts {
    char plugin[PATH_MAX + 32], option[PATH_MAX + 16];
} check_ort_ep_texts;

/* Makes args check the library of an ONNX Runtime execution provider, which the plugin ort_ep opens. Heap use of its
 * runs is a warning: ONNX Runtime's interface permits it. texts lives as long as args. No code of the library runs.
 * INLAY_INVALID_ARGUMENT: it is no such library; INLAY_NOT_FOUND: it does not exist, or the plugin is not installed. */
INLAY_NODISCARD inlay_status check_through_ort_ep(check_args *args, const char *library, check_ort_ep_texts *texts,
                                                  inlay_diag *diag);

/* The compiles of the plugin in this process, see engines.h. */
struct check_compiles {
    double ms;
    uint32_t count, in_unit, left_out;
    uint32_t operators; /* number of operators that the group is expected to run; 0: not known */
};

/* What the polls of compile and specialize answer, and how often they were called. */
struct check_polls {
    inlay_status answer;
    uint32_t count;
};

enum { CHECK_RULES = 32 };

struct process_snapshot;

/* One run of a group. */
struct check {
    const check_args *args;
    check_progress *progress;
    FILE *report;
    uint32_t unit; /* number of the next unit */
    struct check_compiles compiles;
    struct engine_probe *probe;     /* see engines.h; usually NULL */
    bool bare;                      /* requests have no functions: each of them may be NULL */
    struct check_polls *polls;      /* NULL: they answer INLAY_OK */
    const char *rules[CHECK_RULES]; /* [rule_count] what check_rule() has reported */
    uint32_t rule_count;
    bool fork_reported;
    bool process_reported; /* check_process() has reported a change */
};

/* The child's main(); returns its exit code. */
int check_child(const check_args *args);

/* Names the next phase for the report of a crash. phase is a literal. */
void check_phase(struct check *check, const char *phase);
INLAY_PRINTF(2, 3)
void check_subject(struct check *check, const char *format, ...);
/* Shows the parent that the child makes progress. */
void check_tick(struct check *check);
/* Begins the next unit of the group; format names it. False: an earlier process checked it already, skip it. */
INLAY_PRINTF(2, 3)
bool check_unit(struct check *check, const char *format, ...);

/* Writes a FAIL line if the plugin has changed the state of the process since the snapshot. */
void check_process(struct check *check, const char *subject, const struct process_snapshot *before);
/* Writes a FAIL line if the plugin has created files in the working directory, and removes them. */
void check_files(struct check *check, const char *subject);

/* Add lines to the report. The texts are cut at a few hundred bytes. */
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

/* A FAIL line about a rule of the ABI, once in a process. expected is a literal. */
INLAY_PRINTF(4, 5)
void check_rule(struct check *check, const char *expected, const char *fix, const char *format, ...);

/* Installs handlers for fatal signals, which describe the crash in *shared and end the process. */
void crash_install_handlers(check_progress *shared);
/* Describes the addresses in [from, from + bytes) for the report of a crash: "past the end of the workspace".
 * description is kept, not copied. Any thread. */
void crash_describe_range(const void *from, size_t bytes, const char *description);
void crash_forget_range(const void *from);

/* Pages that stop the first thread that accesses them, so that another run can take place in the middle of a call. */
struct crash_hold {
    void *from; /* [bytes] whole pages */
    size_t bytes;
    uint32_t patience_ms;                /* the thread continues after this time even if it is not released */
    uint32_t reached, released, expired; /* atomic */
    stack_t signal_stack;                /* of the calling thread before crash_hold_begin() */
};
/* One at a time, by one thread. Between the two calls the pages are inaccessible until a thread stops at them. */
void crash_hold_begin(struct crash_hold *here);
void crash_hold_end(struct crash_hold *here);

#define GROUP(name, doc, left_out) void check_group_##name(struct check *c);
#include "check/groups.def"
#undef GROUP
#endif
