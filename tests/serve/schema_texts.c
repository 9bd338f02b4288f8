/* schema_texts COUNT [TOKENIZER] < schemas: writes COUNT random texts of each schema, a line of JSON each, as a model
 * with random weights would: byte by byte, among those that the grammar permits; with a tokenizer.json token by token,
 * among those of its masks.
 *
 * Input: one schema a line. Output: {"texts": [...]} or {"refused": "why"} for each. A text that cannot be continued,
 * or does not end, is an error, and so is a mask that is not what the bytes of the tokens say. */
#include "random.h"
#include "texts/grammar/grammar_schema.h"
#include "token_file.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* CALM: bytes after which the writer ends a text; STATES: limit of a grammar's states; CHECKED: tokens of a mask whose
 * bits are compared with what the grammar says of their bytes */
enum { CALM = 60, STATES = 1 << 14, CHECKED = 64 };

static struct tokenizer *tokenizer; /* NULL: texts are written byte by byte */
static token_index *tokens;

/* Appends the shortest end of a text, found by a search over states. Returns its bytes; 0: there is none. */
static size_t end_text(struct grammar *grammar, uint32_t at, char *text)
{
    static uint32_t queue[STATES], from[STATES];
    static uint8_t bytes[STATES], seen[STATES];
    size_t first = 0, last = 0, length = 0;

    memset(seen, 0, sizeof seen);
    seen[at] = 1;
    queue[last++] = at;
    while (first < last && !grammar_accepts(grammar, queue[first])) {
        for (int byte = 0; byte < 256; byte++) {
            const uint32_t next = grammar_next(grammar, queue[first], (uint8_t)byte);

            if (next == GRAMMAR_DEAD || seen[next] != 0)
                continue;
            seen[next] = 1;
            from[next] = queue[first];
            bytes[next] = (uint8_t)byte;
            queue[last++] = next;
        }
        first++;
    }
    if (first == last)
        return 0;
    for (uint32_t state = queue[first]; state != at; state = from[state])
        length++;
    for (uint32_t state = queue[first], i = (uint32_t)length; state != at; state = from[state])
        text[--i] = (char)bytes[state];
    return length;
}

/* The state after these bytes. */
static uint32_t follow(struct grammar *grammar, uint32_t at, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes && at != GRAMMAR_DEAD; i++)
        at = grammar_next(grammar, at, (uint8_t)text[i]);
    return at;
}

static bool is_allowed(const uint64_t *mask, size_t token)
{
    return (mask[token / 64] >> token % 64 & 1) != 0;
}

/* Whether random bits of the mask are right. */
static bool check_mask(struct grammar *grammar, uint32_t at, const uint64_t *mask, uint64_t *seed)
{
    for (int i = 0; i < CHECKED; i++) {
        const size_t token = random_below(seed, token_index_count(tokens));
        size_t bytes = 0;
        const char *text = token_file_bytes(tokenizer, (int64_t)token, &bytes);
        const bool right = text != NULL && bytes > 0 && follow(grammar, at, text, bytes) != GRAMMAR_DEAD;

        if (is_allowed(mask, token) != right) {
            (void)fprintf(stderr, "token %zu ('%.*s') is %s\n", token, (int)bytes, text != NULL ? text : "",
                          right ? "missing in the mask" : "in the mask");
            return false;
        }
    }
    return true;
}

/* Appends a token of the mask: a random one, or the longest one with which `end` begins. Returns its bytes; 0: there is
 * none, or the mask is wrong. */
static size_t add_token(struct grammar *grammar, uint32_t *at, char *text, const char *end, size_t end_bytes,
                        uint64_t *seed)
{
    const size_t count = token_index_count(tokens), from = random_below(seed, count);
    bool any = false;
    const uint64_t *mask = token_index_mask(tokens, grammar, *at, &any);
    size_t chosen = count, best = 0;

    if (mask == NULL || !any || !check_mask(grammar, *at, mask, seed))
        return 0;
    for (size_t i = 0; i < count && (end != NULL || chosen == count); i++) {
        const size_t token = (from + i) % count;
        size_t bytes = 0;
        const char *added = is_allowed(mask, token) ? token_file_bytes(tokenizer, (int64_t)token, &bytes) : NULL;

        if (added == NULL || bytes <= best || bytes > STATES / 2 ||
            (end != NULL && (bytes > end_bytes || memcmp(added, end, bytes) != 0)))
            continue;
        chosen = token;
        best = bytes;
        memcpy(text, added, bytes);
    }
    if (chosen < count)
        *at = token_index_next(tokens, grammar, *at, (int64_t)chosen);
    return best;
}

/* Whether the masks permit tokens of this end of a text, the shortest one; no token is longer than it. */
static bool add_end(struct grammar *grammar, uint32_t at, const char *end, size_t bytes, uint64_t *seed)
{
    static char text[STATES];

    for (size_t used = 0; used < bytes;) {
        const size_t added = add_token(grammar, &at, text, end + used, bytes - used, seed);

        if (added == 0)
            return false;
        used += added;
    }
    return grammar_accepts(grammar, at);
}

/* A random text; NULL: it has no end. */
static char *make_text(struct grammar *grammar, uint64_t *seed, size_t *out_bytes)
{
    char *text = malloc(CALM + 2 * STATES);
    uint32_t at = grammar_start(grammar);
    const size_t calm = 1 + random_below(seed, CALM);
    size_t used = 0, count;

    while (text != NULL && !(grammar_accepts(grammar, at) && (used >= calm || random_below(seed, 3) == 0))) {
        uint8_t alive[256];

        if (tokenizer != NULL && used < calm) {
            count = add_token(grammar, &at, text + used, NULL, 0, seed);
            used += count;
            if (count > 0)
                continue;
            if (grammar_accepts(grammar, at))
                break;
            (void)fprintf(stderr, "no token after %zu bytes: %.*s\n", used, (int)used, text);
            free(text);
            return NULL;
        }
        count = 0;
        for (int byte = 0; byte < 256 && used < calm; byte++)
            if (grammar_next(grammar, at, (uint8_t)byte) != GRAMMAR_DEAD)
                alive[count++] = (uint8_t)byte;
        if (count > 0) {
            text[used++] = (char)alive[random_below(seed, count)];
            at = grammar_next(grammar, at, (uint8_t)text[used - 1]);
            continue;
        }
        if (grammar_accepts(grammar, at))
            break;
        count = end_text(grammar, at, text + used);
        if (count == 0 || (tokenizer != NULL && !add_end(grammar, at, text + used, count, seed))) {
            (void)fprintf(stderr, "%s after %zu bytes: %.*s\n",
                          grammar_failed(grammar) ? "too many states" : "a dead end", used, (int)used, text);
            free(text);
            return NULL;
        }
        used += count;
        break;
    }
    *out_bytes = used;
    return text;
}

static json_t *texts_of(json_t *schema, int count, uint64_t *seed)
{
    struct grammar *grammar = grammar_create();
    char why[GRAMMAR_WHY_BYTES];
    json_t *out, *texts = json_array();

    if (!grammar_schema(grammar, schema, why) || !grammar_finish(grammar, why)) {
        out = json_pack("{s:s}", "refused", why);
    } else {
        for (int i = 0; i < count; i++) {
            size_t bytes = 0;
            char *text = make_text(grammar, seed, &bytes);

            if (text == NULL) {
                char *shown = json_dumps(schema, 0);

                (void)fprintf(stderr, "by %s\n", shown);
                exit(1);
            }
            (void)json_array_append_new(texts, json_stringn_nocheck(text, bytes));
            free(text);
        }
        out = json_pack("{s:O}", "texts", texts);
    }
    json_decref(texts);
    grammar_destroy(grammar);
    return out;
}

int main(int argc, char **argv)
{
    const int count = argc > 1 ? atoi(argv[1]) : 1;
    uint64_t seed = 7;
    char *line = NULL;
    size_t room = 0;

    if (argc > 2 && (tokenizer = token_file_open(argv[2], &tokens)) == NULL)
        return 1;
    while (getline(&line, &room, stdin) > 0) {
        json_t *schema = json_loads(line, JSON_DECODE_ANY, NULL), *out = texts_of(schema, count, &seed);
        char *text = json_dumps(out, JSON_COMPACT | JSON_ENSURE_ASCII);

        (void)puts(text);
        free(text);
        json_decref(out);
        json_decref(schema);
    }
    free(line);
    token_index_destroy(tokens);
    tokenizer_close(tokenizer);
    return 0;
}
