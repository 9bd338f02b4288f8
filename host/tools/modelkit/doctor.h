/* modelkit/doctor.h - what somebody with experience would say of a model as it was exported: `inlay doctor`.
 *
 * Looks at a model that is bound and inferred, its functions inlined, and not optimised. What can be put right without
 * a change of results, doctor_fix() puts right in that model; whoever writes it runs both first. */
#ifndef MODELKIT_DOCTOR_H
#define MODELKIT_DOCTOR_H
#include "graph/graph.h"

typedef enum doctor_kind {
#define FINDING(name, code, severity, fix) DOCTOR_##name,
#include "modelkit/findings.def"
#undef FINDING
    DOCTOR_KIND_COUNT
} doctor_kind;

typedef enum doctor_severity { DOCTOR_NOTE, DOCTOR_WARNING, DOCTOR_ERROR } doctor_severity;

typedef struct doctor_finding {
    struct doctor_finding *next;
    doctor_kind kind;
    struct graph *graph; /* where, or NULL */
    graph_node **nodes;  /* [node_count] that it is about; the first one is named */
    uint32_t node_count;
    const char *value; /* the tensor's name, or "" */
    const char *text;  /* one line, the model's */
    uint64_t bytes;    /* that it costs in the file, 0 = none */
    double cost_ms;    /* of a run, that its nodes take; negative = not known */
    bool measured;     /* that time was, not predicted */
    bool can_fix, fixed;
    /* For doctor_fix(). */
    uint32_t v;       /* the value, or INLAY_NONE */
    uint32_t instead; /* the value that does as well; for AXIS_CONSTANT the symbol, 0 = the axes of an output */
    int64_t size;
} doctor_finding;

struct doctor {
    graph_model *model;
    doctor_finding *first, *last; /* the model's memory */
    uint32_t count;
    bool failed;                                                    /* memory ran out */
    int (*progress)(void *user, double fraction, const char *what); /* or NULL; non-zero stops */
    void *user;
};

const char *doctor_code(doctor_kind kind);
const char *doctor_fix_text(doctor_kind kind);
doctor_severity doctor_severity_of(doctor_kind kind);
const char *doctor_severity_text(doctor_severity severity);

/* Finds what is to be found in doctor->model, {.model = ...} to begin with. INLAY_CANCELLED: progress said so. */
INLAY_NODISCARD inlay_status doctor_examine(struct doctor *doctor, inlay_diag *diag);
/* Adds a finding; node may be NULL. NULL: no memory, which doctor_examine() tells in the end. */
INLAY_PRINTF(6, 7)
doctor_finding *doctor_add(struct doctor *doctor, doctor_kind kind, struct graph *graph, graph_node *node, uint32_t v,
                           const char *format, ...);
/* Puts right what can be; marks it `fixed`. The model can be saved afterwards. */
INLAY_NODISCARD inlay_status doctor_fix(struct doctor *doctor, inlay_diag *diag);
#endif
