/* texts/decode/hidden.h - hidden states of the last tokens of a text, kept until a head reads them. */
#ifndef TEXTS_HIDDEN_H
#define TEXTS_HIDDEN_H
#include "texts/decode/model.h"

typedef struct hidden_states {
    unsigned char *rows; /* [count] of text_head.hidden_bytes; owned */
    size_t first, count; /* those of the tokens from `first` on */
} hidden_states;

/* Row `row` of the `rows` rows of a run, which read `tokens` tokens of each. */
typedef struct hidden_run {
    const decode_output *outputs; /* [source_count] of the head */
    uint32_t row, rows;
    size_t tokens;
} hidden_run;

/* Adds the states of the first `count` tokens that the run read, those of the text from `first` on. States of tokens
 * that are not followed by these are dropped, and the oldest ones if there are too many. false: the outputs do not have
 * a state of each token, or memory ran out; no states are kept then. */
bool hidden_add(hidden_states *hidden, const text_head *head, const hidden_run *run, size_t first, size_t count);
/* Drops those of tokens before `first`. */
void hidden_drop(hidden_states *hidden, const text_head *head, size_t first);
void hidden_deinit(hidden_states *hidden);
#endif
