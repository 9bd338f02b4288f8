/* regex_none.c - regex.h for builds without PCRE2: every pattern is rejected, so no match is ever run. */
#include "reference/regex.h"

inlay_status regex_create(const char *pattern, size_t bytes, struct regex **out_regex, inlay_diag *diag)
{
    (void)pattern, (void)bytes;
    *out_regex = NULL;
    return inlay_fail(diag, INLAY_UNSUPPORTED,
                      "inlay was built without PCRE2, which patterns require: build it with libpcre2-dev");
}

void regex_destroy(struct regex *regex)
{
    (void)regex;
}

bool regex_is_utf8(const char *text, size_t bytes)
{
    (void)text, (void)bytes;
    return true;
}

size_t regex_scratch_bytes(void)
{
    return 0;
}

inlay_status regex_full_match(const struct regex *regex, const char *text, size_t bytes, void *scratch,
                              bool *out_matches, inlay_diag *diag)
{
    (void)regex, (void)text, (void)bytes, (void)scratch, (void)out_matches;
    return inlay_fail(diag, INLAY_INTERNAL, "the pattern was never compiled");
}

inlay_status regex_search(const struct regex *regex, const char *text, size_t bytes, bool is_utf8, size_t from,
                          void *scratch, bool *out_found, size_t *out_begin, size_t *out_end, inlay_diag *diag)
{
    (void)regex, (void)text, (void)bytes, (void)is_utf8, (void)from, (void)scratch, (void)out_found, (void)out_begin;
    (void)out_end;
    return inlay_fail(diag, INLAY_INTERNAL, "the pattern was never compiled");
}
