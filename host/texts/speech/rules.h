/* texts/speech/rules.h - which tokens may come next in a window, and the segments of its tokens: the rules of Whisper,
 * as openai/whisper and transformers (WhisperTimeStampLogitsProcessor) state them. */
#ifndef TEXTS_SPEECH_RULES_H
#define TEXTS_SPEECH_RULES_H
#include "texts/speech/speech.h"

/* Makes tokens that may not come next impossible. written: [count] of the window so far, without its prompt. */
void speech_rules_mask(const speech_tokens *tokens, bool has_times, const int64_t *written, size_t count, float *logits,
                       size_t words);
/* log(sum(exp(logits))). */
double speech_log_sum(const float *logits, size_t words);
/* Cuts the tokens of a window, without its end token, into segments of the transcription, whose tokens they become.
 * frames: of the window's sound. Returns the number of frames until the next window, or 0: out of memory. */
int64_t speech_rules_cut(const speech_model *model, struct transcription *text, const int64_t *written, size_t count,
                         int64_t frames, double logprob, double no_speech);
#endif
