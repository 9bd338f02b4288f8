/* inlay/text.h - generating texts with language models from C: the API of libinlay-text for applications.
 *
 *     inlay_text_request request = INLAY_TEXT_REQUEST_INIT;
 *     inlay_text_model *model = NULL;
 *     inlay_text *text = NULL;
 *     uint32_t running;
 *     inlay_text_model_create("model.gguf", NULL, &model, &diag);
 *     request.prompt = "The capital of France is";
 *     inlay_text_create(model, &request, &text, &diag);
 *     do {
 *         running = inlay_text_model_step(model);                  // one more token of each text
 *         if (inlay_text_take(text, &piece, &bytes, &diag) == INLAY_OK)
 *             fwrite(piece, 1, bytes, stdout);                     // UTF-8
 *     } while (running > 0);
 *     inlay_text_destroy(text);
 *     inlay_text_model_destroy(model);
 *
 * Terms:
 *     text model  a decoder with states (past_key_values, present) and logits, or a model that makes embeddings, and
 *                 its tokenizer: an ONNX file, a GGUF file, or a folder as Hugging Face publishes it
 *     text        a prompt and its continuation; a model generates several at once
 *     piece       the next part of a continuation
 *
 * What inlay/inlay.h says of errors, arguments, structs and compatibility applies here, with libinlay-text.so.1 as the
 * soname. The library generates texts with the functions of libinlay; it starts no threads besides those of a session.
 *
 * Threads. One thread at a time may use a text model and its texts. inlay_text_stop() may be called at any time. */
#ifndef INLAY_TEXT_H
#define INLAY_TEXT_H
#include "inlay/inlay.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct inlay_text_model inlay_text_model;
typedef struct inlay_text inlay_text;

/* How a text model is opened. Zero it, then set struct_size. The pointers are read during the call. */
typedef struct inlay_text_options {
    uint64_t struct_size;
    /* of the model's session, with their log and progress functions and allocator; NULL: default values. Option
     * last_logits has no effect: it is always 1 */
    const inlay_options *options;
    const char *variant;   /* which weights of a folder to use, such as "q4" or "fp16"; NULL: chosen by size */
    const char *tokenizer; /* path of tokenizer.json; NULL: within the model, or in its folder or the one above */
    /* path of a draft model, which guesses tokens of the texts; NULL: none. The draft model has the same vocabulary as
     * the model, or is a head (EAGLE, MTP), which guesses from hidden states of the model */
    const char *draft;
    uint64_t kv_memory;     /* limit of the states of all texts together, in bytes; 0: no limit */
    uint32_t max_texts;     /* number of texts generated at once; further texts wait; 0: 64 */
    uint32_t draft_tokens;  /* guesses of the draft model that one run checks, at most 16; 0: 8 */
    uint32_t lookup_tokens; /* guesses from the text's own tokens that one run checks, at most 16; 0: none */
    /* limit of the tokens of a text with its prompt, below that of the model; 0: that of the model */
    uint32_t context;
    /* path of the vision part of the model, a GGUF file (mmproj), for prompts with images; NULL: none, or the one of a
     * folder with vision_encoder.onnx */
    const char *vision;
} inlay_text_options;

/* Loads the model at path: an .onnx or .gguf file, or a folder with one model, or with the parts of one that reads
 * images. options may be NULL.
 *     INLAY_UNSUPPORTED       the model generates no texts; the message names the missing part. Or its
 *                             generation_config.json has a setting that is not supported, such as beams
 *     INLAY_INVALID_ARGUMENT  options, tokenizer.json or generation_config.json are invalid, or the draft model or
 *                             the vision part does not belong to the model
 *     and what inlay_session_create() returns */
INLAY_API INLAY_NODISCARD inlay_status inlay_text_model_create(const char *path, const inlay_text_options *options,
                                                               inlay_text_model **out_model, inlay_diag *diag);
/* NULL is a no-op. The model's texts must have been destroyed. */
INLAY_API void inlay_text_model_destroy(inlay_text_model *model);

/* Facts about a text model. The pointers are borrowed until the model is destroyed. */
typedef struct inlay_text_model_info {
    uint64_t struct_size;
    const inlay_session *session;
    const int64_t *ends;      /* [end_count] tokens that end a text */
    uint64_t vocabulary;      /* number of tokens; every token is below this number */
    uint64_t context;         /* limit of the tokens of a text with its prompt; 0: unknown */
    uint64_t guessed_tokens;  /* guesses that runs have checked so far */
    uint64_t right_tokens;    /* of guessed_tokens, those that were right */
    uint64_t runs;            /* runs of the model so far, without those of its draft model */
    uint32_t end_count;       /* 0: no end token is known */
    uint32_t has_template;    /* 1: the model has a chat template */
    uint32_t assumes_chat_ml; /* 1: the chat template is ChatML, because the GGUF file has no template */
    uint32_t together;        /* 1: texts share runs; 0: each text has runs of its own */
    uint32_t embeds;          /* 1: the model makes embeddings of texts, and generates no texts */
    uint32_t adapter_count;   /* number of LoRA adapters, from option adapter */
    const char *warning;      /* a line: members of generation_config.json without effect; NULL: none */
} inlay_text_model_info;
/* Fills *out_info (set struct_size). */
INLAY_API inlay_status inlay_text_model_describe(const inlay_text_model *model, inlay_text_model_info *out_info);

/* Forms of prompts. */
enum {
    /* The text already contains its special tokens, as the texts of inlay_text_model_chat() do: none, such as <s>, are
     * added around it. Special tokens in a text, such as <|im_start|>, are recognised with and without this flag. */
    INLAY_TEXT_RENDERED = 1u << 0,
    INLAY_TEXT_IGNORE_ENDS = 1u << 1 /* in a request: the model's end tokens are never chosen */
};
/* Writes the tokens of a text [bytes] into tokens [room]. flags: 0 or INLAY_TEXT_RENDERED. *out_count is the number of
 * all tokens. room 0 only asks for that number: tokens may then be NULL.
 *     INLAY_LIMIT_EXCEEDED  room is smaller than *out_count (and not 0): tokens holds the first `room` tokens */
INLAY_API inlay_status inlay_text_model_tokenize(const inlay_text_model *model, const char *text, size_t bytes,
                                                 uint32_t flags, int64_t *tokens, size_t room, size_t *out_count,
                                                 inlay_diag *diag);
/* Writes the text of tokens [count], NUL-terminated, into text, an array of `bytes` bytes. Tokens may end within a
 * character, and special tokens have no text. *out_bytes is the size of the whole text with its NUL. bytes 0 only asks
 * for that size: text may then be NULL.
 *     INLAY_NOT_FOUND       the model has no such token
 *     INLAY_LIMIT_EXCEEDED  bytes is smaller than *out_bytes (and not 0): text holds what fits, NUL-terminated */
INLAY_API inlay_status inlay_text_model_detokenize(const inlay_text_model *model, const int64_t *tokens, size_t count,
                                                   char *text, size_t bytes, size_t *out_bytes, inlay_diag *diag);

/* A message of a chat. */
typedef struct inlay_text_message {
    const char *role; /* "system", "user", "assistant", or another role that the model's template defines */
    const char *content;
} inlay_text_message;
/* A chat. Zero it, then set struct_size and either messages or json. */
typedef struct inlay_text_chat {
    uint64_t struct_size;
    const inlay_text_message *messages; /* [message_count] */
    uint64_t message_count;
    /* JSON array of objects with role, content and other members, instead of messages; NULL: messages */
    const char *json;
    const char *tools;     /* JSON array of objects {"type": "function", "function": ...}; NULL: none */
    const char *variables; /* JSON object: further variables of the template, such as enable_thinking; NULL: none */
} inlay_text_chat;
/* Writes the prompt of a chat into text, as inlay_text_model_detokenize() does: the messages as the model's chat
 * template prints them, and the beginning of an answer. Pass the result as a prompt with INLAY_TEXT_RENDERED. If the
 * template has no place for tools, the first message describes them.
 *     INLAY_NOT_FOUND         the model has no chat template
 *     INLAY_INVALID_ARGUMENT  the JSON is invalid, or the template refuses the messages
 *     INLAY_UNSUPPORTED       the template has a construct that is not supported; the message names it
 *     INLAY_LIMIT_EXCEEDED    bytes is smaller than *out_bytes (and not 0), or the template takes too much time */
INLAY_API inlay_status inlay_text_model_chat(inlay_text_model *model, const inlay_text_chat *chat, char *text,
                                             size_t bytes, size_t *out_bytes, inlay_diag *diag);

/* An image: the content of a file in PNG, JPEG or another format of ONNX's ImageDecoder. */
typedef struct inlay_text_image {
    const void *data; /* [bytes] */
    uint64_t bytes;
} inlay_text_image;
/* In a prompt, and in the messages of its chat, the next image of the request is in the place of this text. */
#define INLAY_TEXT_IMAGE_MARK "<__image__>"

/* A text to generate. Start from INLAY_TEXT_REQUEST_INIT. The pointers are read during the call. A negative sampling
 * parameter stands for the value in the model's generation_config.json or, if that file has none, for the default in
 * parentheses. The other settings of that file apply to all texts. If they, the schema and the grammar leave no token
 * that may come next, the text fails. */
typedef struct inlay_text_request {
    uint64_t struct_size;
    const char *prompt;    /* the text to continue; NULL: continue `tokens` */
    const int64_t *tokens; /* [token_count] instead of prompt */
    uint64_t token_count;  /* 0 if prompt is set */
    /* [stop_count] the text ends before the first occurrence of one of these texts; no empty text */
    const char *const *stops;
    const char *schema;  /* JSON Schema: the text is a JSON value that matches it; NULL: any text */
    const char *grammar; /* GBNF: the text matches this grammar; NULL: any text */
    uint64_t seed;       /* with the same seed, model and options the text is the same */
    uint32_t stop_count;
    uint32_t max_tokens; /* limit of the generated tokens; 0: that of the model's context */
    uint32_t flags;      /* INLAY_TEXT_* */
    int32_t top_k;       /* sample from this number of most probable tokens; 0: all (0) */
    float temperature;   /* 0: always the most probable token; at most 2 (1) */
    float top_p;         /* sample from the smallest set of tokens with this total probability, 0 to 1 (1) */
    /* sample from tokens with at least this fraction of the highest probability, 0 to 1 (0) */
    float min_p;
    /* divides the positive logits of tokens that are in the text, and multiplies their other logits (1) */
    float repetition_penalty;
    float presence_penalty;  /* subtracted from the logits of generated tokens, once per token; -2 to 2 */
    float frequency_penalty; /* subtracted once per occurrence; -2 to 2 */
    const char *adapter;     /* name of a LoRA adapter of the session's option adapter; NULL: none */
    /* [image_count] of a prompt with INLAY_TEXT_RENDERED, which has the mark as many times. The model encodes them
     * during the call, and keeps what it made of the latest ones. In the tokens of the text, the places of an image are
     * negative numbers. */
    const inlay_text_image *images;
    uint64_t image_count;
    /* sample from tokens of this total probability whose information is nearest to its mean, 0 to 1 (1) */
    float typical_p;
    /* no sequence of this number of tokens occurs twice in the text; 0: no limit; INLAY_NONE: that of the model (0) */
    uint32_t no_repeat_ngram_size;
    /* generated tokens before an end token may end the text, at most max_tokens; INLAY_NONE: that of the model (0) */
    uint32_t min_tokens;
    uint32_t reserved;
} inlay_text_request;
#define INLAY_TEXT_REQUEST_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(inlay_text_request), NULL, NULL, 0, NULL, NULL, NULL, 0, 0, 0, 0, -1, -1, -1, -1, -1, 0, 0, NULL, NULL, \
            0, -1, INLAY_NONE, INLAY_NONE, 0                                                                           \
    }

/* Begins a text, which the next steps generate. The text must be destroyed before the model.
 *     INLAY_INVALID_ARGUMENT  a number, the schema or the grammar is invalid; the prompt has no tokens, or another
 *                             number of marks than there are images
 *     INLAY_NOT_FOUND         the model has no such token or adapter
 *     INLAY_LIMIT_EXCEEDED    the prompt does not fit the model's context or kv_memory
 *     INLAY_UNSUPPORTED       the schema has a keyword that is not supported, which the message names; the model makes
 *                             embeddings, not texts; there are images, and it has no vision part */
INLAY_API INLAY_NODISCARD inlay_status inlay_text_create(inlay_text_model *model, const inlay_text_request *request,
                                                         inlay_text **out_text, inlay_diag *diag);
/* Destroys a text, which may still be in progress. NULL is a no-op. */
INLAY_API void inlay_text_destroy(inlay_text *text);
/* Runs the model once. The run reads a part of a prompt, or it makes the next token (or several) of every text whose
 * prompt has been read. Returns the number of texts in progress; 0: nothing is left to run. If the run fails, its texts
 * end, and inlay_text_take() returns the failure. */
INLAY_API uint32_t inlay_text_model_step(inlay_text_model *model);
/* Returns the text that was generated since the last call, which may be empty: whole characters in UTF-8,
 * NUL-terminated. *out_piece [*out_bytes without the NUL] is borrowed until the next call for this text. Generated
 * bytes that are not UTF-8 are replaced by U+FFFD, and a NUL by U+2400. If the text failed, the pieces that were
 * generated before the failure are returned first. */
INLAY_API inlay_status inlay_text_take(inlay_text *text, const char **out_piece, size_t *out_bytes, inlay_diag *diag);
/* Ends the text with the next step. Any thread may call it, also a signal handler. */
INLAY_API void inlay_text_stop(inlay_text *text);

/* Why a text has ended. */
enum {
    INLAY_TEXT_RUNS = 0, /* the text is in progress */
    /* an end token or one of `stops` was reached, or the text completes its schema or grammar */
    INLAY_TEXT_END = 1,
    INLAY_TEXT_LENGTH = 2,  /* max_tokens were generated, or the context or kv_memory is full */
    INLAY_TEXT_STOPPED = 3, /* inlay_text_stop() */
    INLAY_TEXT_FAILED = 4   /* inlay_text_take() returns the failure */
};
/* The state of a text. */
typedef struct inlay_text_info {
    uint64_t struct_size;
    const int64_t *tokens; /* [prompt_tokens + generated_tokens] borrowed until the next step */
    uint64_t prompt_tokens;
    uint64_t generated_tokens;
    uint64_t reused_tokens; /* how many of prompt_tokens have states that were kept from an earlier text */
    uint32_t state;         /* INLAY_TEXT_RUNS, or why the text has ended */
    uint32_t reserved;
} inlay_text_info;
/* Fills *out_info (set struct_size). */
INLAY_API inlay_status inlay_text_describe(const inlay_text *text, inlay_text_info *out_info);

/* Computes the embedding of a text [bytes] with a model whose output is sentence_embedding, or last_hidden_state or
 * token_embeddings, whose rows are pooled and normalized as 1_Pooling/config.json and modules.json beside the model say
 * (without them: the normalized mean). *out_vector [*out_size] is borrowed until the next call for this model.
 *     INLAY_UNSUPPORTED     the model makes no embeddings, or its output is not an embedding
 *     INLAY_LIMIT_EXCEEDED  the text does not fit the model's context
 *     and what inlay_context_run() returns */
INLAY_API inlay_status inlay_text_model_embed(inlay_text_model *model, const char *text, size_t bytes,
                                              const float **out_vector, size_t *out_size, inlay_diag *diag);

/* Speech: the text of a sound, by a model of the kind Whisper, an encoder and a decoder in a folder as Hugging Face
 * publishes it (encoder_model.onnx; decoder_model_merged.onnx, or decoder_model.onnx with or without
 * decoder_with_past_model.onnx; config.json with the model_type whisper). One thread at a time may use it. */
typedef struct inlay_text_speech inlay_text_speech;

/* Opens the model. variant: which weights, as in inlay_text_options; NULL: chosen by size. options: of its sessions;
 * NULL: default values.
 *     INLAY_UNSUPPORTED       the folder has no such model, or one with an input or a setting that is not understood
 *     INLAY_INVALID_ARGUMENT  a file of the folder is missing or damaged
 *     and what inlay_session_create() returns */
INLAY_API INLAY_NODISCARD inlay_status inlay_text_speech_create(const char *folder, const char *variant,
                                                                const inlay_options *options,
                                                                inlay_text_speech **out_speech, inlay_diag *diag);
/* NULL is a no-op. */
INLAY_API void inlay_text_speech_destroy(inlay_text_speech *speech);
/* A line: members of generation_config.json without effect; NULL: none. Valid until the model is destroyed. */
INLAY_API const char *inlay_text_speech_warning(const inlay_text_speech *speech);

/* A sound. Zero it, then set struct_size. The pointers are read during the call. */
typedef struct inlay_text_sound {
    uint64_t struct_size;
    const void *file; /* [bytes] of a WAV file, or of another that libsndfile reads; at most 7,200 seconds */
    uint64_t bytes;
    const char *language;   /* its code, such as "en"; NULL: the most probable one */
    const char *prompt;     /* a text that might come before; NULL: none */
    const uint32_t *cancel; /* another thread stores 1 here (atomically) to end the transcription; NULL: none does */
    float temperature;      /* 0 to 1; 0: always the most probable token */
    uint32_t translates;    /* 1: the text is English */
    uint32_t has_times;     /* 1: segments have times; a sound of more than 30 seconds has them in any case */
    uint32_t reserved;
} inlay_text_sound;
/* Its text. The pointers are borrowed until the next transcription of the model. */
typedef struct inlay_text_transcript {
    uint64_t struct_size;
    const char *text; /* [text_bytes] UTF-8, NUL-terminated */
    uint64_t text_bytes;
    const char *language; /* the code of its language */
    double seconds;       /* length of the sound */
    uint64_t segment_count;
} inlay_text_transcript;
/* Transcribes a sound. Fills *out_transcript (set struct_size).
 *     INLAY_INVALID_ARGUMENT  the file or a number is invalid, or the model has not the language
 *     INLAY_LIMIT_EXCEEDED    the sound is too long
 *     INLAY_CANCELLED         sound->cancel
 *     and what inlay_context_run() returns */
INLAY_API INLAY_NODISCARD inlay_status inlay_text_speech_transcribe(inlay_text_speech *speech,
                                                                    const inlay_text_sound *sound,
                                                                    inlay_text_transcript *out_transcript,
                                                                    inlay_diag *diag);

/* A segment of the last transcription. text is borrowed until the next call for the model, tokens until the next
 * transcription. */
typedef struct inlay_text_segment {
    uint64_t struct_size;
    const char *text; /* [text_bytes] UTF-8, NUL-terminated */
    uint64_t text_bytes;
    const int64_t *tokens; /* [token_count] without those of times */
    uint64_t token_count;
    double begin, end; /* seconds from the beginning of the sound; without has_times those of its window */
    double logprob;    /* natural logarithm of the probability of a token, the mean of its window */
    double no_speech;  /* probability that its window has no speech; 0: unknown */
} inlay_text_segment;
/* Fills *out_segment (set struct_size). INLAY_NOT_FOUND: index is past the last segment. */
INLAY_API inlay_status inlay_text_speech_segment(inlay_text_speech *speech, uint64_t index,
                                                 inlay_text_segment *out_segment, inlay_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
