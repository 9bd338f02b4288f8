/* model/save_tensor.c - a tensor becomes part of a file, or goes beside it. */
#include "base/memory.h"
#include "model/save.h"
#include <inttypes.h>
#include <stdlib.h>

enum { DEFAULT_EXTERNAL_BYTES = 1024 };

void save_entry(struct wire *w, uint32_t field, const char *key, const char *value)
{
    wire_mark mark = wire_begin(w, field);

    wire_text(w, 1, key);
    wire_text(w, 2, value);
    wire_end(w, mark);
}

static bool goes_outside(const struct saver *s, const inlay_tensor_view *t)
{
    uint64_t from =
        s->options == NULL || s->options->external_bytes == 0 ? DEFAULT_EXTERNAL_BYTES : s->options->external_bytes;

    return s->options != NULL && s->options->external_file != NULL && t->dtype != INLAY_STRING && t->bytes >= from;
}

/* Gives the tensor a place in the external file, at a page's beginning so that it can be mapped. */
static void put_external(struct saver *s, const inlay_tensor_view *t)
{
    char number[24];
    uint64_t offset = (s->external_end + EXTERNAL_ALIGN - 1) / EXTERNAL_ALIGN * EXTERNAL_ALIGN;

    if (!LIST_GROW(s->external, s->external_count)) {
        s->w.failed = true;
        return;
    }
    s->external[s->external_count++] = (save_external){ .data = t->data, .bytes = t->bytes, .offset = offset };
    s->external_end = offset + t->bytes;
    save_entry(&s->w, 13, "location", s->options->external_file);
    (void)snprintf(number, sizeof number, "%" PRIu64, offset);
    save_entry(&s->w, 13, "offset", number);
    (void)snprintf(number, sizeof number, "%" PRIu64, t->bytes);
    save_entry(&s->w, 13, "length", number);
    wire_int(&s->w, 14, 1);
}

void save_tensor(struct saver *s, const char *name, const inlay_tensor_view *t, bool may_leave)
{
    wire_ints(&s->w, 1, t->dims, t->rank);
    wire_int(&s->w, 2, t->dtype);
    wire_text_if(&s->w, 8, name);
    if (may_leave && goes_outside(s, t)) {
        put_external(s, t);
    } else if (t->dtype == INLAY_STRING) {
        const inlay_str *texts = t->data;

        for (uint64_t i = 0; i < t->bytes / sizeof *texts; i++)
            wire_splice_bytes(&s->w, 6, texts[i].data, (size_t)texts[i].bytes);
    } else {
        wire_splice_bytes(&s->w, 9, t->data, (size_t)t->bytes);
    }
}
