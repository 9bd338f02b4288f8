/* check/defined.h - is a generated case within the definition of its operator? Shape inference accepts more: where
 * ONNX's text leaves a result open, the choice of another provider is no contract. */
#ifndef CHECK_DEFINED_H
#define CHECK_DEFINED_H
#include "check/case.h"

/* built: the case with its sizes. False: ONNX leaves the result open, or it depends on the last bit of a quotient. */
bool case_is_defined(const op_case *entry, const case_instance *built);
/* What integers of the result may differ by: 1 where they are rounded from a sum of floats, otherwise 0. */
double case_rounding(const op_case *entry);
#endif
