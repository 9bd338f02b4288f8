/* Information about a session's model: inputs, outputs, metadata. */
#include "wire.h"
#include "inlay/check.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

OrtStatus *ort_session_ready(const OrtSession *session)
{
    if (session->session == NULL)
        return ort_fail(ORT_FAIL, "Session has not been initialized: call FinalizeModelEditorSession");
    return NULL;
}

inlay_io_info ort_input_info(const OrtSession *session, uint32_t model_index)
{
    inlay_io_info info = { .struct_size = sizeof info, .name = "" };

    (void)inlay_session_input(session->session, model_index, &info);
    return info;
}

inlay_io_info ort_output_info(const OrtSession *session, uint32_t index)
{
    inlay_io_info info = { .struct_size = sizeof info, .name = "" };

    (void)inlay_session_output(session->session, index, &info);
    return info;
}

ORT_GETTER(ort_SessionGetInputCount, const OrtSession *, session, size_t, out, session->input_count)
ORT_GETTER(ort_SessionGetOutputCount, const OrtSession *, session, size_t, out, session->output_count)
ORT_GETTER(ort_SessionGetOverridableInitializerCount, const OrtSession *, session, size_t, out,
           session->overridable_count)

enum { INPUT, OVERRIDABLE, OUTPUT };

static OrtStatus *find_info(const OrtSession *session, int which, size_t index, inlay_io_info *out)
{
    static const char *const words[] = { "input", "overridable initializer", "output" };
    uint32_t count;

    ORT_NEED(session);
    INLAY_CHECK(which == INPUT || which == OVERRIDABLE || which == OUTPUT);
    count = which == INPUT    ? session->input_count
            : which == OUTPUT ? session->output_count
                              : session->overridable_count;
    if (index >= count)
        return ort_fail(ORT_FAIL, "index out of range: %s %zu of %u", words[which], index, count);
    *out = which == OUTPUT
               ? ort_output_info(session, (uint32_t)index)
               : ort_input_info(session, which == INPUT ? session->inputs[index] : session->overridable[index]);
    return NULL;
}

static OrtStatus *give_type(const OrtSession *session, int which, size_t index, OrtTypeInfo **out)
{
    inlay_io_info info = { .name = "" };

    ORT_NEED(out);
    *out = NULL;
    ORT_TRY(find_info(session, which, index, &info));
    *out = ort_type_of_io(&info);
    return *out != NULL ? NULL : ort_no_memory();
}

static OrtStatus *give_name(const OrtSession *session, int which, size_t index, OrtAllocator *allocator, char **out)
{
    inlay_io_info info = { .name = "" };

    ORT_NEED(allocator);
    ORT_NEED(out);
    *out = NULL;
    ORT_TRY(find_info(session, which, index, &info));
    return ort_give_text(allocator, info.name, out);
}

OrtStatus *ort_SessionGetInputTypeInfo(const OrtSession *session, size_t index, OrtTypeInfo **type_info)
{
    return give_type(session, INPUT, index, type_info);
}

OrtStatus *ort_SessionGetOutputTypeInfo(const OrtSession *session, size_t index, OrtTypeInfo **type_info)
{
    return give_type(session, OUTPUT, index, type_info);
}

OrtStatus *ort_SessionGetOverridableInitializerTypeInfo(const OrtSession *session, size_t index,
                                                        OrtTypeInfo **type_info)
{
    return give_type(session, OVERRIDABLE, index, type_info);
}

OrtStatus *ort_SessionGetInputName(const OrtSession *session, size_t index, OrtAllocator *allocator, char **value)
{
    return give_name(session, INPUT, index, allocator, value);
}

OrtStatus *ort_SessionGetOutputName(const OrtSession *session, size_t index, OrtAllocator *allocator, char **value)
{
    return give_name(session, OUTPUT, index, allocator, value);
}

OrtStatus *ort_SessionGetOverridableInitializerName(const OrtSession *session, size_t index, OrtAllocator *allocator,
                                                    char **value)
{
    return give_name(session, OVERRIDABLE, index, allocator, value);
}

static OrtStatus *check_capacity(size_t capacity, uint32_t count, const char *what)
{
    if (capacity < count)
        return ort_fail(ORT_FAIL, "Number of %s %u exceeds the provided size of %zu", what, count, capacity);
    return NULL;
}

OrtStatus *ort_SessionGetMemoryInfoForInputs(const OrtSession *session, const OrtMemoryInfo **inputs_memory_info,
                                             size_t num_inputs)
{
    ORT_NEED(session);
    ORT_TRY(check_capacity(num_inputs, session->input_count, "inputs"));
    if (session->input_count > 0)
        ORT_NEED(inputs_memory_info);
    for (uint32_t i = 0; i < session->input_count; i++)
        inputs_memory_info[i] = &ort_cpu_memory;
    return NULL;
}

OrtStatus *ort_SessionGetMemoryInfoForOutputs(const OrtSession *session, const OrtMemoryInfo **outputs_memory_info,
                                              size_t num_outputs)
{
    ORT_NEED(session);
    ORT_TRY(check_capacity(num_outputs, session->output_count, "outputs"));
    if (session->output_count > 0)
        ORT_NEED(outputs_memory_info);
    for (uint32_t i = 0; i < session->output_count; i++)
        outputs_memory_info[i] = &ort_cpu_memory;
    return NULL;
}

OrtStatus *ort_SessionGetEpDeviceForInputs(const OrtSession *session, const OrtEpDevice **inputs_ep_devices,
                                           size_t num_inputs)
{
    ORT_NEED(session);
    ORT_TRY(check_capacity(num_inputs, session->input_count, "inputs"));
    if (session->input_count > 0)
        ORT_NEED(inputs_ep_devices);
    for (uint32_t i = 0; i < session->input_count; i++)
        inputs_ep_devices[i] = ort_cpu_device();
    return NULL;
}

OrtStatus *ort_SessionGetEpDeviceForOutputs(const OrtSession *session, const OrtEpDevice **outputs_ep_devices,
                                            size_t num_outputs)
{
    ORT_NEED(session);
    ORT_TRY(check_capacity(num_outputs, session->output_count, "outputs"));
    if (session->output_count > 0)
        ORT_NEED(outputs_ep_devices);
    for (uint32_t i = 0; i < session->output_count; i++)
        outputs_ep_devices[i] = ort_cpu_device();
    return NULL;
}

/* Reads the description of the graph, which inlay does not keep, from the model's bytes. */
static bool read_graph_doc(OrtKeyValuePairs *to, const void *data, size_t bytes)
{
    wire_field graph, doc;
    char *text;
    bool ok;

    if (!ort_find_field((wire_span){ data, bytes }, MODEL_GRAPH, &graph) ||
        !ort_find_field(graph.data, GRAPH_DOC, &doc))
        return true;
    text = strndup((const char *)doc.data.at, doc.data.count);
    ok = text != NULL && ort_pairs_set(to, "graph_doc", text);
    free(text);
    return ok;
}

ort_model_bytes ort_model_map(const OrtSession *session)
{
    const int file = session->bytes == NULL && session->path != NULL ? open(session->path, O_RDONLY | O_CLOEXEC) : -1;
    ort_model_bytes model = { .data = session->bytes, .bytes = session->byte_count };
    struct stat about;

    if (file < 0)
        return model;
    if (fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0)
        model.mapped = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (model.mapped == MAP_FAILED)
        model.mapped = NULL;
    if (model.mapped != NULL)
        model.bytes = (size_t)about.st_size;
    model.data = model.mapped;
    (void)close(file);
    return model;
}

void ort_model_unmap(ort_model_bytes *model)
{
    if (model->mapped != NULL)
        (void)munmap(model->mapped, model->bytes);
    *model = (ort_model_bytes){ 0 };
}

/* Copies, since programs may use the metadata after the session is released. */
struct OrtModelMetadata {
    OrtKeyValuePairs texts; /* of the model: producer, graph, domain, doc, graph_doc */
    OrtKeyValuePairs custom;
    int64_t version;
};
static const char *const metadata_texts[] = { "producer", "graph", "domain", "doc", "graph_doc" };

OrtStatus *ort_metadata_empty(OrtModelMetadata **out)
{
    OrtModelMetadata *metadata = calloc(1, sizeof *metadata);
    bool ok = metadata != NULL;

    *out = NULL;
    for (size_t i = 0; ok && i < sizeof metadata_texts / sizeof metadata_texts[0]; i++)
        ok = ort_pairs_set(&metadata->texts, metadata_texts[i], "");
    if (!ok) {
        ort_ReleaseModelMetadata(metadata);
        return ort_no_memory();
    }
    *out = metadata;
    return NULL;
}

static OrtStatus *read_metadata(const OrtSession *session, OrtModelMetadata **out)
{
    inlay_model_info info = { .struct_size = sizeof info };
    const char *key, *value;
    OrtModelMetadata *metadata;
    ort_model_bytes model;
    bool ok;

    *out = NULL;
    ORT_TRY(ort_session_ready(session));
    (void)inlay_session_model(session->session, &info);
    ORT_TRY(ort_metadata_empty(&metadata));
    ok = ort_pairs_set(&metadata->texts, "producer", info.producer_name) &&
         ort_pairs_set(&metadata->texts, "graph", info.graph_name) &&
         ort_pairs_set(&metadata->texts, "domain", info.domain) && ort_pairs_set(&metadata->texts, "doc", info.doc);
    for (uint32_t i = 0; ok && inlay_session_metadata(session->session, i, &key, &value) == INLAY_OK; i++)
        ok = ort_pairs_set(&metadata->custom, key, value);
    model = ort_model_map(session);
    if (ok && model.data != NULL)
        ok = read_graph_doc(&metadata->texts, model.data, model.bytes);
    ort_model_unmap(&model);
    if (!ok) {
        ort_ReleaseModelMetadata(metadata);
        return ort_no_memory();
    }
    metadata->version = info.model_version;
    *out = metadata;
    return NULL;
}

OrtStatus *ort_SessionGetModelMetadata(const OrtSession *session, OrtModelMetadata **out)
{
    OrtSession *used = (OrtSession *)(uintptr_t)session; /* only its count of users changes */
    OrtStatus *failed;

    ORT_NEED(session);
    ORT_NEED(out);
    ORT_TRY(ort_session_enter(used));
    failed = read_metadata(session, out);
    ort_session_leave(used);
    return failed;
}

void ort_ReleaseModelMetadata(OrtModelMetadata *metadata)
{
    if (metadata == NULL)
        return;
    ort_pairs_clear(&metadata->texts);
    ort_pairs_clear(&metadata->custom);
    free(metadata);
}

static OrtStatus *give_metadata(const OrtModelMetadata *metadata, const char *which, OrtAllocator *allocator,
                                char **out)
{
    ORT_NEED(metadata);
    ORT_NEED(allocator);
    ORT_NEED(out);
    return ort_give_text(allocator, ort_pairs_get(&metadata->texts, which), out);
}

OrtStatus *ort_ModelMetadataGetProducerName(const OrtModelMetadata *model_metadata, OrtAllocator *allocator,
                                            char **value)
{
    return give_metadata(model_metadata, "producer", allocator, value);
}

OrtStatus *ort_ModelMetadataGetGraphName(const OrtModelMetadata *model_metadata, OrtAllocator *allocator, char **value)
{
    return give_metadata(model_metadata, "graph", allocator, value);
}

OrtStatus *ort_ModelMetadataGetDomain(const OrtModelMetadata *model_metadata, OrtAllocator *allocator, char **value)
{
    return give_metadata(model_metadata, "domain", allocator, value);
}

OrtStatus *ort_ModelMetadataGetDescription(const OrtModelMetadata *model_metadata, OrtAllocator *allocator,
                                           char **value)
{
    return give_metadata(model_metadata, "doc", allocator, value);
}

OrtStatus *ort_ModelMetadataGetGraphDescription(const OrtModelMetadata *model_metadata, OrtAllocator *allocator,
                                                char **value)
{
    return give_metadata(model_metadata, "graph_doc", allocator, value);
}

ORT_GETTER(ort_ModelMetadataGetVersion, const OrtModelMetadata *, model_metadata, int64_t, value,
           model_metadata->version)

OrtStatus *ort_ModelMetadataLookupCustomMetadataMap(const OrtModelMetadata *model_metadata, OrtAllocator *allocator,
                                                    const char *key, char **value)
{
    const char *text;

    ORT_NEED(model_metadata);
    ORT_NEED(allocator);
    ORT_NEED(key);
    ORT_NEED(value);
    *value = NULL;
    text = ort_pairs_get(&model_metadata->custom, key);
    return text != NULL ? ort_give_text(allocator, text, value) : NULL;
}

OrtStatus *ort_ModelMetadataGetCustomMetadataMapKeys(const OrtModelMetadata *model_metadata, OrtAllocator *allocator,
                                                     char ***keys, int64_t *num_keys)
{
    size_t count;

    ORT_NEED(model_metadata);
    ORT_NEED(allocator);
    ORT_NEED(keys);
    ORT_NEED(num_keys);
    count = model_metadata->custom.count;
    *keys = NULL;
    *num_keys = 0;
    if (count == 0)
        return NULL;
    *keys = allocator->Alloc(allocator, count * sizeof **keys);
    if (*keys == NULL)
        return ort_no_memory();
    for (size_t i = 0; i < count; i++) {
        OrtStatus *failed = ort_give_text(allocator, model_metadata->custom.keys[i], &(*keys)[i]);

        if (failed == NULL)
            continue;
        while (i-- > 0)
            allocator->Free(allocator, (*keys)[i]);
        allocator->Free(allocator, *keys);
        *keys = NULL;
        return failed;
    }
    *num_keys = (int64_t)count;
    return NULL;
}

/* Providers of ONNX Runtime that compile models write such an entry of the model's metadata for each provider. */
static OrtStatus *find_compatibility(const void *data, size_t bytes, const char *ep_type, OrtAllocator *allocator,
                                     char **out)
{
    static const char prefix[] = "ep_compatibility_info.";
    const size_t prefix_bytes = sizeof prefix - 1;
    wire_span rest = { data, bytes };
    wire_field entry, key, value;
    OrtStatus *failed;
    char *text;

    while (wire_next(&rest, &entry)) {
        if (entry.number != MODEL_METADATA || !ort_find_field(entry.data, 1, &key) ||
            !ort_find_field(entry.data, 2, &value) || key.data.count < prefix_bytes ||
            memcmp(key.data.at, prefix, prefix_bytes) != 0 ||
            !wire_is((wire_span){ key.data.at + prefix_bytes, key.data.count - prefix_bytes }, ep_type))
            continue;
        text = strndup((const char *)value.data.at, value.data.count);
        failed = text != NULL ? ort_give_text(allocator, text, out) : ort_no_memory();
        free(text);
        return failed;
    }
    return rest.count > 0 ? ort_fail(ORT_INVALID_GRAPH, "Protobuf parsing failed.") : NULL;
}

OrtStatus *ort_GetCompatibilityInfoFromModelBytes(const void *model_data, size_t model_data_length, const char *ep_type,
                                                  OrtAllocator *allocator, char **compatibility_info)
{
    ORT_NEED(model_data);
    ORT_NEED(ep_type);
    ORT_NEED(allocator);
    ORT_NEED(compatibility_info);
    *compatibility_info = NULL;
    if (ep_type[0] == '\0')
        return ort_fail(ORT_INVALID_ARGUMENT, "ep_type is empty");
    return find_compatibility(model_data, model_data_length, ep_type, allocator, compatibility_info);
}

OrtStatus *ort_GetCompatibilityInfoFromModel(const char *model_path, const char *ep_type, OrtAllocator *allocator,
                                             char **compatibility_info)
{
    OrtStatus *failed;
    size_t bytes;
    void *data;

    ORT_NEED(model_path);
    ORT_TRY(ort_read_file(model_path, &data, &bytes));
    failed = ort_GetCompatibilityInfoFromModelBytes(data, bytes, ep_type, allocator, compatibility_info);
    free(data);
    return failed;
}
