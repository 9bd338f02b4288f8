/* The words and signs of an operator's signature, and what is said of a mistake in it. */
#include "signature.h"
#include <string.h>

inlay_status sig_mistake(const struct parser *p, const char *place, const char *what)
{
    char near_text[25];
    size_t n = 0;

    for (; n + 1 < sizeof near_text && place[n] != '\0'; n++)
        near_text[n] = place[n] >= ' ' && place[n] < 127 ? place[n] : '?';
    near_text[n] = '\0';
    if (n == 0)
        return inlay_fail(p->diag, INLAY_INVALID_ARGUMENT, "signature, at its end: %s", what);
    return inlay_fail(p->diag, INLAY_INVALID_ARGUMENT, "signature, character %zu (near \"%s\"): %s",
                      (size_t)(place - p->text) + 1, near_text, what);
}

inlay_status sig_too_many(const struct parser *p, const char *what, int limit)
{
    return inlay_fail(p->diag, INLAY_LIMIT_EXCEEDED, "signature: more than %d %s", limit, what);
}

void sig_skip_space(struct parser *p)
{
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r')
        p->at++;
}

char sig_peek(struct parser *p)
{
    sig_skip_space(p);
    return *p->at;
}

bool sig_take(struct parser *p, char sign)
{
    if (sig_peek(p) != sign)
        return false;
    p->at++;
    return true;
}

inlay_status sig_expect(struct parser *p, char sign, const char *what)
{
    return sig_take(p, sign) ? INLAY_OK : sig_mistake(p, p->at, what);
}

static bool word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

inlay_status sig_read_word(struct parser *p, const char *what, struct span *out)
{
    sig_skip_space(p);
    out->begin = p->at;
    while (word_char(*p->at))
        p->at++;
    out->bytes = (size_t)(p->at - out->begin);
    return out->bytes > 0 ? INLAY_OK : sig_mistake(p, p->at, what);
}

bool sig_span_is(struct span s, const char *word)
{
    return strlen(word) == s.bytes && memcmp(s.begin, word, s.bytes) == 0;
}

inlay_status sig_copy(const struct parser *p, const void *data, size_t bytes, const void **out)
{
    void *mine = p->alloc(p->alloc_ctx, bytes > 0 ? bytes : 1);

    if (mine == NULL)
        return inlay_fail(p->diag, INLAY_OUT_OF_MEMORY, "no memory for an operator's schema");
    if (bytes > 0)
        memcpy(mine, data, bytes);
    *out = mine;
    return INLAY_OK;
}

inlay_status sig_copy_text(const struct parser *p, struct span s, const char **out)
{
    char *mine = p->alloc(p->alloc_ctx, s.bytes + 1);

    if (mine == NULL)
        return inlay_fail(p->diag, INLAY_OUT_OF_MEMORY, "no memory for an operator's schema");
    memcpy(mine, s.begin, s.bytes);
    mine[s.bytes] = '\0';
    *out = mine;
    return INLAY_OK;
}
