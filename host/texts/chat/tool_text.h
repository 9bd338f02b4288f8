/* texts/chat/tool_text.h - tools within messages, for chat templates that know none. */
#ifndef TEXTS_TOOL_TEXT_H
#define TEXTS_TOOL_TEXT_H
#include <jansson.h>
#include <stdbool.h>

/* Whether a message has calls of tools, or the result of one. */
bool tool_text_is_needed(const json_t *messages);
/* The messages with the tools (as templates take them; NULL: none) and the form of a call before the text of the first
 * one, calls as JSON at the end of the text of the assistant, and results as messages of the user. A new array, whose
 * other messages are those of `messages`; NULL: out of memory. */
json_t *tool_text_messages(const json_t *messages, const json_t *tools);
#endif
