#include "ort_ep.h"
#include <stdlib.h>
#include <string.h>

/* FNV-1a. */
static size_t hash_of(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return (size_t)hash;
}

/* The slot of that name, or the free one at which it belongs. */
static uint32_t *slot_of(const ep_names *names, const char *name)
{
    size_t at = hash_of(name) & (names->capacity - 1);

    while (names->slots[at] != 0 && strcmp(names->items[names->slots[at] - 1].name, name) != 0)
        at = (at + 1) & (names->capacity - 1);
    return &names->slots[at];
}

/* Doubles the table, which is at most half full. */
static bool grow(ep_names *names)
{
    const size_t capacity = names->capacity > 0 ? names->capacity * 2 : 64;
    ep_name *items = realloc(names->items, capacity / 2 * sizeof *items);
    uint32_t *slots = calloc(capacity, sizeof *slots);

    if (items != NULL)
        names->items = items;
    if (items == NULL || slots == NULL) {
        free(slots);
        return false;
    }
    free(names->slots);
    names->slots = slots;
    names->capacity = capacity;
    for (size_t i = 0; i < names->count; i++)
        *slot_of(names, names->items[i].name) = (uint32_t)i + 1;
    return true;
}

ep_name *ep_names_find(const ep_names *names, const char *name)
{
    const uint32_t slot = names->capacity > 0 ? *slot_of(names, name) : 0;

    return slot > 0 ? &names->items[slot - 1] : NULL;
}

ep_name *ep_names_add(ep_names *names, const char *name, const OrtValueInfo *info)
{
    ep_name *found = ep_names_find(names, name);

    if (found != NULL)
        return found;
    if (names->count == names->capacity / 2 && !grow(names))
        return NULL;
    names->items[names->count] = (ep_name){ .name = name, .info = info };
    *slot_of(names, name) = (uint32_t)names->count + 1;
    return &names->items[names->count++];
}

void ep_names_deinit(ep_names *names)
{
    free(names->items);
    free(names->slots);
    *names = (ep_names){ 0 };
}
