/* texts/model/choice.h - a text whose tokens are chosen by a sampler, by forms that it has to match, and by the tokens
 * and texts that end it. Its owner sets the callbacks of `decoding` and calls text_choice_next() in choose(). */
#ifndef TEXTS_CHOICE_H
#define TEXTS_CHOICE_H
#include "base/strbuf.h"
#include "texts/decode/decoding.h"
#include "texts/model/text_model.h"

enum { CHOICE_FORMS = 2 };

/* Where a text ends, besides the end tokens of the model. */
typedef struct text_ends {
    const char *const *stops; /* [stop_count] the text ends before each of these; none is empty */
    uint32_t stop_count;
    uint32_t stop_token_count;
    const int64_t *stop_tokens; /* [stop_token_count] */
    uint64_t max_tokens;        /* generated ones; 0: as many as the model's context has */
    uint64_t min_tokens;
    bool ignores_ends; /* the model's end tokens are not chosen */
} text_ends;

/* Memory for choosing a token. Texts share it, because their tokens are chosen one after the other. Starts as {0}. */
typedef struct choice_scratch {
    float *logits; /* [logit_room] */
    size_t logit_room;
    uint64_t *allowed; /* a bit for each token; NULL: no text had a form */
    size_t allowed_words;
} choice_scratch;

typedef struct text_choice {
    decoding_text decoding; /* its tokens point to `tokens` */
    text_model *model;      /* borrowed, like ends, marks and scratch */
    const text_ends *ends;
    const tool_form *marks; /* special tokens of this form are text; NULL: none */
    choice_scratch *scratch;
    struct sampler sampler;
    token_rules rules;           /* of the model, whose lists are borrowed, as the request changes them */
    const sequence_list *banned; /* further sequences, of the request; borrowed; NULL: none */
    uint64_t guess_state;        /* of the sampler, after the guesses so far */
    /* Forms: if is_bound, the text has to match one of them, and the model has an index. */
    struct grammar *forms[CHOICE_FORMS];
    uint32_t states[CHOICE_FORMS]; /* after the tokens so far; GRAMMAR_DEAD: the text does not match the form */
    bool is_bound;
    bool may_end;     /* text_choice_next() returned -1, or an end token: its form is complete */
    bool must_end;    /* only an end token may come next */
    const char *stop; /* of ends.stops or model.stops, the one that has ended the text; NULL: none */
    int64_t *tokens;  /* [room] prompt and generated tokens */
    size_t room, prompt_count, token_count;
    struct strbuf unsent; /* generated text that was not taken */
} text_choice;

/* Begins the text with its prompt, tokens [count]. The other members are set. false: out of memory. */
bool text_choice_begin(text_choice *choice, const int64_t *tokens, size_t count);
void text_choice_deinit(text_choice *choice);
void choice_scratch_deinit(choice_scratch *scratch);

/* Chooses the next token by logits [count], and adds it. -1: the text ends here, because its form is complete
 * (may_end), or diag says why no token could be chosen. */
int64_t text_choice_next(text_choice *choice, const float *logits, size_t count, inlay_diag *diag);
/* The token that text_choice_next() would choose by other logits, `index` positions ahead, with its next random
 * numbers: decoding_text.guess. */
int64_t text_choice_guess(text_choice *choice, const float *logits, size_t count, uint32_t index);
/* Whether the text ends with this token: an end token of the model or one of ends.stop_tokens. */
bool text_choice_is_end(const text_choice *choice, int64_t token);
/* The states of the forms after one more token. */
void text_choice_follow(text_choice *choice, int64_t token);
/* Whether the text has as many tokens as it may have. */
bool text_choice_is_full(const text_choice *choice);
/* Cuts the unsent text at the first of ends.stops and model.stops; false: it has none. */
bool text_choice_find_stop(text_choice *choice);
/* Number of bytes at the end of the unsent text that may begin one of these, the text `also` (may be empty) or a
 * character. */
size_t text_choice_held_back(const text_choice *choice, const char *also);
/* Number of bytes at the end of a text that begin a character. */
size_t text_incomplete(const char *text, size_t bytes);
#endif
