/* template_texts < lines: renders templates. Input: one object a line, {"template": text, "variables": {...}}. Output:
 * {"text": ...} or {"error": message} for each. */
#include "texts/template/template.h"
#include <stdio.h>
#include <stdlib.h>

enum { MOST_VARIABLES = 32 };

static json_t *render(const char *form, json_t *variables)
{
    template_variable list[MOST_VARIABLES];
    inlay_diag diag = INLAY_DIAG_INIT;
    template_tree *tree = NULL;
    size_t count = 0;
    char *text = NULL;
    const char *name;
    json_t *value, *answer;
    inlay_status status = template_open(form, &tree, &diag);

    json_object_foreach(variables, name, value) {
        if (count < MOST_VARIABLES)
            list[count++] = (template_variable){ name, value };
    }
    if (status == INLAY_OK)
        status = template_render(tree, list, count, &text, &diag);
    answer = status == INLAY_OK ? json_pack("{s:s}", "text", text) : json_pack("{s:s}", "error", diag.text);
    free(text);
    template_close(tree);
    return answer;
}

int main(void)
{
    int status = EXIT_SUCCESS;
    char *line = NULL;
    size_t room = 0;

    while (status == EXIT_SUCCESS && getline(&line, &room, stdin) > 0) {
        json_t *given = json_loads(line, 0, NULL), *answer = NULL;
        const char *form = json_string_value(json_object_get(given, "template"));

        if (form != NULL)
            answer = render(form, json_object_get(given, "variables"));
        if (answer == NULL || json_dumpf(answer, stdout, JSON_COMPACT) != 0 || putchar('\n') == EOF)
            status = EXIT_FAILURE;
        json_decref(answer);
        json_decref(given);
    }
    free(line);
    return status;
}
