/* check/data.h - ONNX's own test cases as cases: attributes and inputs that nobody here thought of. */
#ifndef CHECK_DATA_H
#define CHECK_DATA_H
#include "check/generate.h"

/* Calls fn with each test case at or below dir whose model is one node on tensors, of an operator whose type matches
 * the glob (NULL: any); the first data set of each. fn returns false to stop. What cannot be read is passed over.
 * *out_count: how many there were. INLAY_NOT_FOUND: there is no case at all. */
INLAY_NODISCARD inlay_status data_cases(const char *dir, const char *match, case_fn fn, void *user, uint32_t *out_count,
                                        inlay_diag *diag);
#endif
