#include "texts/tokens/tokenizer.h"
#include "prepost/text/text.h"
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
    FILE *file = fopen(path, "rb");
    char *data = NULL;
    size_t room = 0, bytes = 0;

    while (file != NULL && !ferror(file) && !feof(file)) {
        if (bytes == room) {
            char *more = realloc(data, room = room == 0 ? 1 << 16 : 2 * room);

            if (more == NULL)
                break;
            data = more;
        }
        bytes += fread(data + bytes, 1, room - bytes, file);
    }
    if (file == NULL || ferror(file) || !feof(file)) {
        errno = errno != 0 ? errno : ENOMEM;
        free(data);
        data = NULL;
    }
    if (file != NULL)
        (void)fclose(file);
    *out_bytes = bytes;
    return data;
}

/* Decodes every token once, so that text can be assembled without allocating. */
static inlay_status read_pieces(struct tokenizer *tokenizer, inlay_diag *diag)
{
    size_t room = 0, used = 0;
    inlay_status status = INLAY_OK;

    tokenizer->count = text_vocabulary_size(tokenizer->text);
    tokenizer->ends = calloc(tokenizer->count + 1, sizeof *tokenizer->ends);
    tokenizer->special = calloc(tokenizer->count + 1, sizeof *tokenizer->special);
    if (tokenizer->ends == NULL || tokenizer->special == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the tokens");
    for (size_t i = 0; status == INLAY_OK && i < tokenizer->count; i++) {
        char *piece = NULL;
        size_t bytes = 0;

        status = text_token_text(tokenizer->text, (int64_t)i, &piece, &bytes, &tokenizer->special[i], diag);
        if (status == INLAY_OK && used + bytes > room) {
            char *more = realloc(tokenizer->pieces, room = 2 * (used + bytes) + 4096);

            if (more == NULL)
                status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the tokens");
            else
                tokenizer->pieces = more;
        }
        if (status == INLAY_OK && bytes > 0)
            memcpy(tokenizer->pieces + used, piece, bytes);
        used += bytes;
        tokenizer->ends[i] = used;
        free(piece);
    }
    return status;
}

struct tokenizer *tokenizer_open_bytes(const char *file, size_t file_bytes, const char *name, char *error, size_t bytes)
{
    struct tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = tokenizer != NULL ? text_open(file, file_bytes, &tokenizer->text, &diag)
                                            : inlay_fail(&diag, INLAY_OUT_OF_MEMORY, "no memory");

    if (status == INLAY_OK)
        status = read_pieces(tokenizer, &diag);
    if (status == INLAY_OK)
        return tokenizer;
    (void)snprintf(error, bytes, "%s: %s", name, diag.text);
    tokenizer_close(tokenizer);
    return NULL;
}

struct tokenizer *tokenizer_open(const char *path, char *error, size_t bytes)
{
    struct tokenizer *tokenizer;
    size_t file_bytes = 0;
    char *file;

    errno = 0;
    file = read_file(path, &file_bytes);
    if (file == NULL) {
        (void)snprintf(error, bytes, "%s: %s", path, strerror(errno));
        return NULL;
    }
    tokenizer = tokenizer_open_bytes(file, file_bytes, path, error, bytes);
    free(file);
    return tokenizer;
}

void tokenizer_close(struct tokenizer *tokenizer)
{
    if (tokenizer == NULL)
        return;
    text_close(tokenizer->text);
    free(tokenizer->pieces);
    free(tokenizer->ends);
    free(tokenizer->special);
    free(tokenizer);
}

bool tokenizer_encode(const struct tokenizer *tokenizer, const char *text, bool whole, int64_t **tokens, size_t *count)
{
    text_ids ids = { *tokens, *count, *count };
    bool ok = text_encode(tokenizer->text, text, strlen(text), whole, &ids, NULL) == INLAY_OK;

    *tokens = ids.list;
    *count = ids.count;
    return ok;
}

inlay_status tokenizer_encode_pair(const struct tokenizer *tokenizer, const char *first, const char *second,
                                   int64_t **tokens, size_t *count, size_t *begin, inlay_diag *diag)
{
    text_ids ids = { *tokens, *count, *count };
    const inlay_status status = text_encode_pair(tokenizer->text, first, second, &ids, begin, diag);

    *tokens = ids.list;
    *count = ids.count;
    return status;
}

const char *tokenizer_bytes(const struct tokenizer *tokenizer, int64_t id, size_t *bytes, bool *special)
{
    size_t begin;

    if (id < 0 || (size_t)id >= tokenizer->count ||
        (tokenizer->ends[id] == (id > 0 ? tokenizer->ends[id - 1] : 0) && !tokenizer->special[id]))
        return NULL;
    begin = id > 0 ? tokenizer->ends[id - 1] : 0;
    *bytes = tokenizer->ends[id] - begin;
    *special = tokenizer->special[id];
    return tokenizer->pieces + begin;
}

size_t tokenizer_count(const struct tokenizer *tokenizer)
{
    return tokenizer->count;
}

int64_t tokenizer_id(const struct tokenizer *tokenizer, const char *text)
{
    return text_find_token(tokenizer->text, text);
}
