/* bpe.c - byte-pair encoding: neighbours become one, those that were joined first in training first. */
#include "parts.h"

static size_t mix(uint32_t left, uint32_t right)
{
    uint64_t h = ((uint64_t)left << 32 | right) * UINT64_C(0x9e3779b97f4a7c15);

    return (size_t)(h >> 20);
}

static struct merge *find_merge(const struct model *m, uint32_t left, uint32_t right)
{
    size_t at = mix(left, right) & m->merge_mask;

    while (m->merges[at].rank != UINT32_MAX && (m->merges[at].left != left || m->merges[at].right != right))
        at = (at + 1) & m->merge_mask;
    return &m->merges[at];
}

bool model_room(struct model *m, size_t merges)
{
    size_t room = 16;

    while (room < 2 * merges + 2)
        room *= 2;
    m->merges = malloc(room * sizeof *m->merges);
    if (m->merges == NULL)
        return false;
    memset(m->merges, 0xff, room * sizeof *m->merges);
    m->merge_mask = room - 1;
    return true;
}

bool model_add_merge(struct model *m, size_t room, const char *left, size_t left_bytes, const char *right,
                     size_t right_bytes, uint32_t rank, bool *out_known)
{
    const size_t skip = strlen(m->prefix);
    const int64_t a = vocabulary_find(&m->words, left, left_bytes), b = vocabulary_find(&m->words, right, right_bytes);
    text_buf whole = { 0 };
    int64_t made;
    struct merge *at;

    (void)room;
    buf_put(&whole, left, left_bytes);
    if (skip > 0 && right_bytes >= skip && memcmp(right, m->prefix, skip) == 0)
        buf_put(&whole, right + skip, right_bytes - skip);
    else
        buf_put(&whole, right, right_bytes);
    if (whole.failed)
        return false;
    made = vocabulary_find(&m->words, whole.data, whole.count);
    free(whole.data);
    *out_known = a >= 0 && b >= 0 && made >= 0;
    if (!*out_known)
        return true;
    at = find_merge(m, (uint32_t)a, (uint32_t)b);
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
    const struct model *m;
    const char *text;
    struct symbol *list;
    struct pair *heap;
    size_t count, heap_count;
};

static bool is_first(const struct pair *a, const struct pair *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->left < b->left;
}

static void heap_push(struct joiner *j, const struct pair *p)
{
    size_t at = j->heap_count++;

    for (; at > 0 && is_first(p, &j->heap[(at - 1) / 2]); at = (at - 1) / 2)
        j->heap[at] = j->heap[(at - 1) / 2];
    j->heap[at] = *p;
}

static struct pair heap_pop(struct joiner *j)
{
    const struct pair top = j->heap[0], last = j->heap[--j->heap_count];
    size_t at = 0, child;

    while ((child = 2 * at + 1) < j->heap_count) {
        if (child + 1 < j->heap_count && is_first(&j->heap[child + 1], &j->heap[child]))
            child++;
        if (!is_first(&j->heap[child], &last))
            break;
        j->heap[at] = j->heap[child];
        at = child;
    }
    j->heap[at] = last;
    return top;
}

/* Puts the pair of a piece and the one behind it on the heap, where they may be joined. */
static void offer(struct joiner *j, int32_t left)
{
    const struct symbol *a = left >= 0 ? &j->list[left] : NULL,
                        *b = a != NULL && a->after >= 0 ? &j->list[a->after] : NULL;
    struct pair p = { .made = -1 };

    if (b == NULL)
        return;
    if (j->m->by_score) {
        p.made = vocabulary_find(&j->m->words, j->text + a->at, a->bytes + b->bytes);
        if (p.made >= 0 && j->m->words.words[p.made].special) /* a text that is called as a control token */
            p.made = -1;
        p.rank = p.made >= 0 ? -j->m->words.words[p.made].exact : 0;
    } else if (a->id >= 0 && b->id >= 0) {
        const struct merge *m = find_merge(j->m, (uint32_t)a->id, (uint32_t)b->id);

        p.made = m->rank != UINT32_MAX ? (int64_t)m->made : -1;
        p.rank = m->rank;
    }
    if (p.made < 0)
        return;
    p.left = left;
    p.right = a->after;
    p.left_id = a->id;
    p.right_id = b->id;
    heap_push(j, &p);
}

static void join_all(struct joiner *j)
{
    for (size_t i = 0; i + 1 < j->count; i++)
        offer(j, (int32_t)i);
    while (j->heap_count > 0) {
        const struct pair p = heap_pop(j);
        struct symbol *a = &j->list[p.left], *b = &j->list[p.right];

        if (a->bytes == 0 || b->bytes == 0 || a->after != p.right || a->id != p.left_id || b->id != p.right_id)
            continue; /* one of them has become another since */
        a->bytes += b->bytes;
        a->id = p.made;
        a->after = b->after;
        if (a->after >= 0)
            j->list[a->after].before = p.left;
        b->bytes = 0;
        offer(j, a->before);
        offer(j, p.left);
    }
}

/* The token of one character, with what its place in the word puts before or behind it; -1: none. */
static int64_t first_id(const struct model *m, const char *text, size_t size, bool first, bool last, text_buf *scratch)
{
    if ((first || m->prefix[0] == '\0') && (!last || m->suffix[0] == '\0'))
        return vocabulary_find(&m->words, text, size);
    scratch->count = 0;
    if (!first)
        buf_put(scratch, m->prefix, strlen(m->prefix));
    buf_put(scratch, text, size);
    if (last)
        buf_put(scratch, m->suffix, strlen(m->suffix));
    return scratch->failed ? -1 : vocabulary_find(&m->words, scratch->data, scratch->count);
}

/* Byte tokens stand for themselves from the start, so that they may be joined as in the files' own merges. */
static bool split(struct joiner *j, const char *text, size_t bytes)
{
    text_buf scratch = { 0 };
    size_t size;

    for (size_t at = 0; at < bytes; at += size) {
        struct symbol *s = &j->list[j->count];

        (void)char_at(text + at, &size);
        *s = (struct symbol){ first_id(j->m, text + at, size, at == 0, at + size >= bytes, &scratch), at, size,
                              (int32_t)j->count - 1, (int32_t)j->count + 1 };
        j->count++;
    }
    if (j->count > 0)
        j->list[j->count - 1].after = -1;
    free(scratch.data);
    return !scratch.failed;
}

static bool put_all(const struct joiner *j, text_ids *out)
{
    bool ok = true, unknown = false;

    for (int32_t i = j->count > 0 ? 0 : -1; ok && i >= 0; i = j->list[i].after) {
        const struct symbol *s = &j->list[i];

        if (s->id >= 0) {
            unknown = false;
            ok = ids_push(out, s->id);
        } else {
            ok = put_unknown(j->m, j->text + s->at, s->bytes, out, &unknown);
        }
    }
    return ok;
}

bool bpe_encode(const struct model *m, const char *text, size_t bytes, text_ids *out)
{
    const int64_t whole = m->whole_words ? vocabulary_find(&m->words, text, bytes) : -1;
    struct joiner j = { .m = m, .text = text };
    bool ok;

    if (whole >= 0)
        return ids_push(out, whole);
    if (bytes > INT32_MAX / 4)
        return false;
    j.list = malloc((bytes + 1) * sizeof *j.list);
    j.heap = malloc((3 * bytes + 1) * sizeof *j.heap);
    ok = j.list != NULL && j.heap != NULL && split(&j, text, bytes);
    if (ok) {
        join_all(&j);
        ok = put_all(&j, out);
    }
    free(j.list);
    free(j.heap);
    return ok;
}
