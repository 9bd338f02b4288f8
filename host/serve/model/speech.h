/* serve/model/speech.h - models for speech: an encoder, which is the model itself, and its decoder, struct
 * model.speech. */
#ifndef SERVE_SPEECH_H
#define SERVE_SPEECH_H
#include "serve/model/model.h"
#include "texts/speech/speech.h"
#endif
