/* serve/chat/transcription.h - POST /v1/audio/transcriptions and /v1/audio/translations: the text of a sound, as
 * OpenAI's API has it. */
#ifndef SERVE_TRANSCRIPTION_H
#define SERVE_TRANSCRIPTION_H
#include "serve/exchange/exchange.h"

void answer_transcriptions(struct exchange *exchange);
#endif
