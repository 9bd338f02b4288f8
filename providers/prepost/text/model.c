/* model.c - what the models share, and WordPiece. */
#include "parts.h"
#include <stdio.h>

bool ids_push(text_ids *ids, int64_t id)
{
    if (ids->count == ids->room) {
        const size_t room = ids->room * 2 + 32;
        int64_t *more = realloc(ids->list, room * sizeof *more);

        if (more == NULL)
            return false;
        ids->list = more;
        ids->room = room;
    }
    ids->list[ids->count++] = id;
    return true;
}

bool put_unknown(const struct model *model, const char *text, size_t bytes, text_ids *out, bool *after_unknown)
{
    bool all = model->byte_fallback;

    for (size_t i = 0; all && i < bytes; i++)
        all = model->bytes[(unsigned char)text[i]] >= 0;
    if (all) {
        *after_unknown = false;
        for (size_t i = 0; i < bytes; i++)
            if (!ids_push(out, model->bytes[(unsigned char)text[i]]))
                return false;
        return true;
    }
    if (model->unknown < 0 || (model->fuse_unknown && *after_unknown))
        return true;
    *after_unknown = true;
    return ids_push(out, model->unknown);
}

void model_free(struct model *model)
{
    vocabulary_free(&model->words);
    free(model->prefix);
    free(model->suffix);
    free(model->merges);
}

/* ------------------------------------------------------------------ WordPiece */

static size_t characters_of(const char *text, size_t bytes)
{
    size_t count = 0;

    for (size_t i = 0; i < bytes; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

/* The longest word that the rest of the text begins with; *id -1: there is none. */
static size_t longest(const struct model *model, const char *text, size_t bytes, const char *prefix, text_buf *scratch,
                      int64_t *id)
{
    const size_t before = strlen(prefix);
    size_t n = bytes;

    scratch->count = 0;
    buf_put(scratch, prefix, before);
    buf_put(scratch, text, bytes);
    *id = -1;
    if (scratch->failed)
        return 0;
    if (before + n > model->words.longest)
        n = model->words.longest > before ? model->words.longest - before : 0;
    for (; n > 0; n--) {
        if (n < bytes && ((unsigned char)text[n] & 0xc0) == 0x80)
            continue;
        *id = vocabulary_find(&model->words, scratch->data, before + n);
        if (*id >= 0)
            return n;
    }
    return 0;
}

bool wordpiece_encode(const struct model *model, const char *text, size_t bytes, text_ids *out)
{
    const size_t start = out->count;
    text_buf scratch = { 0 };
    bool ok = true, known = characters_of(text, bytes) <= model->most_chars;

    for (size_t at = 0; ok && known && at < bytes;) {
        int64_t id;
        const size_t n = longest(model, text + at, bytes - at, at > 0 ? model->prefix : "", &scratch, &id);

        known = id >= 0;
        ok = !scratch.failed && (!known || ids_push(out, id));
        at += n;
    }
    free(scratch.data);
    if (ok && !known) { /* one piece that is none makes the whole word unknown */
        out->count = start;
        ok = model->unknown < 0 || ids_push(out, model->unknown);
    }
    return ok;
}
