/* measure/calibrate.h - measures the machine profile: the kernels that are timed, and the lines fitted to the times. */
#ifndef MEASURE_CALIBRATE_H
#define MEASURE_CALIBRATE_H
#include "partition/cost/cost_profile.h"
#include "session/session.h"

/* Implements inlay_calibrate(). */
INLAY_NODISCARD inlay_status calibrate_machine(const inlay_options *options, const inlay_calibrate_options *what,
                                               inlay_calibrate_result *out_result, inlay_diag *diag);

/* A row of calibrate_cases.def. */
typedef struct calibrate_case {
    const char *op, *types, *inputs, *attrs;
} calibrate_case;
uint32_t calibrate_case_count(void);
const calibrate_case *calibrate_case_at(uint32_t i);

/* The price of a node within a region. If a provider merges neighbouring nodes into regions, the time of a single
 * node is misleading: values that enter and leave a region change their layout, which costs more than many kernels.
 * So the price of a node is the additional time of a region that contains it: CALIBRATE_CHAIN nodes in a row
 * compared with a single node. If the output has another shape than the input, or the layout matters, it is the node
 * after convolutions compared with the convolutions alone. */
enum { CALIBRATE_CHAIN = 4 };
enum { CALIBRATE_ALONE, CALIBRATE_CHAINED, CALIBRATE_BEHIND, CALIBRATE_BEFORE, CALIBRATE_FORMS };

/* The model of a case for one element type, bound and inferred, in one of the forms above: the node alone (ALONE);
 * several in a row, each reading the output of the previous one, with its own constants (CHAINED); after a cheap
 * convolution for each input marked "^" in its row (BEHIND); these convolutions without the node (BEFORE). The last
 * three forms exist only for cases for which calibrate_has_form() is true. large: as part of a model with
 * cost_shared_bytes() of other weights, so that its weights stay in no cache; providers take this into account in their
 * estimates. The caller destroys the model. */
INLAY_NODISCARD inlay_status calibrate_model(const calibrate_case *entry, inlay_dtype dtype, uint32_t form, bool large,
                                             graph_model **out_model, inlay_diag *diag);
/* Does the case have this form? alone: the model of the first form. */
bool calibrate_has_form(const calibrate_case *entry, const graph_model *alone, uint32_t form);

/* A timed kernel. */
typedef struct calibrate_point {
    cost_class class; /* op lives as long as the points */
    const calibrate_case *row;
    uint64_t weight_bytes;      /* of the model that contained it */
    uint32_t threads, kind;     /* kind: COST_DENSE or COST_STREAM */
    fit_point point;            /* ns: the node alone; x: the node in a region, if it was timed there */
    fit_point alone;            /* the same, x: the node alone */
    double with_ns, without_ns; /* regions with the node and without it; both 0 = not timed */
    uint32_t nodes_more;        /* number of additional nodes in the region with the node */
    double model_ns;            /* the provider's estimate */
    double border_ns;           /* its estimate for values that enter and leave, where the node is alone */
    double leave_ns; /* its estimate for values that leave the region with the node, minus those of the region without
                        it */
} calibrate_point;

/* Fits lines and factors to the points of one provider; the results live in the arena. Afterwards the ns of
 * `point` is the price of a node in a region, if that is known, and that of `alone` excludes values that enter and
 * leave. */
INLAY_NODISCARD inlay_status calibrate_fit(calibrate_point *points, uint32_t count, struct arena *arena,
                                           profile_provider *out, inlay_diag *diag);
#endif
