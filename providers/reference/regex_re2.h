/* regex_re2.h - the interface between the two files that implement regex.h: regex_re2.c translates a pattern from RE2's
 * syntax to PCRE2's, regex.c compiles and runs it. */
#ifndef REGEX_RE2_H
#define REGEX_RE2_H
#include "inlay/status.h"
#include <stddef.h>

/* Translates a pattern, which must be UTF-8. The caller frees *out_text, which is NULL after a failure. */
INLAY_NODISCARD inlay_status regex_translate(const char *pattern, size_t bytes, char **out_text, size_t *out_bytes,
                                             inlay_diag *diag);
#endif
