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

/* The model of a case for one element type, bound and inferred: `length` nodes in a row, each reads what the one before
 * made, with constants of its own. More than one node needs a case that calibrate_repeats. The caller destroys it. */
INLAY_NODISCARD inlay_status calibrate_model(const calibrate_case *c, inlay_dtype dtype, uint32_t length,
                                             graph_model **out_model, inlay_diag *diag);
/* Does the node of this model make what its first input is, so that several can follow each other? */
bool calibrate_repeats(const graph_model *model);

/* A kernel that was timed.
 *
 * Where a provider merges neighbours into regions, a node alone says little of a node in a region: values that enter and
 * leave change their layout, and that costs more than many a kernel. So CALIBRATE_CHAIN nodes in a row are timed
 * as one region too, and what a further node adds is the price. */
enum { CALIBRATE_CHAIN = 4 };
typedef struct calibrate_point {
    cost_class class; /* op lives as long as the points */
    uint32_t threads, kind; /* kind: COST_DENSE or COST_STREAM */
    fit_point point; /* ns: the node alone */
    double chain_ns; /* of the chain; 0 = none */
    double model_ns; /* what the provider expected */
    double border_ns; /* and of values that enter and leave, where the node is alone */
} calibrate_point;

/* Fits lines and factors to the points of one provider; memory is the arena's. Leaves the points' ns the price of a node
 * among its like, where there is a chain. */
INLAY_NODISCARD inlay_status calibrate_fit(calibrate_point *points, uint32_t count, arena *a,
                                           profile_provider *out, inlay_diag *diag);
#endif
