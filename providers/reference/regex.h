/* regex.h - regular expressions of the RE2 kind, for RegexFullMatch and Tokenizer.
 *
 * A pattern becomes a program for a set of threads that read the text once (Thompson's way): time is proportional to
 * text times program, whatever the pattern, and nothing is allocated while matching.
 *
 * Understood: literals, ., [classes] with ranges and [:posix:], \d \w \s \D \W \S, \b \B ^ $ \A \z, groups (plain,
 * (?:...), (?P<name>...)), flags (?i) (?s), | * + ? {n} {n,} {n,m} and their lazy forms, \n \t \r \f \v \a, \xHH,
 * \x{H}, \Q...\E. Not understood: \p{...} and the flags m and U. Text and pattern are UTF-8; a byte that is no part of
 * a code point counts as one character. */
#ifndef REGEX_H
#define REGEX_H
#include "inlay/status.h"
#include <stdbool.h>

typedef struct regex regex;

/* Compiles the pattern. A mistake in it is INLAY_INVALID_MODEL with the place, what is not understood
 * INLAY_UNSUPPORTED. *out_regex is the caller's, to free with regex_destroy; NULL after a failure. */
INLAY_NODISCARD inlay_status regex_create(const char *pattern, size_t bytes, regex **out_regex, inlay_diag *diag);
void regex_destroy(regex *re); /* NULL is a no-op */

/* Bytes of scratch memory that a match needs, aligned to 8. */
size_t regex_scratch_bytes(const regex *re);
/* Does the whole text match? Any number of threads, each with its own scratch. */
bool regex_full_match(const regex *re, const char *text, size_t bytes, void *scratch);
/* The leftmost match that begins at byte `from` or behind it, and of those the longest: [*out_begin, *out_end). */
bool regex_search(const regex *re, const char *text, size_t bytes, size_t from, void *scratch, size_t *out_begin,
                  size_t *out_end);
#endif
