/* pattern.h - the regular expressions of tokenizer.json, in the syntax of Oniguruma with Unicode, as the library
 * `tokenizers` uses them. */
#ifndef PATTERN_H
#define PATTERN_H
#include "inlay/status.h"
#include <stdbool.h>
#include <stddef.h>

/* Immutable: any number of threads may search with one pattern, each with its own scratch memory. */
typedef struct text_pattern text_pattern;

/* Compiles a pattern; the caller frees *out with pattern_close(). INLAY_UNSUPPORTED names syntax whose meaning in PCRE2
 * is another or unknown. The expressions of the most used tokenizers have hand-written matchers (words.c); all others
 * need PCRE2. */
INLAY_NODISCARD inlay_status pattern_open(const char *regex, text_pattern **out, inlay_diag *diag);
/* As pattern_open(), always with PCRE2. */
INLAY_NODISCARD inlay_status pattern_open_pcre(const char *regex, text_pattern **out, inlay_diag *diag);
void pattern_close(text_pattern *pattern); /* NULL is a no-op */

/* Finds the first match in the valid UTF-8 text that begins at byte `from` or later. *scratch is NULL for the first
 * search and belongs to the pattern; the caller frees it with pattern_free_scratch(). */
INLAY_NODISCARD inlay_status pattern_find(const text_pattern *pattern, void **scratch, const char *text, size_t bytes,
                                          size_t from, bool *out_found, size_t *out_begin, size_t *out_end,
                                          inlay_diag *diag);
void pattern_free_scratch(const text_pattern *pattern, void *scratch); /* NULL is a no-op */

/* words.c: matches a word at the start of a text that is not empty. The bytes of the match, or 0. */
typedef size_t (*word_matcher)(const char *text, size_t bytes);
/* The matcher of exactly this expression; NULL: there is none. */
word_matcher find_word_matcher(const char *regex);
bool find_word(word_matcher match, const char *text, size_t bytes, size_t from, size_t *out_begin, size_t *out_end);
#endif
