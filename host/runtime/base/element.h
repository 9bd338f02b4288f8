/* base/element.h - one element of a tensor as a number or as text, for every dtype.
 *
 * For people and for comparisons: printing, statistics, reading test data. Nothing here is meant for inner loops. */
#ifndef BASE_ELEMENT_H
#define BASE_ELEMENT_H
#include "inlay/types.h"
#include <stdbool.h>

/* Element index of packed data as a complex number; *out_im (may be NULL) is 0 for real types, bool gives 0 or 1. False
 * for STRING and for numbers that are no dtype. data need not be aligned. */
bool element_number(inlay_dtype dtype, const void *data, int64_t index, double *out_re, double *out_im);

/* Element index as a 64-bit integer, exactly; unsigned ones beyond INT64_MAX wrap. False unless the dtype is an integer
 * of 8 bits or more, or bool. */
bool element_integer(inlay_dtype dtype, const void *data, int64_t index, int64_t *out_value);

/* Writes element index as text, cut to fit bytes (> 0) and ended with NUL: integers exactly, floats with the digits
 * that their type holds, strings quoted with unprintable bytes escaped. Returns text. */
char *element_text(inlay_dtype dtype, const void *data, int64_t index, char *text, size_t bytes);

/* Writes "[2, 3]" with the separator ", ", a dimension that is not known (negative) as '?', cut to fit bytes (> 0).
 * Returns text. */
char *dims_text(const int64_t *dims, uint32_t rank, const char *separator, char *text, size_t bytes);

/* Is the dtype a float of any width (not complex)? */
bool element_is_float(inlay_dtype dtype);

/* Writes a whole number as element index of packed data, as near as the dtype has it: integers wrap, bool is whether it
 * is not 0. False for dtypes of fewer than 8 bits, 8-bit floats, complex numbers and strings. */
bool element_put(inlay_dtype dtype, void *data, int64_t index, int64_t value);

/* The bits of the float16 nearest to value (ties to even). */
uint16_t element_half(float value);
#endif
