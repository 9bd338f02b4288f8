#include "serve/base/tokens.h"
#include "inlay/check.h"
#include "base/memory.h"
#include "serve/base/settings.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

void tokens_deinit(struct tokens *tokens)
{
    free(tokens->texts);
    *tokens = (struct tokens){ .texts = NULL };
}

enum { LINE_BYTES = 2 * TOKEN_MAX_BYTES };

static inlay_status add_line(struct tokens *tokens, char *line, const char *path, uint32_t number, inlay_diag *diag)
{
    size_t bytes = strcspn(line, "\r\n");

    if (strlen(line) + 1 == LINE_BYTES && line[LINE_BYTES - 2] != '\n') /* the rest would be read as a token */
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s:%u: a line must have at most %d characters", path, number,
                          LINE_BYTES - 2);
    line[bytes] = '\0';
    if (bytes == 0 || line[0] == '#')
        return INLAY_OK;
    if (bytes < 16 || bytes >= TOKEN_MAX_BYTES)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s:%u: a token must have 16 to %d characters", path, number,
                          TOKEN_MAX_BYTES - 1);
    if (tokens->count == TOKENS_MAX)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "%s: more than %d tokens", path, TOKENS_MAX);
    INLAY_CHECK(tokens->texts != NULL);
    memcpy(tokens->texts[tokens->count++], line, bytes);
    return INLAY_OK;
}

inlay_status tokens_read(const char *setting, const char *path, struct tokens *out_tokens, inlay_diag *diag)
{
    char line[LINE_BYTES];
    inlay_status status = INLAY_OK;
    uint32_t number = 0;
    struct stat st;
    FILE *file;

    *out_tokens = (struct tokens){ .texts = NULL };
    if (path[0] == '\0')
        return INLAY_OK;
    status = settings_open(setting, path, &file, diag);
    if (status != INLAY_OK)
        return status;
    if (fstat(fileno(file), &st) != 0) {
        status = inlay_fail(diag, INLAY_IO_ERROR, "%s: %s", path, strerror(errno));
    } else if ((st.st_mode & (S_IROTH | S_IWOTH)) != 0) {
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: other users may read or write it; run chmod o-rw", path);
    } else {
        out_tokens->texts = calloc(TOKENS_MAX, sizeof *out_tokens->texts);
        if (out_tokens->texts == NULL)
            status = no_memory(diag, "for tokens");
    }
    while (status == INLAY_OK && fgets(line, sizeof line, file) != NULL)
        status = add_line(out_tokens, line, path, ++number, diag);
    if (status == INLAY_OK && out_tokens->count == 0)
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s has no token", path);
    (void)fclose(file);
    if (status != INLAY_OK)
        tokens_deinit(out_tokens);
    return status;
}

inlay_status tokens_reload(struct tokens *tokens, const char *setting, const char *path, inlay_diag *diag)
{
    struct tokens fresh, old;
    inlay_status status = tokens_read(setting, path, &fresh, diag);

    if (status != INLAY_OK)
        return status;
    (void)pthread_rwlock_wrlock(&tokens->lock);
    old = (struct tokens){ .texts = tokens->texts };
    tokens->texts = fresh.texts;
    tokens->count = fresh.count;
    (void)pthread_rwlock_unlock(&tokens->lock);
    tokens_deinit(&old);
    return INLAY_OK;
}

bool tokens_are_none(struct tokens *tokens)
{
    bool none;

    (void)pthread_rwlock_rdlock(&tokens->lock);
    none = tokens->count == 0;
    (void)pthread_rwlock_unlock(&tokens->lock);
    return none;
}

bool tokens_match(struct tokens *tokens, const char *authorization)
{
    char given[TOKEN_MAX_BYTES] = "";
    bool any = false;

    if (authorization == NULL || strncasecmp(authorization, "Bearer ", 7) != 0 ||
        strlen(authorization + 7) >= sizeof given)
        return false;
    memcpy(given, authorization + 7, strlen(authorization + 7));
    (void)pthread_rwlock_rdlock(&tokens->lock);
    for (uint32_t i = 0; i < tokens->count; i++) {
        volatile unsigned char differs = 0;

        for (uint32_t k = 0; k < TOKEN_MAX_BYTES; k++)
            differs = (unsigned char)(differs | (given[k] ^ tokens->texts[i][k]));
        any |= differs == 0;
    }
    (void)pthread_rwlock_unlock(&tokens->lock);
    return any;
}
