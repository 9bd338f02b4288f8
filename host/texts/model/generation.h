/* texts/model/generation.h - generation_config.json: how the tokens of a model's texts are chosen, unless a request
 * says otherwise. The names and definitions are those of transformers. */
#ifndef TEXTS_GENERATION_H
#define TEXTS_GENERATION_H
#include "texts/model/text_model.h"
#include <jansson.h>

/* Reads the members of the object `root` into model->sampler, model->rules and model->stops. Those whose names are not
 * known are named in model->warning.
 *     INLAY_INVALID_ARGUMENT  a value is none for its name
 *     INLAY_UNSUPPORTED       a value would change the texts in a way that is not supported
 * The message names the member. The caller closes the model also after a failure. */
INLAY_NODISCARD inlay_status generation_read(const json_t *root, text_model *model, inlay_diag *diag);
#endif
