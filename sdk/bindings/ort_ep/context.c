/* EPContext nodes: the form in which ONNX Runtime stores what a provider has compiled. A node of this provider contains
 * the fused nodes as an ONNX file, in its attribute or in a file next to the model. A session of a model with such
 * nodes does not search for supported nodes again; inlay's cache has their packed weights. */
#include "ort_ep.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* OrtModelEditorApi. */
struct editor {
#define ENTRY(returns, name, params) returns(*name) params;
#include "editor.def"
#undef ENTRY
};

#define SEPARATE_SUFFIX ".inlay.onnx"

static OrtStatus *copy_entry(const ep_runtime *runtime, const OrtKeyValuePairs *entries, const char *key, char **out)
{
    const char *value = runtime->api->GetKeyValue(entries, key);

    *out = strdup(value != NULL ? value : "");
    return *out != NULL ? NULL : ep_no_memory(runtime);
}

OrtStatus *ep_context_options(struct ep *self, const OrtKeyValuePairs *entries)
{
    const ep_runtime *runtime = &self->runtime;
    const char *wanted = runtime->api->GetKeyValue(entries, "ep.context_enable");
    const char *embedded = runtime->api->GetKeyValue(entries, "ep.context_embed_mode");

    self->context.wanted = wanted != NULL && strcmp(wanted, "1") == 0;
    self->context.embedded = embedded != NULL && strcmp(embedded, "1") == 0;
    ORT_TRY(copy_entry(runtime, entries, "ep.context_file_path", &self->context.path));
    return copy_entry(runtime, entries, "ep.context_node_name_prefix", &self->context.prefix);
}

void ep_context_deinit(struct ep *self)
{
    free(self->context.path);
    free(self->context.prefix);
}

/* The attribute's bytes, malloc, with a NUL behind them; *out is NULL if the node has none. */
static OrtStatus *read_text(const ep_runtime *runtime, const OrtNode *node, const char *name, char **out,
                            size_t *out_bytes)
{
    const OrtOpAttr *attribute = NULL;
    OrtStatus *absent = runtime->api->Node_GetAttributeByName(node, name, &attribute);
    const bool is_absent = absent != NULL || attribute == NULL;

    *out = NULL;
    *out_bytes = 0;
    runtime->api->ReleaseStatus(absent);
    if (is_absent)
        return NULL;
    /* The first call fails if there are bytes, and returns how many. */
    runtime->api->ReleaseStatus(runtime->api->ReadOpAttr(attribute, ORT_OP_ATTR_STRING, NULL, 0, out_bytes));
    *out = calloc(1, *out_bytes + 1);
    if (*out == NULL)
        return ep_no_memory(runtime);
    return *out_bytes == 0 ? NULL
                           : runtime->api->ReadOpAttr(attribute, ORT_OP_ATTR_STRING, *out, *out_bytes, out_bytes);
}

/* Returns whether the attribute is a number other than 0; without it, `absent`. */
static bool read_flag(const ep_runtime *runtime, const OrtNode *node, const char *name, bool absent)
{
    const OrtOpAttr *attribute = NULL;
    int64_t value = absent;
    size_t bytes = 0;
    OrtStatus *failed = runtime->api->Node_GetAttributeByName(node, name, &attribute);

    if (failed == NULL && attribute != NULL)
        failed = runtime->api->ReadOpAttr(attribute, ORT_OP_ATTR_INT, &value, sizeof value, &bytes);
    runtime->api->ReleaseStatus(failed);
    return value != 0;
}

OrtStatus *ep_context_is_own(const ep_runtime *runtime, const OrtNode *node, bool *out)
{
    const char *operator_type, *domain;
    char *source;
    size_t bytes;

    *out = false;
    ORT_TRY(runtime->api->Node_GetOperatorType(node, &operator_type));
    ORT_TRY(runtime->api->Node_GetDomain(node, &domain));
    if (strcmp(operator_type, "EPContext") != 0 || strcmp(domain, "com.microsoft") != 0)
        return NULL;
    ORT_TRY(read_text(runtime, node, "source", &source, &bytes));
    *out = source != NULL && strcmp(source, EP_NAME) == 0;
    free(source);
    return NULL;
}

/* The path of a file in the folder of another one; malloc. */
static char *path_beside(const char *path, const char *file)
{
    const char *slash = strrchr(path, '/');
    const size_t folder = slash != NULL ? (size_t)(slash + 1 - path) : 0;
    char *joined = malloc(folder + strlen(file) + 1);

    if (joined != NULL) {
        memcpy(joined, path, folder);
        memcpy(joined + folder, file, strlen(file) + 1);
    }
    return joined;
}

/* Writes the model into the folder of the one that the runtime writes. */
static OrtStatus *write_beside(const struct ep *self, const OrtGraph *graph, const char *file, const ep_model *model)
{
    const ep_runtime *runtime = &self->runtime;
    const char *path = self->context.path;
    OrtStatus *failed = NULL;
    char *target;
    FILE *out;

    if (path[0] == '\0')
        ORT_TRY(runtime->api->Graph_GetModelPath(graph, &path));
    if (path == NULL || path[0] == '\0')
        return ep_fail(runtime, ORT_INVALID_ARGUMENT, "ep.context_embed_mode",
                       "there is no path for a separate file; set it to 1, or set ep.context_file_path");
    target = path_beside(path, file);
    if (target == NULL)
        return ep_no_memory(runtime);
    out = fopen(target, "wbe");
    if (out == NULL || fwrite(model->file.data, 1, model->file.count, out) != model->file.count)
        failed = ep_fail(runtime, ORT_FAIL, target, "it cannot be written");
    if (out != NULL && fclose(out) != 0 && failed == NULL)
        failed = ep_fail(runtime, ORT_FAIL, target, "it cannot be written");
    free(target);
    return failed;
}

static OrtStatus *names_of(const ep_runtime *runtime, const ep_values *values, const char ***out)
{
    *out = calloc(values->count + 1, sizeof **out);
    if (*out == NULL)
        return ep_no_memory(runtime);
    for (size_t i = 0; i < values->count; i++) {
        (*out)[i] = "";
        if (values->items[i] != NULL)
            ORT_TRY(runtime->api->GetValueInfoName(values->items[i], &(*out)[i]));
    }
    return NULL;
}

static OrtStatus *add_text(const ep_runtime *runtime, OrtOpAttr **attributes, size_t *count, const char *name,
                           const void *data, size_t bytes)
{
    if (bytes > INT_MAX)
        return ep_fail(runtime, ORT_INVALID_ARGUMENT, "ep.context_embed_mode",
                       "an attribute holds at most 2 GiB; set it to 0");
    return runtime->api->CreateOpAttr(name, data, (int)bytes, ORT_OP_ATTR_STRING, &attributes[(*count)++]);
}

static OrtStatus *add_number(const ep_runtime *runtime, OrtOpAttr **attributes, size_t *count, const char *name,
                             int64_t value)
{
    return runtime->api->CreateOpAttr(name, &value, 1, ORT_OP_ATTR_INT, &attributes[(*count)++]);
}

enum { ATTRIBUTES = 6 };

static OrtStatus *fill_attributes(const struct ep *self, const OrtGraph *graph, const char *name, const ep_model *model,
                                  OrtOpAttr **attributes, size_t *count)
{
    const ep_runtime *runtime = &self->runtime;
    const bool embedded = self->context.embedded;
    char file[PATH_MAX];

    (void)snprintf(file, sizeof file, "%s%s", name, SEPARATE_SUFFIX);
    for (char *c = file; *c != '\0'; c++)
        *c = (char)(*c == '/' ? '_' : *c); /* names of nodes may have any characters */
    if (embedded) {
        ORT_TRY(add_text(runtime, attributes, count, "ep_cache_context", model->file.data, model->file.count));
    } else {
        ORT_TRY(write_beside(self, graph, file, model));
        ORT_TRY(add_text(runtime, attributes, count, "ep_cache_context", file, strlen(file)));
    }
    ORT_TRY(add_number(runtime, attributes, count, "main_context", 1));
    ORT_TRY(add_number(runtime, attributes, count, "embed_mode", embedded ? 1 : 0));
    ORT_TRY(add_text(runtime, attributes, count, "ep_sdk_version", INLAY_VERSION, strlen(INLAY_VERSION)));
    ORT_TRY(add_text(runtime, attributes, count, "partition_name", name, strlen(name)));
    return add_text(runtime, attributes, count, "source", EP_NAME, strlen(EP_NAME));
}

OrtStatus *ep_context_write(const struct ep *self, const OrtGraph *graph, const OrtNode *fused_node,
                            const ep_values *inputs, const ep_values *outputs, const ep_model *model, OrtNode **out)
{
    const ep_runtime *runtime = &self->runtime;
    const struct editor *editor = (const struct editor *)(const void *)runtime->api->GetModelEditorApi();
    OrtOpAttr *attributes[ATTRIBUTES] = { NULL };
    const char **input_names = NULL, **output_names = NULL, *fused_name;
    char name[512];
    size_t count = 0;
    OrtStatus *failed;

    ORT_TRY(runtime->api->Node_GetName(fused_node, &fused_name));
    (void)snprintf(name, sizeof name, "%s%s", self->context.prefix, fused_name);
    failed = names_of(runtime, inputs, &input_names);
    if (failed == NULL)
        failed = names_of(runtime, outputs, &output_names);
    if (failed == NULL)
        failed = fill_attributes(self, graph, name, model, attributes, &count);
    if (failed == NULL) /* takes the attributes */
        failed = editor->CreateNode("EPContext", "com.microsoft", name, input_names, inputs->count, output_names,
                                    outputs->count, attributes, count, out);
    else
        for (size_t i = 0; i < count; i++)
            runtime->api->ReleaseOpAttr(attributes[i]);
    free(input_names);
    free(output_names);
    return failed;
}

/* Opens the file that a node names, which must be in the folder of the model. */
static OrtStatus *open_beside(const struct ep *self, const OrtGraph *graph, const char *file, ep_model *model)
{
    const ep_runtime *runtime = &self->runtime;
    inlay_diag diag = INLAY_DIAG_INIT;
    const char *path = NULL;
    inlay_status status;
    char *target;

    ORT_TRY(runtime->api->Graph_GetModelPath(graph, &path));
    if (strchr(file, '/') != NULL || file[0] == '\0')
        return ep_fail(runtime, ORT_INVALID_GRAPH, "EPContext", "ep_cache_context is not a name of a file");
    target = path_beside(path != NULL ? path : "", file);
    if (target == NULL)
        return ep_no_memory(runtime);
    status = inlay_session_create(target, self->options, &model->session, &diag);
    free(target);
    return ep_from(runtime, status, &diag);
}

OrtStatus *ep_context_read(const struct ep *self, const OrtGraph *graph, const OrtNode *node, ep_model **out)
{
    const ep_runtime *runtime = &self->runtime;
    inlay_diag diag = INLAY_DIAG_INIT;
    ep_model *model = calloc(1, sizeof *model);
    OrtStatus *failed;
    size_t bytes;
    char *data;

    *out = NULL;
    if (model == NULL)
        return ep_no_memory(runtime);
    failed = read_text(runtime, node, "ep_cache_context", &data, &bytes);
    if (failed == NULL && data == NULL)
        failed = ep_fail(runtime, ORT_INVALID_GRAPH, "EPContext", "the node has no ep_cache_context");
    else if (failed == NULL && read_flag(runtime, node, "embed_mode", true)) {
        model->file = (ort_writer){ .data = (unsigned char *)data, .count = bytes, .capacity = bytes };
        data = NULL; /* the session reads weights from it */
        failed = ep_from(
            runtime, inlay_session_create_from_bytes(model->file.data, bytes, self->options, &model->session, &diag),
            &diag);
    } else if (failed == NULL) {
        failed = open_beside(self, graph, data, model);
    }
    free(data);
    model->node_count = 1;
    if (failed != NULL)
        ep_model_destroy(model);
    else
        *out = model;
    return failed;
}

/* The text of all models that this version compiles. They are ONNX files, which later versions read, too. */
#define COMPATIBILITY_PREFIX "inlay "

const char *ep_context_compatibility(OrtEp *base, const OrtGraph *graph)
{
    (void)base;
    (void)graph;
    return COMPATIBILITY_PREFIX INLAY_VERSION;
}

OrtStatus *ep_context_validate(OrtEpFactory *base, const OrtHardwareDevice *const *devices, size_t device_count,
                               const char *info, OrtCompiledModelCompatibility *out)
{
    (void)base;
    (void)devices;
    (void)device_count;
    if (info == NULL || strncmp(info, COMPATIBILITY_PREFIX, strlen(COMPATIBILITY_PREFIX)) != 0)
        *out = ORT_COMPATIBILITY_NOT_APPLICABLE;
    else
        *out = strcmp(info + strlen(COMPATIBILITY_PREFIX), INLAY_VERSION) == 0 ? ORT_COMPATIBILITY_OPTIMAL
                                                                               : ORT_COMPATIBILITY_PREFER_RECOMPILATION;
    return NULL;
}
