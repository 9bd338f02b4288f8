/* serve/model/text.h - the parts of a language model other than its file: tokenizer.json, the end tokens, the roles
 * of its inputs. */
#ifndef SERVE_TEXT_H
#define SERVE_TEXT_H
#include "texts/grammar/grammar_tokens.h"
#include "serve/model/model.h"
#include "texts/template/template.h"
#include "texts/decode/model.h"
#include "texts/tokens/sampler.h"
#include "texts/tokens/tokenizer.h"

typedef enum text_pooling { POOL_MEAN, POOL_FIRST, POOL_LAST, POOL_MAX } text_pooling;

typedef struct text_model {
    struct tokenizer *tokenizer;
    decode_model decode;     /* logits: INLAY_NONE unless it is a decoder with states; runner: also of encoding.c */
    struct sched *sched;     /* of its texts, see schedule/text_jobs.h; NULL before the first one */
    uint32_t types, vectors; /* input token_type_ids; output of an embedding model; INLAY_NONE: missing */
    int64_t *ends;           /* [end_count] tokens that end a text */
    uint32_t end_count;
    token_index *index; /* the vocabulary, for grammars; made for the first text with a grammar */
    /* What generation_config.json says of the choice of a token: temperature (0 with do_sample false), top_p, top_k,
     * min_p, penalty; for requests that do not. */
    struct sampler sampler;
    size_t most_bytes;                    /* of a text before it is split into tokens */
    text_pooling pooling;                 /* how an embedding is computed from the vectors of the tokens */
    bool is_normalized;                   /* embeddings are normalised to the length 1 */
    char *chat_template;                  /* of tokenizer_config.json or chat_template.jinja; NULL: none */
    char *tool_template;                  /* the one named tool_use, for requests with tools; NULL: chat_template */
    template_tree *chat_tree, *tool_tree; /* these templates, parsed for the first chat that needs them */
    char *begin, *end;                    /* bos_token and eos_token of tokenizer_config.json */
    struct tool_form *tool_form;          /* how calls of tools are written, read for the first chat; NULL: not read */
    inlay_diag tool_refusal;              /* why tools cannot be called; code INLAY_OK: they can, or not read */
} text_model;

/* *out_text is NULL if no tokenizer.json is in the folder of the model's file, in the one above or in the model's
 * properties, or if the model is not a model for texts. An unreadable tokenizer.json is a failure, and so is a number
 * in generation_config.json that no request may have. */
INLAY_NODISCARD inlay_status text_model_open(const struct model *model, text_model **out_text, inlay_diag *diag);
/* Gives the loaded draft model its text_model, with a head. outputs: as of text_head_find(). */
INLAY_NODISCARD inlay_status text_model_open_head(struct model *draft, const struct model *model, const char *outputs,
                                                  inlay_diag *diag);
/* Writes why no texts can be generated with a model: what its file lacks, or the input that is not supplied. */
void text_model_explain(const struct model *model, char *out, size_t bytes);
/* Whether a model of this file may be one for texts: it has a tokenizer.json. */
bool text_model_is_likely(const char *path);
void text_model_close(text_model *model); /* NULL is a no-op */
bool text_model_is_end(const text_model *model, int64_t token);
#endif
