/* texts/chat/form_cache.h - grammars of earlier requests, by what they were made of: a construction may take a second,
 * and clients send the same schema and the same tools with each request. At most 64 MB together and 128 of them; the
 * least recently used ones are dropped. Any thread. */
#ifndef TEXTS_FORM_CACHE_H
#define TEXTS_FORM_CACHE_H
#include "base/strbuf.h"
#include "texts/grammar/grammar.h"
#include <jansson.h>

/* Appends the JSON of a value to a key; NULL: nothing. */
void form_cache_key(struct strbuf *key, const json_t *value);
/* A copy of the grammar with this key, for the caller to destroy; NULL: there is none. *warnings, which starts as {0},
 * and *warning_count get what belongs to it (NULL: nothing does). */
struct grammar *form_cache_find(const struct strbuf *key, struct strbuf *warnings, uint32_t *warning_count);
/* Keeps a copy of a grammar that was finished and not used yet. */
void form_cache_add(const struct strbuf *key, const struct grammar *grammar, const struct strbuf *warnings,
                    uint32_t warning_count);

typedef struct form_figures {
    uint64_t found, built; /* grammars of requests so far */
    uint64_t bytes;        /* that are kept */
} form_figures;
form_figures form_cache_figures(void);
#endif
