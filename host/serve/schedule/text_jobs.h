/* serve/schedule/text_jobs.h - the texts of a model: their runs are jobs of the scheduler like any other. */
#ifndef SERVE_TEXT_JOBS_H
#define SERVE_TEXT_JOBS_H
#include "serve/model/speech.h"
#include "serve/model/text.h"
#include "serve/schedule/sched.h"
#include "texts/decode/decoding.h"

/* Generates the texts of a request, as decoding_add(). */
INLAY_NODISCARD inlay_status text_jobs_add(struct sched *sched, struct model *model, decoding_text *texts,
                                           inlay_diag *diag);
/* Begins a transcription with a model for speech, as transcription_add(). */
INLAY_NODISCARD inlay_status speech_jobs_add(struct sched *sched, struct model *model, struct transcription *text,
                                             inlay_diag *diag);
/* The texts of a model in this process, as decoding_load_of(); zeros if it generates none. */
decoding_load text_jobs_load(const struct model *model, uint8_t *adapters);
/* decoding_text.is_over of a text of this request: it is cancelled, or its deadline has passed. */
bool text_jobs_is_over(const struct job *request, inlay_diag *diag);
#endif
