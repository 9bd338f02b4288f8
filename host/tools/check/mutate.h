/* check/mutate.h - random changes of a case: sizes, ranks, attributes, element types, omitted inputs, constants.
 *
 * The operator's schema says what may change. A change need not be legal: case_graph() and another provider decide. */
#ifndef CHECK_MUTATE_H
#define CHECK_MUTATE_H
#include "check/generate.h"

/* Makes a copy of `from` with one to three random changes and new elements; attr (NULL: any) is an attribute of the
 * schema that is changed first; is_wide: more sizes above 9. Free it with case_deinit(). False: no memory, or too many
 * elements. */
bool mutate_case(const op_case *from, const case_source *source, const op_attr *attr, bool is_wide, uint64_t *state,
                 op_case *out);
#endif
