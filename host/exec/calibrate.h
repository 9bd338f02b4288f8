/* exec/calibrate.h - the machine profile: which kernels are timed, and what becomes of the times. */
#ifndef EXEC_CALIBRATE_H
#define EXEC_CALIBRATE_H
#include "exec/session.h"
#include "partition/cost_profile.h"

/* A row of calibrate_cases.def. */
typedef struct calibrate_case {
    const char *op, *types, *inputs, *attrs;
} calibrate_case;
uint32_t calibrate_case_count(void);
const calibrate_case *calibrate_case_at(uint32_t i);

/* The model of a case for one element type: one node, bound and inferred. The caller destroys it. */
INLAY_NODISCARD inlay_status calibrate_model(const calibrate_case *c, inlay_dtype dtype, graph_model **out_model,
                                             inlay_diag *diag);

/* A kernel that was timed. */
typedef struct calibrate_point {
    cost_class class; /* op lives as long as the points */
    uint32_t threads, kind; /* kind: COST_DENSE or COST_STREAM */
    fit_point point;
    double model_ns; /* what the provider expected */
} calibrate_point;

/* Fits lines and factors to the points of one provider; memory is the arena's. */
INLAY_NODISCARD inlay_status calibrate_fit(const calibrate_point *points, uint32_t count, arena *a,
                                           profile_provider *out, inlay_diag *diag);
#endif
