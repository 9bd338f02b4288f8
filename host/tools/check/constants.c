#include "check/constants.h"
#include "check/check.h"
#include "inlay/check.h"
#include "inlay/execution.h"
#include <string.h>

enum { ALIGN = 64, MOST_ALIGN = 4096 /* of inlay_host.align_constant */ };

static bool is_copied(const inlay_value_info *info)
{
    return (info->flags & INLAY_VALUE_CONSTANT) != 0 && info->data != NULL && info->dtype != INLAY_STRING;
}

static bool copy_constant(const inlay_value_info *info, bool misaligned, struct constant_copy *out)
{
    const size_t bytes = (size_t)info->data_bytes, more = misaligned && bytes % 2 == 0 ? 1 : 0;

    /* With alignment 1 the memory ends at the guard page, so an odd number of bytes begins at an odd address. */
    if (!guarded_alloc(bytes + more, misaligned ? 1 : ALIGN, 0, "past the end of a constant", &out->memory))
        return false;
    if (bytes > 0)
        memcpy(out->memory.data, info->data, bytes);
    guarded_protect(&out->memory, true);
    crash_describe_range(out->memory.data, out->memory.bytes, "of a constant, which is read-only");
    return true;
}

bool constants_create(const inlay_graph *graph, bool misaligned, struct arena *arena, struct constant_set *out)
{
    inlay_value_info *values = arena_array(arena, graph->value_count + (size_t)1, sizeof *values);
    uint32_t constant_count = 0;

    *out = (struct constant_set){ .graph = *graph };
    for (uint32_t i = 0; values != NULL && i < graph->value_count; i++) {
        values[i] = *inlay_graph_value(graph, i);
        constant_count += is_copied(&values[i]);
    }
    out->list = arena_array(arena, constant_count + (size_t)1, sizeof *out->list);
    if (values == NULL || out->list == NULL)
        return false;
    for (uint32_t i = 0; i < graph->value_count; i++) {
        struct constant_copy *copy = &out->list[out->count];

        if (!is_copied(&values[i]))
            continue;
        copy->value = i;
        if (!copy_constant(&values[i], misaligned, copy))
            return false;
        values[i].data = copy->memory.data;
        out->count++;
    }
    INLAY_CHECK(out->count == constant_count);
    out->graph.values = values;
    out->graph.value_stride = sizeof *values;
    return true;
}

const void *constants_align(struct constant_set *set, uint32_t value, uint32_t alignment)
{
    const inlay_value_info *info = value < set->graph.value_count ? inlay_graph_value(&set->graph, value) : NULL;

    if (info == NULL || info->data == NULL || alignment == 0 || alignment > MOST_ALIGN)
        return NULL;
    if ((uintptr_t)info->data % alignment == 0)
        return info->data;
    for (uint32_t i = 0; i < set->count; i++) {
        struct constant_copy *copy = &set->list[i];

        if (copy->value != value)
            continue;
        if (copy->aligned.map != NULL)
            return copy->aligned.data;
        if (!guarded_alloc((size_t)info->data_bytes, MOST_ALIGN, 0, "past the end of a constant", &copy->aligned))
            return NULL;
        memcpy(copy->aligned.data, info->data, (size_t)info->data_bytes);
        guarded_protect(&copy->aligned, true);
        crash_describe_range(copy->aligned.data, copy->aligned.bytes, "of a constant, which is read-only");
        return copy->aligned.data;
    }
    return info->data; /* strings */
}

void constants_settle(struct constant_set *set, const uint8_t *decisions)
{
    for (uint32_t i = 0; i < set->count; i++)
        if (decisions[set->list[i].value] != INLAY_CONST_BORROWED && set->list[i].memory.bytes > 0)
            guarded_hide(&set->list[i].memory, "of a constant that compile reported as COPIED or PACKED");
}

void constants_destroy(struct constant_set *set)
{
    for (uint32_t i = 0; i < set->count; i++) {
        guarded_free(&set->list[i].memory);
        guarded_free(&set->list[i].aligned);
    }
    set->count = 0;
}
