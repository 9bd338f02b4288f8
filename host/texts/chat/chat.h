/* texts/chat/chat.h - renders the prompt of a chat with the template of the model's tokenizer (chat_template of
 * tokenizer_config.json, in the Jinja language; texts/template). */
#ifndef TEXTS_CHAT_H
#define TEXTS_CHAT_H
#include "inlay/status.h"
#include "texts/template/template.h"
#include <stdbool.h>

struct chat {
    const template_tree *form; /* the template */
    const char *begin, *end;   /* bos_token, eos_token */
    json_t *messages;          /* objects with role, content and further members, as transformers passes them */
    json_t *tools;             /* objects {"type": "function", "function": ...}; NULL: none */
    json_t *variables;         /* an object of other variables; NULL: none */
    bool is_complete;          /* the text has no beginning of a further answer */
};

/* Parses a template, which must exist as long as the tree. INLAY_UNSUPPORTED: it uses an unsupported construct. */
INLAY_NODISCARD inlay_status chat_open(const char *form, template_tree **out_tree, inlay_diag *diag);
/* The caller frees *out_text. INLAY_UNSUPPORTED: the template uses an unsupported construct. INLAY_INVALID_ARGUMENT:
 * the template refuses the messages. */
INLAY_NODISCARD inlay_status chat_render(const struct chat *chat, char **out_text, inlay_diag *diag);
#endif
