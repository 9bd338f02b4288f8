/* modelkit/doctor.h - finds common problems of exported models: `inlay doctor`.
 *
 * Examines a model that is bound and inferred, with inlined functions, but not optimised. doctor_fix() repairs in that
 * model what can be fixed without changing results; bind and infer it before it is saved. */
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
    struct graph *graph; /* graph of the finding, or NULL */
    graph_node **nodes;  /* [node_count] affected nodes; the first one is named */
    uint32_t node_count;
    const char *value; /* the tensor's name, or "" */
    const char *text;  /* one line, memory of the model */
    uint64_t bytes;    /* bytes wasted in the file, 0 = none */
    double cost_ms;    /* milliseconds of a run that its nodes take; negative = unknown */
    bool measured;     /* cost_ms was measured, not predicted */
    bool can_fix, fixed;
    /* For doctor_fix(). */
    uint32_t value_index; /* the affected value, or INLAY_NONE */
    uint32_t instead;     /* the equivalent value; for AXIS_CONSTANT the symbol, 0 = the axes of an output */
    int64_t size;
} doctor_finding;

struct doctor {
    graph_model *model;
    doctor_finding *first, *last; /* memory of the model */
    uint32_t count;
    bool failed;                                                    /* out of memory */
    int (*progress)(void *user, double fraction, const char *what); /* or NULL; non-zero stops */
    void *user;
};

/* The columns of findings.def. */
const char *doctor_code(doctor_kind kind);
const char *doctor_fix_text(doctor_kind kind);
doctor_severity doctor_severity_of(doctor_kind kind);
const char *doctor_severity_text(doctor_severity severity);

/* Examines doctor->model; start with {.model = ...}. INLAY_CANCELLED: progress returned non-zero. */
INLAY_NODISCARD inlay_status doctor_examine(struct doctor *doctor, inlay_diag *diag);
/* Adds findings for a model that did not load, was not bound, or whose types were not inferred. doctor->model: what was
 * loaded with model_load_options.collect, or an empty model. path: its file. why: the error that ended loading, or
 * INLAY_OK if all errors are in model->findings. */
INLAY_NODISCARD inlay_status doctor_diagnose(struct doctor *doctor, const char *path, const inlay_diag *why,
                                             inlay_diag *diag);
/* Adds a finding; node may be NULL. Returns NULL when out of memory, which doctor_examine() reports at the end. */
INLAY_PRINTF(6, 7)
doctor_finding *doctor_add(struct doctor *doctor, doctor_kind kind, struct graph *graph, graph_node *node,
                           uint32_t value_index, const char *format, ...);
/* Repairs the findings with can_fix and marks them `fixed`. The model can be saved afterwards. */
INLAY_NODISCARD inlay_status doctor_fix(struct doctor *doctor, inlay_diag *diag);
#endif
