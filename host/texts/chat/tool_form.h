/* texts/chat/tool_form.h - the form in which a model writes calls of tools, as its chat template prints them.
 *
 * A model continues texts as its template prints them, so tool_form_read() renders a chat with made-up calls and finds
 * the texts around the calls' names and arguments. */
#ifndef TEXTS_TOOL_FORM_H
#define TEXTS_TOOL_FORM_H
#include "inlay/status.h"
#include "texts/template/template.h"
#include <stdbool.h>

/* In a part of a form: the call's id, of letters, digits, _ and -. */
#define TOOL_FORM_ID '\1'
enum { TOOL_PART_BYTES = 240 };

/* How a model writes calls: lead, name, middle, arguments (a JSON object), after, then next instead of lead for each
 * further call, and close after the last one. White space in these texts may be missing or different. */
typedef struct tool_form {
    char trigger[TOOL_PART_BYTES]; /* a text with this beginning is a call */
    bool in_messages;              /* the template knows no tools: messages describe them (tool_text.h) */
    bool at_start;                 /* the trigger counts at the start of a text only */
    bool short_ids;                /* ids of calls are 9 letters and digits: the template refuses longer ones */
    bool single;                   /* the template takes one call in a message; `next` and `close` are empty */
    char lead[TOOL_PART_BYTES], middle[TOOL_PART_BYTES], after[TOOL_PART_BYTES], next[TOOL_PART_BYTES],
        close[TOOL_PART_BYTES];
} tool_form;

/* The template of a model and its tokens. */
typedef struct tool_template {
    const template_tree *tree;
    const char *begin, *end; /* bos_token, eos_token */
    const char *const *ends; /* [end_count] the texts of the tokens that end a text */
    size_t end_count;
} tool_template;

/* A template that prints no calls has the form {"name": ..., "arguments": ...}, or a JSON array of these after
 * <|tool_call|> if its prompt asks for that. INLAY_UNSUPPORTED: the template prints calls that are not read; diag says
 * why. */
INLAY_NODISCARD inlay_status tool_form_read(const tool_template *source, tool_form *out, inlay_diag *diag);
/* Whether the text of a special token is a part of the form, and so of the answer. */
bool tool_form_has(const tool_form *form, const char *text, size_t bytes);
#endif
