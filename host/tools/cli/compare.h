/* cli/compare.h - is what came out what was expected? */
#ifndef CLI_COMPARE_H
#define CLI_COMPARE_H
#include "inlay/inlay.h"
#include "model/model.h"

/* |got - want| <= atol + rtol * |want| for numbers (of complex ones the modulus), NaN equal to NaN, infinities equal to
 * their like; strings, booleans, types, shapes and lengths exactly. True: equal. False: text (bytes long, cut to fit)
 * says where and how much, on one line. */
bool compare_value(const inlay_value *got, const model_datum *want, double rtol, double atol, char *text, size_t bytes);

/* A value as compare_value() wants what is expected: borrowed but for lists of items, which compare_datum_free() frees.
 * false: no memory. */
bool compare_datum(const inlay_value *v, model_datum *out);
void compare_datum_free(model_datum *d);
#endif
