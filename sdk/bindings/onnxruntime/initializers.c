/* Initializers that a program gives a session in place of the model's (AddInitializer, AddExternalInitializers), which
 * are written into a copy of the model's file before it is loaded, and external data in memory
 * (AddExternalInitializersFromFilesInMemory). Sessions of the same values share packed weights through the cache, as
 * those of equal files. */
#include "wire.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

static OrtStatus *add(OrtSessionOptions *options, const char *name, const OrtValue *value, bool external)
{
    char *copy;

    if (name == NULL || name[0] == '\0')
        return ort_fail(ORT_INVALID_ARGUMENT, "Received a null or empty name of an initializer");
    if (value == NULL || value->type != ONNX_TYPE_TENSOR || value->value == NULL)
        return ort_fail(ORT_INVALID_ARGUMENT, "Received OrtValue is not a tensor. Only initializers that are tensors "
                                              "are supported.");
    if (inlay_value_data(value->value) == NULL && inlay_value_count(value->value) > 0)
        return ort_fail(ORT_INVALID_ARGUMENT, "initializer %s is not in CPU memory", name);
    for (size_t i = 0; i < options->initializer_count; i++)
        if (strcmp(options->initializers[i].name, name) == 0)
            return ort_fail(ORT_INVALID_ARGUMENT, "An OrtValue for this name has already been added: %s", name);
    copy = strdup(name);
    if (copy == NULL || !ORT_GROW(options->initializers, options->initializer_count)) {
        free(copy);
        return ort_no_memory();
    }
    options->initializers[options->initializer_count++] =
        (ort_initializer){ .name = copy, .value = ort_value_ref((OrtValue *)(uintptr_t)value), .external = external };
    return NULL;
}

OrtStatus *ort_AddInitializer(OrtSessionOptions *options, const char *name, const OrtValue *val)
{
    ORT_NEED(options);
    return add(options, name, val, false);
}

OrtStatus *ort_AddExternalInitializers(OrtSessionOptions *options, const char *const *initializer_names,
                                       const OrtValue *const *initializers, size_t num_initializers)
{
    ORT_NEED(options);
    if (num_initializers > 0) {
        ORT_NEED(initializer_names);
        ORT_NEED(initializers);
    }
    for (size_t i = 0; i < num_initializers; i++)
        ORT_TRY(add(options, initializer_names[i], initializers[i], true));
    return NULL;
}

OrtStatus *ort_AddExternalInitializersFromFilesInMemory(OrtSessionOptions *options,
                                                        const char *const *external_initializer_file_names,
                                                        char *const *external_initializer_file_buffer_array,
                                                        const size_t *external_initializer_file_lengths,
                                                        size_t num_external_initializer_files)
{
    ORT_NEED(options);
    if (num_external_initializer_files > 0) {
        ORT_NEED(external_initializer_file_names);
        ORT_NEED(external_initializer_file_buffer_array);
        ORT_NEED(external_initializer_file_lengths);
    }
    for (size_t i = 0; i < num_external_initializer_files; i++) {
        const char *name = external_initializer_file_names[i];
        char *copy;

        if (name == NULL || external_initializer_file_buffer_array[i] == NULL)
            return ort_fail(ORT_INVALID_ARGUMENT, "file %zu has no name or no buffer", i);
        for (size_t k = 0; k < options->file_count; k++)
            if (strcmp(options->files[k].name, name) == 0)
                return ort_fail(ORT_INVALID_ARGUMENT, "the file %s has already been added", name);
        copy = strdup(name);
        if (copy == NULL || !ORT_GROW(options->files, options->file_count)) {
            free(copy);
            return ort_no_memory();
        }
        options->files[options->file_count++] = (ort_file){ .name = copy,
                                                            .data = external_initializer_file_buffer_array[i],
                                                            .bytes = external_initializer_file_lengths[i] };
    }
    return NULL;
}

static OrtStatus *copy_all(OrtSessionOptions *to, const OrtSessionOptions *from)
{
    INLAY_CHECK(to->initializer_count + to->file_count == 0);
    for (size_t i = 0; i < from->initializer_count; i++)
        ORT_TRY(add(to, from->initializers[i].name, from->initializers[i].value, from->initializers[i].external));
    for (size_t i = 0; i < from->file_count; i++) {
        char *data = (char *)(uintptr_t)from->files[i].data;

        ORT_TRY(ort_AddExternalInitializersFromFilesInMemory(to, (const char *const *)&from->files[i].name, &data,
                                                             &from->files[i].bytes, 1));
    }
    return NULL;
}

bool ort_initializers_copy(OrtSessionOptions *to, const OrtSessionOptions *from)
{
    OrtStatus *failed = copy_all(to, from);

    ort_ReleaseStatus(failed);
    return failed == NULL;
}

void ort_initializers_release(OrtSessionOptions *options)
{
    for (size_t i = 0; i < options->initializer_count; i++) {
        free(options->initializers[i].name);
        ort_ReleaseValue(options->initializers[i].value);
    }
    for (size_t i = 0; i < options->file_count; i++)
        free(options->files[i].name);
    free(options->initializers);
    free(options->files);
}

/* Programs name files with or without the folder. */
static OrtStatus *set_file(inlay_options *to, const char *name, const void *data, size_t bytes)
{
    const char *slash = strrchr(name, '/');
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = inlay_options_set_file(to, name, data, bytes, &diag);

    if (status == INLAY_OK && slash != NULL && slash[1] != '\0')
        status = inlay_options_set_file(to, slash + 1, data, bytes, &diag);
    return ort_from(status, &diag);
}

OrtStatus *ort_files_set(const OrtSessionOptions *options, inlay_options *to, void **out_copy)
{
    const size_t alignment = 64;
    size_t bytes = alignment;
    char *at;

    *out_copy = NULL;
    if (options->file_count == 0)
        return NULL;
    for (size_t i = 0; i < options->file_count; i++)
        bytes += (options->files[i].bytes + alignment - 1) / alignment * alignment;
    *out_copy = at = aligned_alloc(alignment, bytes);
    if (at == NULL)
        return ort_no_memory();
    for (size_t i = 0; i < options->file_count; i++) {
        const ort_file *file = &options->files[i];

        if (file->bytes > 0)
            memcpy(at, file->data, file->bytes);
        ORT_TRY(set_file(to, file->name, at, file->bytes));
        at += (file->bytes + alignment - 1) / alignment * alignment;
    }
    return NULL;
}

enum { LOCATION_EXTERNAL = 1 };

/* What a TensorProto states about itself. */
struct tensor {
    wire_span name;
    uint64_t type;
    size_t rank; /* beyond INLAY_MAX_RANK: the dims are not complete */
    int64_t dims[INLAY_MAX_RANK];
    bool external;
};

struct copy {
    const OrtSessionOptions *options;
    bool *used; /* [initializer_count] */
    bool bad;   /* the file is malformed */
};

static void read_tensor(wire_span message, struct tensor *out, bool *bad)
{
    wire_field field;

    *out = (struct tensor){ 0 };
    while (wire_next(&message, &field)) {
        switch (field.number) {
        case TENSOR_DIMS:
            *bad |= !ort_read_dims(&field, out->dims, &out->rank);
            break;
        case TENSOR_TYPE:
            out->type = field.value;
            break;
        case TENSOR_NAME:
            out->name = field.data;
            break;
        case TENSOR_LOCATION:
            out->external = field.value == LOCATION_EXTERNAL;
            break;
        default:
            break;
        }
    }
    *bad |= message.count > 0;
}

static OrtStatus *check_fits(const struct tensor *tensor, const ort_initializer *given)
{
    const inlay_value *value = given->value->value;
    const uint32_t rank = inlay_value_rank(value);

    if (given->external && !tensor->external)
        return ort_fail(ORT_INVALID_ARGUMENT, "initializer %s has no external data in the model; use AddInitializer",
                        given->name);
    if (tensor->type != (uint64_t)inlay_value_dtype(value))
        return ort_fail(ORT_INVALID_ARGUMENT, "initializer %s is %s, but the model's has element type %llu",
                        given->name, ort_type_text(inlay_value_dtype(value)), (unsigned long long)tensor->type);
    if (tensor->rank != rank ||
        (rank > 0 && memcmp(tensor->dims, inlay_value_dims(value), rank * sizeof *tensor->dims) != 0))
        return ort_fail(ORT_INVALID_ARGUMENT, "initializer %s has another shape than in the model", given->name);
    return NULL;
}

static OrtStatus *copy_initializer(ort_writer *graph, const wire_field *message, struct copy *copy)
{
    const OrtSessionOptions *options = copy->options;
    struct tensor tensor;

    read_tensor(message->data, &tensor, &copy->bad);
    for (size_t i = 0; i < options->initializer_count; i++) {
        if (tensor.name.at == NULL || !wire_is(tensor.name, options->initializers[i].name))
            continue;
        ORT_TRY(check_fits(&tensor, &options->initializers[i]));
        ort_put_tensor(graph, GRAPH_INITIALIZER, options->initializers[i].name, options->initializers[i].value);
        copy->used[i] = true;
        return NULL;
    }
    ort_put(graph, message->whole.at, message->whole.count);
    return NULL;
}

static OrtStatus *copy_graph(ort_writer *file, wire_span message, struct copy *copy)
{
    ort_writer graph = { 0 };
    OrtStatus *failed = NULL;
    wire_field field;

    while (failed == NULL && wire_next(&message, &field)) {
        if (field.number == GRAPH_INITIALIZER)
            failed = copy_initializer(&graph, &field, copy);
        else
            ort_put(&graph, field.whole.at, field.whole.count);
    }
    copy->bad |= message.count > 0;
    ort_put_message(file, MODEL_GRAPH, &graph);
    return failed;
}

static OrtStatus *copy_model(ort_writer *file, const void *data, size_t bytes, struct copy *copy)
{
    wire_span rest = { data, bytes };
    wire_field field;

    while (!copy->bad && wire_next(&rest, &field)) {
        if (field.number == MODEL_GRAPH)
            ORT_TRY(copy_graph(file, field.data, copy));
        else
            ort_put(file, field.whole.at, field.whole.count);
    }
    if (copy->bad || rest.count > 0)
        return ort_fail(ORT_INVALID_PROTOBUF, "Failed to load model because protobuf parsing failed.");
    for (size_t i = 0; i < copy->options->initializer_count; i++)
        if (copy->options->initializers[i].external && !copy->used[i])
            return ort_fail(ORT_INVALID_ARGUMENT, "Failed to find an initializer with the name %s in the model",
                            copy->options->initializers[i].name);
    return file->failed ? ort_no_memory() : NULL;
}

bool ort_initializers_given(const OrtSessionOptions *options)
{
    return options != NULL && options->initializer_count > 0;
}

OrtStatus *ort_initializers_apply(const OrtSessionOptions *options, void **data, size_t *bytes)
{
    struct copy copy = { .options = options };
    ort_writer file = { 0 };
    OrtStatus *failed;

    copy.used = calloc(options->initializer_count + 1, sizeof *copy.used);
    if (copy.used == NULL)
        return ort_no_memory();
    failed = copy_model(&file, *data, *bytes, &copy);
    free(copy.used);
    if (failed != NULL) {
        free(file.data);
        return failed;
    }
    free(*data);
    *data = file.data;
    *bytes = file.count;
    return NULL;
}
