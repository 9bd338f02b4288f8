#include "tokenizer.h"
#include "text.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tokenizer {
    text_tokenizer *text;
    size_t count;
    char *pieces;  /* the pieces of all tokens, concatenated */
    size_t *ends;  /* [count] end offset of each in pieces */
    bool *special; /* [count] */
};

static char *read_file(const char *path, size_t *out_bytes)
{
    FILE *f = fopen(path, "rb");
    char *data = NULL;
    size_t room = 0, bytes = 0;

    while (f != NULL && !ferror(f) && !feof(f)) {
        if (bytes == room) {
            char *more = realloc(data, room = room == 0 ? 1 << 16 : 2 * room);

            if (more == NULL)
                break;
            data = more;
        }
        bytes += fread(data + bytes, 1, room - bytes, f);
    }
    if (f == NULL || ferror(f) || !feof(f)) {
        errno = errno != 0 ? errno : ENOMEM;
        free(data);
        data = NULL;
    }
    if (f != NULL)
        (void)fclose(f);
    *out_bytes = bytes;
    return data;
}

/* Decodes every token once, so that text can be assembled without allocating. */
static inlay_status read_pieces(tokenizer *t, inlay_diag *diag)
{
    size_t room = 0, used = 0;
    inlay_status status = INLAY_OK;

    t->count = text_count(t->text);
    t->ends = calloc(t->count + 1, sizeof *t->ends);
    t->special = calloc(t->count + 1, sizeof *t->special);
    if (t->ends == NULL || t->special == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the tokens");
    for (size_t i = 0; status == INLAY_OK && i < t->count; i++) {
        char *piece = NULL;
        size_t bytes = 0;

        status = text_piece(t->text, (int64_t)i, &piece, &bytes, &t->special[i], diag);
        if (status == INLAY_OK && used + bytes > room) {
            char *more = realloc(t->pieces, room = 2 * (used + bytes) + 4096);

            if (more == NULL)
                status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the tokens");
            else
                t->pieces = more;
        }
        if (status == INLAY_OK && bytes > 0)
            memcpy(t->pieces + used, piece, bytes);
        used += bytes;
        t->ends[i] = used;
        free(piece);
    }
    return status;
}

tokenizer *tokenizer_open(const char *path, char *error, size_t bytes)
{
    tokenizer *t = calloc(1, sizeof *t);
    inlay_diag diag = INLAY_DIAG_INIT;
    size_t file_bytes = 0;
    char *file;
    inlay_status status;

    errno = 0;
    file = t != NULL ? read_file(path, &file_bytes) : NULL;
    if (file == NULL)
        status = inlay_fail(&diag, INLAY_IO_ERROR, "%s", t != NULL ? strerror(errno) : "no memory");
    else
        status = text_open(file, file_bytes, &t->text, &diag);
    free(file);
    if (status == INLAY_OK)
        status = read_pieces(t, &diag);
    if (status == INLAY_OK)
        return t;
    (void)snprintf(error, bytes, "%s: %s", path, diag.text);
    tokenizer_close(t);
    return NULL;
}

void tokenizer_close(tokenizer *t)
{
    if (t == NULL)
        return;
    text_close(t->text);
    free(t->pieces);
    free(t->ends);
    free(t->special);
    free(t);
}

bool tokenizer_encode(const tokenizer *t, const char *text, bool whole, int64_t **tokens, size_t *count)
{
    text_ids ids = { *tokens, *count, *count };
    bool ok = text_encode(t->text, text, strlen(text), whole, &ids, NULL) == INLAY_OK;

    *tokens = ids.list;
    *count = ids.count;
    return ok;
}

const char *tokenizer_bytes(const tokenizer *t, int64_t id, size_t *bytes, bool *special)
{
    size_t begin;

    if (id < 0 || (size_t)id >= t->count || (t->ends[id] == (id > 0 ? t->ends[id - 1] : 0) && !t->special[id]))
        return NULL;
    begin = id > 0 ? t->ends[id - 1] : 0;
    *bytes = t->ends[id] - begin;
    *special = t->special[id];
    return t->pieces + begin;
}

int64_t tokenizer_id(const tokenizer *t, const char *text)
{
    return text_id(t->text, text);
}
