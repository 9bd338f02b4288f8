/* texts/decode/drafting.h - guesses of the next tokens of a text by a draft model: a smaller decoder with the same
 * tokenizer, or a head that reads the hidden states of the model (texts/draft/head.h, head_rows.h).
 *
 * A drafter has one row of states, of the text for which it guessed last. The caller holds the lock of the model's
 * texts, except where stated. */
#ifndef TEXTS_DRAFTING_H
#define TEXTS_DRAFTING_H
#include "texts/decode/ahead.h"
#include "texts/decode/decoding.h"

struct drafter;

/* Returns the drafter of a draft model, which it closes at its end. finish(user) is called when a run has ended, by any
 * thread, without the lock, and calls drafter_step(). NULL: out of memory. */
struct drafter *drafter_open(decode_model *model, void (*finish)(void *user), void *user);
/* Whether the drafter can guess for another text: it is not guessing now, and no run has failed. */
bool drafter_is_free(const struct drafter *drafter);
/* The most guesses that it can make for a text now: `most`, or fewer if it is a head. */
uint32_t drafter_most(const struct drafter *drafter, const decoding_text *text, uint32_t most);
/* Prepares the first run of `count` guesses, at most MOST_AHEAD. false: there are none. */
bool drafter_begin(struct drafter *drafter, decoding_text *text, uint32_t count);
/* Starts the prepared run; without the lock. */
void drafter_run(struct drafter *drafter);
/* After a run: true if another one is prepared. Otherwise the guesses are complete: *out_count of them in out. */
bool drafter_step(struct drafter *drafter, int64_t out[MOST_AHEAD], uint32_t *out_count);
/* Measured time of a run that makes one guess; 0: not known. */
double drafter_ns(const struct drafter *drafter);
#endif
