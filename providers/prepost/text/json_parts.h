/* json_parts.h - what json.c and json_norm.c share. */
#ifndef JSON_PARTS_H
#define JSON_PARTS_H
#include "parts.h"
#include <jansson.h>

/* What the readers of parts share. */
struct source {
    text_tokenizer *tokenizer;
    inlay_diag *diag;
};

static inline const char *text_of(const json_t *at, const char *key)
{
    const char *text = json_string_value(json_object_get(at, key));

    return text != NULL ? text : "";
}

static inline bool flag_of(const json_t *at, const char *key, bool otherwise)
{
    const json_t *value = json_object_get(at, key);

    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

static inline inlay_status not_supported(const struct source *source, const char *what, const char *which)
{
    return inlay_fail(source->diag, INLAY_UNSUPPORTED, "tokenizer.json: %s '%.100s' is not supported", what, which);
}

static inline inlay_status no_memory(const struct source *source)
{
    return inlay_fail(source->diag, INLAY_OUT_OF_MEMORY, "tokenizer.json: no memory");
}

/* json_norm.c: the steps of a normalizer. */
inlay_status read_norm(const struct source *source, const json_t *step);
#endif
