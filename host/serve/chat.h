/* serve/chat.h - the text that a chat is to a model, by the template that comes with its tokenizer (chat_template of
 * tokenizer_config.json, a language called Jinja).
 *
 * What is known of the language: for over a list, if, elif, else, set, namespace(); strings, numbers, lists, names,
 * attributes, indexes and slices; or, and, not, in, comparisons, + - * % ~, `a if b else c`, is defined / none /
 * string; the filters trim, length, upper, lower, first, last and string; strip(), lstrip(), rstrip(), startswith(),
 * endswith(), upper() and lower(); raise_exception(). Anything else is a failure that names it. Blocks are trimmed as
 * the transformers library has it (trim_blocks, lstrip_blocks). */
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

/* *out_text is the caller's to free. INLAY_UNSUPPORTED: the template has what is not known. INLAY_INVALID_ARGUMENT: it
 * refuses the messages. */
INLAY_NODISCARD inlay_status chat_render(const struct chat *chat, char **out_text, inlay_diag *diag);
#endif
