/* model/load.c - loads a model from a file: entry points, and the parts of the model outside of graphs. */
#include "base/hash.h"
#include "base/parts.h"
#include "base/path.h"
#include "base/wire.h"
#include "model/format.h"
#include "model/load.h"
#include "inlay/check.h"
#include <inttypes.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>

enum { OLDEST_IR = 3, NEWEST_IR = 14, MAX_OPSETS = 256, IDENTITY_PART = 65536 };

model_limits model_limits_default(void)
{
    return (model_limits){
#define LIMIT(name, preset, most, what) .name = preset,
#include "base/model_limits.def"
    };
}

static model_limits with_defaults(const model_load_options *options)
{
    model_limits given = options == NULL ? (model_limits){ 0 } : options->limits, limits = model_limits_default();

#define LIMIT(name, preset, most, what) limits.name = given.name == 0 ? limits.name : given.name;
#include "base/model_limits.def"
    return limits;
}

static void *blob_alloc(void *ctx, size_t bytes)
{
    return graph_blob_alloc(ctx, bytes);
}

static inlay_status load_opsets(const struct loader *loader, size_t count, Onnx__Opset *const *protos,
                                graph_opset **out, uint32_t *out_count)
{
    graph_opset *list = arena_array(&loader->model->arena, count, sizeof *list);
    uint32_t opset_count = 0;

    if (count > MAX_OPSETS)
        return inlay_fail(loader->diag, INLAY_LIMIT_EXCEEDED, "imports %zu opsets; inlay takes up to %d", count,
                          MAX_OPSETS);
    if (list == NULL)
        return load_no_memory(loader, NULL);
    for (size_t i = 0; i < count; i++) {
        const char *domain = domain_of(protos[i]->domain);
        uint32_t k = 0;

        while (k < opset_count && strcmp(list[k].domain, domain) != 0)
            k++;
        if (k < opset_count && list[k].version != protos[i]->version) {
            inlay_status status = graph_tolerate(loader->model, NULL, NULL, NULL, GRAPH_OPSET_TWICE, loader->diag,
                                                 "domain '%.100s' is imported as opset %" PRId64
                                                 " and as opset %" PRId64 "; the higher one is used",
                                                 domain, list[k].version, protos[i]->version);

            if (status != INLAY_OK)
                return status;
            if (list[k].version < protos[i]->version)
                list[k].version = protos[i]->version;
        }
        if (k < opset_count)
            continue;
        list[opset_count] = (graph_opset){ .domain = load_text(loader, domain), .version = protos[i]->version };
        if (list[opset_count++].domain == NULL)
            return load_no_memory(loader, NULL);
    }
    *out = list;
    *out_count = opset_count;
    return INLAY_OK;
}

static inlay_status load_properties(const struct loader *loader, const Onnx__Model *proto)
{
    graph_model *model = loader->model;

    model->metadata = arena_array(&model->arena, proto->n_metadata_props, sizeof *model->metadata);
    if (model->metadata == NULL)
        return load_no_memory(loader, NULL);
    for (size_t i = 0; i < proto->n_metadata_props; i++) {
        model->metadata[i] = (graph_property){ .key = load_text(loader, proto->metadata_props[i]->key),
                                               .value = load_text(loader, proto->metadata_props[i]->value) };
        if (model->metadata[i].key == NULL || model->metadata[i].value == NULL)
            return load_no_memory(loader, NULL);
    }
    model->metadata_count = (uint32_t)proto->n_metadata_props;
    return INLAY_OK;
}

static inlay_status check_version(const struct loader *loader, const Onnx__Model *proto)
{
    if (proto->graph == NULL)
        return inlay_fail(loader->diag, INLAY_INVALID_MODEL, "has no graph; it is not an ONNX model, or it is empty");
    if (proto->ir_version < OLDEST_IR)
        return inlay_fail(loader->diag, proto->ir_version == 0 ? INLAY_INVALID_MODEL : INLAY_UNSUPPORTED,
                          "has ir_version %" PRId64 "; inlay reads IR %d to %d: convert it with onnx.version_converter",
                          proto->ir_version, OLDEST_IR, NEWEST_IR);
    if (proto->ir_version > NEWEST_IR)
        return inlay_fail(loader->diag, INLAY_UNSUPPORTED,
                          "has ir_version %" PRId64 "; inlay reads IR %d to %d: export it for an older opset",
                          proto->ir_version, OLDEST_IR, NEWEST_IR);
    return INLAY_OK;
}

/* Domain, name and overload together identify a function. */
static inlay_status check_function_name(struct loader *loader, names_table *seen, const graph_function *function)
{
    const char *key =
        arena_format(&loader->external.scratch, "%s\1%s\1%s", function->domain, function->name, function->overload);
    uint32_t present;

    if (key == NULL || !names_add(seen, key, strlen(key), 0, &present))
        return load_no_memory(loader, NULL);
    if (present != NAMES_NONE)
        return inlay_fail(loader->diag, INLAY_INVALID_MODEL, "function '%.100s' of domain '%.100s' is defined twice",
                          function->name, function->domain);
    return INLAY_OK;
}

static inlay_status load_functions(struct loader *loader, const Onnx__Model *proto)
{
    graph_model *model = loader->model;
    names_table seen = { 0 };
    inlay_status status = INLAY_OK;

    model->functions = arena_array(&model->arena, proto->n_functions, sizeof *model->functions);
    if (model->functions == NULL)
        return load_no_memory(loader, NULL);
    for (size_t i = 0; i < proto->n_functions; i++) {
        const Onnx__Function *function = proto->functions[i];
        graph_function *out = &model->functions[i];

        INLAY_TRY(
            load_opsets(loader, function->n_opset_import, function->opset_import, &out->opsets, &out->opset_count));
        INLAY_TRY(load_function(loader, function, out));
        INLAY_TRY(check_function_name(loader, &seen, out));
        model->function_count++;
    }
done:
    names_deinit(&seen);
    return status;
}

static inlay_status load_model(struct loader *loader, const Onnx__Model *proto)
{
    graph_model *model = loader->model;
    struct scope scope = { .graph = model->main };
    inlay_status status = check_version(loader, proto);

    if (status != INLAY_OK)
        return status;
    model->ir_version = proto->ir_version;
    model->about.version = proto->model_version;
    model->about.producer_name = load_text(loader, proto->producer_name);
    model->about.producer_version = load_text(loader, proto->producer_version);
    model->about.domain = load_text(loader, proto->domain);
    model->about.doc = load_text(loader, proto->doc_string);
    if (model->about.producer_name == NULL || model->about.producer_version == NULL || model->about.domain == NULL ||
        model->about.doc == NULL)
        return load_no_memory(loader, NULL);
    INLAY_TRY(load_properties(loader, proto));
    INLAY_TRY(load_extra(loader, &proto->base, 0, &model->extra));
    INLAY_TRY(load_opsets(loader, proto->n_opset_import, proto->opset_import, &model->opsets, &model->opset_count));
    INLAY_TRY(load_functions(loader, proto));
    loader->opsets = model->opsets;
    loader->opset_count = model->opset_count;
    INLAY_TRY(load_graph(loader, &scope, proto->graph));
    INLAY_TRY(graph_finish(model->main, loader->diag));
    if (!graph_update_finding_paths(model))
        status = load_no_memory(loader, NULL);
done:
    scope_deinit(&scope);
    return status;
}

#define GGML "is a GGML file, which precedes GGUF, not an ONNX model; convert it to GGUF or export the original model"
#define PICKLE                                                                                                         \
    "is a Python pickle (an old torch checkpoint?), not an ONNX model; load it with torch and export the model"

/* Detects other files that are often mistaken for ONNX models. A file that starts with one of these bytes is not a
 * model that a program wrote: each is the tag of a field or type that ONNX does not have. */
static inlay_status check_kind(const uint8_t *bytes, size_t count, inlay_diag *diag)
{
    static const struct {
        size_t at, length;
        const char *magic, *text;
    } kinds[] = {
        { 0, 23, "version https://git-lfs", "is a Git LFS pointer, not the model; run 'git lfs pull'" },
        { 0, 4, "PK\003\004", "is a zip archive (a torch checkpoint?), not an ONNX model" },
        { 4, 4, "ORTM",
          "is in ONNX Runtime's ORT format, not an ONNX model; use the .onnx file that it was converted from" },
        { 0, 9, "<!DOCTYPE", "is a web page, not an ONNX model; the download went wrong" },
        { 0, 9, "<!doctype", "is a web page, not an ONNX model; the download went wrong" },
        { 0, 5, "<html", "is a web page, not an ONNX model; the download went wrong" },
        { 0, 2, "\037\213", "is compressed by gzip, not an ONNX model; unpack it with gunzip" },
        { 4, 4, "TFL3", "is a TensorFlow Lite model, not an ONNX model; tf2onnx --tflite converts it" },
        { 1, 3, "HDF", "is an HDF5 file (of Keras?), not an ONNX model; tf2onnx converts it" },
        { 0, 4, "lmgg", GGML },
        { 0, 4, "fmgg", GGML },
        { 0, 4, "tjgg", GGML },
        { 0, 2, "\200\002", PICKLE },
        { 0, 2, "\200\003", PICKLE },
        { 0, 2, "\200\004", PICKLE },
        { 0, 2, "\200\005", PICKLE },
        { 0, 6, "\223NUMPY", "is an array of NumPy, not an ONNX model" },
        { 0, 5, "<?xml", "is an XML file (of OpenVINO?), not an ONNX model; use the model that it was converted from" },
        { 0, 7, "7767517",
          "is the network of an ncnn model, not an ONNX model; use the model that it was converted from" },
        { 0, 6, "\3757zXZ\0", "is compressed by xz, not an ONNX model; unpack it with unxz" },
        { 0, 4, "\050\265\057\375", "is compressed by Zstandard, not an ONNX model; unpack it with unzstd" },
        { 0, 3, "BZh", "is compressed by bzip2, not an ONNX model; unpack it with bunzip2" },
        { 0, 1, "{", "is a JSON file, not an ONNX model; give the path of the .onnx file" },
        /* a length below 2^40, then JSON */
        { 5, 5, "\0\0\0{\"", "is a safetensors file, which has weights only, not an ONNX model; export the model" },
    };

    if (count == 0)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "is empty");
    if (count >= 4 && memcmp(bytes, "GGUF", 4) == 0) /* otherwise it is a translated model */
        return inlay_fail(diag, INLAY_UNSUPPORTED, "is a GGUF file, a format that " PARTS_LEFT_OUT);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (count >= kinds[i].at + kinds[i].length && memcmp(bytes + kinds[i].at, kinds[i].magic, kinds[i].length) == 0)
            return inlay_fail(diag, INLAY_INVALID_MODEL, "%s", kinds[i].text);
    }
    return INLAY_OK;
}

static uint64_t identity_of(const void *bytes, size_t count)
{
    const size_t part = count < IDENTITY_PART ? count : IDENTITY_PART;
    const uint64_t hash = hash_bytes((const char *)bytes + count - part, part, hash_bytes(bytes, part, count));

    return hash != 0 ? hash : 1;
}

/* Names of open descriptors (/dev/stdin, a shell's <(...)). */
static bool is_stream(const char *path)
{
    static const char *const streams[] = { "/dev/stdin", "/dev/fd/", "/proc/self/fd/" };

    for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++)
        if (strncmp(path, streams[i], strlen(streams[i])) == 0)
            return true;
    return false;
}

/* format_file.alloc; external_open() finds the memory by its location, which is the path of no file. */
static void *alloc_external(void *ctx, size_t bytes, const char **out_location)
{
    graph_model *model = ctx;
    void *data = graph_blob_alloc(model, bytes);
    char location[24];

    (void)snprintf(location, sizeof location, "\1%u", model->source.made_externals);
    if (data == NULL || !file_record(model, location, data, bytes))
        return NULL;
    model->source.made_externals++;
    *out_location = model->source.externals->location;
    return data;
}

/* format_file.open */
static inlay_status open_other(void *ctx, const char *location, const uint8_t **out_bytes, size_t *out_count,
                               inlay_diag *diag)
{
    file_map map;
    const inlay_status status = external_open(ctx, location, &map, diag);

    if (status == INLAY_OK) {
        *out_bytes = map.bytes;
        *out_count = map.count;
    }
    return status;
}

const model_format *load_format_of(const uint8_t *bytes, size_t count)
{
    const model_format *const *format = library_parts.formats;

    while (*format != NULL && !(*format)->is_file(bytes, count))
        format++;
    return *format;
}

/* Translates a file of another format to an ONNX model, in memory of the model. Weights that stay in the file are
 * external data of the name of the file in its folder; without one, they are copied. */
static inlay_status translate(external_files *files, const void **bytes, size_t *count, inlay_diag *diag)
{
    graph_model *model = files->model;
    const model_load_options *options = files->options;
    const model_format *format = load_format_of(*bytes, *count);
    const char *name = model->source.path != NULL ? path_name(model->source.path) : NULL;
    format_file file = { *bytes, *count, name, name, alloc_external, model, open_other, files, false };
    struct wire made = { 0 };
    inlay_status status = INLAY_OK;

    if (format == NULL)
        return INLAY_OK;
    if (model->source.path == NULL || is_stream(model->source.path) ||
        (options != NULL && options->external_dir != NULL))
        file.location = NULL;
    file.keeps_blocks = file.location != NULL && options != NULL && options->keep_blocks;
    if (options != NULL && options->spill_dir != NULL)
        model->memory.spill_dir = options->spill_dir(options->spill_user, *count);
    made.failed = file.location != NULL && !file_record(model, file.location, *bytes, *count);
    if (!made.failed) /* external_open() will find the file by its location, and not map it again */
        status = format->translate(&file, &made, diag);
    model->memory.spill_dir = NULL;
    if (status == INLAY_OK && (made.failed || graph_blob_adopt(model, made.bytes, made.count) != INLAY_OK))
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "out of memory for the model of a %s file", format->name);
    if (status == INLAY_OK) {
        *bytes = made.bytes;
        *count = made.count;
        made.bytes = NULL;
    }
    wire_deinit(&made);
    return status;
}

/* bytes must outlive the model. dir NULL: no external data. */
static inlay_status load(graph_model *model, const void *bytes, size_t count, const model_load_options *options,
                         const char *dir, inlay_diag *diag)
{
    struct arena parsed = { 0 };
    prescan_result scanned = { 0 };
    const Onnx__Model *proto;
    struct loader loader = { .model = model, .limits = with_defaults(options), .diag = diag };
    inlay_status status;

    model->source.identity =
        model->source.base != NULL ? model->source.base->source.identity : identity_of(bytes, count);
    loader.external =
        (external_files){ .model = model,
                          .options = options,
                          .dir = options != NULL && options->external_dir != NULL ? options->external_dir : dir };
    INLAY_TRY(translate(&loader.external, &bytes, &count, diag));
    loader.source = (tensor_source){ .file = bytes,
                                     .file_bytes = count,
                                     .limits = &loader.limits,
                                     .external = &loader.external,
                                     .arena = &model->arena,
                                     .alloc = blob_alloc,
                                     .alloc_ctx = model,
                                     .densified = &loader.densified };
    model->source.bytes = bytes;
    model->source.byte_count = count;
    model->findings.strict = options != NULL && options->strict;
    model->findings.collect = options != NULL && options->collect;
    loader.keep_sparse = options != NULL && options->keep_sparse;
    loader.drop_metadata = options != NULL && options->drop_metadata;
    INLAY_TRY(check_kind(bytes, count, diag));
    INLAY_TRY(prescan(bytes, count, PRESCAN_MODEL, &loader.limits, &scanned, diag));
    proto = (const Onnx__Model *)load_unpack(&onnx__model__descriptor, &scanned, &parsed);
    if (proto == NULL) {
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "out of memory while parsing");
        goto done;
    }
    INLAY_TRY(load_model(&loader, proto));
done:
    if (options != NULL && options->out_fault != NULL)
        *options->out_fault = model->findings.fault;
    free(scanned.bytes);
    external_deinit(&loader.external);
    arena_deinit(&parsed);
    return status;
}

/* Loads from a mapped file, which is transferred to the model. */
static inlay_status load_map(file_map *map, const char *what, const char *path, const char *dir,
                             const model_load_options *options, graph_model **out_model, inlay_diag *diag)
{
    graph_model *model = graph_model_create();
    const void *bytes = map->bytes;
    size_t count = map->count;
    inlay_status status, files;

    if (model == NULL) {
        file_unmap(map);
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "out of memory");
        goto done;
    }
    INLAY_TRY(file_transfer(map, model, diag));
    if (path != NULL) {
        model->source.path = arena_string(&model->arena, path);
        if (model->source.path == NULL) {
            status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "out of memory");
            goto done;
        }
    }
    status = load(model, bytes, count, options, dir, diag);
    files = graph_files_check(model, diag);
    if (files != INLAY_OK) { /* a changed file may have caused the other error */
        graph_model_destroy(model);
        return files;
    }
    if (status == INLAY_OK ||
        model->findings.collect) { /* with `collect`, the caller gets the findings before the error */
        *out_model = model;
        model = NULL;
    }
done:
    if (status != INLAY_OK)
        load_prefix(diag, what);
    graph_model_destroy(model);
    return status;
}

/* The folder to which locations of external data are relative. Streams have no folder; for them it is the working
 * directory. */
static const char *folder_of(char *path)
{
    return is_stream(path) ? "." : dirname(path);
}

inlay_status model_load_path(const char *path, const model_load_options *options, graph_model **out_model,
                             inlay_diag *diag)
{
    file_map map;
    char *copy = strdup(path);
    inlay_status status;

    *out_model = NULL;
    if (copy == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "out of memory");
    status = file_map_path(path, options != NULL ? options->copy_bytes : 0, &map, diag);
    if (status == INLAY_OK)
        status = load_map(&map, path, path, folder_of(copy), options, out_model, diag);
    else
        load_prefix(diag, path);
    free(copy);
    return status;
}

inlay_status model_load_fd(int fd, const model_load_options *options, graph_model **out_model, inlay_diag *diag)
{
    file_map map;
    inlay_status status = file_map_fd(fd, options != NULL ? options->copy_bytes : 0, &map, diag);

    *out_model = NULL;
    if (status == INLAY_OK)
        return load_map(&map, "model", NULL, NULL, options, out_model, diag);
    load_prefix(diag, "model");
    return status;
}

/* Loads from bytes that outlive the model; base may be NULL. */
static inlay_status load_bytes(const void *data, size_t bytes, const graph_model *base,
                               const model_load_options *options, graph_model **out_model, inlay_diag *diag)
{
    graph_model *model = graph_model_create();
    inlay_status status;

    *out_model = NULL;
    if (model == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "out of memory");
    model->source.base = base;
    status = load(model, data, bytes, options, NULL, diag);
    if (status == INLAY_OK) {
        *out_model = model;
        return INLAY_OK;
    }
    load_prefix(diag, "model");
    graph_model_destroy(model);
    return status;
}

inlay_status model_load_bytes(const void *data, size_t bytes, const model_load_options *options,
                              graph_model **out_model, inlay_diag *diag)
{
    return load_bytes(data, bytes, NULL, options, out_model, diag);
}

inlay_status model_load_again(const graph_model *base, const model_load_options *options, graph_model **out_model,
                              inlay_diag *diag)
{
    return load_bytes(base->source.bytes, base->source.byte_count, base, options, out_model, diag);
}
