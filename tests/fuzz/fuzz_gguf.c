/* Any bytes as a GGUF file of a language model: its tokenizer and chat template are opened as the server opens them, or
 * refused with a message. fuzz_model is for the graph. */
#include "model/model.h"
#include "texts/template/template.h"
#include "texts/tokens/tokenizer.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void open_text(const char *key, const char *value)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    char error[300] = "";

    if (strcmp(key, "tokenizer.json") == 0) {
        struct tokenizer *tokenizer = tokenizer_open_bytes(value, strlen(value), "m.gguf", error, sizeof error);

        if (tokenizer == NULL && (error[0] == '\0' || strchr(error, '\n') != NULL))
            __builtin_trap(); /* a failure without a message */
        tokenizer_close(tokenizer);
    } else if (strcmp(key, "tokenizer_config.json") == 0) {
        json_t *root = json_loads(value, 0, NULL);
        const char *form = json_string_value(json_object_get(root, "chat_template"));
        template_tree *tree = NULL;

        if (root == NULL)
            __builtin_trap(); /* inlay itself wrote this text */
        if (form != NULL && template_open(form, &tree, &diag) != INLAY_OK && diag.text[0] == '\0')
            __builtin_trap();
        template_close(tree);
        json_decref(root);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    /* Small limits, so that inputs do not spend time on running out of memory. */
    model_load_options options = { .limits = { .nodes = 10000,
                                               .values = 10000,
                                               .tensor_bytes = 1 << 24,
                                               .densified_bytes = 1 << 16,
                                               .parsed_bytes = 1 << 22 } };
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *model = NULL;

    if (bytes < 4 || memcmp(data, "GGUF", 4) != 0)
        return 0;
    if (model_load_bytes(data, bytes, &options, &model, &diag) != INLAY_OK && diag.text[0] == '\0')
        __builtin_trap(); /* a failure without a message */
    for (uint32_t i = 0; model != NULL && i < model->metadata_count; i++)
        open_text(model->metadata[i].key, model->metadata[i].value);
    graph_model_destroy(model);
    return 0;
}
