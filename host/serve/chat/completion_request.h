/* serve/chat/completion_request.h - the body of a request for texts, in the form of each path. */
#ifndef SERVE_COMPLETION_REQUEST_H
#define SERVE_COMPLETION_REQUEST_H
#include "texts/tokens/rules.h"
#include "texts/tokens/sampler.h"
#include "serve/chat/body.h"
#include "texts/model/images.h"
#include "texts/model/infill.h"
#include "texts/chat/tools.h"
#include "texts/grammar/grammar.h"
#include "texts/model/choice.h"

enum {
    MAX_STOPS = 4,
    MAX_STOP_TOKENS = 64,
    MAX_TOKENS = 65536,
    MAX_TEXTS = 128,
    MAX_BIAS = 1024,
    MAX_BAD_WORDS = 1024,
    MAX_TOP = 20,
    MAX_IMAGES = 64
};

typedef struct completion_request {
    bool chat;     /* messages, not prompts */
    bool response; /* the request has the form of /v1/responses */
    json_t *body;  /* owned; model, stops and the texts of prompts and messages point into it */
    json_t *made;  /* owned: an array of values that they point into, made of other forms of requests */
    const char *model;
    struct {
        const char *name; /* the parameter of the prompts, or of messages */
        input_list list;
        const char *given;  /* of /api/generate: a message, or a prompt; NULL: none */
        bool is_raw;        /* it is a prompt */
        const char *suffix; /* each text is generated between its prompt and this; NULL: none */
        infill_form infill; /* of the model, if there is a suffix */
    } prompt;
    text_ends ends; /* of stops */
    struct {
        const char *texts[MAX_STOPS];
        int64_t tokens[MAX_STOP_TOKENS + INFILL_ENDS];
    } stops;
    struct {
        json_t *messages;         /* owned; objects, as the template takes them */
        json_t *variables;        /* of the template; NULL: none */
        const char *instructions; /* the first message; NULL: none */
        bool continues;           /* the last message may be the beginning of the answer */
    } dialog;
    struct {
        image_file *list; /* [count] of the messages, in their order; owned, with their data */
        uint32_t count;
    } images;
    json_t *metadata;    /* returned as it came; NULL: none */
    json_t *format;      /* the form of the text, returned as it came */
    uint32_t choices;    /* n: number of texts for each prompt in the reply */
    uint32_t candidates; /* best_of: number of texts generated for each prompt */
    bool streams;
    bool stream_usage;
    struct { /* log probabilities */
        bool wanted;
        uint32_t top;   /* number of most probable tokens for each generated token */
        int32_t prompt; /* likewise for each token of the prompt; -1: none are wanted */
    } logs;
    bool keeps_thoughts; /* in the text of the answer */
    bool echoes;         /* the reply begins with the prompt */
    bool has_max_tokens, has_min_tokens;
    bool seeded;
    struct grammar *form; /* of the texts, owned; NULL: any */
    struct {
        tool_set tools;
        const tool_form *form;   /* of the model; NULL: the request has no tools that may be called */
        struct grammar *grammar; /* of the texts that call tools, owned; NULL: as above */
    } calls;
    struct token_bias *bias; /* [MAX_BIAS], owned; NULL: none */
    struct sampler sampler;  /* what the request leaves open is NAN, and top_k OPEN_COUNT */
    uint32_t no_repeat;      /* of token_rules; OPEN_COUNT: that of the model */
    const json_t *bad_words; /* texts that do not occur; in the body; NULL: none */
    sequence_list banned;    /* their tokens, owned */
} completion_request;

#define OPEN_COUNT UINT32_MAX

/* The protocol of a path: the fields of its requests, and the functions that write its replies. */
typedef struct request_form {
    const body_table *table;
    const char *prompt;             /* the field of the prompt, or of messages */
    const struct reply_form *reply; /* NULL: that of OpenAI's texts and chats */
    /* Completes a request whose fields were read. NULL: there is nothing to do. */
    bool (*finish)(completion_request *request, body_error *error);
    const char *name_end; /* clients add it to names of models; NULL: nothing */
    bool chat, response;
    bool is_single;      /* the reply has one text, without log probabilities */
    bool continues;      /* the last message may be the beginning of the answer */
    bool streams;        /* unless the request says otherwise */
    uint32_t max_tokens; /* of a request that has no number */
} request_form;
extern const request_form form_completion, form_chat, form_response, form_anthropic, form_ollama_chat,
    form_ollama_generate, form_infill, form_llama, form_generate, form_generate_stream;

/* Reads the exchange's body into *request. false: *error says why; the caller frees the request in both cases. */
bool completion_request_read(completion_request *request, const request_form *form, struct exchange *exchange,
                             body_error *error);
void completion_request_deinit(completion_request *request);
#endif
