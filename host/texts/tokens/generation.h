/* texts/tokens/generation.h - generation_config.json: how the tokens of a model's texts are chosen, unless a request
 * says otherwise. The names and definitions are those of transformers. */
#ifndef TEXTS_GENERATION_H
#define TEXTS_GENERATION_H
#include "inlay/status.h"
#include "texts/tokens/rules.h"
#include "texts/tokens/sampler.h"
#include <jansson.h>

typedef struct generation_settings {
    struct sampler sampler;
    token_rules rules;
    char **stops; /* [stop_count] texts before which a text ends; none is empty */
    uint32_t stop_count;
    char *warning; /* the members whose names are not known: a line; NULL: none */
} generation_settings;

/* What the tokens are of: a model for speech has members of its own, and reads a sound instead of a prompt. */
typedef enum generation_kind { GENERATION_TEXT, GENERATION_SPEECH } generation_kind;

/* Parses `text`, or the file at `path` if it is NULL; {} without both. INLAY_INVALID_ARGUMENT: it is no JSON object,
 * and the message names the line. *out_root is the caller's, also after a failure. */
INLAY_NODISCARD inlay_status generation_parse(const char *text, const char *path, json_t **out_root, inlay_diag *diag);
/* Reads the members of the object `root`, or the defaults if it is NULL. ends: [end_count] the model's end tokens.
 *     INLAY_INVALID_ARGUMENT  a value is none for its name
 *     INLAY_UNSUPPORTED       a value would change the texts in a way that is not supported
 * The message names the member. *out is to be freed by generation_deinit(), also after a failure. */
INLAY_NODISCARD inlay_status generation_read(const json_t *root, generation_kind kind, const int64_t *ends,
                                             uint32_t end_count, generation_settings *out, inlay_diag *diag);
void generation_deinit(generation_settings *settings);
#endif
