/* model/load_list.c - lists of attributes. A tree ensemble has millions of numbers in them, so they are converted
 * directly from the file to the graph's lists. */
#include "model/load.h"
#include "model/prescan.h"
#include "inlay/check.h"
#include <string.h>

/* Iterates over the elements in the places of one field (see prescan.h). */
typedef struct list_cursor {
    const uint8_t *file, *at, *end;
    const uint64_t *place, *last;
    uint64_t field;
    bool tagged;
} list_cursor;

static list_cursor begin(const struct loader *loader, const Onnx__Attribute *attribute, uint64_t field)
{
    INLAY_CHECK(attribute->n_place % 3 == 0);
    return (list_cursor){ .file = loader->source.file,
                          .place = attribute->place,
                          .last = attribute->place + attribute->n_place / 3 * 3,
                          .field = field };
}

/* Moves to the next place if the current one has no elements left. False at the end. */
static bool open_place(list_cursor *cursor)
{
    while (cursor->at == cursor->end) {
        const uint64_t *place = cursor->place;

        if (place == cursor->last)
            return false;
        cursor->place += 3;
        if ((place[0] & ~PRESCAN_TAGGED) != cursor->field || place[2] == 0)
            continue;
        cursor->tagged = (place[0] & PRESCAN_TAGGED) != 0;
        cursor->at = cursor->file + place[1];
        cursor->end = cursor->at + place[2];
    }
    return true;
}

/* Reads the next element: the bits of a number, or a text. The prescan has checked that it is complete. field: the
 * cursor's field, a parameter so that compilers can specialise inlined calls. */
static inline bool next(list_cursor *cursor, const uint64_t field, uint64_t *bits, inlay_str *text)
{
    uint64_t ignored;

    if ((cursor->at == cursor->end && !open_place(cursor)) ||
        (cursor->tagged && !prescan_short(&cursor->at, cursor->end, &ignored)))
        return false;
    *bits = 0;
    if (field == LIST_FLOATS) {
        if (cursor->end - cursor->at < 4)
            return false;
        memcpy(bits, cursor->at, 4);
        cursor->at += 4;
        return true;
    }
    if (!prescan_short(&cursor->at, cursor->end, bits))
        return false;
    if (field == LIST_INTS)
        return true;
    if (*bits > (uint64_t)(cursor->end - cursor->at))
        return false;
    *text = (inlay_str){ (const char *)cursor->at, *bits };
    cursor->at += *bits;
    return true;
}

/* Counts the bytes without the highest bit, eight at a time. Each integer and each tag ends with such a byte. */
static uint64_t count_ends(const uint8_t *at, size_t bytes)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t tops = 0;
    const size_t all = bytes;

    while (bytes >= 8) {
        uint64_t sums = 0; /* eight sums of one byte each, which cannot overflow in 255 rounds */

        for (int i = 0; i < 255 && bytes >= 8; i++, at += 8, bytes -= 8) {
            uint64_t word;

            memcpy(&word, at, 8);
            sums += word >> 7 & ones;
        }
        tops += ((sums & UINT64_C(0x00ff00ff00ff00ff)) + (sums >> 8 & UINT64_C(0x00ff00ff00ff00ff))) *
                    UINT64_C(0x0001000100010001) >>
                48;
    }
    for (; bytes > 0; bytes--)
        tops += *at++ >> 7;
    return all - tops;
}

/* Implements prescan_run(). Inlined with a constant for wire, so that each wire type has a separate loop. */
static inline uint64_t run(const uint8_t **at, const uint8_t *end, const unsigned wire)
{
    const uint8_t *next_tag = *at;
    const uint8_t tag = *next_tag;
    uint64_t count = 0, length = 4;

    for (; next_tag < end && *next_tag == tag; count++) {
        const uint8_t *element = next_tag + 1;

        if (wire != WIRE_32 && !prescan_short(&element, end, &length))
            break;
        if (wire != WIRE_VARINT && length > (uint64_t)(end - element))
            break;
        next_tag = element + (wire != WIRE_VARINT ? length : 0);
    }
    *at = next_tag;
    return count;
}

uint64_t prescan_run(const uint8_t **at, const uint8_t *end, unsigned wire)
{
    return wire == WIRE_32      ? run(at, end, WIRE_32)
           : wire == WIRE_BYTES ? run(at, end, WIRE_BYTES)
                                : run(at, end, WIRE_VARINT);
}

/* Reads floats as long as they have tags of one byte. */
static uint64_t take_floats(list_cursor *cursor, float *to, uint64_t most)
{
    uint64_t i = 0;

    for (; i < most && cursor->tagged && cursor->end - cursor->at >= 5 && *cursor->at < 0x80; i++, cursor->at += 5)
        memcpy(&to[i], cursor->at + 1, 4);
    return i;
}

/* The number of elements. */
static uint64_t count_elements(list_cursor cursor)
{
    const unsigned wire = cursor.field == LIST_FLOATS ? WIRE_32 : WIRE_BYTES;
    uint64_t count = 0, more, bits;
    inlay_str text;

    while (open_place(&cursor)) {
        if (cursor.field == LIST_INTS) {
            const uint64_t ends = count_ends(cursor.at, (size_t)(cursor.end - cursor.at));

            count += cursor.tagged ? ends / 2 : ends;
            cursor.at = cursor.end;
        } else if (cursor.field == LIST_FLOATS && !cursor.tagged) {
            count += (uint64_t)(cursor.end - cursor.at) / 4;
            cursor.at = cursor.end;
        } else if (cursor.tagged && *cursor.at < 0x80 && (more = prescan_run(&cursor.at, cursor.end, wire)) > 0) {
            count += more;
        } else if (next(&cursor, cursor.field, &bits, &text)) {
            count++;
        } else {
            break;
        }
    }
    return count;
}

/* Reads integers of at most three bytes, with tags of at most one byte, as long as four bytes are left in the place.
 * Usually these are all integers but the last few, which next() reads. */
static uint64_t take_short(list_cursor *cursor, int64_t *to, uint64_t most)
{
    const uint8_t *at = cursor->at;
    uint64_t i = 0;

    for (; i < most && cursor->end - at >= 4; i++) {
        const uint8_t *first = at + cursor->tagged;
        uint32_t word;

        if (cursor->tagged && *at >= 0x80)
            break;
        if (*first < 0x80) {
            to[i] = *first;
            at = first + 1;
            continue;
        }
        memcpy(&word, at, 4);
        word >>= cursor->tagged ? 8 : 0;
        if ((word & 0x8000) == 0) {
            to[i] = (int64_t)((word & 0x7f) | (word >> 1 & 0x3f80));
            at = first + 2;
        } else if ((word & 0x800000) == 0) {
            to[i] = (int64_t)((word & 0x7f) | (word >> 1 & 0x3f80) | (word >> 2 & 0x1fc000));
            at = first + 3;
        } else {
            break;
        }
    }
    cursor->at = at;
    return i;
}

bool load_has_list(const Onnx__Attribute *attribute, uint64_t field)
{
    for (size_t i = 0; i + 2 < attribute->n_place; i += 3)
        if ((attribute->place[i] & ~PRESCAN_TAGGED) == field && attribute->place[i + 2] > 0)
            return true;
    return false;
}

/* Copies a text to the model's arena, or shares the previous one if it is equal. */
static bool copy_text(struct arena *arena, inlay_str text, const inlay_str *before, inlay_str *out)
{
    if (before != NULL && before->bytes == text.bytes && memcmp(before->data, text.data, text.bytes) == 0) {
        *out = *before;
        return true;
    }
    *out = (inlay_str){ arena_string_n(arena, text.data, (size_t)text.bytes), text.bytes };
    return out->data != NULL;
}

inlay_status load_list(struct loader *loader, const Onnx__Attribute *attribute, uint64_t field, inlay_attr_info *out)
{
    struct arena *arena = &loader->model->arena;
    list_cursor cursor = begin(loader, attribute, field);
    const uint64_t count = count_elements(cursor);
    uint64_t bits;
    inlay_str text = { 0 }, *strings = NULL;
    int64_t *ints = NULL;
    float *floats = NULL;

    if (count > UINT32_MAX)
        return inlay_fail(loader->diag, INLAY_LIMIT_EXCEEDED, "has %llu elements, more than UINT32_MAX",
                          (unsigned long long)count);
    if (field == LIST_FLOATS)
        out->floats = floats = arena_array(arena, (size_t)count, sizeof *floats);
    else if (field == LIST_INTS)
        out->ints = ints = arena_array(arena, (size_t)count, sizeof *ints);
    else
        out->strings = strings = arena_array(arena, (size_t)count, sizeof *strings);
    if (floats == NULL && ints == NULL && strings == NULL)
        return inlay_fail(loader->diag, INLAY_OUT_OF_MEMORY, "out of memory");
    out->count = (uint32_t)count;
    for (uint64_t i = 0; floats != NULL && i < count && next(&cursor, LIST_FLOATS, &bits, &text);) {
        memcpy(&floats[i++], &bits, sizeof *floats);
        i += take_floats(&cursor, floats + i, count - i);
    }
    for (uint64_t i = 0; ints != NULL && i < count && next(&cursor, LIST_INTS, &bits, &text);) {
        ints[i++] = (int64_t)bits;
        i += take_short(&cursor, ints + i, count - i);
    }
    for (uint64_t i = 0; strings != NULL && i < count && next(&cursor, LIST_STRINGS, &bits, &text); i++)
        if (!copy_text(arena, text, i > 0 ? &strings[i - 1] : NULL, &strings[i]))
            return inlay_fail(loader->diag, INLAY_OUT_OF_MEMORY, "out of memory");
    return INLAY_OK;
}
