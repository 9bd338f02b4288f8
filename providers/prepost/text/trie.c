/* trie.c - onnxruntime-extensions' TrieTokenizer and TrieDetokenizer, with the vocabulary of RWKV models: each line has
 * an id, the text as a Python literal, and its length in bytes. */
#include "prepost/text/tokens.h"
#include "inlay/check.h"
#include <stdlib.h>

struct entry {
    const char *text;
    size_t bytes;
    int64_t id;
};
struct trie {
    struct entry *list;     /* [count] sorted by text */
    uint32_t *index_of_id;  /* [id_limit] index of the entry + 1, by id; 0 if none */
    size_t count, id_limit; /* id_limit: 1 + the largest id */
    char *texts;            /* the entries point into it */
};

static void release(void *state)
{
    struct trie *trie = state;

    if (trie != NULL) {
        free(trie->list);
        free(trie->index_of_id);
        free(trie->texts);
    }
    free(trie);
}

static int digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static size_t put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (char)(0xc0 | c >> 6);
        to[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        to[0] = (char)(0xe0 | c >> 12);
        to[1] = (char)(0x80 | (c >> 6 & 0x3f));
        to[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    to[0] = (char)(0xf0 | (c >> 18 & 7));
    to[1] = (char)(0x80 | (c >> 12 & 0x3f));
    to[2] = (char)(0x80 | (c >> 6 & 0x3f));
    to[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* Reads Python's repr() of a str or of bytes: 'a\n', "it's", b'\xff'. Writes at most as many bytes as it reads; false
 * if the text is not such a literal. */
static bool read_python_literal(const char *from, size_t bytes, char *to, size_t *out_bytes)
{
    const bool raw = bytes > 0 && from[0] == 'b';
    const char *end = from + bytes - 1;
    size_t count = 0;

    from += raw;
    if (from >= end || (*from != '\'' && *from != '"') || *end != *from)
        return false;
    for (from++; from < end; from++) {
        static const char names[] = "nrt0ab\\'\"", values[] = "\n\r\t\0\a\b\\'\"";
        const char *name;
        uint32_t c = 0;
        int digits;

        if (*from != '\\') {
            to[count++] = *from;
            continue;
        }
        if (++from == end)
            return false;
        name = memchr(names, *from, sizeof names - 1);
        if (name != NULL) {
            to[count++] = values[name - names];
            continue;
        }
        digits = *from == 'x' ? 2 : *from == 'u' ? 4 : *from == 'U' ? 8 : 0;
        if (digits == 0 || end - from <= digits)
            return false;
        for (int i = 0; i < digits; i++) {
            if (digit(*++from) < 0)
                return false;
            c = c << 4 | (uint32_t)digit(*from);
        }
        if (c > 0x10ffff)
            return false;
        if (raw)
            to[count++] = (char)c;
        else
            count += put_utf8(to + count, c);
    }
    INLAY_CHECK(count <= bytes);
    *out_bytes = count;
    return true;
}

/* Reads one line of the vocabulary; false if it is not valid. */
static bool read_line(const char *line, size_t bytes, char *to, struct entry *out)
{
    const char *first = memchr(line, ' ', bytes), *last = line + bytes;
    size_t length = 0;

    while (last > line && last[-1] != ' ')
        last--;
    if (first == NULL || last <= first + 1)
        return false;
    out->id = 0;
    for (const char *c = line; c < first; c++) {
        if (digit(*c) < 0 || digit(*c) > 9 || out->id > INT32_MAX / 16)
            return false;
        out->id = out->id * 10 + digit(*c);
    }
    for (const char *c = last; c < line + bytes; c++) {
        if (digit(*c) < 0 || digit(*c) > 9 || length > 1 << 20)
            return false;
        length = length * 10 + (size_t)digit(*c);
    }
    out->text = to;
    return out->id > 0 && read_python_literal(first + 1, (size_t)(last - 1 - first - 1), to, &out->bytes) &&
           out->bytes == length && length > 0;
}

static int by_text(const void *pa, const void *pb)
{
    const struct entry *a = pa, *b = pb;
    const int order = memcmp(a->text, b->text, a->bytes < b->bytes ? a->bytes : b->bytes);

    return order != 0 ? order : a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

static inlay_status read_words(struct trie *trie, inlay_str vocab, inlay_diag *diag)
{
    size_t used = 0;

    for (uint64_t at = 0, number = 1; at < vocab.bytes; number++) {
        const char *end = memchr(vocab.data + at, '\n', vocab.bytes - at);
        uint64_t bytes = end != NULL ? (uint64_t)(end - vocab.data) - at : vocab.bytes - at;
        const uint64_t next = at + bytes + 1;

        if (bytes > 0 && vocab.data[at + bytes - 1] == '\r')
            bytes--;
        if (bytes > 0 && !read_line(vocab.data + at, bytes, trie->texts + used, &trie->list[trie->count]))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "vocab, line %llu: expected an id from 1, a text in quotes, and its length in bytes",
                              (unsigned long long)number);
        if (bytes > 0) {
            used += trie->list[trie->count].bytes;
            INLAY_CHECK(used <= at + bytes); /* texts has the size of vocab */
            trie->id_limit = (size_t)trie->list[trie->count].id >= trie->id_limit
                                 ? (size_t)trie->list[trie->count].id + 1
                                 : trie->id_limit;
            trie->count++;
        }
        at = next;
    }
    return trie->count > 0 ? INLAY_OK : inlay_fail(diag, INLAY_INVALID_ARGUMENT, "vocab has no tokens");
}

static inlay_status prepare_trie(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const inlay_str vocab = tokens_attr(node->info, "vocab");
    struct trie *trie = calloc(1, sizeof *trie);
    uint64_t lines = 1;
    inlay_status status = INLAY_OK;

    for (uint64_t i = 0; i < vocab.bytes; i++)
        lines += vocab.data[i] == '\n';
    if (trie != NULL) {
        trie->list = calloc(lines, sizeof *trie->list);
        trie->texts = malloc(vocab.bytes + 1);
    }
    if (trie == NULL || trie->list == NULL || trie->texts == NULL)
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a vocabulary");
    if (status == INLAY_OK)
        status = read_words(trie, vocab, diag);
    if (status == INLAY_OK) {
        qsort(trie->list, trie->count, sizeof *trie->list, by_text);
        trie->index_of_id = calloc(trie->id_limit, sizeof *trie->index_of_id);
        if (trie->index_of_id == NULL)
            status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a vocabulary");
    }
    for (size_t i = 0; status == INLAY_OK && i < trie->count; i++) {
        INLAY_CHECK(trie->list[i].id > 0 && (size_t)trie->list[i].id < trie->id_limit);
        trie->index_of_id[trie->list[i].id] = (uint32_t)i + 1;
    }
    if (status != INLAY_OK) {
        release(trie);
        return status;
    }
    *out_state = trie;
    return INLAY_OK;
}

/* The entries [low, high) have the same first `depth` bytes. Returns the index of the first entry whose next byte is at
 * least `byte`; `high` if there is none. */
static size_t lower_bound(const struct trie *trie, size_t low, size_t high, size_t depth, int byte)
{
    INLAY_CHECK(low <= high && high <= trie->count);
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct entry *entry = &trie->list[middle];

        if (entry->bytes > depth && (unsigned char)entry->text[depth] >= byte)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The longest token at the start of the text; NULL if there is none. */
static const struct entry *longest(const struct trie *trie, const char *text, uint64_t bytes)
{
    const struct entry *best = NULL;
    size_t low = 0, high = trie->count;

    for (size_t depth = 0; depth < bytes && low < high; depth++) {
        const int byte = (unsigned char)text[depth];

        low = lower_bound(trie, low, high, depth, byte);
        high = lower_bound(trie, low, high, depth, byte + 1);
        if (low < high && trie->list[low].bytes == depth + 1)
            best = &trie->list[low];
    }
    return best;
}

static inlay_status push(const kit_call *call, text_ids *ids, int64_t id)
{
    if (ids->count == ids->room) {
        int64_t *more = realloc(ids->list, (ids->room * 2 + 64) * sizeof *more);

        if (more == NULL)
            return inlay_fail(call->diag, INLAY_OUT_OF_MEMORY, "no memory for tokens");
        ids->list = more;
        ids->room = ids->room * 2 + 64;
    }
    ids->list[ids->count++] = id;
    return INLAY_OK;
}

static inlay_status run_trie_tokenizer(const kit_call *call)
{
    const struct trie *trie = call->state;
    const kit_tensor *input = &call->in[0];
    token_lists lists = { .count = (size_t)input->count,
                          .starts = calloc((size_t)input->count + 1, sizeof *lists.starts) };
    int64_t dims[9];
    inlay_status status = INLAY_OK;

    if (lists.starts == NULL)
        return inlay_fail(call->diag, INLAY_OUT_OF_MEMORY, "no memory for tokens");
    for (size_t i = 0; i < lists.count; i++) {
        const inlay_str text = ((const inlay_str *)input->data)[i];

        INLAY_TRY(kit_poll(call));
        for (uint64_t at = 0; at < text.bytes;) {
            const struct entry *entry = longest(trie, text.data + at, text.bytes - at);

            if (entry == NULL) {
                status = inlay_fail(call->diag, INLAY_INVALID_ARGUMENT,
                                    "TrieTokenizer: the vocabulary has no token for the byte 0x%02x",
                                    (unsigned char)text.data[at]);
                goto done;
            }
            INLAY_CHECK(entry->bytes > 0 && entry->bytes <= text.bytes - at);
            INLAY_TRY(push(call, &lists.ids, entry->id));
            at += entry->bytes;
        }
        lists.starts[i + 1] = lists.ids.count;
        lists.longest = lists.starts[i + 1] - lists.starts[i] > lists.longest ? lists.starts[i + 1] - lists.starts[i]
                                                                              : lists.longest;
    }
    if (input->rank > 8) {
        status = inlay_fail(call->diag, INLAY_UNSUPPORTED, "TrieTokenizer: the rank is above the limit of 8");
        goto done;
    }
    for (uint32_t d = 0; d < input->rank; d++)
        dims[d] = input->dims[d];
    dims[input->rank] = (int64_t)lists.longest;
    INLAY_TRY(kit_alloc_output(call, 0, input->rank + 1, dims));
    for (size_t i = 0, k = 0; i < lists.count; i++)
        for (size_t j = 0; j < lists.longest; j++)
            ((int64_t *)call->out[0].data)[k++] =
                lists.starts[i] + j < lists.starts[i + 1] ? lists.ids.list[lists.starts[i] + j] : 0;
done:
    token_lists_free(&lists);
    return status;
}

static inlay_status infer_trie_tokenizer(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *input = in->inputs[0];
    inlay_dim dims[9];

    (void)ctx, (void)diag;
    if (!prepost_knows_rank(input) || input->rank > 8)
        return INLAY_OK;
    for (uint32_t d = 0; d < input->rank; d++)
        dims[d] = input->dims[d];
    dims[input->rank] = prepost_open();
    return prepost_set(in, 0, input->rank + 1, dims);
}

static bool is_utf8(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes;) {
        const unsigned char c = (unsigned char)text[i];
        const size_t n = c < 0x80                ? 1
                         : c >= 0xc2 && c < 0xe0 ? 2
                         : c >= 0xe0 && c < 0xf0 ? 3
                         : c >= 0xf0 && c < 0xf5 ? 4
                                                 : 0;

        if (n == 0 || bytes - i < n)
            return false;
        for (size_t k = 1; k < n; k++)
            if (((unsigned char)text[i + k] & 0xc0) != 0x80)
                return false;
        i += n;
    }
    return true;
}

static inlay_status run_trie_detokenizer(const kit_call *call)
{
    const struct trie *trie = call->state;
    const kit_tensor *input = &call->in[0];
    const int64_t width = input->rank > 0 ? input->dims[input->rank - 1] : 1,
                  rows = width > 0 ? input->count / width : 0, one = 1;
    char *text = NULL;
    inlay_status status;

    INLAY_TRY(kit_alloc_output(call, 0, input->rank > 1 ? input->rank - 1 : 1, input->rank > 1 ? input->dims : &one));
    for (int64_t r = 0; r < call->out[0].count; r++) {
        size_t bytes = 0, at = 0;

        for (int pass = 0; pass < 2; pass++) { /* counts the bytes, then copies them */
            for (int64_t i = 0; r < rows && i < width; i++) {
                const int64_t id = ((const int64_t *)input->data)[r * width + i];
                const struct entry *entry = id >= 0 && (uint64_t)id < trie->id_limit && trie->index_of_id[id] > 0
                                                ? &trie->list[trie->index_of_id[id] - 1]
                                                : NULL;

                if (entry != NULL && pass == 1) {
                    memcpy(text + at, entry->text, entry->bytes);
                    at += entry->bytes;
                } else if (entry != NULL) {
                    bytes += entry->bytes;
                }
            }
            if (pass == 0 && (text = malloc(bytes + 1)) == NULL)
                return inlay_fail(call->diag, INLAY_OUT_OF_MEMORY, "no memory for a text");
        }
        INLAY_CHECK(at == bytes);
        if (!is_utf8(text, bytes))
            status = inlay_fail(call->diag, INLAY_INVALID_ARGUMENT,
                                "TrieDetokenizer: the text of the tokens is not valid UTF-8");
        else
            status = prepost_put_string(call, (inlay_str *)call->out[0].data + r, text, bytes);
        free(text);
        text = NULL;
        if (status != INLAY_OK)
            goto done;
    }
done:
    return status;
}

static inlay_status infer_trie_detokenizer(void *ctx, inlay_infer *in, inlay_diag *diag)
{
    const inlay_value_info *input = in->inputs[0];
    const inlay_dim one = prepost_fixed(1);

    (void)ctx, (void)diag;
    if (!prepost_knows_rank(input))
        return INLAY_OK;
    return input->rank > 1 ? prepost_set(in, 0, input->rank - 1, input->dims) : prepost_set(in, 0, 1, &one);
}

static const int64_t two_dims[] = { 2 }, ids_dims[] = { 2, 3 }, ids[] = { 4, 2, 0, 3, 5, 6 };
static const inlay_str texts[] = { PREPOST_STR("aba"), PREPOST_STR("b\xc3\xa9\n") };
static const inlay_tensor_view texts_view[] = { PREPOST_VIEW(texts, two_dims, INLAY_STRING) };
static const inlay_tensor_view ids_view[] = { PREPOST_VIEW(ids, ids_dims, INLAY_INT64) };
static const inlay_attr_info words[] = {
    PREPOST_ATTR_STRING("vocab", "1 b'\\xc3' 1\n2 'a' 1\n3 \"b\" 1\n4 'ab' 2\n5 '\\u00e9' 2\n6 '\\n' 1\n"),
};
static const inlay_op_example trie_examples[] = { PREPOST_EXAMPLE("the longest tokens", words, texts_view, ids_view,
                                                                  0) };
static const inlay_op_example detokenizer_examples[] = { PREPOST_EXAMPLE("back to texts", words, ids_view, texts_view,
                                                                         0) };

const prepost_operator prepost_trie_tokenizer = {
    .op_type = "TrieTokenizer",
    .signature = "text:S -> ids:I; S=string, I=int64; vocab:s!",
    .doc =
        "Splits each text into tokens, always the longest that matches, along a new last axis padded with 0. vocab is "
        "the content of RWKV's vocabulary file: each line has an id, the text as a Python literal, and its length.",
    .extensions = true,
    .infer = infer_trie_tokenizer,
    PREPOST_EXAMPLES(trie_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN,
                .cost = tokens_cost,
                .prepare = prepare_trie,
                .release = release,
                .run = run_trie_tokenizer },
};

const prepost_operator prepost_trie_detokenizer = {
    .op_type = "TrieDetokenizer",
    .signature = "tokens:I -> text:S; S=string, I=int64; vocab:s!",
    .doc =
        "Concatenates the texts of the tokens along the last axis, with the vocabulary of TrieTokenizer; unknown ids "
        "are skipped.",
    .extensions = true,
    .infer = infer_trie_detokenizer,
    PREPOST_EXAMPLES(detokenizer_examples),
    .kernel = { .flags = KIT_SHAPES_AT_RUN,
                .cost = tokens_cost,
                .prepare = prepare_trie,
                .release = release,
                .run = run_trie_detokenizer },
};
