#include "base/names.h"
#include "base/hash.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

void names_deinit(names_table *table)
{
    free(table->entries);
    *table = (names_table){ 0 };
}

/* The slot of the text, or the free slot where it would be added. The table is never full. */
static names_entry *slot_of(const names_table *table, const char *text, size_t bytes, uint64_t hash)
{
    size_t i = (size_t)hash & (table->capacity - 1);

    INLAY_CHECK(table->count < table->capacity && (table->capacity & (table->capacity - 1)) == 0);
    while (table->entries[i].text != NULL) {
        const names_entry *entry = &table->entries[i];

        if (entry->hash == hash && entry->bytes == bytes && memcmp(entry->text, text, bytes) == 0)
            break;
        i = (i + 1) & (table->capacity - 1);
    }
    return &table->entries[i];
}

static bool grow(names_table *table)
{
    names_table bigger = { .capacity = table->capacity == 0 ? 64 : table->capacity * 2,
                           .count = table->count,
                           .seed = table->seed };

    bigger.entries = calloc(bigger.capacity, sizeof *bigger.entries);
    if (bigger.entries == NULL)
        return false;
    if (table->capacity == 0) /* addresses are randomised, which is enough against prepared collisions */
        bigger.seed = hash_u64((uint64_t)(uintptr_t)bigger.entries, (uint64_t)(uintptr_t)&bigger);
    for (size_t i = 0; i < table->capacity; i++)
        if (table->entries[i].text != NULL)
            *slot_of(&bigger, table->entries[i].text, table->entries[i].bytes, table->entries[i].hash) =
                table->entries[i];
    free(table->entries);
    *table = bigger;
    return true;
}

uint32_t names_find(const names_table *table, const char *text, size_t bytes)
{
    const names_entry *entry;

    if (table->count == 0)
        return NAMES_NONE;
    entry = slot_of(table, text, bytes, hash_bytes(text, bytes, table->seed));
    return entry->text == NULL ? NAMES_NONE : entry->number;
}

bool names_add(names_table *table, const char *text, size_t bytes, uint32_t number, uint32_t *out_present)
{
    names_entry *entry;
    uint64_t hash;

    if ((table->count + 1) * 2 > table->capacity && !grow(table))
        return false;
    hash = hash_bytes(text, bytes, table->seed);
    entry = slot_of(table, text, bytes, hash);
    if (out_present != NULL)
        *out_present = entry->text == NULL ? NAMES_NONE : entry->number;
    if (entry->text == NULL) {
        *entry = (names_entry){ .text = text, .bytes = bytes, .hash = hash, .number = number };
        table->count++;
    }
    return true;
}
