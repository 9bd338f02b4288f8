/* unigram.c - the most probable segmentation of a text into tokens, by the Viterbi algorithm. */
#include "prepost/text/tokenizer_parts.h"
#include "inlay/check.h"

/* The best segmentation up to a byte of the text: its score, its last token and the byte where that token begins. */
struct node {
    double score;
    size_t from;
    int64_t id;
    bool reached;
};

/* Rounding decides between two segmentations of equal score: SentencePiece adds scores in single precision, Hugging
 * Face's tokenizers add them in double precision. */
static void relax(const struct model *model, struct node *to, double score, size_t from, int64_t id)
{
    if (!to->reached || score > to->score)
        *to = (struct node){ model->single_precision ? (double)(float)score : score, from, id, true };
}

static void forward(const struct model *model, const char *text, size_t bytes, struct node *nodes)
{
    size_t size;

    nodes[0].reached = true;
    for (size_t at = 0; at < bytes; at += size) {
        const size_t most = bytes - at < model->vocabulary.longest ? bytes - at : model->vocabulary.longest;
        uint32_t hash = HASH_START;
        bool single = false;

        (void)char_at(text + at, &size);
        INLAY_CHECK(nodes[at].reached && at + size <= bytes);
        for (size_t n = 1; n <= most; n++) {
            int64_t id;

            hash = hash_more(hash, (unsigned char)text[at + n - 1]);
            if (at + n < bytes && ((unsigned char)text[at + n] & 0xc0) == 0x80)
                continue;
            id = vocabulary_find_hashed(&model->vocabulary, hash, text + at, n);
            if (id < 0 || id == model->unknown_id || model->vocabulary.tokens[id].special)
                continue;
            relax(model, &nodes[at + n], nodes[at].score + model->vocabulary.tokens[id].score, at, id);
            single |= n == size;
        }
        if (!single) {
            const double score = nodes[at].score + model->unknown_score;

            relax(model, &nodes[at + size], model->single_precision ? (double)(float)score : score, at, -1);
        }
    }
}

bool unigram_encode(const struct model *model, const char *text, size_t bytes, text_ids *out)
{
    struct node *nodes = calloc(bytes + 1, sizeof *nodes);
    size_t at = bytes, next = SIZE_MAX;
    bool ok = true, unknown = false;

    INLAY_CHECK(model->kind == MODEL_UNIGRAM);
    if (nodes == NULL)
        return false;
    forward(model, text, bytes, nodes);
    while (at > 0) { /* reverse the links: from now on, `from` of a token's end is the end of the next token */
        const size_t from = nodes[at].from;

        INLAY_CHECK(nodes[at].reached && from < at);
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

            /* Adjacent unknown characters become one unknown token, or their bytes become byte tokens. */
            while (nodes[end].from != SIZE_MAX && nodes[nodes[end].from].id < 0)
                end = nodes[end].from;
            ok = append_unknown(model, text + at, end - at, out, &unknown);
            next = end;
        }
        at = next;
    }
    free(nodes);
    return ok;
}
