/* serve/chat/request_fields.h - what the forms of requests for texts share; for the files of these forms. */
#ifndef SERVE_REQUEST_FIELDS_H
#define SERVE_REQUEST_FIELDS_H
#include "serve/chat/completion_internal.h"

/* The tokens of a text for which the request has no number, unless the context ends it. */
enum {
    CHAT_TOKENS = 1024, /* OpenAI's chats have no default */
    COMPLETION_TOKENS = 16
};

/* Fields of OpenAI's, vLLM's and llama-server's requests. Each table leads to the next one. */
extern const body_table common_fields, sampling_fields, grammar_fields;

/* Readers of single fields, for forms that take a part of them or have other names for them. `user` is a
 * completion_request. */
typedef bool field_reader(void *user, json_t *value, body_error *error);
field_reader field_model, field_messages, field_variables, field_instructions, field_tools, field_tool_choice,
    field_parallel, field_stream, field_stops, field_tier;
field_reader field_prompts;    /* a text, tokens, or several of them */
field_reader field_suffix;     /* "" is none */
field_reader field_max_tokens; /* -1: until the context ends the text */
field_reader field_temperature, field_top_p, field_min_p, field_top_k, field_typical, field_presence, field_frequency,
    field_repetition, field_seed;
field_reader field_last;   /* repeat_last_n */
field_reader field_format; /* response_format */
/* Of fields that have one value here: false, true, 0, 1, an empty array, "". */
field_reader field_no, field_yes, field_zero, field_one, field_nothing, field_empty;

/* Sets the form of the text: a schema; NULL: any object. */
bool field_schema(completion_request *request, json_t *schema, body_error *error);
/* Reads an object whose members are fields, too. */
bool field_members(json_t *value, const body_table *table, completion_request *request, body_error *error);
bool field_count(const json_t *value, uint32_t least, uint32_t most, uint32_t *out, body_error *error);
/* Adds messages with their images. */
bool field_add_messages(completion_request *request, json_t *messages, bool items, body_error *error);
/* Tells the model's template whether it thinks, as enable_thinking; templates that do not read it ignore it. */
bool field_think(completion_request *request, bool thinks, body_error *error);
/* Adds the value, which it takes, to those that the request points into; NULL: *error says why there is none. */
json_t *request_keep(completion_request *request, json_t *value, body_error *error);
#endif
