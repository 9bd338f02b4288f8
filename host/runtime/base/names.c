#include "base/names.h"
#include "base/hash.h"
#include <stdlib.h>
#include <string.h>

void names_deinit(names_table *t)
{
    free(t->entries);
    *t = (names_table){ 0 };
}

/* The slot of the text, or the free slot where it would go. The table is never full. */
static names_entry *slot_of(const names_table *t, const char *text, size_t bytes, uint64_t hash)
{
    size_t i = (size_t)hash & (t->capacity - 1);

    while (t->entries[i].text != NULL) {
        const names_entry *e = &t->entries[i];

        if (e->hash == hash && e->bytes == bytes && memcmp(e->text, text, bytes) == 0)
            break;
        i = (i + 1) & (t->capacity - 1);
    }
    return &t->entries[i];
}

static bool grow(names_table *t)
{
    names_table bigger = { .capacity = t->capacity == 0 ? 64 : t->capacity * 2, .count = t->count, .seed = t->seed };

    bigger.entries = calloc(bigger.capacity, sizeof *bigger.entries);
    if (bigger.entries == NULL)
        return false;
    if (t->capacity == 0) /* addresses are randomised: good enough against prepared collisions */
        bigger.seed = hash_u64((uint64_t)(uintptr_t)bigger.entries, (uint64_t)(uintptr_t)&bigger);
    for (size_t i = 0; i < t->capacity; i++)
        if (t->entries[i].text != NULL)
            *slot_of(&bigger, t->entries[i].text, t->entries[i].bytes, t->entries[i].hash) = t->entries[i];
    free(t->entries);
    *t = bigger;
    return true;
}

uint32_t names_find(const names_table *t, const char *text, size_t bytes)
{
    const names_entry *e;

    if (t->count == 0)
        return NAMES_NONE;
    e = slot_of(t, text, bytes, hash_bytes(text, bytes, t->seed));
    return e->text == NULL ? NAMES_NONE : e->number;
}

bool names_add(names_table *t, const char *text, size_t bytes, uint32_t number, uint32_t *out_present)
{
    names_entry *e;
    uint64_t hash;

    if ((t->count + 1) * 2 > t->capacity && !grow(t))
        return false;
    hash = hash_bytes(text, bytes, t->seed);
    e = slot_of(t, text, bytes, hash);
    if (out_present != NULL)
        *out_present = e->text == NULL ? NAMES_NONE : e->number;
    if (e->text == NULL) {
        *e = (names_entry){ .text = text, .bytes = bytes, .hash = hash, .number = number };
        t->count++;
    }
    return true;
}
