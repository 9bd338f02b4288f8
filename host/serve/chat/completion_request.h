/* serve/chat/completion_request.h - the body of POST /v1/completions and /v1/chat/completions. */
#ifndef SERVE_COMPLETION_REQUEST_H
#define SERVE_COMPLETION_REQUEST_H
#include "sampler.h"
#include "serve/chat/chat.h"
#include "serve/repository/folder.h"
#include <stdbool.h>
#include <stddef.h>

enum { MAX_STOPS = 4, MAX_TOKENS = 65536, MAX_MESSAGES = 4096 };

typedef struct completion_request {
    bool chat; /* messages, not a prompt */
    char model[FOLDER_MAX_NAME + 2];
    char *prompt; /* the prompt, the stops and the texts of the messages point into the body */
    const char *stops[MAX_STOPS];
    uint32_t stop_count;
    chat_message *messages; /* [message_count], owned */
    uint32_t message_count;
    bool streams;
    uint64_t max_tokens;
    struct sampler sampler;
} completion_request;

/* Reads the body, which it modifies, into *request. false: `why` (of `bytes` bytes) has the message. */
bool completion_request_read(completion_request *request, char *body, size_t body_bytes, char *why, size_t bytes);
void completion_request_deinit(completion_request *request);
#endif
