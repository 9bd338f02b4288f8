/* base/element.h - one element of a tensor as a number or as text, for every dtype.
 *
 * For printing, statistics, comparisons and test data. Too slow for inner loops of kernels. */
#ifndef BASE_ELEMENT_H
#define BASE_ELEMENT_H
#include "inlay/types.h"
#include <stdbool.h>

/* Reads element `index` of packed data as a complex number. *out_im (may be NULL) is 0 for real types; a bool gives 0
 * or 1. False for STRING and for invalid dtypes. data may be unaligned. */
bool element_number(inlay_dtype dtype, const void *data, int64_t index, double *out_re, double *out_im);

/* Reads element `index` as a 64-bit integer, exactly; uint64 beyond INT64_MAX wraps. False unless the dtype is bool or
 * an integer of at least 8 bits. */
bool element_integer(inlay_dtype dtype, const void *data, int64_t index, int64_t *out_value);

/* Writes element `index` as text, truncated to `bytes` (> 0) including the NUL: integers exactly, floats with the
 * precision of their type, strings in quotes with unprintable bytes escaped. Returns text. */
char *element_text(inlay_dtype dtype, const void *data, int64_t index, char *text, size_t bytes);

/* Writes dims as "[2, 3]" (with separator ", "), truncated to `bytes` (> 0). Unknown (negative) dims become '?'.
 * Returns text. */
char *dims_text(const int64_t *dims, uint32_t rank, const char *separator, char *text, size_t bytes);

/* Is the dtype a float of any width (not complex)? */
bool element_is_float(inlay_dtype dtype);

/* Converts an integer to dtype and writes it as element `index` of packed data: floats round to nearest, integers wrap,
 * a bool is value != 0. False for dtypes of fewer than 8 bits, 8-bit floats, complex numbers and strings. */
bool element_put(inlay_dtype dtype, void *data, int64_t index, int64_t value);

/* Writes a number as element `index` of packed data, rounded to nearest. False unless the dtype is float, double,
 * float16 or bfloat16. */
bool element_put_number(inlay_dtype dtype, void *data, int64_t index, double value);

/* Whether element_convert() knows both types: bool, integers of at least 8 bits, floats of at least 16. */
bool element_converts(inlay_dtype from, inlay_dtype to);
/* Converts count elements, by the rule of numbers in texts: to floats, numbers are rounded to nearest, and a finite
 * one must stay finite; to integers, a number must have an equal there; only 0 and 1 become a bool. Returns the number
 * of converted elements: less than count if the element at that index cannot be converted. element_converts() holds.
 */
int64_t element_convert(inlay_dtype from, const void *source, inlay_dtype to, void *target, int64_t count);

/* The tolerance for results of a type whose kernels may round differently: two steps of a type of less than 32 bits. */
void element_tolerance(inlay_dtype dtype, double *out_rtol, double *out_atol);

/* The bits of the float16 nearest to value (ties to even). */
uint16_t element_half(float value);
#endif
