/* Any bytes as a chat template: it gives a text, or it is refused with one line. */
#include "texts/template/template.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char talk[] =
        "[{\"role\": \"system\", \"content\": \"S\"}, {\"role\": \"user\", \"content\": \" \\u00e9\\n\"}, {\"role\": "
        "\"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"a\", \"function\": {\"name\": \"f\", "
        "\"arguments\": {\"a\": [1, 2.5, true]}}}]}]";
    template_variable variables[] = { { "messages", json_loads(talk, 0, NULL) }, { "tools", NULL } };
    inlay_diag diag = INLAY_DIAG_INIT;
    char *form = malloc(bytes + 1), *text = NULL;
    template_tree *tree = NULL;

    if (form != NULL && variables[0].value != NULL) {
        if (bytes > 0)
            memcpy(form, data, bytes);
        form[bytes] = '\0';
        if ((template_open(form, &tree, &diag) != INLAY_OK ||
             template_render(tree, variables, 2, &text, &diag) != INLAY_OK) &&
            (diag.text[0] == '\0' || strchr(diag.text, '\n') != NULL || text != NULL))
            __builtin_trap(); /* a failure without a message */
    }
    template_close(tree);
    json_decref(variables[0].value);
    free(text);
    free(form);
    return 0;
}
