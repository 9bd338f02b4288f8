/* Any bytes as the form of a text, a JSON Schema or GBNF: it is refused with a reason, or becomes a machine. */
#include "texts/grammar/grammar_gbnf.h"
#include "texts/grammar/grammar_schema.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Walks along a text that may belong to the language, and then along bytes that continue it. */
static void walk(struct grammar *grammar)
{
    static const char text[] = "{\"a\": [1, -2.5e3, true, null, \"\\u00e9\xc3\xa9\"]}";
    uint32_t state = grammar_start(grammar);

    for (const char *at = text; *at != '\0' && state != GRAMMAR_DEAD; at++)
        state = grammar_next(grammar, state, (uint8_t)*at);
    state = grammar_start(grammar);
    for (unsigned step = 0, byte = 0; step < 64 && byte < 256; step++) {
        uint32_t next = GRAMMAR_DEAD;

        for (byte = 0; byte < 256 && next == GRAMMAR_DEAD; byte++)
            next = grammar_next(grammar, state, (uint8_t)byte);
        if (next == GRAMMAR_DEAD)
            break; /* the text is whole, or a limit was reached */
        state = next;
    }
    (void)grammar_accepts(grammar, state);
}

/* The first byte selects the form: '{' a schema, any other one GBNF. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const bool is_schema = bytes > 0 && data[0] == '{';
    struct grammar *grammar = grammar_create();
    char why[GRAMMAR_WHY_BYTES] = "", *text = malloc(bytes + 1);
    json_t *schema = is_schema ? json_loadb((const char *)data, bytes, 0, NULL) : NULL;
    bool good = false;

    if (grammar != NULL && text != NULL && (schema != NULL || !is_schema)) {
        if (bytes > 0)
            memcpy(text, data, bytes);
        text[bytes] = '\0';
        good = (is_schema ? grammar_schema(grammar, schema, why) : grammar_gbnf(grammar, text, why)) &&
               grammar_finish(grammar, why);
        if (good)
            walk(grammar);
        else if (why[0] == '\0' || strchr(why, '\n') != NULL)
            __builtin_trap(); /* a failure without a reason, or with one of several lines */
    }
    json_decref(schema);
    grammar_destroy(grammar);
    free(text);
    return 0;
}
