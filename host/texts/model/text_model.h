/* texts/model/text_model.h - the parts of a language model other than its file: tokenizer.json, the end tokens, the
 * roles of its inputs, its chat templates. */
#ifndef TEXTS_TEXT_MODEL_H
#define TEXTS_TEXT_MODEL_H
#include "texts/chat/tool_form.h"
#include "texts/decode/model.h"
#include "texts/grammar/grammar_tokens.h"
#include "texts/tokens/generation.h"
#include "texts/template/template.h"
#include "texts/tokens/tokenizer.h"

/* How a chat template takes the content of messages: as texts, or as lists of parts. */
typedef enum text_content { CONTENT_UNKNOWN, CONTENT_TEXTS, CONTENT_PARTS } text_content;
typedef enum text_pooling { POOL_MEAN, POOL_FIRST, POOL_LAST, POOL_MAX } text_pooling;

/* A loaded model. The pointers are borrowed. */
typedef struct text_source {
    inlay_session *session; /* NULL: none, as of an ensemble */
    const char *path;       /* of its file */
    const char *tokenizer;  /* path of its tokenizer.json; NULL: the one within the model or in its folder */
    size_t context;         /* most tokens of a text, if the model has more; 0: as many as it has */
} text_source;

typedef struct text_model {
    struct tokenizer *tokenizer;
    decode_model decode;     /* logits: INLAY_NONE unless it is a decoder with states */
    uint32_t types, vectors; /* input token_type_ids; output of an embedding model; INLAY_NONE: missing */
    uint32_t scores; /* output `logits` [texts, 1] of a model that reads two texts together; INLAY_NONE: missing */
    int64_t *ends;   /* [end_count] tokens that end a text */
    uint32_t end_count;
    token_index *index;    /* the vocabulary, for grammars; made by text_model_index() */
    ascii_set *characters; /* [tokenizer_count()] of each token; made by text_model_characters() */
    generation_settings generation;
    size_t most_bytes;    /* of a text before it is split into tokens */
    text_pooling pooling; /* how an embedding is computed from the vectors of the tokens */
    bool is_normalized;   /* embeddings are normalised to the length 1 */
    char *chat_template;  /* of tokenizer_config.json or chat_template.jinja; NULL: none */
    char *pair_template;  /* the one named rerank, with {query} and {document}: how two texts are read; NULL: none */
    char *tool_template;  /* the one named tool_use, for requests with tools; NULL: chat_template */
    bool assumes_chat_ml; /* chat_template is ChatML, because the model has none */
    template_tree *chat_tree, *tool_tree; /* these templates, parsed by text_model_template() */
    char *begin, *end;                    /* bos_token and eos_token of tokenizer_config.json */
    /* Its prefix_token, suffix_token, middle_token and eot_token: those around the parts of a text whose middle is
     * generated, and the end of that; "": none. */
    char *fill[4];
    /* Text of the token that stands for an image in prompts, of a model in parts (image_folder.h); NULL: none. */
    char *image_mark;
    text_content content;    /* read by text_model_content() */
    tool_form *tool_form;    /* how calls of tools are written; read by text_model_tool_form() */
    inlay_diag tool_refusal; /* why tools cannot be called; code INLAY_OK: they can, or not read */
} text_model;

/* *out_text is NULL if no tokenizer.json is in the folder of the model's file, in the one above or in the model's
 * properties, or if the model is not a model for texts. An unreadable tokenizer.json is a failure, and so are
 * values in generation_config.json that are invalid or not supported. */
INLAY_NODISCARD inlay_status text_model_open(const text_source *source, text_model **out_text, inlay_diag *diag);
/* Finds out how texts share the runs of a decoder, decode.rows. cancel: of inlay_run_options. INLAY_UNSUPPORTED: it
 * cannot be run for texts alone. */
INLAY_NODISCARD inlay_status text_model_find_rows(text_model *text, const uint32_t *cancel, inlay_diag *diag);
/* Makes the text_model of a draft model that is a head of `model`, whose file is model_path. outputs: as of
 * text_head_find(). The new text_model is the caller's also after a failure (NULL: out of memory). */
INLAY_NODISCARD inlay_status text_model_open_head(const text_source *draft, const text_model *model,
                                                  const char *model_path, const char *outputs, text_model **out_draft,
                                                  inlay_diag *diag);
/* Whether a model can guess tokens of texts of `model`. draft: NULL: of a model that is none for texts. */
INLAY_NODISCARD inlay_status text_model_check_draft(const text_source *source, const text_model *draft,
                                                    const text_model *model, inlay_diag *diag);
/* Writes why no texts can be generated with a model: what its file lacks, or the input that is not supplied. */
void text_model_explain(const text_source *source, char *out, size_t bytes);
/* Whether it is a file in GGUF without a tokenizer, or with one of an unknown kind. */
bool text_model_lacks_tokenizer(const text_source *source);
/* Whether a model of this file may be one for texts: it has a tokenizer.json, or is in GGUF. */
bool text_model_is_likely(const char *path);
void text_model_close(text_model *model); /* NULL is a no-op */
bool text_model_is_end(const text_model *model, int64_t token);

/* The template for chats with or without tools, parsed once. NULL: the model has none (code INLAY_OK), or diag says why
 * it cannot be. Thread-safe, like the next two functions. */
const template_tree *text_model_template(text_model *model, bool tools, inlay_diag *diag);
/* How the template for chats takes the content of messages, found once by what it prints. Parts, if it prints no texts,
 * or if it prints model->image_mark for a part that is an image. */
text_content text_model_content(text_model *model);
/* The form of the model's calls of tools, read once; NULL: the model's tool_refusal says why there is none, or it has
 * no template. */
const tool_form *text_model_tool_form(text_model *model);
/* Makes the model's index of tokens, once. Special tokens of the form of its calls are text. false: out of memory. */
bool text_model_index(text_model *model);
/* Finds the characters of all tokens, model->characters, once; special tokens count as their texts. Thread-safe. false:
 * out of memory. */
bool text_model_characters(text_model *model);
/* Returns what a token adds to a text; NULL: nothing. marks: special tokens of this form are text; NULL: none. */
const char *text_model_bytes(const text_model *model, const tool_form *marks, int64_t token, size_t *bytes);
#endif
