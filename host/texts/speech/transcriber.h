/* texts/speech/transcriber.h - runs transcriptions: some at once, each in a lane with contexts of its own. */
#ifndef TEXTS_TRANSCRIBER_H
#define TEXTS_TRANSCRIBER_H
#include "texts/speech/speech.h"

/* Frees the runner of a model, if it has one. */
void speech_runner_close(speech_model *model);
#endif
