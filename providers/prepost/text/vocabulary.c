/* vocabulary.c - tokens by id, and a hash table from the text of a token to its id. */
#include "prepost/text/tokenizer_parts.h"
#include "inlay/check.h"

enum { MOST_WORDS = 1 << 24 };

static size_t place_of(const struct vocabulary *vocabulary, uint32_t hash, const char *text, size_t bytes)
{
    size_t at = hash & vocabulary->mask;

    INLAY_CHECK(vocabulary->table != NULL && (vocabulary->mask & (vocabulary->mask + 1)) == 0);
    INLAY_CHECK(vocabulary->used <= vocabulary->mask); /* a free entry ends the search */
    for (; vocabulary->table[at] != 0; at = (at + 1) & vocabulary->mask) {
        const struct token *token = &vocabulary->tokens[vocabulary->table[at] - 1];

        if (token->bytes == bytes && memcmp(token->text, text, bytes) == 0)
            break;
    }
    return at;
}

static uint32_t hash_of(const char *text, size_t bytes)
{
    uint32_t h = HASH_START;

    for (size_t i = 0; i < bytes; i++)
        h = hash_more(h, (unsigned char)text[i]);
    return h;
}

int64_t vocabulary_find_hashed(const struct vocabulary *vocabulary, uint32_t hash, const char *text, size_t bytes)
{
    return vocabulary->table == NULL ? -1 : (int64_t)vocabulary->table[place_of(vocabulary, hash, text, bytes)] - 1;
}

int64_t vocabulary_find(const struct vocabulary *vocabulary, const char *text, size_t bytes)
{
    return vocabulary_find_hashed(vocabulary, hash_of(text, bytes), text, bytes);
}

static bool rehash(struct vocabulary *vocabulary)
{
    const size_t size = vocabulary->mask == 0 ? 1024 : 2 * (vocabulary->mask + 1);
    uint32_t *old = vocabulary->table, *table = calloc(size, sizeof *table);
    const size_t old_size = vocabulary->table != NULL ? vocabulary->mask + 1 : 0;

    if (table == NULL)
        return false;
    INLAY_CHECK(vocabulary->used < size / 2);
    vocabulary->table = table;
    vocabulary->mask = size - 1;
    for (size_t i = 0; i < old_size; i++) {
        if (old[i] != 0) {
            const struct token *token = &vocabulary->tokens[old[i] - 1];

            table[place_of(vocabulary, hash_of(token->text, token->bytes), token->text, token->bytes)] = old[i];
        }
    }
    free(old);
    return true;
}

bool vocabulary_set(struct vocabulary *vocabulary, int64_t id, const char *text, size_t bytes, double score)
{
    char *copy;
    size_t at;

    INLAY_CHECK(vocabulary->count <= vocabulary->room && vocabulary->used <= vocabulary->count);
    if (id < 0 || id >= MOST_WORDS || bytes > UINT32_MAX)
        return false;
    if ((size_t)id >= vocabulary->room) {
        const size_t room = (size_t)id * 2 + 1024;
        struct token *more = realloc(vocabulary->tokens, room * sizeof *more);

        if (more == NULL)
            return false;
        memset(more + vocabulary->room, 0, (room - vocabulary->room) * sizeof *more);
        vocabulary->tokens = more;
        vocabulary->room = room;
    }
    if (vocabulary->tokens[id].present)
        return true;
    if (2 * (vocabulary->used + 1) > vocabulary->mask && !rehash(vocabulary))
        return false;
    copy = copy_text(text, bytes);
    if (copy == NULL)
        return false;
    vocabulary->tokens[id] = (struct token){ .text = copy, .bytes = (uint32_t)bytes, .score = score, .present = 1 };
    vocabulary->count = (size_t)id >= vocabulary->count ? (size_t)id + 1 : vocabulary->count;
    vocabulary->longest = bytes > vocabulary->longest ? bytes : vocabulary->longest;
    at = place_of(vocabulary, hash_of(text, bytes), text, bytes);
    if (vocabulary->table[at] == 0) {
        vocabulary->table[at] = (uint32_t)id + 1;
        vocabulary->used++;
    }
    return true;
}

void vocabulary_free(struct vocabulary *vocabulary)
{
    INLAY_CHECK(vocabulary->count == 0 || vocabulary->tokens != NULL);
    for (size_t i = 0; i < vocabulary->count; i++)
        free((char *)(uintptr_t)vocabulary->tokens[i].text);
    free(vocabulary->tokens);
    free(vocabulary->table);
}

char *copy_text(const char *text, size_t bytes)
{
    char *copy = malloc(bytes + 1);

    if (copy != NULL) {
        memcpy(copy, text, bytes);
        copy[bytes] = '\0';
    }
    return copy;
}

void model_find_byte_tokens(struct model *model)
{
    static const char digits[] = "0123456789ABCDEF";

    for (int byte = 0; byte < 256; byte++) {
        const char name[6] = { '<', '0', 'x', digits[byte / 16], digits[byte % 16], '>' };

        model->byte_ids[byte] = vocabulary_find(&model->vocabulary, name, sizeof name);
    }
}
