/* regex.h - regular expressions in RE2's syntax, for RegexFullMatch and Tokenizer, by PCRE2.
 *
 * PCRE2 runs a pattern as an automaton, as RE2 does: it follows all ways at once, so no pattern takes a time that is
 * exponential in the text, and nothing is allocated while matching (but for texts that are not UTF-8). A pattern that
 * can go on in more than about REGEX_WAYS ways at one place of a text ends with INLAY_LIMIT_EXCEEDED.
 *
 * Understood: literals, ., [classes] with ranges and [:posix:], \d \w \s \D \W \S (of ASCII), \pN \p{Name} \P{Name},
 * \b \B ^ $ \A \z, groups (plain, (?:...), (?P<name>...), (?<name>...)), flags (?i) (?m) (?s) (?U), | * + ? {n} {n,}
 * {n,m} and their lazy forms, \n \t \r \f \v \a, \123, \xHH, \x{H}, \Q...\E. Refused, as by RE2: looking around and
 * back, a repetition of a repetition (a**, a*+), other escapes, counts above 1000; and \C. Text and pattern are UTF-8;
 * a byte that is no part of a code point counts as one character. */
#ifndef REGEX_H
#define REGEX_H
#include "inlay/status.h"
#include <stdbool.h>
#include <stddef.h>

enum { REGEX_WAYS = 1000 };

struct regex;

/* Compiles the pattern. A mistake in it is INLAY_INVALID_MODEL with the place, what is not understood
 * INLAY_UNSUPPORTED, as is any pattern where PCRE2 is not installed. *out_regex is the caller's, to free with
 * regex_destroy; NULL after a failure. */
INLAY_NODISCARD inlay_status regex_create(const char *pattern, size_t bytes, struct regex **out_regex,
                                          inlay_diag *diag);
void regex_destroy(struct regex *re); /* NULL is a no-op */

/* Is the text UTF-8? */
bool regex_is_utf8(const char *text, size_t bytes);

/* Bytes of scratch memory that a match needs, aligned to 8. */
size_t regex_scratch_bytes(void);
/* Does the whole text match? Any number of threads, each with its own scratch. */
INLAY_NODISCARD inlay_status regex_full_match(const struct regex *re, const char *text, size_t bytes, void *scratch,
                                              bool *out_matches, inlay_diag *diag);
/* The leftmost match that begins at byte `from` or behind it, and of those the longest: [*out_begin, *out_end).
 * is_utf8: what regex_is_utf8 says of the text. */
INLAY_NODISCARD inlay_status regex_search(const struct regex *re, const char *text, size_t bytes, bool is_utf8,
                                          size_t from, void *scratch, bool *out_found, size_t *out_begin,
                                          size_t *out_end, inlay_diag *diag);
#endif
