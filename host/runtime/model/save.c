/* model/save.c - writes a model to a file: entry point, files, and the parts of the model outside of graphs. */
#include "model/save.h"
#include "base/checked.h"
#include "base/memory.h"
#include "base/output.h"
#include "inlay/check.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { EXTERNAL_PIECE = 4 << 20 };
#define MAX_MODEL_BYTES (UINT64_C(2) << 30) /* protobuf parsers limit a message to 2 GiB */

static bool write_external(const struct saver *saver, int fd)
{
    /* never modified; not const, so that the array takes no space in the library file */
    static uint8_t zeros[EXTERNAL_ALIGN];
    uint64_t at = 0;

    for (size_t i = 0; i < saver->external_count; i++) {
        const save_external *external = &saver->external[i];

        INLAY_CHECK(external->offset >= at && external->offset - at < EXTERNAL_ALIGN);
        if (!output_write(fd, zeros, (size_t)(external->offset - at)))
            return false;
        for (uint64_t done = 0; done < external->bytes; done += EXTERNAL_PIECE) {
            const uint8_t *piece = (const uint8_t *)external->data + done;
            const size_t bytes =
                (size_t)(external->bytes - done < EXTERNAL_PIECE ? external->bytes - done : EXTERNAL_PIECE);

            if (!output_write(fd, piece, bytes))
                return false;
            graph_blob_release_pages(external->model, piece, bytes); /* limits the pages of a mapped file in memory */
        }
        at = external->offset + external->bytes;
    }
    return true;
}

static char *path_in_same_folder(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    size_t dir_bytes = slash == NULL ? 0 : (size_t)(slash - path) + 1, name_bytes = strlen(name);
    char *joined = malloc(dir_bytes + name_bytes + 1);

    if (joined != NULL) {
        memcpy(joined, path, dir_bytes);
        memcpy(joined + dir_bytes, name, name_bytes + 1);
    }
    return joined;
}

/* Both files are complete before either name changes. */
static inlay_status write_files(struct saver *saver, const char *path)
{
    output_file model = { .fd = -1 }, data = { .fd = -1 };
    const bool outside = saver->external_count > 0;
    char *data_path = NULL, target[PATH_MAX];
    inlay_status status = INLAY_OK;

    if (outside) {
        if (!output_target(path, target))
            return inlay_fail(saver->diag, INLAY_INVALID_ARGUMENT,
                              "%.200s is not a regular file, so the tensors cannot be written to "
                              "'%.200s' in its folder",
                              path, saver->options->external_file);
        data_path = path_in_same_folder(path, saver->options->external_file);
        if (data_path == NULL)
            return no_memory(saver->diag, "to save the model");
        INLAY_TRY(output_open(&data, data_path, saver->diag));
        if (!write_external(saver, data.fd)) {
            status = output_failed(&data, saver->diag);
            goto done;
        }
    }
    INLAY_TRY(output_open(&model, path, saver->diag));
    if (!wire_write(&saver->wire, model.fd)) {
        status = output_failed(&model, saver->diag);
        goto done;
    }
    INLAY_TRY(graph_files_check(saver->model, saver->diag));
    status = outside ? output_commit(&data, &model, saver->diag) : output_commit(&model, NULL, saver->diag);
done:
    output_drop(&model);
    output_drop(&data);
    free(data_path);
    return status;
}

static void put_opset(struct wire *wire, uint32_t field, const graph_opset *opset)
{
    wire_mark mark = wire_begin(wire, field);

    wire_text(wire, 1, strcmp(opset->domain, "ai.onnx") == 0 ? "" : opset->domain);
    wire_int(wire, 2, opset->version);
    wire_end(wire, mark);
}

static inlay_status put_model(struct saver *saver)
{
    const graph_model *model = saver->model;
    struct wire *wire = &saver->wire;
    wire_mark mark;
    inlay_status status = INLAY_OK;

    wire_int(wire, 1, model->ir_version);
    wire_text_if(wire, 2, model->about.producer_name);
    wire_text_if(wire, 3, model->about.producer_version);
    wire_text_if(wire, 4, model->about.domain);
    if (model->about.version != 0)
        wire_int(wire, 5, model->about.version);
    wire_text_if(wire, 6, model->about.doc);
    for (uint32_t i = 0; i < model->opset_count; i++)
        put_opset(wire, 8, &model->opsets[i]);
    mark = wire_begin(wire, 7);
    INLAY_TRY(save_graph(saver, model->main));
    wire_end(wire, mark);
    for (uint32_t i = 0; i < model->metadata_count; i++)
        save_entry(wire, 14, model->metadata[i].key, model->metadata[i].value);
    for (uint32_t i = 0; i < model->function_count; i++) {
        mark = wire_begin(wire, 25);
        INLAY_TRY(save_function(saver, &model->functions[i]));
        for (uint32_t k = 0; k < model->functions[i].opset_count; k++)
            put_opset(wire, 9, &model->functions[i].opsets[k]);
        wire_end(wire, mark);
    }
    wire_raw(wire, model->extra.data, (size_t)model->extra.bytes);
    if (wire->failed)
        return no_memory(saver->diag, "to save the model");
    if (wire_size(wire) >= MAX_MODEL_BYTES)
        return inlay_fail(saver->diag, INLAY_LIMIT_EXCEEDED,
                          "the model would have %" PRIu64
                          " bytes, but an ONNX file is limited to 2 GiB; put the weights into an external file",
                          wire_size(wire));
done:
    return status;
}

inlay_status model_save_together(const graph_model *const *models, const char *const *paths, uint32_t count,
                                 const model_save_options *options, inlay_diag *diag)
{
    struct saver saver = { .options = options, .shares = true, .diag = diag };
    struct wire *wires = calloc((size_t)count + 1, sizeof *wires);
    size_t external_count;
    inlay_status status = wires != NULL ? INLAY_OK : no_memory(diag, "to save the models");

    for (uint32_t i = 0; i < count && status == INLAY_OK; i++) {
        saver.model = models[i];
        status = put_model(&saver);
        wires[i] = saver.wire;
        saver.wire = (struct wire){ 0 };
    }
    external_count = saver.external_count;
    for (uint32_t i = 0; i < count && status == INLAY_OK; i++) {
        saver.model = models[i];
        saver.wire = wires[i];
        saver.external_count = i == 0 ? external_count : 0; /* the tensors are written with the first model */
        status = write_files(&saver, paths[i]);
    }
    for (uint32_t i = 0; wires != NULL && i < count; i++)
        wire_deinit(&wires[i]);
    free(wires);
    free(saver.external);
    arena_deinit(&saver.scratch);
    return status;
}

inlay_status model_save(const graph_model *model, const char *path, const model_save_options *options, inlay_diag *diag)
{
    struct saver saver = { .model = model, .options = options, .diag = diag };
    const char *name = options == NULL ? NULL : options->external_file;
    inlay_status status = INLAY_OK;

    if (name != NULL &&
        (name[0] == '\0' || strchr(name, '/') != NULL || strcmp(name, ".") == 0 || strcmp(name, "..") == 0))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "external_file '%.200s' must be a plain file name; the file is written to the model's folder",
                          name);
    INLAY_TRY(put_model(&saver));
    INLAY_TRY(write_files(&saver, path));
done:
    wire_deinit(&saver.wire);
    free(saver.external);
    arena_deinit(&saver.scratch);
    return status;
}
