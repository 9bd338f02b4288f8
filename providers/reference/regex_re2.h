/* regex_re2.h - what the two files behind regex.h share: regex_re2.c writes a pattern of RE2's syntax in PCRE2's,
 * regex.c compiles and runs it. */
#ifndef REGEX_RE2_H
#define REGEX_RE2_H
#include "inlay/status.h"
#include <stddef.h>

/* pattern is UTF-8. *out_text is the caller's, to free; NULL after a failure. */
INLAY_NODISCARD inlay_status regex_translate(const char *pattern, size_t bytes, char **out_text, size_t *out_bytes,
                                             inlay_diag *diag);
#endif
