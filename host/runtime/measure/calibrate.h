/* measure/calibrate.h - the machine profile: which kernels are timed, and what becomes of the times. */
#ifndef MEASURE_CALIBRATE_H
#define MEASURE_CALIBRATE_H
#include "partition/cost/cost_profile.h"
#include "session/session.h"

/* What inlay_calibrate() does. */
INLAY_NODISCARD inlay_status calibrate_machine(const inlay_options *options, const inlay_calibrate_options *what,
                                               inlay_calibrate_result *out_result, inlay_diag *diag);

/* A row of calibrate_cases.def. */
typedef struct calibrate_case {
    const char *op, *types, *inputs, *attrs;
} calibrate_case;
uint32_t calibrate_case_count(void);
const calibrate_case *calibrate_case_at(uint32_t i);

/* Where a provider merges neighbours into regions, a node alone says little of a node in a region: values that enter
 * and leave change their layout, and that costs more than many a kernel. So its price is what a region takes more that
 * has it: one of CALIBRATE_CHAIN nodes in a row than one of a single node; or, where the output has not the shape of
 * the input or the layout matters, one of the node behind convolutions than those convolutions. */
enum { CALIBRATE_CHAIN = 4 };
enum { CALIBRATE_ALONE, CALIBRATE_ROW, CALIBRATE_BEHIND, CALIBRATE_BEFORE, CALIBRATE_FORMS };

/* The model of a case for one element type, bound and inferred, in one of the forms above: the node alone; several in a
 * row, each of which reads what the one before made, with constants of its own; behind a cheap convolution for each
 * input that has "^" in its row; these convolutions without it. Other forms than the first are only for cases that
 * calibrate_has. large: as a part of a model whose weights, cost_shared_bytes() more, stay in no cache; providers look
 * at that when they say what a node takes. The caller destroys it. */
INLAY_NODISCARD inlay_status calibrate_model(const calibrate_case *entry, inlay_dtype dtype, uint32_t form, bool large,
                                             graph_model **out_model, inlay_diag *diag);
/* Is there such a form? alone: the model of the first one. */
bool calibrate_has(const calibrate_case *entry, const graph_model *alone, uint32_t form);

/* A kernel that was timed. */
typedef struct calibrate_point {
    cost_class class; /* op lives as long as the points */
    const calibrate_case *row;
    uint64_t weight_bytes;      /* of the model that it was in */
    uint32_t threads, kind;     /* kind: COST_DENSE or COST_STREAM */
    fit_point point;            /* ns: the node alone */
    double with_ns, without_ns; /* regions with the node and without it; 0 = none */
    uint32_t nodes_more;        /* that the first has */
    double model_ns;            /* what the provider expected */
    double border_ns;           /* and of values that enter and leave, where the node is alone */
    double leave_ns;            /* and of those that leave the region with it, beyond those of the one without it */
} calibrate_point;

/* Fits lines and factors to the points of one provider; memory is the arena's. Leaves the points' ns the price of a
 * node in a region, where that is known. */
INLAY_NODISCARD inlay_status calibrate_fit(calibrate_point *points, uint32_t count, struct arena *arena,
                                           profile_provider *out, inlay_diag *diag);
#endif
