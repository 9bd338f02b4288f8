/* serve/chat/chat.h - renders the prompt of a chat with the template of the model's tokenizer (chat_template of
 * tokenizer_config.json, in the Jinja language).
 *
 * Supported: for over a list, if, elif, else, set, namespace(); strings, numbers, lists, names,
 * attributes, indexes and slices; or, and, not, in, comparisons, + - * % ~, `a if b else c`, is defined / none /
 * string; the filters trim, length, upper, lower, first, last and string; strip(), lstrip(), rstrip(), startswith(),
 * endswith(), upper() and lower(); raise_exception(). Any other construct fails with a message that names it. White
 * space around blocks is trimmed as in the transformers library (trim_blocks, lstrip_blocks). */
#ifndef SERVE_CHAT_H
#define SERVE_CHAT_H
#include "inlay/status.h"
#include <stdint.h>

typedef struct chat_message {
    const char *role, *content;
} chat_message;

struct chat {
    const char *form;        /* the template */
    const char *begin, *end; /* bos_token, eos_token */
    const chat_message *messages;
    uint32_t count;
};

/* The caller frees *out_text. INLAY_UNSUPPORTED: the template uses an unsupported construct. INLAY_INVALID_ARGUMENT:
 * the template refuses the messages. */
INLAY_NODISCARD inlay_status chat_render(const struct chat *chat, char **out_text, inlay_diag *diag);
#endif
