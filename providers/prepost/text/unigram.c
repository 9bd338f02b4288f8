/* unigram.c - the likeliest tokens of a text, by Viterbi's algorithm. */
#include "parts.h"

/* The best way to a place of the text: the last token on it, and where that begins. */
struct node {
    double score;
    size_t from;
    int64_t id;
    bool reached;
};

/* Which of two equal ways wins depends on rounding: SentencePiece keeps sums in single precision, the others in double.
 */
static void visit(const struct model *model, struct node *to, double score, size_t from, int64_t id)
{
    if (!to->reached || score > to->score)
        *to = (struct node){ model->single ? (double)(float)score : score, from, id, true };
}

static void forward(const struct model *model, const char *text, size_t bytes, struct node *nodes)
{
    size_t size;

    nodes[0].reached = true;
    for (size_t at = 0; at < bytes; at += size) {
        const size_t most = bytes - at < model->words.longest ? bytes - at : model->words.longest;
        uint32_t hash = HASH_START;
        bool single = false;

        (void)char_at(text + at, &size);
        for (size_t n = 1; n <= most; n++) {
            int64_t id;

            hash = hash_more(hash, (unsigned char)text[at + n - 1]);
            if (at + n < bytes && ((unsigned char)text[at + n] & 0xc0) == 0x80)
                continue;
            id = vocabulary_find_hashed(&model->words, hash, text + at, n);
            if (id < 0 || id == model->unknown || model->words.words[id].special)
                continue;
            visit(model, &nodes[at + n], nodes[at].score + model->words.words[id].exact, at, id);
            single |= n == size;
        }
        if (!single) {
            const double score = nodes[at].score + model->least_score;

            visit(model, &nodes[at + size], model->single ? (double)(float)score : score, at, -1);
        }
    }
}

bool unigram_encode(const struct model *model, const char *text, size_t bytes, text_ids *out)
{
    struct node *nodes = calloc(bytes + 1, sizeof *nodes);
    size_t at = bytes, next = SIZE_MAX;
    bool ok = true, unknown = false;

    if (nodes == NULL)
        return false;
    forward(model, text, bytes, nodes);
    while (at > 0) { /* turn the way around: from then says where a token ends */
        const size_t from = nodes[at].from;

        nodes[at].from = next;
        next = at;
        at = from;
    }
    for (; ok && next != SIZE_MAX; next = nodes[next].from) {
        if (nodes[next].id >= 0) {
            ok = ids_push(out, nodes[next].id);
            unknown = false;
        } else {
            size_t end = next;

            /* Unknown characters in a row are one, which then falls back to bytes or does not. */
            while (nodes[end].from != SIZE_MAX && nodes[nodes[end].from].id < 0)
                end = nodes[end].from;
            ok = put_unknown(model, text + at, end - at, out, &unknown);
            next = end;
        }
        at = next;
    }
    free(nodes);
    return ok;
}
