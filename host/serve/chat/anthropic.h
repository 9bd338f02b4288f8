/* serve/chat/anthropic.h - POST /v1/messages: requests of Anthropic's Messages API become those of chats. */
#ifndef SERVE_ANTHROPIC_H
#define SERVE_ANTHROPIC_H
#include "serve/chat/body.h"

/* Messages as messages_read() takes them; a new reference, as the others. Blocks of texts, of calls of tools and of
 * their results are known. NULL: *error names the message. */
json_t *anthropic_messages(const json_t *value, body_error *error);
/* Tools as tool_set_read() takes them. NULL: *error names the tool. */
json_t *anthropic_tools(const json_t *value, body_error *error);
/* A choice as tool_set_choose() takes it. *single: at most one tool may be called. NULL: *error says why. */
json_t *anthropic_choice(const json_t *value, bool *single, body_error *error);
#endif
