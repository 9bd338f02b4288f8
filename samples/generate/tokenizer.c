#include "tokenizer.h"
#include "words.h"
#include <jansson.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPELLINGS = 0x144 }; /* characters that spell bytes are below */

typedef struct token {
    char *bytes;
    size_t count;
    bool special;
} token;

typedef struct added {
    const char *text; /* the file's */
    size_t bytes;
    int64_t id;
} added;

/* Two tokens that become one. */
typedef struct merge {
    uint32_t left, right, made, rank; /* made 0 and rank UINT32_MAX: an empty place */
} merge;

struct tokenizer {
    json_t *root;
    token *tokens; /* [token_count] */
    size_t token_count;
    added *added; /* [added_count], the longest first */
    size_t added_count;
    merge *merges; /* [merge_mask + 1], hashed */
    size_t merge_mask;
    int64_t of_byte[256];       /* the token of a single byte, -1 */
    int16_t byte_of[SPELLINGS]; /* that a character spells, -1 */
    words_rule rule;
    bool prefix_space, whole_words;
};

/* ------------------------------------------------------------------ bytes as characters
 *
 * Such vocabularies spell each byte as a printable character: itself, or one from U+0100 on. */

static bool prints(unsigned b)
{
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
}

static uint32_t char_of_byte(unsigned byte)
{
    uint32_t next = 256;

    if (prints(byte))
        return byte;
    for (unsigned b = 0; b < byte; b++)
        next += !prints(b);
    return next;
}

static size_t put_char(uint32_t c, char *to)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    to[0] = (char)(0xc0 | c >> 6); /* none is above U+0143 */
    to[1] = (char)(0x80 | (c & 63));
    return 2;
}

/* The bytes that a spelling stands for; NULL: no memory. What is spelled otherwise (added tokens) stays as it is. */
static char *unspell(const tokenizer *t, const char *text, size_t *out_count)
{
    const size_t bytes = strlen(text);
    char *to = malloc(bytes + 1);
    size_t n = 0, size;

    for (size_t i = 0; to != NULL && i < bytes; i += size) {
        const uint32_t c = words_char(text + i, bytes - i, &size);
        const int byte = c < SPELLINGS ? t->byte_of[c] : -1;

        if (byte < 0) {
            memcpy(to, text, bytes);
            n = bytes;
            break;
        }
        to[n++] = (char)byte;
    }
    *out_count = n;
    return to;
}

/* ------------------------------------------------------------------ the file */

static bool fail(char *error, size_t bytes, const char *what, const char *detail)
{
    (void)snprintf(error, bytes, "%s%s%s", what, detail[0] != '\0' ? ": " : "", detail);
    return false;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}

/* The number of a token, -1 where it is none; more than a vocabulary has is none either. */
static int64_t id_of(const json_t *value)
{
    const json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;

    return id >= 0 && id < 1 << 24 ? (int64_t)id : -1;
}

static bool set_token(tokenizer *t, int64_t id, const char *text, bool is_added, bool special)
{
    token *x;

    if ((size_t)id >= t->token_count) {
        const size_t count = (size_t)id + 1 > 2 * t->token_count ? (size_t)id + 1 : 2 * t->token_count;
        token *more = realloc(t->tokens, count * sizeof *more);

        if (more == NULL)
            return false;
        memset(more + t->token_count, 0, (count - t->token_count) * sizeof *more);
        t->tokens = more;
        t->token_count = count;
    }
    x = &t->tokens[id];
    free(x->bytes);
    x->special = special;
    x->count = strlen(text);
    x->bytes = is_added ? strdup(text) : unspell(t, text, &x->count);
    if (x->bytes != NULL && x->count == 1 && !is_added)
        t->of_byte[(unsigned char)x->bytes[0]] = id;
    return x->bytes != NULL;
}

static int longest_first(const void *a, const void *b)
{
    const added *x = a, *y = b;

    return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes) : strcmp(x->text, y->text);
}

static bool read_vocabulary(tokenizer *t, const json_t *model, char *error, size_t bytes)
{
    json_t *vocab = json_object_get(model, "vocab"), *list = json_object_get(t->root, "added_tokens"), *value;
    const char *text;
    size_t i;

    if (!json_is_object(vocab) || json_object_size(vocab) == 0)
        return fail(error, bytes, "model.vocab is not there", "");
    json_object_foreach(vocab, text, value) if (id_of(value) < 0 ||
                                                !set_token(t, id_of(value), text, false,
                                                           false)) return fail(error, bytes,
                                                                               "model.vocab has no number for", text);
    t->added = calloc(json_array_size(list) + 1, sizeof *t->added);
    if (t->added == NULL)
        return fail(error, bytes, "no memory", "");
    json_array_foreach(list, i, value)
    {
        added *a = &t->added[t->added_count];

        *a = (added){ text_of(value, "content"), 0, id_of(json_object_get(value, "id")) };
        a->bytes = strlen(a->text);
        if (a->bytes == 0 || a->id < 0 ||
            !set_token(t, a->id, a->text, true, json_is_true(json_object_get(value, "special"))))
            return fail(error, bytes, "added_tokens has one without number or text", a->text);
        t->added_count++;
    }
    qsort(t->added, t->added_count, sizeof *t->added, longest_first);
    return true;
}

static size_t hash_pair(uint32_t left, uint32_t right)
{
    uint64_t h = ((uint64_t)left << 32 | right) * UINT64_C(0x9e3779b97f4a7c15);

    return (size_t)(h >> 24);
}

/* Where the pair is, or would be. */
static merge *find_merge(const tokenizer *t, uint32_t left, uint32_t right)
{
    size_t at = hash_pair(left, right) & t->merge_mask;

    while (t->merges[at].rank != UINT32_MAX && (t->merges[at].left != left || t->merges[at].right != right))
        at = (at + 1) & t->merge_mask;
    return &t->merges[at];
}

/* "a b", or since 2024 ["a", "b"]. */
static bool add_merge(tokenizer *t, const json_t *vocab, const json_t *item, uint32_t rank)
{
    const char *whole = json_string_value(item), *second = json_string_value(json_array_get(item, 1));
    const char *first = whole != NULL ? whole : json_string_value(json_array_get(item, 0));
    size_t first_bytes;
    int64_t left, right, made;
    char *text;
    merge *m;

    if (whole != NULL)
        second = strchr(whole, ' ') != NULL ? strchr(whole, ' ') + 1 : NULL;
    if (first == NULL || second == NULL)
        return false;
    first_bytes = whole != NULL ? (size_t)(second - first) - 1 : strlen(first);
    text = malloc(first_bytes + strlen(second) + 1);
    if (text == NULL)
        return false;
    memcpy(text, first, first_bytes);
    text[first_bytes] = '\0';
    left = id_of(json_object_get(vocab, text));
    right = id_of(json_object_get(vocab, second));
    (void)strcpy(text + first_bytes, second);
    made = id_of(json_object_get(vocab, text));
    free(text);
    if (left < 0 || right < 0 || made < 0)
        return false;
    m = find_merge(t, (uint32_t)left, (uint32_t)right);
    if (m->rank == UINT32_MAX)
        *m = (merge){ (uint32_t)left, (uint32_t)right, (uint32_t)made, rank };
    return true;
}

static bool read_merges(tokenizer *t, const json_t *model, char *error, size_t bytes)
{
    const json_t *list = json_object_get(model, "merges");
    size_t room = 16, i;
    json_t *item;

    while (room < 2 * json_array_size(list) + 2)
        room *= 2;
    t->merges = malloc(room * sizeof *t->merges);
    if (t->merges == NULL)
        return fail(error, bytes, "no memory", "");
    for (i = 0; i < room; i++)
        t->merges[i] = (merge){ 0, 0, 0, UINT32_MAX };
    t->merge_mask = room - 1;
    json_array_foreach(list, i, item) if (!add_merge(t, json_object_get(model, "vocab"), item, (uint32_t)i))
    {
        char number[32];

        (void)snprintf(number, sizeof number, "%zu", i);
        return fail(error, bytes, "model.merges is of tokens that the vocabulary has not, at", number);
    }
    return true;
}

/* One step of cutting text into words. */
static bool read_cut(tokenizer *t, const json_t *step, char *error, size_t bytes)
{
    const char *type = text_of(step, "type"), *pattern = text_of(json_object_get(step, "pattern"), "Regex");

    if (strcmp(type, "ByteLevel") == 0) {
        t->prefix_space = json_is_true(json_object_get(step, "add_prefix_space"));
        if (t->rule.cut == WORDS_NONE && !json_is_false(json_object_get(step, "use_regex")))
            t->rule.cut = WORDS_GPT2;
        return true;
    }
    if (strcmp(type, "Split") == 0 && strstr(pattern, "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+") != NULL) {
        t->rule.cut = WORDS_CL100K;
        t->rule.digits = strstr(pattern, "\\p{N}{1,3}") != NULL ? 3 : 1;
        return true;
    }
    return fail(error, bytes, "pre_tokenizer is neither GPT-2's nor that of Llama 3 and Qwen",
                pattern[0] != '\0' ? pattern : type);
}

static bool read_pipeline(tokenizer *t, char *error, size_t bytes)
{
    const json_t *model = json_object_get(t->root, "model"), *pre = json_object_get(t->root, "pre_tokenizer");
    const char *type = text_of(model, "type"), *norm = text_of(json_object_get(t->root, "normalizer"), "type");
    size_t i;
    json_t *step;

    if (strcmp(type, "BPE") != 0 || json_is_true(json_object_get(model, "byte_fallback")))
        return fail(error, bytes, "the model is no byte-level BPE", type);
    if (norm[0] != '\0' && strcmp(norm, "NFC") != 0) /* text usually is composed already */
        return fail(error, bytes, "normalizer is not supported", norm);
    t->whole_words = json_is_true(json_object_get(model, "ignore_merges"));
    if (strcmp(text_of(pre, "type"), "Sequence") != 0)
        return read_cut(t, pre, error, bytes);
    json_array_foreach(json_object_get(pre, "pretokenizers"), i,
                       step) if (!read_cut(t, step, error, bytes)) return false;
    return true;
}

tokenizer *tokenizer_open(const char *path, char *error, size_t bytes)
{
    tokenizer *t = calloc(1, sizeof *t);
    char what[256] = "no memory";
    json_error_t why;

    if (t != NULL) {
        memset(t->of_byte, 0xff, sizeof t->of_byte);
        memset(t->byte_of, 0xff, sizeof t->byte_of);
        for (unsigned b = 0; b < 256; b++)
            t->byte_of[char_of_byte(b)] = (int16_t)b;
        t->rule.locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
        t->root = json_load_file(path, 0, &why);
        if (t->root == NULL)
            (void)snprintf(what, sizeof what, "line %d: %s", why.line, why.text);
        else if (t->rule.locale == (locale_t)0)
            (void)snprintf(what, sizeof what, "locale C.UTF-8, which knows letters, is not there");
        else if (read_pipeline(t, what, sizeof what) &&
                 read_vocabulary(t, json_object_get(t->root, "model"), what, sizeof what) &&
                 read_merges(t, json_object_get(t->root, "model"), what, sizeof what))
            return t;
    }
    (void)snprintf(error, bytes, "%s: %s", path, what);
    tokenizer_close(t);
    return NULL;
}

void tokenizer_close(tokenizer *t)
{
    if (t == NULL)
        return;
    for (size_t i = 0; i < t->token_count; i++)
        free(t->tokens[i].bytes);
    if (t->rule.locale != (locale_t)0)
        freelocale(t->rule.locale);
    json_decref(t->root);
    free(t->tokens);
    free(t->added);
    free(t->merges);
    free(t);
}

/* ------------------------------------------------------------------ encoding */

static bool push(int64_t **tokens, size_t *count, int64_t token_id)
{
    int64_t *more = *tokens;

    if ((*count & (*count - 1)) == 0) { /* it was full: rooms are powers of two */
        more = realloc(*tokens, (*count == 0 ? 1 : 2 * *count) * sizeof *more);
        if (more == NULL)
            return false;
        *tokens = more;
    }
    more[(*count)++] = token_id;
    return true;
}

/* The token that a whole word is, -1. */
static int64_t whole_word(const tokenizer *t, const char *word, size_t bytes)
{
    char *text = malloc(2 * bytes + 1);
    int64_t id = -1;
    size_t n = 0;

    if (text == NULL)
        return -1;
    for (size_t i = 0; i < bytes; i++)
        n += put_char(char_of_byte((unsigned char)word[i]), text + n);
    text[n] = '\0';
    id = id_of(json_object_get(json_object_get(json_object_get(t->root, "model"), "vocab"), text));
    free(text);
    return id;
}

/* Joins neighbours, those that were joined first in training first. */
static size_t join(const tokenizer *t, uint32_t *ids, size_t count)
{
    for (;;) {
        const merge *best = NULL;
        size_t at = 0;

        for (size_t i = 0; i + 1 < count; i++) {
            const merge *m = find_merge(t, ids[i], ids[i + 1]);

            if (m->rank != UINT32_MAX && (best == NULL || m->rank < best->rank)) {
                best = m;
                at = i;
            }
        }
        if (best == NULL)
            return count;
        ids[at] = best->made;
        memmove(ids + at + 1, ids + at + 2, (count - at - 2) * sizeof *ids);
        count--;
    }
}

static bool encode_word(const tokenizer *t, const char *word, size_t bytes, int64_t **tokens, size_t *count)
{
    const int64_t whole = t->whole_words ? whole_word(t, word, bytes) : -1;
    uint32_t *ids;
    bool ok = true;
    size_t n;

    if (whole >= 0)
        return push(tokens, count, whole);
    ids = malloc(bytes * sizeof *ids);
    for (size_t i = 0; ids != NULL && ok && i < bytes; i++) {
        const int64_t id = t->of_byte[(unsigned char)word[i]];

        ok = id >= 0;
        ids[i] = (uint32_t)id;
    }
    ok &= ids != NULL;
    n = ok ? join(t, ids, bytes) : 0;
    for (size_t i = 0; ok && i < n; i++)
        ok = push(tokens, count, ids[i]);
    free(ids);
    return ok;
}

static bool encode_text(const tokenizer *t, const char *text, size_t bytes, int64_t **tokens, size_t *count)
{
    bool ok = true;

    while (ok && bytes > 0) {
        const size_t n = words_first(&t->rule, text, bytes);

        ok = encode_word(t, text, n, tokens, count);
        text += n;
        bytes -= n;
    }
    return ok;
}

/* The added token that text begins with; NULL: it begins with none. */
static const added *added_at(const tokenizer *t, const char *text)
{
    for (size_t i = 0; i < t->added_count; i++)
        if (strncmp(text, t->added[i].text, t->added[i].bytes) == 0)
            return &t->added[i];
    return NULL;
}

/* Text between added tokens word by word, these as they are. */
static bool encode_all(const tokenizer *t, const char *text, int64_t **tokens, size_t *count)
{
    bool ok = true;

    while (ok && *text != '\0') {
        const added *a = NULL;
        size_t n = 0;

        while (text[n] != '\0' && (a = added_at(t, text + n)) == NULL)
            n++;
        ok = encode_text(t, text, n, tokens, count) && (a == NULL || push(tokens, count, a->id));
        text += n + (a != NULL ? a->bytes : 0);
    }
    return ok;
}

bool tokenizer_encode(const tokenizer *t, const char *text, int64_t **tokens, size_t *count)
{
    char *spaced;
    bool ok;

    if (!t->prefix_space || text[0] == '\0' || text[0] == ' ' || added_at(t, text) != NULL)
        return encode_all(t, text, tokens, count);
    spaced = malloc(strlen(text) + 2);
    if (spaced == NULL)
        return false;
    spaced[0] = ' ';
    (void)strcpy(spaced + 1, text);
    ok = encode_all(t, spaced, tokens, count);
    free(spaced);
    return ok;
}

const char *tokenizer_bytes(const tokenizer *t, int64_t id, size_t *bytes, bool *special)
{
    if (id < 0 || (size_t)id >= t->token_count || t->tokens[id].bytes == NULL)
        return NULL;
    *bytes = t->tokens[id].count;
    *special = t->tokens[id].special;
    return t->tokens[id].bytes;
}

int64_t tokenizer_added(const tokenizer *t, const char *text)
{
    for (size_t i = 0; i < t->added_count; i++)
        if (strcmp(t->added[i].text, text) == 0)
            return t->added[i].id;
    return -1;
}
