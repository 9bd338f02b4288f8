/* pattern_syntax.h - Oniguruma's syntax to PCRE2's. */
#ifndef PATTERN_SYNTAX_H
#define PATTERN_SYNTAX_H
#include "prepost/text/tokenizer_parts.h"

/* Appends the expression with the same matches for PCRE2_UTF, PCRE2_UCP and PCRE2_MULTILINE. INLAY_UNSUPPORTED names
 * the part that has no known equal: back-references, subexpression calls, classes within classes, &&, \R, \X, \K, \G,
 * extended mode. One difference remains: without regard to case, Oniguruma also lets two letters match a ligature. */
INLAY_NODISCARD inlay_status pattern_translate(const char *regex, text_buf *out, inlay_diag *diag);
#endif
