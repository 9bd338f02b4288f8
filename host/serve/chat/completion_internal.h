/* serve/chat/completion_internal.h - the texts of a completion; for completion.c and completion_reply.c. */
#ifndef SERVE_COMPLETION_INTERNAL_H
#define SERVE_COMPLETION_INTERNAL_H
#include "serve/chat/completion.h"
#include "serve/chat/completion_request.h"
#include "serve/schedule/text_jobs.h"
#include <pthread.h>

/* Log probabilities of tokens as JSON elements, separated by commas. */
typedef struct token_log {
    struct strbuf tokens;                /* chats: objects; completions: texts */
    struct strbuf values, tops, offsets; /* completions */
} token_log;

/* The forms of a text: that of the request, and that of its calls. */
enum { ANSWER, CALLS };

/* Where a text is with regard to its thought, which is between <think> at its beginning and </think>. */
typedef enum thought_state {
    THOUGHT_NONE,  /* the text is the answer from here on */
    THOUGHT_AHEAD, /* the text may begin with a thought */
    THOUGHT_RUNS,
    THOUGHT_ENDED /* white space before the answer is left out */
} thought_state;

/* A text: choice index % candidates of prompt index / candidates. */
typedef struct completion_choice {
    text_choice base; /* its forms: ANSWER, CALLS */
    struct completion *completion;
    bool calling; /* the text ends, and calls of tools follow */
    bool said;    /* the reply already has text other than white space */
    tool_reader calls;
    thought_state thinking;
    struct strbuf thought; /* its part that was not taken */

    struct strbuf text;       /* the text so far; unused if choices are streamed */
    struct strbuf thoughts;   /* the thought so far */
    size_t thought_tokens;    /* tokens up to its end */
    token_log log;            /* of the tokens that are not yet written */
    struct strbuf prompt_log; /* those of prompt_logprobs, as JSON elements */
    size_t scored;            /* tokens of the prompt whose log probabilities were taken */
    bool prompt_ended;        /* it was read, and is in the text if that begins with it */
    const char *reason;       /* finish_reason; NULL: not finished */
    bool began;               /* an event of it was written */
    uint64_t first_token_ns;  /* when the first token was generated */
    uint64_t token_ns;        /* and the last one */
    size_t characters;        /* generated; for text_offset */
    double log_probability;   /* of all tokens, if the request needs it */
} completion_choice;

/* A form of replies, and of their events. The caller holds the lock of the completion. */
typedef struct reply_form {
    void (*write)(struct completion *completion, struct strbuf *to); /* the whole reply */
    void (*write_part)(struct completion *completion, const char *text, size_t bytes);
    /* `bytes` more of the arguments of call `index`. NULL: the form has no calls. */
    void (*write_call)(struct completion *completion, uint32_t index, size_t bytes);
    void (*write_end)(struct completion *completion);
    void (*write_failure)(struct completion *completion, const inlay_diag *failure);
    /* A part of the thought. NULL: the form has none, and thoughts stay in the text. */
    void (*write_thought)(struct completion *completion, const char *text, size_t bytes);
    const char *stream_type; /* NULL: text/event-stream */
} reply_form;
/* Of /v1/responses, of /v1/messages, of llama-server's /completion and /infill, of KServe's generate, and of
 * Ollama's /api. */
extern const reply_form response_reply, anthropic_reply, llama_reply, generate_reply, ollama_reply;

struct completion {
    struct exchange *exchange;
    const reply_form *reply; /* NULL: that of OpenAI's texts and chats */
    uint64_t id;
    uint64_t seed; /* of the first choice; the others have the next numbers */
    completion_request asked;
    struct {
        const char *name; /* of asked.model: after its last ':'; NULL: the request names no adapter */
        int64_t number;   /* in the model; -1: none */
    } adapter;
    bool streams;
    bool begins_thought;    /* the prompt ends with <think> */
    const tool_form *marks; /* special tokens of this form are text; NULL: none */

    completion_choice *choices; /* [choice_count] all texts */
    uint32_t choice_count;
    uint32_t unfinished; /* texts that have not ended */
    struct {             /* of the whole request */
        size_t prompt, generated;
        size_t cached; /* of the prompt, those whose states were copied from an earlier text */
        size_t kept;   /* of the prompt, those whose states were kept for later texts */
    } tokens;
    inlay_diag failure; /* of the first text that failed; it ends the others */

    choice_scratch scratch;
    image_prompt images; /* of a request with images */

    pthread_mutex_t lock;  /* guards the fields below */
    struct {               /* the events of a stream */
        struct strbuf out; /* that were not taken yet */
        uint64_t counted;  /* of their bytes, in max_inflight_bytes */
        bool is_unread;    /* more than COMPLETION_UNREAD_BYTES waited, or that limit is exceeded: the texts end */
        uint32_t count;    /* of a response */
        bool thought_began, thought_ended; /* the events of its thought were written */
        bool message_began, message_ended; /* those of its message */
    } events;
    bool waiting; /* the exchange is suspended until there are events */
    bool done;    /* the texts are complete */
};

/* Moves the first `bytes` unsent bytes to the choice's text or to an event; reason NULL: more text follows. */
void completion_emit(completion_choice *choice, size_t bytes, const char *reason);
/* Moves the thought that was not taken to the choice or to an event. */
void completion_emit_thought(completion_choice *choice);
/* Writes the parts of calls that were generated so far to events. */
void completion_emit_calls(completion_choice *choice);
/* Adds the token's log probability to the choice. logits: [count] as the model returned them. */
void completion_log_token(completion_choice *choice, int64_t token, const float *logits, size_t count);
/* Adds that of the next token of the prompt. logits: [count] of the token before it; NULL: it is the first one. */
void completion_log_prompt(completion_choice *choice, const float *logits, size_t count);
/* Writes the reply, or the last events of a stream: with a failure, or with all texts. From here on another thread
 * may free the exchange. */
void completion_reply(struct completion *completion, const inlay_diag *failure);
void completion_choice_deinit(completion_choice *choice);
#endif
