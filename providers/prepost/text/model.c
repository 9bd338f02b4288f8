/* model.c - functions shared by the tokenization models, WordPiece and WordLevel. */
#include "prepost/text/tokenizer_parts.h"
#include "inlay/check.h"

bool ids_push(text_ids *ids, int64_t id)
{
    INLAY_CHECK(ids->count <= ids->room);
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

bool append_unknown(const struct model *model, const char *text, size_t bytes, text_ids *out, bool *after_unknown)
{
    bool all = model->byte_fallback;

    INLAY_CHECK(bytes > 0);
    for (size_t i = 0; all && i < bytes; i++)
        all = model->byte_ids[(unsigned char)text[i]] >= 0;
    if (all) {
        *after_unknown = false;
        for (size_t i = 0; i < bytes; i++)
            if (!ids_push(out, model->byte_ids[(unsigned char)text[i]]))
                return false;
        return true;
    }
    if (model->unknown_id < 0 || (model->fuse_unknown && *after_unknown))
        return true;
    *after_unknown = true;
    return ids_push(out, model->unknown_id);
}

void model_free(struct model *model)
{
    vocabulary_free(&model->vocabulary);
    free(model->prefix);
    free(model->suffix);
    free(model->merges);
}

static size_t characters_of(const char *text, size_t bytes)
{
    size_t count = 0;

    for (size_t i = 0; i < bytes; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

/* Finds the longest token that starts at `text`; returns its bytes without the prefix. *id is -1 if there is none. */
static size_t longest(const struct model *model, const char *text, size_t bytes, const char *prefix, text_buf *scratch,
                      int64_t *id)
{
    const size_t before = strlen(prefix);
    size_t n = bytes;

    scratch->count = 0;
    buf_append(scratch, prefix, before);
    buf_append(scratch, text, bytes);
    *id = -1;
    if (scratch->failed)
        return 0;
    if (before + n > model->vocabulary.longest)
        n = model->vocabulary.longest > before ? model->vocabulary.longest - before : 0;
    for (; n > 0; n--) {
        if (n < bytes && ((unsigned char)text[n] & 0xc0) == 0x80)
            continue;
        *id = vocabulary_find(&model->vocabulary, scratch->data, before + n);
        if (*id >= 0)
            return n;
    }
    return 0;
}

bool wordpiece_encode(const struct model *model, const char *text, size_t bytes, text_ids *out)
{
    const size_t start = out->count;
    text_buf scratch = { 0 };
    bool ok = true, known = characters_of(text, bytes) <= model->max_chars;

    INLAY_CHECK(model->kind == MODEL_WORDPIECE && out->count <= out->room);
    for (size_t at = 0; ok && known && at < bytes;) {
        int64_t id;
        const size_t n = longest(model, text + at, bytes - at, at > 0 ? model->prefix : "", &scratch, &id);

        known = id >= 0;
        INLAY_CHECK(!known || n > 0);
        ok = !scratch.failed && (!known || ids_push(out, id));
        at += n;
    }
    free(scratch.data);
    if (ok && !known) { /* WordPiece: if one piece has no token, the whole word is the unknown token */
        out->count = start;
        ok = model->unknown_id < 0 || ids_push(out, model->unknown_id);
    }
    return ok;
}

bool wordlevel_encode(const struct model *model, const char *text, size_t bytes, text_ids *out)
{
    const int64_t id = vocabulary_find(&model->vocabulary, text, bytes);

    if (id >= 0)
        return ids_push(out, id);
    return model->unknown_id < 0 || ids_push(out, model->unknown_id);
}
