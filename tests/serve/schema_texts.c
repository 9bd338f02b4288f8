/* schema_texts COUNT < schemas: writes COUNT random texts of each schema, a line of JSON each, as a model with random
 * weights would: byte by byte, among those that the grammar permits.
 *
 * Input: one schema a line. Output: {"texts": [...]} or {"refused": "why"} for each. A text that cannot be continued,
 * or does not end, is an error. */
#include "random.h"
#include "serve/grammar/grammar_schema.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* CALM: bytes after which the writer ends a text; STATES: limit of a grammar's states */
enum { CALM = 60, STATES = 1 << 14 };

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

/* A random text; NULL: it has no end. */
static char *make_text(struct grammar *grammar, uint64_t *seed, size_t *out_bytes)
{
    char *text = malloc(CALM + STATES);
    uint32_t at = grammar_start(grammar);
    const size_t calm = 1 + random_below(seed, CALM);
    size_t used = 0, count;

    while (text != NULL && !(grammar_accepts(grammar, at) && (used >= calm || random_below(seed, 3) == 0))) {
        uint8_t alive[256];

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
        if (count == 0) {
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

    while (getline(&line, &room, stdin) > 0) {
        json_t *schema = json_loads(line, JSON_DECODE_ANY, NULL), *out = texts_of(schema, count, &seed);
        char *text = json_dumps(out, JSON_COMPACT | JSON_ENSURE_ASCII);

        (void)puts(text);
        free(text);
        json_decref(out);
        json_decref(schema);
    }
    free(line);
    return 0;
}
