/* schema_instances < cases: whether the grammars of schemas allow instances. A case is a line of JSON:
 * {"id": "name", "schema": ..., "tests": [{"data": ..., "valid": true}, ...]}. Output: a line for each: its id, and
 * the reason of a refusal, or a letter for each instance: V and r are valid ones that the grammar allows and does not,
 * X and . are invalid ones. */
#include "texts/grammar/grammar_schema.h"
#include <stdio.h>
#include <stdlib.h>

static bool allows(struct grammar *grammar, const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    uint32_t state = grammar_start(grammar);

    for (const char *at = text; at != NULL && *at != '\0' && state != GRAMMAR_DEAD; at++)
        state = grammar_next(grammar, state, (uint8_t)*at);
    free(text);
    return grammar_accepts(grammar, state);
}

static void try_case(const json_t *one)
{
    struct grammar *grammar = grammar_create();
    char why[GRAMMAR_WHY_BYTES] = "";
    const json_t *test;
    size_t i;

    (void)printf("%s\t", json_string_value(json_object_get(one, "id")));
    if (!grammar_schema(grammar, json_object_get(one, "schema"), why) || !grammar_finish(grammar, why))
        (void)printf("refused: %s", why);
    else
        json_array_foreach(json_object_get(one, "tests"), i, test) {
            const bool allowed = allows(grammar, json_object_get(test, "data"));

            (void)putchar(json_is_true(json_object_get(test, "valid")) ? (allowed ? 'V' : 'r') : (allowed ? 'X' : '.'));
        }
    (void)putchar('\n');
    grammar_destroy(grammar);
}

int main(void)
{
    char *line = NULL;
    size_t room = 0;

    while (getline(&line, &room, stdin) > 0) {
        json_error_t error;
        json_t *one = json_loads(line, JSON_ALLOW_NUL, &error);

        if (one != NULL)
            try_case(one);
        else /* such as integers above 64 bits, with which the server refuses a request */
            (void)printf("?\trefused: no JSON: %s\n", error.text);
        json_decref(one);
    }
    free(line);
    return 0;
}
