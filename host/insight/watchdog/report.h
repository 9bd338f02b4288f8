/* watchdog/report.h - judges one execution of a region; if it is wrong: finds the node, logs, writes a model of it, and
 * excludes the provider. */
#ifndef WATCHDOG_REPORT_H
#define WATCHDOG_REPORT_H
#include "watchdog/sample.h"
#include "watchdog/piece.h"

/* What is known about a region. */
typedef struct region_watch {
    const program_step *step;
    struct piece piece;
    uint8_t *inexact; /* see piece_classify() */
    enum piece_kind kind;
    bool taken; /* an execution was chosen */
    bool shut;  /* an execution was wrong */
} region_watch;
/* False: out of memory. reference: name of the provider whose regions are skipped. */
bool region_watch_init(region_watch *region, const struct program *program, const program_step *step,
                       const char *reference);
void region_watch_deinit(region_watch *region);

enum { MAX_FINDINGS = 64 }; /* later ones are logged only */
struct findings {
    struct arena arena;
    inlay_watchdog_finding list[MAX_FINDINGS];
    uint32_t count;
};

typedef struct report_request {
    piece_machine machine; /* of the reference provider */
    const struct sample *sample;
    const program_env *env;
    const char *folder; /* for models; "" = none */
} report_request;

typedef struct report_result {
    bool judged, wrong;
    bool skip;   /* the region cannot be judged */
    bool unsure; /* this execution cannot be judged */
} report_result;

/* findings: appended to; `count` is atomic, and the entries before it do not change. */
void report_sample(const report_request *request, const region_watch *region, struct findings *findings,
                   report_result *out);

/* A model of the nodes, with the tensors that they read as defaults of its inputs, so that it needs none. In
 * write_model.c. text: goes into its metadata. */
INLAY_NODISCARD inlay_status report_write_model(const struct piece *piece, const piece_values *values, const char *text,
                                                const char *path, inlay_diag *diag);
#endif
