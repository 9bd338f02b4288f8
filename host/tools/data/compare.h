/* data/compare.h - compares outputs with expected values. */
#ifndef DATA_COMPARE_H
#define DATA_COMPARE_H
#include "inlay/inlay.h"
#include "model/model.h"

/* The result of comparing the elements of two tensors. */
struct comparison {
    int64_t wrong, first; /* number of wrong elements, and index of the first */
    double worst;         /* largest error, INFINITY for NaN or infinity, -1 if no element is wrong */
    int64_t worst_at;
};

/* Compares `count` elements of want's type by the rule of compare_value(). */
struct comparison compare_elements(const void *got, const inlay_tensor_view *want, int64_t count, double rtol,
                                   double atol);
/* The largest absolute value of the finite elements; 0 if no element is finite. */
double compare_largest(const inlay_tensor_view *view, int64_t count);

/* Compares two tensors, with their types and shapes, as compare_value() does. */
bool compare_tensor(const inlay_tensor_view *got, const inlay_tensor_view *want, double rtol, double atol, char *text,
                    size_t bytes);

/* |got - want| <= atol + rtol * |want| for numbers (the modulus of complex numbers); NaN equals NaN, and infinities of
 * the same sign are equal; strings, booleans, types, shapes and lengths must be identical. True: equal. False: text (of
 * `bytes` bytes, truncated to fit) has the place and the size of the difference, on one line. */
bool compare_value(const inlay_value *got, const model_datum *want, double rtol, double atol, char *text, size_t bytes);

/* Compares two values as above. *out_same: equal. INLAY_OUT_OF_MEMORY: the items could not be listed. */
INLAY_NODISCARD inlay_status compare_values(const inlay_value *got, const inlay_value *want, double rtol, double atol,
                                            bool *out_same, char *text, size_t bytes, inlay_diag *diag);
#endif
