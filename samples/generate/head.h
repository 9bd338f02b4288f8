/* head.h - a draft model that is a head: it guesses tokens from the hidden states of the model (texts/draft/head.h). */
#ifndef GENERATE_HEAD_H
#define GENERATE_HEAD_H
#include "model.h"
#include "texts/draft/head.h"

struct head {
    struct model *draft; /* borrowed */
    text_head roles;
    unsigned char *rows; /* [count] hidden states of the tokens of the text from `first` on; owned */
    size_t first, count;
    size_t read;          /* rows of the text that the head has read */
    unsigned char *last;  /* the hidden state that its last row returned; owned */
    unsigned char *zeros; /* [zero_bytes] owned */
    size_t zero_bytes;
    float *logits; /* in the tokens of the model; owned; NULL: none so far */
};

/* words: tokens of the model. Errors go to stderr. head is all zeros, and is closed also after a failure. */
bool head_open(struct model *draft, const struct model *model, size_t words, struct head *head);
void head_close(struct head *head);
/* Takes the hidden states of the first `count` tokens of the model's last run, those of the text from `first` on. */
bool head_keep(struct head *head, const struct model *model, size_t first, size_t count);
/* Prepares other guesses: drops the rows of the last ones. */
bool head_rewind(struct head *head);
/* Runs the head. *logits are those of the token that follows the text's tokens [count] and the guesses [found]. They
 * belong to the head until its next run. */
bool head_read(struct head *head, const int64_t *tokens, size_t count, const int64_t *guesses, size_t found,
               float **logits, size_t *vocabulary);
#endif
