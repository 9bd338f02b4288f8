#include "serve/grammar/grammar_tokens.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

typedef struct indexed_token {
    const char *text; /* [bytes] */
    uint32_t bytes;
    uint32_t common; /* bytes that it has in common with the one before it */
    uint32_t token;
} indexed_token;

struct token_index {
    size_t count;           /* tokens of the vocabulary */
    indexed_token *ordered; /* [ordered_count] those with a text */
    size_t ordered_count;
    uint32_t *place; /* [count] 1 + index in ordered; 0: none */
    uint32_t longest;
};

static int by_bytes(const void *left, const void *right)
{
    const indexed_token *a = left, *b = right;
    int order = memcmp(a->text, b->text, a->bytes < b->bytes ? a->bytes : b->bytes);

    return order != 0 ? order : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

token_index *token_index_create(token_bytes_fn bytes_of, const void *user, size_t count)
{
    token_index *index = calloc(1, sizeof *index);

    if (index != NULL) {
        index->ordered = malloc((count + 1) * sizeof *index->ordered);
        index->place = calloc(count + 1, sizeof *index->place);
    }
    if (index == NULL || index->ordered == NULL || index->place == NULL) {
        token_index_destroy(index);
        return NULL;
    }
    index->count = count;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = 0;
        const char *text = bytes_of(user, (int64_t)i, &bytes);

        if (text == NULL || bytes == 0)
            continue;
        index->ordered[index->ordered_count++] = (indexed_token){ text, (uint32_t)bytes, 0, (uint32_t)i };
        if (bytes > index->longest)
            index->longest = (uint32_t)bytes;
    }
    qsort(index->ordered, index->ordered_count, sizeof *index->ordered, by_bytes);
    for (size_t i = 0; i < index->ordered_count; i++) {
        indexed_token *one = &index->ordered[i];

        index->place[one->token] = (uint32_t)i + 1;
        if (i == 0)
            continue;
        while (one->common < one->bytes && one->common < one[-1].bytes &&
               one->text[one->common] == one[-1].text[one->common])
            one->common++;
    }
    return index;
}

void token_index_destroy(token_index *index)
{
    if (index == NULL)
        return;
    free(index->ordered);
    free(index->place);
    free(index);
}

size_t token_index_count(const token_index *index)
{
    return index->count;
}

/* A mask, and whether it has a bit. */
typedef struct token_mask {
    bool any;
    uint64_t bits[];
} token_mask;

/* path: [longest + 1] states after 0, 1, 2 ... bytes of the token. Where a token's beginning is dead, all tokens with
 * that beginning are passed over. */
static void fill(const token_index *index, struct grammar *grammar, uint32_t *path, token_mask *mask)
{
    uint32_t known = 0;               /* path[0 .. known] belong to the last token that was followed */
    uint32_t shared = 0;              /* bytes that the current one has in common with it */
    uint32_t dead_bytes = UINT32_MAX; /* length of its shortest dead beginning */

    for (size_t i = 0; i < index->ordered_count; i++) {
        const indexed_token *one = &index->ordered[i];
        uint32_t at;

        shared = i == 0 ? 0 : one->common < shared ? one->common : shared;
        if (shared >= dead_bytes)
            continue;
        at = shared < known ? shared : known;
        while (at < one->bytes &&
               (path[at + 1] = grammar_next(grammar, path[at], (uint8_t)one->text[at])) != GRAMMAR_DEAD)
            at++;
        known = at;
        dead_bytes = at < one->bytes ? at + 1 : UINT32_MAX;
        shared = one->bytes;
        if (at == one->bytes) {
            mask->bits[one->token / 64] |= UINT64_C(1) << one->token % 64;
            mask->any = true;
        }
    }
}

const uint64_t *token_index_mask(const token_index *index, struct grammar *grammar, uint32_t state, bool *any)
{
    token_mask *mask = grammar_user(grammar, state);
    uint32_t *path;

    INLAY_CHECK(state != GRAMMAR_DEAD);
    if (mask == NULL) {
        path = malloc((index->longest + 1) * sizeof *path);
        mask = path != NULL ? calloc(1, sizeof *mask + (index->count / 64 + 1) * sizeof *mask->bits) : NULL;
        if (mask != NULL) {
            path[0] = state;
            fill(index, grammar, path, mask);
            grammar_set_user(grammar, state, mask);
        }
        free(path);
    }
    *any = mask != NULL && mask->any;
    return mask != NULL ? mask->bits : NULL;
}

uint32_t token_index_next(const token_index *index, struct grammar *grammar, uint32_t state, int64_t token)
{
    const indexed_token *one;

    if (token < 0 || (size_t)token >= index->count || index->place[token] == 0)
        return GRAMMAR_DEAD;
    one = &index->ordered[index->place[token] - 1];
    for (uint32_t i = 0; i < one->bytes && state != GRAMMAR_DEAD; i++)
        state = grammar_next(grammar, state, (uint8_t)one->text[i]);
    return state;
}
