#include "check/features.h"
#include "base/hash.h"
#include <string.h>

enum {
    MOST_FEATURES = 96,
    FEW_TRIES = 4,
    EXACT_SIZE = 4, /* sizes above it count by their power of two, and by their remainder */
    REMAINDERS = 8,
    PLACES = 64
};

struct feature_list {
    uint64_t hashes[MOST_FEATURES]; /* [count] */
    uint32_t count;
};

/* kind tells features of the same place apart. */
static void add(struct feature_list *list, const char *kind, uint64_t place, int64_t value)
{
    if (list->count < MOST_FEATURES)
        list->hashes[list->count++] = hash_u64(hash_u64(hash_bytes(kind, strlen(kind), 0), place), (uint64_t)value);
}

static int64_t size_class(int64_t size)
{
    int64_t class = size <= EXACT_SIZE ? size : EXACT_SIZE + 1;

    for (int64_t more = 2 * EXACT_SIZE; more < size; more *= 2)
        class ++;
    return class;
}

static void add_input(struct feature_list *list, const case_tensor *tensor, uint64_t i)
{
    int64_t rows = 1;

    add(list, "type", i, tensor->dtype);
    if (tensor->dtype == INLAY_UNDEFINED)
        return;
    add(list, "rank", i, tensor->rank);
    add(list, "constant", i, tensor->constant);
    add(list, "same", i, tensor->same_as);
    for (uint32_t d = 0; d < tensor->rank; d++) {
        const int64_t size = tensor->dims[tensor->rank - 1 - d];

        add(list, "size", i * PLACES + d, size_class(size));
        add(list, "remainder", i * PLACES + d, size % REMAINDERS);
        rows *= d > 0 ? size : 1;
    }
    add(list, "rows", i, size_class(rows) * REMAINDERS + rows % REMAINDERS);
    if (tensor->rank > 1)
        add(list, "square", i, tensor->dims[tensor->rank - 1] == tensor->dims[tensor->rank - 2]);
}

static void add_attr(struct feature_list *list, const inlay_attr_info *attr)
{
    const uint64_t name = hash_bytes(attr->name.data, attr->name.bytes, 0);

    switch (attr->kind) {
    case INLAY_ATTR_INT:
        add(list, "int", name, attr->i);
        break;
    case INLAY_ATTR_FLOAT:
        add(list, "float", name, (int64_t)(1024 * attr->f));
        break;
    case INLAY_ATTR_STRING:
        add(list, "text", name, (int64_t)hash_bytes(attr->s.data, attr->s.bytes, 0));
        break;
    case INLAY_ATTR_INTS:
        for (uint32_t k = 0; k < attr->count; k++)
            add(list, "ints", name + k, attr->ints[k]);
        break;
    default:
        break;
    }
}

static struct feature_list list_features(const op_case *entry)
{
    struct feature_list list = { .count = 0 };

    add(&list, "inputs", 0, entry->in_count);
    for (uint32_t i = 0; i < entry->attr_count; i++)
        add_attr(&list, &entry->attrs[i]);
    for (uint32_t i = 0; i < entry->in_count; i++)
        add_input(&list, &entry->in[i], i);
    return list;
}

static uint64_t pair_of(const struct feature_list *list, uint32_t i, uint32_t k)
{
    return hash_u64(list->hashes[i], list->hashes[k]) % FEATURE_PAIRS;
}

uint32_t features_new(const feature_map *map, const op_case *entry)
{
    const struct feature_list list = list_features(entry);
    uint32_t found = 0;

    for (uint32_t i = 0; i < list.count; i++)
        for (uint32_t k = 0; k < i; k++)
            found += map->tried[pair_of(&list, i, k)] < FEW_TRIES;
    return found;
}

void features_note(feature_map *map, const op_case *entry)
{
    const struct feature_list list = list_features(entry);

    for (uint32_t i = 0; i < list.count; i++)
        for (uint32_t k = 0; k < i; k++) {
            uint8_t *tried = &map->tried[pair_of(&list, i, k)];

            *tried = (uint8_t)(*tried + (*tried < FEW_TRIES));
        }
}
