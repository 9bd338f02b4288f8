/* regex.h - regular expressions in RE2's syntax, for RegexFullMatch and Tokenizer, implemented with PCRE2.
 *
 * PCRE2 runs a pattern as an automaton, as RE2 does: it follows all alternatives at once, so matching never takes time
 * exponential in the length of the text. Matching allocates no memory, except for text that is not UTF-8. A pattern
 * with more than about REGEX_WAYS alternatives at one position of the text fails with INLAY_LIMIT_EXCEEDED.
 *
 * Supported: literals, ., [classes] with ranges and [:posix:], \d \w \s \D \W \S (ASCII only), \pN \p{Name} \P{Name},
 * \b \B ^ $ \A \z, groups (plain, (?:...), (?P<name>...), (?<name>...)), flags (?i) (?m) (?s) (?U), | * + ? {n} {n,}
 * {n,m} and their lazy forms, \n \t \r \f \v \a, \123, \xHH, \x{H}, \Q...\E. Rejected, as by RE2: look-around and
 * back-references, a repetition of a repetition (a**, a*+), other escapes, counts above 1000. Also rejected: \C. Text
 * and pattern are UTF-8; a byte that is not part of a code point counts as one character. */
#ifndef REGEX_H
#define REGEX_H
#include "inlay/status.h"
#include <stdbool.h>
#include <stddef.h>

enum { REGEX_WAYS = 1000 };

struct regex;

/* Compiles the pattern. A syntax error is INLAY_INVALID_MODEL with its position; unsupported syntax is
 * INLAY_UNSUPPORTED, as is every pattern if PCRE2 is not installed. The caller frees *out_regex with regex_destroy();
 * after a failure *out_regex is NULL. */
INLAY_NODISCARD inlay_status regex_create(const char *pattern, size_t bytes, struct regex **out_regex,
                                          inlay_diag *diag);
void regex_destroy(struct regex *regex); /* NULL is a no-op */

/* Returns whether the text is UTF-8. */
bool regex_is_utf8(const char *text, size_t bytes);

/* Bytes of scratch memory that a match needs, aligned to 8. */
size_t regex_scratch_bytes(void);
/* Returns whether the whole text matches. May be called from any number of threads, each with its own scratch. */
INLAY_NODISCARD inlay_status regex_full_match(const struct regex *regex, const char *text, size_t bytes, void *scratch,
                                              bool *out_matches, inlay_diag *diag);
/* Finds the leftmost match that begins at or after byte `from`; if several begin there, the longest: [*out_begin,
 * *out_end). is_utf8: the result of regex_is_utf8 for the text. */
INLAY_NODISCARD inlay_status regex_search(const struct regex *regex, const char *text, size_t bytes, bool is_utf8,
                                          size_t from, void *scratch, bool *out_found, size_t *out_begin,
                                          size_t *out_end, inlay_diag *diag);
#endif
