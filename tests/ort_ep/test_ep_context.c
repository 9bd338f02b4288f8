/* EPContext nodes of the library test_ep: the steps of a program as text, with the names of its values. */
#include "test_ep.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* OrtModelEditorApi. */
struct editor {
#define ENTRY(returns, name, params) returns(*name) params;
#include "editor.def"
#undef ENTRY
};

enum { MOST_TEXT = 4096 };

static OrtStatus *read_text(const OrtNode *node, const char *name, char text[MOST_TEXT])
{
    const OrtOpAttr *attribute = NULL;
    size_t bytes = 0;

    TRY(api->Node_GetAttributeByName(node, name, &attribute));
    TRY(api->ReadOpAttr(attribute, ORT_OP_ATTR_STRING, text, MOST_TEXT - 1, &bytes));
    text[bytes] = '\0';
    return NULL;
}

OrtStatus *is_context(const OrtNode *node, bool *out)
{
    const char *op_type, *domain;
    char source[MOST_TEXT];

    *out = false;
    TRY(api->Node_GetOperatorType(node, &op_type));
    TRY(api->Node_GetDomain(node, &domain));
    if (strcmp(op_type, "EPContext") != 0 || strcmp(domain, "com.microsoft") != 0)
        return NULL;
    TRY(read_text(node, "source", source));
    *out = strcmp(source, EP_NAME) == 0;
    return NULL;
}

OrtStatus *make_context(const test_program *program, OrtNode **out)
{
    const struct editor *editor = (const struct editor *)(const void *)api->GetModelEditorApi();
    const char *inputs[MOST_VALUES], *outputs[MOST_VALUES];
    const int64_t yes = 1;
    char text[MOST_TEXT] = "";
    OrtOpAttr *attributes[4];

    for (int i = 0; i < program->step_count; i++) {
        const test_step *step = &program->steps[i];
        const size_t used = strlen(text);

        (void)snprintf(text + used, sizeof text - used, "%c %s %s %s\n", step->is_product ? '*' : '+',
                       program->names[step->a], program->names[step->b], program->names[step->result]);
    }
    for (int i = 0; i < program->input_count; i++)
        inputs[i] = program->names[program->inputs[i]];
    for (int i = 0; i < program->output_count; i++)
        outputs[i] = program->names[program->outputs[i]];
    TRY(api->CreateOpAttr("ep_cache_context", text, (int)strlen(text), ORT_OP_ATTR_STRING, &attributes[0]));
    TRY(api->CreateOpAttr("source", EP_NAME, (int)strlen(EP_NAME), ORT_OP_ATTR_STRING, &attributes[1]));
    TRY(api->CreateOpAttr("main_context", &yes, 1, ORT_OP_ATTR_INT, &attributes[2]));
    TRY(api->CreateOpAttr("embed_mode", &yes, 1, ORT_OP_ATTR_INT, &attributes[3]));
    return editor->CreateNode("EPContext", "com.microsoft", program->name, inputs, (size_t)program->input_count,
                              outputs, (size_t)program->output_count, attributes, 4, out);
}

OrtStatus *read_context(test_program *program, const OrtNode *node)
{
    char text[MOST_TEXT], *next = NULL;
    const OrtOpAttr *attribute = NULL;
    int64_t embedded = 0;
    size_t bytes = 0;

    TRY(api->Node_GetAttributeByName(node, "embed_mode", &attribute));
    TRY(api->ReadOpAttr(attribute, ORT_OP_ATTR_INT, &embedded, sizeof embedded, &bytes));
    TRY(read_text(node, "ep_cache_context", text));
    if (embedded != 1)
        return api->CreateStatus(ORT_EP_FAIL, "the attributes of the node have changed");
    for (char *line = strtok_r(text, "\n", &next); line != NULL; line = strtok_r(NULL, "\n", &next)) {
        char a[128], b[128], result[128];

        if (sscanf(line + 1, "%127s %127s %127s", a, b, result) != 3)
            return api->CreateStatus(ORT_EP_FAIL, "the program is damaged");
        program->steps[program->step_count++] = (test_step){ .is_product = line[0] == '*',
                                                             .a = value_of(program, a),
                                                             .b = value_of(program, b),
                                                             .result = value_of(program, result) };
    }
    return NULL;
}

const char *compatibility_info(OrtEp *self, const OrtGraph *graph)
{
    (void)self, (void)graph;
    return EP_NAME " programs";
}

OrtStatus *validate_info(OrtEpFactory *self, const OrtHardwareDevice *const *devices, size_t device_count,
                         const char *info, OrtCompiledModelCompatibility *out)
{
    (void)self, (void)devices;
    if (device_count != 1 || strcmp(info, EP_NAME " programs") != 0)
        return api->CreateStatus(ORT_EP_FAIL, "the text is not the one that was stated");
    *out = getenv("TEST_EP_STALE") != NULL ? ORT_COMPATIBILITY_PREFER_RECOMPILATION : ORT_COMPATIBILITY_OPTIMAL;
    return NULL;
}
