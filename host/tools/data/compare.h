/* data/compare.h - is what came out what was expected? */
#ifndef DATA_COMPARE_H
#define DATA_COMPARE_H
#include "inlay/inlay.h"
#include "model/model.h"

/* The elements of one tensor beside those of another. */
struct comparison {
    int64_t wrong, first; /* how many are, and the place of the first */
    double worst;         /* error, INFINITY where it is beyond numbers, -1 where none is wrong */
    int64_t worst_at;
};

/* By the rule of compare_value(), for `count` elements of want's type. */
struct comparison compare_elements(const void *got, const inlay_tensor_view *want, int64_t count, double rtol,
                                   double atol);
/* The largest absolute value of the finite elements; 0 if no element is finite. */
double compare_largest(const inlay_tensor_view *view, int64_t count);

/* One tensor beside another, types and shapes too; otherwise as compare_value(). */
bool compare_tensor(const inlay_tensor_view *got, const inlay_tensor_view *want, double rtol, double atol, char *text,
                    size_t bytes);

/* |got - want| <= atol + rtol * |want| for numbers (of complex ones the modulus), NaN equal to NaN, infinities equal to
 * their like; strings, booleans, types, shapes and lengths exactly. True: equal. False: text (bytes long, cut to fit)
 * says where and how much, on one line. */
bool compare_value(const inlay_value *got, const model_datum *want, double rtol, double atol, char *text, size_t bytes);

/* Two values, as above. *out_same: equal. INLAY_OUT_OF_MEMORY where there is no memory to list their items. */
INLAY_NODISCARD inlay_status compare_values(const inlay_value *got, const inlay_value *want, double rtol, double atol,
                                            bool *out_same, char *text, size_t bytes, inlay_diag *diag);
#endif
