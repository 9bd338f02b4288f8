/* model/save_tensor.c - writes a tensor to the model file or to the external file. */
#include "base/hash.h"
#include "base/memory.h"
#include "model/save.h"
#include "inlay/check.h"
#include <inttypes.h>
#include <string.h>

enum { DEFAULT_EXTERNAL_BYTES = 1024 };

void save_entry(struct wire *wire, uint32_t field, const char *key, const char *value)
{
    wire_mark mark = wire_begin(wire, field);

    wire_text(wire, 1, key);
    wire_text(wire, 2, value);
    wire_end(wire, mark);
}

static bool is_external(const struct saver *saver, const inlay_tensor_view *view)
{
    uint64_t from = saver->options == NULL || saver->options->external_bytes == 0 ? DEFAULT_EXTERNAL_BYTES
                                                                                  : saver->options->external_bytes;

    return saver->options != NULL && saver->options->external_file != NULL && view->dtype != INLAY_STRING &&
           view->bytes >= from;
}

/* Finds a tensor that has these bytes already. */
static bool find_equal(const struct saver *saver, const inlay_tensor_view *view, uint64_t hash, uint64_t *out_offset)
{
    for (size_t i = 0; i < saver->external_count; i++) {
        const save_external *other = &saver->external[i];

        if (other->hash == hash && other->bytes == view->bytes &&
            memcmp(other->data, view->data, (size_t)view->bytes) == 0) {
            *out_offset = other->offset;
            return true;
        }
    }
    return false;
}

/* Assigns the tensor an offset in the external file, at a page boundary so that it can be mapped. */
static void put_external(struct saver *saver, const inlay_tensor_view *view)
{
    char number[24];
    uint64_t offset = (saver->external_end + EXTERNAL_ALIGN - 1) / EXTERNAL_ALIGN * EXTERNAL_ALIGN;
    const uint64_t hash = saver->shares ? hash_blocks(view->data, (size_t)view->bytes, 0) : 0;

    INLAY_CHECK(offset >= saver->external_end);
    if (!saver->shares || !find_equal(saver, view, hash, &offset)) {
        if (!LIST_GROW(saver->external, saver->external_count)) {
            saver->wire.failed = true;
            return;
        }
        saver->external[saver->external_count++] = (save_external){
            .data = view->data, .bytes = view->bytes, .offset = offset, .hash = hash, .model = saver->model
        };
        saver->external_end = offset + view->bytes;
    }
    save_entry(&saver->wire, 13, "location", saver->options->external_file);
    (void)snprintf(number, sizeof number, "%" PRIu64, offset);
    save_entry(&saver->wire, 13, "offset", number);
    (void)snprintf(number, sizeof number, "%" PRIu64, view->bytes);
    save_entry(&saver->wire, 13, "length", number);
    wire_int(&saver->wire, 14, 1);
}

void save_tensor(struct saver *saver, const char *name, const inlay_tensor_view *view, bool may_be_external)
{
    wire_ints(&saver->wire, 1, view->dims, view->rank);
    wire_int(&saver->wire, 2, view->dtype);
    wire_text_if(&saver->wire, 8, name);
    if (may_be_external && is_external(saver, view)) {
        put_external(saver, view);
    } else if (view->dtype == INLAY_STRING) {
        const inlay_str *texts = view->data;

        for (uint64_t i = 0; i < view->bytes / sizeof *texts; i++)
            wire_splice_bytes(&saver->wire, 6, texts[i].data, (size_t)texts[i].bytes);
    } else {
        wire_splice_bytes(&saver->wire, 9, view->data, (size_t)view->bytes);
    }
}
