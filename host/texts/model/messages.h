/* texts/model/messages.h - the messages of a request, as chat templates take them. */
#ifndef TEXTS_MESSAGES_H
#define TEXTS_MESSAGES_H
#include "texts/chat/body.h"
#include "texts/chat/chat.h"
#include "texts/model/text_model.h"

enum { MAX_MESSAGES = 4096 };
#define MESSAGES_THOUGHT "<think>"
#define MESSAGES_THOUGHT_END "</think>"

/* Takes an image of a message: the address that stands there, such as data:image/png;base64,... false: *error says
 * why it is refused. */
typedef struct image_taker {
    bool (*take)(void *user, const char *address, body_error *error);
    void *user;
} image_taker;

/* Adds the messages of a chat, or the items of a response (items: of type message, function_call,
 * function_call_output or reasoning), to the array `to`. Parts of a text are joined, with INLAY_TEXT_IMAGE_MARK for
 * each image (images NULL: they are refused); the arguments of a tool's call become an object; reasoning is
 * reasoning_content of the assistant's message that follows. false: *error names the message. */
bool messages_read(json_t *to, json_t *value, bool items, const image_taker *images, body_error *error);
/* Adds a message of the role. false: out of memory. */
bool messages_add(json_t *to, const char *role, const char *content, body_error *error);
/* A text, or parts of one; a new reference. NULL: *error names the message `index`. */
json_t *messages_content(json_t *content, size_t index, body_error *error);
/* The messages as the model's template takes them, with the tools where it knows none; a new reference. NULL: out of
 * memory. */
json_t *messages_for_template(text_model *model, json_t *messages, const json_t *tools);
/* chat_render() with the contents of messages as the model's template takes them, and INLAY_TEXT_IMAGE_MARK for what it
 * prints for their images. The caller frees *out_text. */
INLAY_NODISCARD inlay_status messages_write(text_model *model, const struct chat *chat, char **out_text,
                                            inlay_diag *diag);
/* Renders messages with the model's template, or that for tools [as templates take them] (NULL: none). variables: of
 * the template; NULL: none. continues: the last message, if it is one of the assistant without calls, is the beginning
 * of the answer. The caller frees *out_text. */
INLAY_NODISCARD inlay_status messages_render(text_model *model, json_t *messages, json_t *tools, json_t *variables,
                                             bool continues, char **out_text, inlay_diag *diag);
/* Whether a prompt ends with <think>: the answer begins within a thought. */
bool messages_begin_thought(const char *prompt);
#endif
