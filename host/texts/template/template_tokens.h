/* texts/template/template_tokens.h - a template as tokens: texts, and the words and signs within tags. */
#ifndef TEXTS_TEMPLATE_TOKENS_H
#define TEXTS_TEMPLATE_TOKENS_H
#include "texts/template/template_internal.h"

typedef enum token_kind {
    TOKEN_TEXT, /* outside of tags, without the white space that the tags remove */
    TOKEN_PRINT,
    TOKEN_BLOCK,
    TOKEN_CLOSE, /* of either */
    TOKEN_NAME,
    TOKEN_CONSTANT, /* text or number */
    TOKEN_SIGN,
    TOKEN_END
} token_kind;

struct token {
    token_kind kind;
    uint32_t line;
    struct value text; /* or a number */
};

/* Tokens in the machine's memory, the last of which is TOKEN_END. */
bool template_tokens(struct machine *machine, const char *form, size_t bytes, struct token **out);
#endif
