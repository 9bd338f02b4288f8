#include "texts/grammar/grammar_tokens.h"
#include "inlay/check.h"
#include "texts/grammar/token_cover.h"
#include <stdlib.h>
#include <string.h>

struct token_index {
    size_t count;      /* tokens of the vocabulary */
    token_order order; /* those with a text */
    uint32_t *place;   /* [count] 1 + index in `order`; 0: none */
    uint32_t longest;  /* bytes of a token */
    struct token_covers *covers;
};

static int by_bytes(const void *left, const void *right)
{
    const ordered_token *a = left, *b = right;
    int order = memcmp(a->text, b->text, a->bytes < b->bytes ? a->bytes : b->bytes);

    return order != 0 ? order : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

token_index *token_index_create(token_bytes_fn bytes_of, const void *user, size_t count)
{
    token_index *index = calloc(1, sizeof *index);

    if (index != NULL) {
        index->order.tokens = malloc((count + 1) * sizeof *index->order.tokens);
        index->place = calloc(count + 1, sizeof *index->place);
        index->covers = token_covers_create(&index->order, count);
    }
    if (index == NULL || index->order.tokens == NULL || index->place == NULL || index->covers == NULL) {
        token_index_destroy(index);
        return NULL;
    }
    index->count = count;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = 0;
        const char *text = bytes_of(user, (int64_t)i, &bytes);

        if (text == NULL || bytes == 0)
            continue;
        index->order.tokens[index->order.count++] =
            (ordered_token){ .text = text, .bytes = (uint32_t)bytes, .token = (uint32_t)i };
        if (bytes > index->longest)
            index->longest = (uint32_t)bytes;
    }
    qsort(index->order.tokens, index->order.count, sizeof *index->order.tokens, by_bytes);
    token_order_link(&index->order);
    for (uint32_t i = 0; i < index->order.count; i++)
        index->place[index->order.tokens[i].token] = i + 1;
    return index;
}

void token_index_destroy(token_index *index)
{
    if (index == NULL)
        return;
    token_covers_destroy(index->covers);
    free(index->order.tokens);
    free(index->place);
    free(index);
}

size_t token_index_count(const token_index *index)
{
    return index->count;
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
            if (!token_covers_walk(index->covers, grammar, path, mask))
                token_order_walk(&index->order, grammar, path, mask);
            grammar_set_user(grammar, state, mask);
        }
        free(path);
    }
    *any = mask != NULL && mask->any;
    return mask != NULL ? mask->bits : NULL;
}

uint32_t token_index_next(const token_index *index, struct grammar *grammar, uint32_t state, int64_t token)
{
    const ordered_token *one;

    if (token < 0 || (size_t)token >= index->count || index->place[token] == 0)
        return GRAMMAR_DEAD;
    one = &index->order.tokens[index->place[token] - 1];
    for (uint32_t i = 0; i < one->bytes && state != GRAMMAR_DEAD; i++)
        state = grammar_next(grammar, state, (uint8_t)one->text[i]);
    return state;
}
