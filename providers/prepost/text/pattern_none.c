/* pattern_none.c - regular expressions in a build without PCRE2: those of words.c. */
#include "prepost/text/pattern.h"
#include <stdlib.h>

struct text_pattern {
    word_matcher match;
};

inlay_status pattern_open_pcre(const char *regex, text_pattern **out, inlay_diag *diag)
{
    *out = NULL;
    return inlay_fail(diag, INLAY_UNSUPPORTED,
                      "the pattern '%.200s' needs PCRE2: build with its headers (Debian: libpcre2-dev)", regex);
}

inlay_status pattern_open(const char *regex, text_pattern **out, inlay_diag *diag)
{
    const word_matcher match = find_word_matcher(regex);

    if (match == NULL)
        return pattern_open_pcre(regex, out, diag);
    *out = malloc(sizeof **out);
    if (*out == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a pattern");
    (*out)->match = match;
    return INLAY_OK;
}

void pattern_close(text_pattern *pattern)
{
    free(pattern);
}

inlay_status pattern_find(const text_pattern *pattern, void **scratch, const char *text, size_t bytes, size_t from,
                          bool *out_found, size_t *out_begin, size_t *out_end, inlay_diag *diag)
{
    (void)scratch;
    (void)diag;
    *out_found = find_word(pattern->match, text, bytes, from, out_begin, out_end);
    return INLAY_OK;
}

void pattern_free_scratch(const text_pattern *pattern, void *scratch)
{
    (void)pattern;
    (void)scratch;
}
