/* bpe.c - byte-pair encoding: neighbours become one, those that were joined first in training first. */
#include "parts.h"

static size_t mix(uint32_t left, uint32_t right)
{
    uint64_t h = ((uint64_t)left << 32 | right) * UINT64_C(0x9e3779b97f4a7c15);

    return (size_t)(h >> 20);
}

static struct merge *find_merge(const struct model *model, uint32_t left, uint32_t right)
{
    size_t at = mix(left, right) & model->merge_mask;

    while (model->merges[at].rank != UINT32_MAX && (model->merges[at].left != left || model->merges[at].right != right))
        at = (at + 1) & model->merge_mask;
    return &model->merges[at];
}

bool model_room(struct model *model, size_t merges)
{
    size_t room = 16;

    while (room < 2 * merges + 2)
        room *= 2;
    model->merges = malloc(room * sizeof *model->merges);
    if (model->merges == NULL)
        return false;
    memset(model->merges, 0xff, room * sizeof *model->merges);
    model->merge_mask = room - 1;
    return true;
}

bool model_add_merge(struct model *model, size_t room, const char *left, size_t left_bytes, const char *right,
                     size_t right_bytes, uint32_t rank, bool *out_known)
{
    const size_t skip = strlen(model->prefix);
    const int64_t a = vocabulary_find(&model->words, left, left_bytes),
                  b = vocabulary_find(&model->words, right, right_bytes);
    text_buf whole = { 0 };
    int64_t made;
    struct merge *at;

    (void)room;
    buf_put(&whole, left, left_bytes);
    if (skip > 0 && right_bytes >= skip && memcmp(right, model->prefix, skip) == 0)
        buf_put(&whole, right + skip, right_bytes - skip);
    else
        buf_put(&whole, right, right_bytes);
    if (whole.failed)
        return false;
    made = vocabulary_find(&model->words, whole.data, whole.count);
    free(whole.data);
    *out_known = a >= 0 && b >= 0 && made >= 0;
    if (!*out_known)
        return true;
    at = find_merge(model, (uint32_t)a, (uint32_t)b);
    if (at->rank == UINT32_MAX)
        *at = (struct merge){ (uint32_t)a, (uint32_t)b, (uint32_t)made, rank };
    return true;
}

/* ------------------------------------------------------------------ joining */

/* A piece of the word, in a list. id -1: characters that no token is. */
struct symbol {
    int64_t id;
    size_t at, bytes;
    int32_t before, after; /* -1: none */
};

/* Two neighbours that may become one: made of pieces as they were then. */
struct pair {
    double rank; /* the least is joined first; of equals the leftmost */
    int32_t left, right;
    int64_t left_id, right_id, made;
};

struct joiner {
    const struct model *model;
    const char *text;
    struct symbol *list;
    struct pair *heap;
    size_t count, heap_count;
};

static bool is_first(const struct pair *a, const struct pair *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->left < b->left;
}

static void heap_push(struct joiner *joiner, const struct pair *pair)
{
    size_t at = joiner->heap_count++;

    for (; at > 0 && is_first(pair, &joiner->heap[(at - 1) / 2]); at = (at - 1) / 2)
        joiner->heap[at] = joiner->heap[(at - 1) / 2];
    joiner->heap[at] = *pair;
}

static struct pair heap_pop(struct joiner *joiner)
{
    const struct pair top = joiner->heap[0], last = joiner->heap[--joiner->heap_count];
    size_t at = 0, child;

    while ((child = 2 * at + 1) < joiner->heap_count) {
        if (child + 1 < joiner->heap_count && is_first(&joiner->heap[child + 1], &joiner->heap[child]))
            child++;
        if (!is_first(&joiner->heap[child], &last))
            break;
        joiner->heap[at] = joiner->heap[child];
        at = child;
    }
    joiner->heap[at] = last;
    return top;
}

/* Puts the pair of a piece and the one behind it on the heap, where they may be joined. */
static void offer(struct joiner *joiner, int32_t left)
{
    const struct symbol *a = left >= 0 ? &joiner->list[left] : NULL,
                        *b = a != NULL && a->after >= 0 ? &joiner->list[a->after] : NULL;
    struct pair pair = { .made = -1 };

    if (b == NULL)
        return;
    if (joiner->model->by_score) {
        pair.made = vocabulary_find(&joiner->model->words, joiner->text + a->at, a->bytes + b->bytes);
        if (pair.made >= 0 &&
            joiner->model->words.words[pair.made].special) /* a text that is called as a control token */
            pair.made = -1;
        pair.rank = pair.made >= 0 ? -joiner->model->words.words[pair.made].exact : 0;
    } else if (a->id >= 0 && b->id >= 0) {
        const struct merge *merge = find_merge(joiner->model, (uint32_t)a->id, (uint32_t)b->id);

        pair.made = merge->rank != UINT32_MAX ? (int64_t)merge->made : -1;
        pair.rank = merge->rank;
    }
    if (pair.made < 0)
        return;
    pair.left = left;
    pair.right = a->after;
    pair.left_id = a->id;
    pair.right_id = b->id;
    heap_push(joiner, &pair);
}

static void join_all(struct joiner *joiner)
{
    for (size_t i = 0; i + 1 < joiner->count; i++)
        offer(joiner, (int32_t)i);
    while (joiner->heap_count > 0) {
        const struct pair pair = heap_pop(joiner);
        struct symbol *a = &joiner->list[pair.left], *b = &joiner->list[pair.right];

        if (a->bytes == 0 || b->bytes == 0 || a->after != pair.right || a->id != pair.left_id || b->id != pair.right_id)
            continue; /* one of them has become another since */
        a->bytes += b->bytes;
        a->id = pair.made;
        a->after = b->after;
        if (a->after >= 0)
            joiner->list[a->after].before = pair.left;
        b->bytes = 0;
        offer(joiner, a->before);
        offer(joiner, pair.left);
    }
}

/* The token of one character, with what its place in the word puts before or behind it; -1: none. */
static int64_t first_id(const struct model *model, const char *text, size_t size, bool first, bool last,
                        text_buf *scratch)
{
    if ((first || model->prefix[0] == '\0') && (!last || model->suffix[0] == '\0'))
        return vocabulary_find(&model->words, text, size);
    scratch->count = 0;
    if (!first)
        buf_put(scratch, model->prefix, strlen(model->prefix));
    buf_put(scratch, text, size);
    if (last)
        buf_put(scratch, model->suffix, strlen(model->suffix));
    return scratch->failed ? -1 : vocabulary_find(&model->words, scratch->data, scratch->count);
}

/* Byte tokens stand for themselves from the start, so that they may be joined as in the files' own merges. */
static bool split(struct joiner *joiner, const char *text, size_t bytes)
{
    text_buf scratch = { 0 };
    size_t size;

    for (size_t at = 0; at < bytes; at += size) {
        struct symbol *symbol = &joiner->list[joiner->count];

        (void)char_at(text + at, &size);
        *symbol = (struct symbol){ first_id(joiner->model, text + at, size, at == 0, at + size >= bytes, &scratch), at,
                                   size, (int32_t)joiner->count - 1, (int32_t)joiner->count + 1 };
        joiner->count++;
    }
    if (joiner->count > 0)
        joiner->list[joiner->count - 1].after = -1;
    free(scratch.data);
    return !scratch.failed;
}

static bool put_all(const struct joiner *joiner, text_ids *out)
{
    bool ok = true, unknown = false;

    for (int32_t i = joiner->count > 0 ? 0 : -1; ok && i >= 0; i = joiner->list[i].after) {
        const struct symbol *symbol = &joiner->list[i];

        if (symbol->id >= 0) {
            unknown = false;
            ok = ids_push(out, symbol->id);
        } else {
            ok = put_unknown(joiner->model, joiner->text + symbol->at, symbol->bytes, out, &unknown);
        }
    }
    return ok;
}

bool bpe_encode(const struct model *model, const char *text, size_t bytes, text_ids *out)
{
    const int64_t whole = model->whole_words ? vocabulary_find(&model->words, text, bytes) : -1;
    struct joiner joiner = { .model = model, .text = text };
    bool ok;

    if (whole >= 0)
        return ids_push(out, whole);
    if (bytes > INT32_MAX / 4)
        return false;
    joiner.list = malloc((bytes + 1) * sizeof *joiner.list);
    joiner.heap = malloc((3 * bytes + 1) * sizeof *joiner.heap);
    ok = joiner.list != NULL && joiner.heap != NULL && split(&joiner, text, bytes);
    if (ok) {
        join_all(&joiner);
        ok = put_all(&joiner, out);
    }
    free(joiner.list);
    free(joiner.heap);
    return ok;
}
