/* texts/decode/prefixes.h - the states of the tokens of earlier texts of a model. A later text that begins with the
 * same tokens continues from a copy of them, which has the same pages where the runtime can map them
 * (exec/context/text_pages.h).
 *
 * An entry is a text with its states, the only row of a separate context. When memory is short, the entries that were
 * used least recently are dropped. The store belongs to one version of a model, whose lock the caller holds. */
#ifndef TEXTS_PREFIXES_H
#define TEXTS_PREFIXES_H
#include "texts/decode/model.h"

typedef struct prefix_store prefix_store;

/* NULL: out of memory. */
prefix_store *prefixes_create(const decode_model *model);
void prefixes_destroy(prefix_store *store); /* NULL is a no-op */
/* Bytes of the states of all entries. */
uint64_t prefixes_bytes(const prefix_store *store);
/* Finds the entry of the same adapter that has the most first tokens in common with a text, not counting its last
 * token, whose logits are needed. *out_row: these tokens of the entry, valid until the next call of another function.
 * Returns their number; 0: too few are in common, and *out_row is a row without tokens. */
size_t prefixes_find(prefix_store *store, int64_t adapter, const int64_t *tokens, size_t count, inlay_row *out_row);
/* Adds a copy of the row, the states of `tokens` [row->length], unless an entry has them. The entries, with this one,
 * are limited to `limit` bytes. Returns whether it was added; the reason why not is not reported. */
bool prefixes_add(prefix_store *store, int64_t adapter, const int64_t *tokens, const inlay_row *row, uint64_t limit);
/* Drops entries until the others have at most `limit` bytes. spare_latest: not the one that was used last. */
void prefixes_trim(prefix_store *store, uint64_t limit, bool spare_latest);
#endif
