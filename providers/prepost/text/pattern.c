/* pattern.c - regular expressions with PCRE2. */
#include "prepost/text/pattern.h"
#include "inlay/check.h"
#include "common/pcre.h"
#include "prepost/text/pattern_syntax.h"
#include <stdlib.h>

struct text_pattern {
    word_matcher match; /* NULL: PCRE2 */
    const pcre_library *pcre;
    pcre2_code *code;
};

static inlay_status compile(const char *regex, text_pattern *made, inlay_diag *diag)
{
    text_buf text = { 0 };
    PCRE2_SIZE at = 0;
    int code = 0;
    inlay_status status;

    made->pcre = pcre_open(diag);
    if (made->pcre == NULL)
        return INLAY_UNSUPPORTED;
    INLAY_TRY(pattern_translate(regex, &text, diag));
    made->code = made->pcre->compile((PCRE2_SPTR)text.data, text.count, PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &code,
                                     &at, made->pcre->rules);
    if (made->code == NULL)
        status = pcre_refused((inlay_str){ regex, strlen(regex) }, code, SIZE_MAX, INLAY_UNSUPPORTED, diag);
done:
    free(text.data);
    return status;
}

static inlay_status open_pattern(const char *regex, word_matcher match, text_pattern **out, inlay_diag *diag)
{
    text_pattern *made = calloc(1, sizeof *made);
    inlay_status status = INLAY_OK;

    *out = NULL;
    if (made == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a pattern");
    made->match = match;
    if (match == NULL)
        status = compile(regex, made, diag);
    if (status != INLAY_OK) {
        pattern_close(made);
        return status;
    }
    *out = made;
    return status;
}

inlay_status pattern_open_pcre(const char *regex, text_pattern **out, inlay_diag *diag)
{
    return open_pattern(regex, NULL, out, diag);
}

inlay_status pattern_open(const char *regex, text_pattern **out, inlay_diag *diag)
{
    return open_pattern(regex, find_word_matcher(regex), out, diag);
}

void pattern_close(text_pattern *pattern)
{
    if (pattern != NULL && pattern->code != NULL)
        pattern->pcre->code_free(pattern->code);
    free(pattern);
}

inlay_status pattern_find(const text_pattern *pattern, void **scratch, const char *text, size_t bytes, size_t from,
                          bool *out_found, size_t *out_begin, size_t *out_end, inlay_diag *diag)
{
    const PCRE2_SIZE *at;
    int count;

    INLAY_CHECK(from <= bytes);
    if (pattern->match != NULL) {
        *out_found = find_word(pattern->match, text, bytes, from, out_begin, out_end);
        return INLAY_OK;
    }
    if (*scratch == NULL)
        *scratch = pattern->pcre->match_data_create_from_pattern(pattern->code, NULL);
    if (*scratch == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to match a pattern");
    count = pattern->pcre->match(pattern->code, (PCRE2_SPTR)text, bytes, from, PCRE2_NO_UTF_CHECK, *scratch,
                                 pattern->pcre->limits);
    *out_found = count > 0;
    if (count < 0 && count != PCRE2_ERROR_NOMATCH)
        return pcre_failed(count, diag);
    if (*out_found) {
        at = pattern->pcre->get_ovector_pointer(*scratch);
        *out_begin = at[0];
        *out_end = at[1];
    }
    return INLAY_OK;
}

void pattern_free_scratch(const text_pattern *pattern, void *scratch)
{
    if (scratch != NULL)
        pattern->pcre->match_data_free(scratch);
}
