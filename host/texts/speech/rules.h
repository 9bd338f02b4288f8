/* texts/speech/rules.h - which tokens may come next in a window, and the segments of its tokens: the rules of Whisper,
 * as openai/whisper and transformers (WhisperTimeStampLogitsProcessor) state them. */
#ifndef TEXTS_SPEECH_RULES_H
#define TEXTS_SPEECH_RULES_H
#include "texts/speech/speech.h"

/* Makes tokens that may not come next in a window with times impossible. written: [count] of the window so far, without
 * its prompt. */
void speech_rules_mask(const speech_tokens *tokens, const int64_t *written, size_t count, float *logits, size_t words);
/* Whether the text of a window is good: tokens [count] without its end token, the mean of their log probabilities, the
 * probability of no speech. */
typedef enum speech_verdict {
    SPEECH_GOOD,
    SPEECH_DOUBTED, /* a higher temperature may give a better text */
    SPEECH_SILENCE, /* the window has none */
    SPEECH_FAILED   /* out of memory */
} speech_verdict;
speech_verdict speech_rules_judge(const speech_model *model, const int64_t *tokens, size_t count, double logprob,
                                  double no_speech);
/* log(sum(exp(logits))). */
double speech_log_sum(const float *logits, size_t words);
/* Cuts the tokens of a window, without its end token, into segments of the transcription, whose tokens they become.
 * frames: of the window's sound; form: what its segments have in common. Returns the number of frames until the next
 * window, or 0: out of memory. */
int64_t speech_rules_cut(const speech_model *model, struct transcription *text, const int64_t *written, size_t count,
                         int64_t frames, const speech_segment *form);
#endif
