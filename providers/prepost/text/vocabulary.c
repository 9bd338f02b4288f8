/* vocabulary.c - words by number and by text. */
#include "parts.h"

enum { MOST_WORDS = 1 << 24 };

static size_t place_of(const struct vocabulary *v, uint32_t hash, const char *text, size_t bytes)
{
    size_t at = hash & v->mask;

    for (; v->table[at] != 0; at = (at + 1) & v->mask) {
        const struct word *w = &v->words[v->table[at] - 1];

        if (w->bytes == bytes && memcmp(w->text, text, bytes) == 0)
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

int64_t vocabulary_find_hashed(const struct vocabulary *v, uint32_t hash, const char *text, size_t bytes)
{
    return v->table == NULL ? -1 : (int64_t)v->table[place_of(v, hash, text, bytes)] - 1;
}

int64_t vocabulary_find(const struct vocabulary *v, const char *text, size_t bytes)
{
    return vocabulary_find_hashed(v, hash_of(text, bytes), text, bytes);
}

static bool rehash(struct vocabulary *v)
{
    const size_t size = v->mask == 0 ? 1024 : 2 * (v->mask + 1);
    uint32_t *old = v->table, *table = calloc(size, sizeof *table);
    const size_t old_size = v->table != NULL ? v->mask + 1 : 0;

    if (table == NULL)
        return false;
    v->table = table;
    v->mask = size - 1;
    for (size_t i = 0; i < old_size; i++) {
        if (old[i] != 0) {
            const struct word *w = &v->words[old[i] - 1];

            table[place_of(v, hash_of(w->text, w->bytes), w->text, w->bytes)] = old[i];
        }
    }
    free(old);
    return true;
}

bool vocabulary_set(struct vocabulary *v, int64_t id, const char *text, size_t bytes, double score)
{
    char *copy;
    size_t at;

    if (id < 0 || id >= MOST_WORDS || bytes > UINT32_MAX)
        return false;
    if ((size_t)id >= v->room) {
        const size_t room = (size_t)id * 2 + 1024;
        struct word *more = realloc(v->words, room * sizeof *more);

        if (more == NULL)
            return false;
        memset(more + v->room, 0, (room - v->room) * sizeof *more);
        v->words = more;
        v->room = room;
    }
    if (v->words[id].present)
        return true;
    if (2 * (v->used + 1) > v->mask && !rehash(v))
        return false;
    copy = copy_text(text, bytes);
    if (copy == NULL)
        return false;
    v->words[id] =
        (struct word){ .text = copy, .bytes = (uint32_t)bytes, .score = (float)score, .exact = score, .present = 1 };
    v->count = (size_t)id >= v->count ? (size_t)id + 1 : v->count;
    v->longest = bytes > v->longest ? bytes : v->longest;
    at = place_of(v, hash_of(text, bytes), text, bytes);
    if (v->table[at] == 0) {
        v->table[at] = (uint32_t)id + 1;
        v->used++;
    }
    return true;
}

void vocabulary_free(struct vocabulary *v)
{
    for (size_t i = 0; i < v->count; i++)
        free((char *)(uintptr_t)v->words[i].text);
    free(v->words);
    free(v->table);
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

void model_find_bytes(struct model *m)
{
    static const char digits[] = "0123456789ABCDEF";

    for (int b = 0; b < 256; b++) {
        const char name[6] = { '<', '0', 'x', digits[b / 16], digits[b % 16], '>' };

        m->bytes[b] = vocabulary_find(&m->words, name, sizeof name);
    }
}
