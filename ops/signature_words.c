/* ops/signature_words.c - the tokenizer of operator signatures, and its error messages. */
#include "signature.h"
#include "inlay/check.h"
#include <string.h>

inlay_status sig_mistake(const struct parser *parser, const char *place, const char *what)
{
    char near_text[25];
    size_t count = 0;

    INLAY_CHECK(place >= parser->text);
    for (; count + 1 < sizeof near_text && place[count] != '\0'; count++)
        near_text[count] = place[count] >= ' ' && place[count] < 127 ? place[count] : '?';
    near_text[count] = '\0';
    if (count == 0)
        return inlay_fail(parser->diag, INLAY_INVALID_ARGUMENT, "signature, at its end: %s", what);
    return inlay_fail(parser->diag, INLAY_INVALID_ARGUMENT, "signature, character %zu (near \"%s\"): %s",
                      (size_t)(place - parser->text) + 1, near_text, what);
}

inlay_status sig_too_many(const struct parser *parser, const char *what, int limit)
{
    return inlay_fail(parser->diag, INLAY_LIMIT_EXCEEDED, "signature: more than %d %s", limit, what);
}

void sig_skip_space(struct parser *parser)
{
    while (*parser->at == ' ' || *parser->at == '\t' || *parser->at == '\n' || *parser->at == '\r')
        parser->at++;
}

char sig_peek(struct parser *parser)
{
    sig_skip_space(parser);
    return *parser->at;
}

bool sig_take(struct parser *parser, char sign)
{
    if (sig_peek(parser) != sign)
        return false;
    parser->at++;
    return true;
}

inlay_status sig_expect(struct parser *parser, char sign, const char *what)
{
    return sig_take(parser, sign) ? INLAY_OK : sig_mistake(parser, parser->at, what);
}

static bool is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

inlay_status sig_read_word(struct parser *parser, const char *what, struct span *out)
{
    sig_skip_space(parser);
    out->begin = parser->at;
    while (is_word_char(*parser->at))
        parser->at++;
    out->bytes = (size_t)(parser->at - out->begin);
    return out->bytes > 0 ? INLAY_OK : sig_mistake(parser, parser->at, what);
}

bool sig_span_is(struct span span, const char *word)
{
    /* Spans are not empty. Most words differ in the first character. */
    return *word == *span.begin && strncmp(word, span.begin, span.bytes) == 0 && word[span.bytes] == '\0';
}

inlay_status sig_copy(const struct parser *parser, const void *data, size_t bytes, const void **out)
{
    void *copy = parser->alloc(parser->alloc_ctx, bytes > 0 ? bytes : 1);

    if (copy == NULL)
        return inlay_fail(parser->diag, INLAY_OUT_OF_MEMORY, "no memory for an operator's schema");
    INLAY_CHECK(((uintptr_t)copy & 7) == 0);
    if (bytes > 0)
        memcpy(copy, data, bytes);
    *out = copy;
    return INLAY_OK;
}

inlay_status sig_copy_text(const struct parser *parser, struct span span, const char **out)
{
    char *copy = parser->alloc(parser->alloc_ctx, span.bytes + 1);

    if (copy == NULL)
        return inlay_fail(parser->diag, INLAY_OUT_OF_MEMORY, "no memory for an operator's schema");
    INLAY_CHECK(span.begin >= parser->text && span.begin + span.bytes <= parser->at);
    memcpy(copy, span.begin, span.bytes);
    copy[span.bytes] = '\0';
    *out = copy;
    return INLAY_OK;
}
