/* json_parts.h - shared by the files that read tokenizer.json. */
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

/* Where Metaspace puts a mark (PREPEND_*); -1: its prepend_scheme is unknown. */
static inline int metaspace_prepend(const json_t *step)
{
    const char *scheme = json_text(step, "prepend_scheme");

    if (scheme[0] == '\0')
        return json_flag(step, "add_prefix_space", true) ? PREPEND_ALWAYS : PREPEND_NEVER;
    return strcmp(scheme, "always") == 0  ? PREPEND_ALWAYS
           : strcmp(scheme, "first") == 0 ? PREPEND_FIRST
           : strcmp(scheme, "never") == 0 ? PREPEND_NEVER
                                          : -1;
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
/* Reads a step Replace, which is a normalizer or a decoder. */
inlay_status read_replace(const struct source *source, struct normalizer *normalizer, const json_t *step);
/* Reads the member "pattern": {"String": *out_text} or {"Regex": *out_pattern}, which the caller frees. */
inlay_status read_pattern(const struct source *source, const json_t *step, char **out_text, text_pattern **out_pattern);
/* json_splitter.c: reads a pre-tokenizer, or each pre-tokenizer of a sequence. */
inlay_status read_pretokenizer(const struct source *source, const json_t *step);
/* json_named.c: the expressions of a pre-tokenizer of GGUF files, up to NULL; each splits the words of those before it.
 * NULL: the name is not known. */
const char *const *find_named_splitter(const char *name, bool *out_ignores_merges);
/* json_decoder.c: reads a decoder, or each decoder of a sequence. */
inlay_status read_decoder(const struct source *source, const json_t *step);
#endif
