/* json_parts.h - shared by json.c and json_normalizer.c, which read tokenizer.json. */
#ifndef JSON_PARTS_H
#define JSON_PARTS_H
#include "prepost/text/tokenizer_parts.h"
#include <jansson.h>

/* The tokenizer that the functions fill, and the diag for their errors. */
struct source {
    text_tokenizer *tokenizer;
    inlay_diag *diag;
};

static inline const char *json_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}

static inline bool json_flag(const json_t *object, const char *key, bool otherwise)
{
    const json_t *value = json_object_get(object, key);

    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

static inline inlay_status fail_unsupported(const struct source *source, const char *what, const char *which)
{
    return inlay_fail(source->diag, INLAY_UNSUPPORTED, "tokenizer.json: %s '%.100s' is not supported", what, which);
}

static inline inlay_status fail_no_memory(const struct source *source)
{
    return inlay_fail(source->diag, INLAY_OUT_OF_MEMORY, "tokenizer.json: no memory");
}

/* json_normalizer.c: reads a normalizer, or each normalizer of a sequence. */
inlay_status read_normalizer_step(const struct source *source, const json_t *step);
#endif
