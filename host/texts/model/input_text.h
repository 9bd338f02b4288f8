/* texts/model/input_text.h - the texts of a request of OpenAI's API: prompts and texts to embed. */
#ifndef TEXTS_INPUT_TEXT_H
#define TEXTS_INPUT_TEXT_H
#include "texts/chat/body.h"
#include "texts/model/text_model.h"

typedef struct input_text {
    const char *text;   /* in the request; NULL: tokens were given */
    const char *second; /* a text that is read together with it; NULL: none */
    int64_t *tokens;    /* [token_count], owned */
    size_t token_count;
    size_t second_begin; /* the first token of the second text */
} input_text;

typedef struct input_list {
    input_text *texts; /* [count], owned */
    uint32_t count;
} input_list;

/* Adds a text, or the token ids of one. most: of the list. false: *error says why; the list stays valid. */
bool input_list_add(input_list *list, const json_t *value, uint32_t most, body_error *error);
/* Adds a text, token ids, or an array of either. */
bool input_list_read(input_list *list, const json_t *value, uint32_t most, body_error *error);
/* Number of tokens of all texts. */
size_t input_list_tokens(const input_list *list);
void input_list_deinit(input_list *list);

/* Splits the text into tokens with the special ones that the tokenizer puts around it, if `whole` or if there is a
 * second text. false: *error names the text by `name`. */
bool input_text_tokenize(input_text *text, const text_model *model, bool whole, const char *name, body_error *error);
/* Whether the model has the tokens, at least one and no more than its context takes; has_reply: and a reply after
 * them. */
bool input_text_check(const input_text *text, const text_model *model, bool has_reply, const char *name,
                      body_error *error);
#endif
