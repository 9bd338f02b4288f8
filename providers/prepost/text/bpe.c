/* bpe.c - byte-pair encoding: merges adjacent symbols, in the order in which training learnt the merges. */
#include "prepost/text/tokenizer_parts.h"
#include "inlay/check.h"

static size_t mix(uint32_t left, uint32_t right)
{
    const uint64_t hash = ((uint64_t)left << 32 | right) * UINT64_C(0x9e3779b97f4a7c15);

    return (size_t)(hash >> 20);
}

static struct merge *find_merge(const struct model *model, uint32_t left, uint32_t right)
{
    size_t at = mix(left, right) & model->merge_mask;

    INLAY_CHECK(model->merges != NULL && (model->merge_mask & (model->merge_mask + 1)) == 0);
    while (model->merges[at].rank != UINT32_MAX && (model->merges[at].left != left || model->merges[at].right != right))
        at = (at + 1) & model->merge_mask;
    return &model->merges[at];
}

bool model_reserve_merges(struct model *model, size_t merges)
{
    size_t room = 16;

    INLAY_CHECK(model->merges == NULL);
    while (room < 2 * merges + 2)
        room *= 2;
    model->merges = malloc(room * sizeof *model->merges);
    if (model->merges == NULL)
        return false;
    memset(model->merges, 0xff, room * sizeof *model->merges);
    model->merge_mask = room - 1;
    return true;
}

bool model_add_merge(struct model *model, const char *left, size_t left_bytes, const char *right, size_t right_bytes,
                     uint32_t rank, bool *out_known)
{
    const size_t skip = strlen(model->prefix);
    const int64_t a = vocabulary_find(&model->vocabulary, left, left_bytes),
                  b = vocabulary_find(&model->vocabulary, right, right_bytes);
    text_buf whole = { 0 };
    int64_t made;
    struct merge *at;

    INLAY_CHECK(rank != UINT32_MAX); /* UINT32_MAX marks a free entry of the table */
    buf_append(&whole, left, left_bytes);
    if (skip > 0 && right_bytes >= skip && memcmp(right, model->prefix, skip) == 0)
        buf_append(&whole, right + skip, right_bytes - skip);
    else
        buf_append(&whole, right, right_bytes);
    if (whole.failed) {
        free(whole.data);
        return false;
    }
    made = vocabulary_find(&model->vocabulary, whole.data, whole.count);
    free(whole.data);
    *out_known = a >= 0 && b >= 0 && made >= 0;
    if (!*out_known)
        return true;
    at = find_merge(model, (uint32_t)a, (uint32_t)b);
    *at = (struct merge){ (uint32_t)a, (uint32_t)b, (uint32_t)made, rank }; /* of two equal merges the last counts */
    return true;
}

/* A symbol of the word, in a doubly linked list. id is -1 where no token has its characters. A symbol that was merged
 * into its left neighbour has no bytes. */
struct symbol {
    int64_t id;
    size_t at, bytes;
    int32_t before, after; /* -1: none */
};

/* Two neighbours that may be merged. The pair is stale if one of the two symbols has changed its id since the pair was
 * pushed. */
struct pair {
    double rank; /* the lowest is merged first; of equal ranks the leftmost pair */
    int32_t left, right;
    int64_t left_id, right_id, merged;
};

struct merger {
    const struct model *model;
    const char *text;
    struct symbol *list; /* [count] */
    struct pair *heap;   /* [heap_count], with room for three pairs a symbol */
    size_t count, heap_count;
};

static bool is_first(const struct pair *a, const struct pair *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->left < b->left;
}

static void heap_push(struct merger *merger, const struct pair *pair)
{
    size_t at = merger->heap_count++;

    INLAY_CHECK(merger->heap_count <= 3 * merger->count);
    for (; at > 0 && is_first(pair, &merger->heap[(at - 1) / 2]); at = (at - 1) / 2)
        merger->heap[at] = merger->heap[(at - 1) / 2];
    merger->heap[at] = *pair;
}

static struct pair heap_pop(struct merger *merger)
{
    const struct pair top = merger->heap[0], last = merger->heap[--merger->heap_count];
    size_t at = 0, child;

    while ((child = 2 * at + 1) < merger->heap_count) {
        if (child + 1 < merger->heap_count && is_first(&merger->heap[child + 1], &merger->heap[child]))
            child++;
        if (!is_first(&merger->heap[child], &last))
            break;
        merger->heap[at] = merger->heap[child];
        at = child;
    }
    merger->heap[at] = last;
    return top;
}

/* Pushes the pair of symbol `left` and its right neighbour onto the heap if they may be merged. */
static void push_pair(struct merger *merger, int32_t left)
{
    const struct symbol *a = left >= 0 ? &merger->list[left] : NULL,
                        *b = a != NULL && a->after >= 0 ? &merger->list[a->after] : NULL;
    struct pair pair = { .merged = -1 };

    INLAY_CHECK(left < (int32_t)merger->count);
    if (b == NULL)
        return;
    INLAY_CHECK(a->bytes > 0 && a->at + a->bytes <= b->at);
    if (merger->model->merge_by_score) {
        INLAY_CHECK(a->at + a->bytes == b->at);
        pair.merged = vocabulary_find(&merger->model->vocabulary, merger->text + a->at, a->bytes + b->bytes);
        if (pair.merged >= 0 &&
            merger->model->vocabulary.tokens[pair.merged].special) /* text never becomes a control token */
            pair.merged = -1;
        pair.rank = pair.merged >= 0 ? -merger->model->vocabulary.tokens[pair.merged].score : 0;
    } else if (a->id >= 0 && b->id >= 0) {
        const struct merge *merge = find_merge(merger->model, (uint32_t)a->id, (uint32_t)b->id);

        pair.merged = merge->rank != UINT32_MAX ? (int64_t)merge->merged : -1;
        pair.rank = merge->rank;
    }
    if (pair.merged < 0)
        return;
    pair.left = left;
    pair.right = a->after;
    pair.left_id = a->id;
    pair.right_id = b->id;
    heap_push(merger, &pair);
}

static void merge_all(struct merger *merger)
{
    for (size_t i = 0; i + 1 < merger->count; i++)
        push_pair(merger, (int32_t)i);
    while (merger->heap_count > 0) {
        const struct pair pair = heap_pop(merger);
        struct symbol *a = &merger->list[pair.left], *b = &merger->list[pair.right];

        INLAY_CHECK(pair.left < pair.right && pair.merged >= 0);
        if (a->bytes == 0 || b->bytes == 0 || a->after != pair.right || a->id != pair.left_id || b->id != pair.right_id)
            continue; /* stale: one of them was merged after the pair was pushed */
        a->bytes += b->bytes;
        a->id = pair.merged;
        a->after = b->after;
        if (a->after >= 0)
            merger->list[a->after].before = pair.left;
        b->bytes = 0;
        push_pair(merger, a->before);
        push_pair(merger, pair.left);
    }
}

/* The token of one character of a word; -1 if there is none. The text of the token is the model's prefix, unless the
 * character is the first, the character, and the model's suffix if the character is the last. */
static int64_t first_id(const struct model *model, const char *text, size_t size, bool first, bool last,
                        text_buf *scratch)
{
    if ((first || model->prefix[0] == '\0') && (!last || model->suffix[0] == '\0'))
        return vocabulary_find(&model->vocabulary, text, size);
    scratch->count = 0;
    if (!first)
        buf_append(scratch, model->prefix, strlen(model->prefix));
    buf_append(scratch, text, size);
    if (last)
        buf_append(scratch, model->suffix, strlen(model->suffix));
    return scratch->failed ? -1 : vocabulary_find(&model->vocabulary, scratch->data, scratch->count);
}

static void add_symbol(struct merger *merger, int64_t id, size_t at, size_t bytes)
{
    INLAY_CHECK(merger->count <= at); /* the list has room for a symbol each byte */
    merger->list[merger->count] =
        (struct symbol){ id, at, bytes, (int32_t)merger->count - 1, (int32_t)merger->count + 1 };
    merger->count++;
}

/* Adds a character without a token, as the library `tokenizers` does: as its byte tokens, which may be merged like
 * others; else as one unknown token; without that it is left out, and its neighbours may be merged. */
static void add_unknown(struct merger *merger, size_t at, size_t bytes)
{
    const struct model *model = merger->model;
    bool all = model->byte_fallback && !model->merge_by_score;

    for (size_t i = 0; all && i < bytes; i++)
        all = model->byte_ids[(unsigned char)merger->text[at + i]] >= 0;
    for (size_t i = 0; all && i < bytes; i++)
        add_symbol(merger, model->byte_ids[(unsigned char)merger->text[at + i]], at + i, 1);
    if (!all && (model->unknown_id >= 0 || model->merge_by_score))
        add_symbol(merger, -1, at, bytes);
}

/* The initial symbols: one for each character, with the token of that character. */
static bool split(struct merger *merger, const char *text, size_t bytes)
{
    text_buf scratch = { 0 };
    size_t size;

    for (size_t at = 0; at < bytes; at += size) {
        int64_t id;

        (void)char_at(text + at, &size);
        id = first_id(merger->model, text + at, size, at == 0, at + size >= bytes, &scratch);
        if (id >= 0)
            add_symbol(merger, id, at, size);
        else
            add_unknown(merger, at, size);
    }
    if (merger->count > 0)
        merger->list[merger->count - 1].after = -1;
    free(scratch.data);
    return !scratch.failed;
}

static bool put_all(const struct merger *merger, text_ids *out)
{
    bool ok = true, unknown = false;

    for (int32_t i = merger->count > 0 ? 0 : -1; ok && i >= 0; i = merger->list[i].after) {
        const struct symbol *symbol = &merger->list[i];

        if (symbol->id >= 0) {
            unknown = false;
            ok = ids_push(out, symbol->id);
        } else {
            ok = append_unknown(merger->model, merger->text + symbol->at, symbol->bytes, out, &unknown);
        }
    }
    return ok;
}

bool bpe_encode(const struct model *model, const char *text, size_t bytes, text_ids *out)
{
    const int64_t whole = model->ignore_merges ? vocabulary_find(&model->vocabulary, text, bytes) : -1;
    struct merger merger = { .model = model, .text = text };
    bool ok;

    INLAY_CHECK(model->kind == MODEL_BPE && (model->merge_by_score || model->merges != NULL));
    if (whole >= 0)
        return ids_push(out, whole);
    if (bytes > INT32_MAX / 4)
        return false;
    merger.list = malloc((bytes + 1) * sizeof *merger.list);
    merger.heap = malloc((3 * bytes + 1) * sizeof *merger.heap);
    ok = merger.list != NULL && merger.heap != NULL && split(&merger, text, bytes);
    if (ok) {
        merge_all(&merger);
        ok = put_all(&merger, out);
    }
    free(merger.list);
    free(merger.heap);
    return ok;
}
