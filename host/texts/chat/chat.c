#include "texts/chat/chat.h"
#include "base/memory.h"
#include <stdlib.h>

inlay_status chat_open(const char *form, template_tree **out_tree, inlay_diag *diag)
{
    inlay_diag failure = INLAY_DIAG_INIT;
    const inlay_status status = template_open(form, out_tree, &failure);

    return status == INLAY_OK ? INLAY_OK : inlay_fail(diag, status, "the model's chat template, %s", failure.text);
}

inlay_status chat_render(const struct chat *chat, char **out_text, inlay_diag *diag)
{
    size_t others = json_object_size(chat->variables), count = 0;
    template_variable *variables = calloc(7 + others, sizeof *variables);
    json_t *begin = json_string_nocheck(chat->begin), *end = json_string_nocheck(chat->end);
    inlay_diag failure = INLAY_DIAG_INIT;
    inlay_status status;
    const char *name;
    json_t *value;

    *out_text = NULL;
    if (variables == NULL || begin == NULL || end == NULL) {
        free(variables);
        json_decref(begin);
        json_decref(end);
        return no_memory(diag, "for the chat");
    }
    variables[count++] = (template_variable){ "messages", chat->messages };
    variables[count++] = (template_variable){ "tools", chat->tools };
    variables[count++] = (template_variable){ "documents", NULL };
    variables[count++] = (template_variable){ "add_generation_prompt", json_boolean(!chat->is_complete) };
    variables[count++] = (template_variable){ "bos_token", begin };
    variables[count++] = (template_variable){ "eos_token", end };
    json_object_foreach(chat->variables, name, value) {
        variables[count++] = (template_variable){ name, value };
    }
    status = template_render(chat->form, variables, count, out_text, &failure);
    free(variables);
    json_decref(begin);
    json_decref(end);
    if (status == INLAY_OK)
        return INLAY_OK;
    return inlay_fail(diag, status,
                      status == INLAY_INVALID_ARGUMENT ? "the model's chat template refuses the messages: %s"
                                                       : "the model's chat template, %s",
                      failure.text);
}
