#include "texts/decode/prefixes.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

enum {
    LEAST_TOKENS = 16, /* fewer are read again in about the time of a copy */
    MOST_ENTRIES = 512,
    ROW_MULTIPLE = 64 /* the capacity of a row, in tokens, is a multiple of this */
};

struct entry {
    inlay_context *context; /* its only row has the states of the tokens */
    int64_t *tokens;        /* [count], owned */
    size_t count;
    int64_t adapter; /* with which the states were computed; -1: none */
    uint64_t used;   /* time of the last use, as a number of uses */
};

struct prefix_store {
    const decode_model *model;
    struct entry entries[MOST_ENTRIES]; /* [count] */
    uint32_t count;
    uint64_t uses;
    bool unsupported; /* the model's states cannot be copied by rows */
};

prefix_store *prefixes_create(const decode_model *model)
{
    prefix_store *store = calloc(1, sizeof *store);

    if (store != NULL)
        store->model = model;
    return store;
}

static void entry_deinit(struct entry *entry)
{
    inlay_context_destroy(entry->context);
    free(entry->tokens);
}

void prefixes_destroy(prefix_store *store)
{
    if (store == NULL)
        return;
    for (uint32_t i = 0; i < store->count; i++)
        entry_deinit(&store->entries[i]);
    free(store);
}

static uint64_t bytes_of(const prefix_store *store, size_t tokens)
{
    const inlay_rows_info *info = &store->model->rows;

    return (tokens + ROW_MULTIPLE - 1) / ROW_MULTIPLE * ROW_MULTIPLE * info->token_bytes + info->fixed_bytes;
}

uint64_t prefixes_bytes(const prefix_store *store)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < store->count; i++)
        bytes += bytes_of(store, store->entries[i].count);
    return bytes;
}

/* Number of first tokens that the entry has in common with a text. */
static size_t common(const struct entry *entry, const int64_t *tokens, size_t count)
{
    size_t same = 0;

    while (same < entry->count && same < count && entry->tokens[same] == tokens[same])
        same++;
    return same;
}

/* Whether only all tokens of an entry can be used: states that do not grow cannot be rewound. */
static bool is_whole(const prefix_store *store)
{
    return store->model->rows.fixed_bytes > 0;
}

/* Whether a text may continue from the states of others: it does not with a model whose results depend on how many
 * tokens a run reads. */
static bool is_possible(const prefix_store *store)
{
    return store->model->rows.in_parts && !store->unsupported;
}

size_t prefixes_find(prefix_store *store, int64_t adapter, const int64_t *tokens, size_t count, inlay_row *out_row)
{
    struct entry *found = NULL;
    size_t most = LEAST_TOKENS - 1;

    INLAY_CHECK(count > 0);
    for (uint32_t i = 0; i < store->count; i++) {
        struct entry *entry = &store->entries[i];
        const size_t same = entry->adapter == adapter ? common(entry, tokens, count - 1) : 0;

        if (same > most && (same == entry->count || !is_whole(store))) {
            most = same;
            found = entry;
        }
    }
    *out_row = (inlay_row){ .context = NULL };
    if (found == NULL)
        return 0;
    found->used = ++store->uses;
    *out_row = (inlay_row){ .context = found->context, .length = (int64_t)most };
    return most;
}

static void drop(prefix_store *store, uint32_t i)
{
    INLAY_CHECK(i < store->count);
    entry_deinit(&store->entries[i]);
    store->entries[i] = store->entries[--store->count];
}

void prefixes_trim(prefix_store *store, uint64_t limit, bool spare_latest)
{
    uint64_t bytes = prefixes_bytes(store);

    while (bytes > limit && store->count > (spare_latest ? 1 : 0)) {
        uint32_t oldest = 0;

        for (uint32_t i = 1; i < store->count; i++)
            if (store->entries[i].used < store->entries[oldest].used)
                oldest = i;
        bytes -= bytes_of(store, store->entries[oldest].count);
        drop(store, oldest);
    }
}

/* Whether an entry has all of these states; it counts as used. Entries that have only a part of them are dropped,
 * because the new one replaces them. */
static bool is_known(prefix_store *store, int64_t adapter, const int64_t *tokens, size_t count)
{
    for (uint32_t i = 0; i < store->count;) {
        struct entry *entry = &store->entries[i];
        const size_t same = common(entry, tokens, count);

        if (entry->adapter != adapter) {
            i++;
            continue;
        }
        if (same == count && (entry->count == count || !is_whole(store))) {
            entry->used = ++store->uses;
            return true;
        }
        if (same == entry->count && !is_whole(store))
            drop(store, i);
        else
            i++;
    }
    return false;
}

/* Makes the entry's context, with a copy of the row. */
static inlay_status copy_row(const prefix_store *store, struct entry *entry, const inlay_row *row)
{
    inlay_status status = inlay_context_create(store->model->session, &entry->context, NULL);

    if (status == INLAY_OK)
        status = inlay_context_keep_rows(entry->context, &store->model->rows, 1, NULL);
    return status == INLAY_OK ? inlay_context_set_rows(entry->context, row, 1, NULL) : status;
}

bool prefixes_add(prefix_store *store, int64_t adapter, const int64_t *tokens, const inlay_row *row, uint64_t limit)
{
    const size_t count = (size_t)row->length;
    const uint64_t bytes = bytes_of(store, count);
    struct entry entry = { .count = count, .adapter = adapter };
    inlay_status status;

    if (!is_possible(store) || count < LEAST_TOKENS || bytes > limit || is_known(store, adapter, tokens, count))
        return false;
    prefixes_trim(store, limit - bytes, false);
    if (store->count == MOST_ENTRIES)
        prefixes_trim(store, prefixes_bytes(store) - 1, false);
    entry.tokens = malloc(count * sizeof *tokens);
    status = entry.tokens != NULL ? copy_row(store, &entry, row) : INLAY_OUT_OF_MEMORY;
    if (status != INLAY_OK) {
        store->unsupported = status == INLAY_UNSUPPORTED;
        entry_deinit(&entry);
        return false;
    }
    memcpy(entry.tokens, tokens, count * sizeof *tokens);
    entry.used = ++store->uses;
    store->entries[store->count++] = entry;
    return true;
}
