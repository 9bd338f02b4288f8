/* check/data.h - converts ONNX test cases on disk to cases for the harness. They cover attributes and inputs that
 * recipes.def does not. */
#ifndef CHECK_DATA_H
#define CHECK_DATA_H
#include "check/generate.h"
#include "check/region_graph.h"

/* Calls fn with the first data set of each test case at or below dir whose model is one node on tensors and whose
 * operator type matches the glob (NULL: any). fn returns false to stop. Skips cases that cannot be read. *out_count:
 * number of calls of fn. INLAY_NOT_FOUND: dir contains no test case. */
INLAY_NODISCARD inlay_status data_cases(const char *dir, const char *match, case_fn fn, void *user, uint32_t *out_count,
                                        inlay_diag *diag);
/* Calls fn with the parts of each model at or below dir that has 2 to MAX_PARTS nodes on tensors, with the elements of
 * its first data set. Skips models that cannot be read. INLAY_NOT_FOUND: dir contains no test case. */
INLAY_NODISCARD inlay_status data_graphs(const char *dir, struct regions *regions,
                                         void (*fn)(struct regions *regions, const char *name), uint32_t *out_count,
                                         inlay_diag *diag);
#endif
