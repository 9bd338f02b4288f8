#include "bundle/emit_array.h"
#include "base/hash.h"
#include <stdlib.h>
#include <string.h>

bool emit_arrays_init(emitted_arrays *arrays, FILE *to, struct arena *arena)
{
    *arrays = (emitted_arrays){ .to = to, .arena = arena };
    arrays->elements = open_memstream(&arrays->text, &arrays->text_bytes);
    return arrays->elements != NULL;
}

void emit_arrays_deinit(emitted_arrays *arrays)
{
    if (arrays->elements != NULL)
        (void)fclose(arrays->elements);
    free(arrays->text);
}

/* Adds the elements as a new array. */
static bool add(emitted_arrays *arrays, const char *type, uint64_t hash)
{
    const char *elements = arena_string_n(arrays->arena, arrays->text, arrays->text_bytes);

    if (elements == NULL || !ARENA_GROW(arrays->arena, arrays->list, arrays->count))
        return false;
    arrays->list[arrays->count] = (emitted_array){ .type = type, .elements = elements, .hash = hash };
    (void)fprintf(arrays->to, "static const %s c%u[] = { %s };\n", type, arrays->count++, elements);
    return true;
}

static bool is_same(const emitted_arrays *arrays, const emitted_array *array, const char *type, uint64_t hash)
{
    return array->hash == hash && strcmp(array->type, type) == 0 && strlen(array->elements) == arrays->text_bytes &&
           memcmp(array->elements, arrays->text, arrays->text_bytes) == 0;
}

uint32_t emit_array_end(emitted_arrays *arrays, const char *type)
{
    uint32_t i = 0;
    uint64_t hash;

    if (fflush(arrays->elements) != 0 || ferror(arrays->elements)) {
        arrays->failed = true;
        return 0;
    }
    hash = hash_bytes(arrays->text, arrays->text_bytes, 0);
    while (i < arrays->count && !is_same(arrays, &arrays->list[i], type, hash))
        i++;
    if (i == arrays->count && !add(arrays, type, hash))
        arrays->failed = true;
    (void)fseeko(arrays->elements, 0, SEEK_SET);
    return i;
}
