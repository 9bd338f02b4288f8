/* Any bytes as a tokenizer.json: it is refused with one line, or a text becomes tokens that exist and have texts. */
#include "texts/tokens/tokenizer.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char text[] = "Ab c\n  1234 \xc3\xa9\xe4\xbd\xa0<s>";
    char error[300] = "";
    struct tokenizer *tokenizer = tokenizer_open_bytes((const char *)data, bytes, "t.json", error, sizeof error);
    int64_t *tokens = NULL;
    size_t count = 0, written = 0, token_bytes;
    bool special;

    if (tokenizer == NULL && (error[0] == '\0' || strchr(error, '\n') != NULL))
        __builtin_trap(); /* a failure without a message, or with one of several lines */
    for (int whole = 0; tokenizer != NULL && whole < 2; whole++)
        (void)tokenizer_encode(tokenizer, text, whole != 0, &tokens, &count);
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < 0 || (size_t)tokens[i] >= tokenizer_count(tokenizer))
            __builtin_trap(); /* a token that does not exist */
        else if (tokenizer_bytes(tokenizer, tokens[i], &token_bytes, &special) != NULL)
            written += token_bytes; /* some tokens are no text */
    if (written > 1 << 20)
        __builtin_trap(); /* more than the text can have */
    free(tokens);
    tokenizer_close(tokenizer);
    return 0;
}
