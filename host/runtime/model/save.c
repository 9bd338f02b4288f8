/* model/save.c - a model becomes a file: the way out, and what stands around the graphs. */
#include "model/save.h"
#include "base/checked.h"
#include "base/memory.h"
#include "base/output.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { EXTERNAL_PIECE = 4 << 20 };
#define MAX_MODEL_BYTES (UINT64_C(2) << 30) /* other parsers read no more into one message */

/* ------------------------------------------------------------------ files */

static bool write_external(const struct saver *s, int fd)
{
    static uint8_t zeros[EXTERNAL_ALIGN]; /* only read; not const, so that the library's file has none of them */
    uint64_t at = 0;

    for (size_t i = 0; i < s->external_count; i++) {
        const save_external *e = &s->external[i];

        if (!output_write(fd, zeros, (size_t)(e->offset - at)))
            return false;
        for (uint64_t done = 0; done < e->bytes; done += EXTERNAL_PIECE) {
            const uint8_t *piece = (const uint8_t *)e->data + done;
            const size_t bytes = (size_t)(e->bytes - done < EXTERNAL_PIECE ? e->bytes - done : EXTERNAL_PIECE);

            if (!output_write(fd, piece, bytes))
                return false;
            graph_blob_forget(s->model, piece, bytes); /* pages of a file need not all be in memory at once */
        }
        at = e->offset + e->bytes;
    }
    return true;
}

static char *beside(const char *path, const char *name)
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
static inlay_status write_files(struct saver *s, const char *path)
{
    output_file model = { .fd = -1 }, data = { .fd = -1 };
    const bool outside = s->external_count > 0;
    char *data_path = NULL, target[PATH_MAX];
    inlay_status status = INLAY_OK;

    if (outside) {
        if (!output_target(path, target))
            return inlay_fail(s->diag, INLAY_INVALID_ARGUMENT,
                              "%.200s is no regular file: there is no place beside it for the file '%.200s' of tensors",
                              path, s->options->external_file);
        data_path = beside(path, s->options->external_file);
        if (data_path == NULL)
            return no_memory(s->diag, "to save the model");
        INLAY_TRY(output_open(&data, data_path, s->diag));
        if (!write_external(s, data.fd)) {
            status = output_failed(&data, s->diag);
            goto done;
        }
    }
    INLAY_TRY(output_open(&model, path, s->diag));
    if (!wire_write(&s->w, model.fd)) {
        status = output_failed(&model, s->diag);
        goto done;
    }
    status = outside ? output_commit(&data, &model, s->diag) : output_commit(&model, NULL, s->diag);
done:
    output_drop(&model);
    output_drop(&data);
    free(data_path);
    return status;
}

/* ------------------------------------------------------------------ the model */

static void put_opset(struct wire *w, uint32_t field, const graph_opset *opset)
{
    wire_mark mark = wire_begin(w, field);

    wire_text(w, 1, strcmp(opset->domain, "ai.onnx") == 0 ? "" : opset->domain);
    wire_int(w, 2, opset->version);
    wire_end(w, mark);
}

static inlay_status put_model(struct saver *s)
{
    const graph_model *m = s->model;
    struct wire *w = &s->w;
    wire_mark mark;
    inlay_status status = INLAY_OK;

    wire_int(w, 1, m->ir_version);
    wire_text_if(w, 2, m->producer_name);
    wire_text_if(w, 3, m->producer_version);
    wire_text_if(w, 4, m->domain);
    if (m->model_version != 0)
        wire_int(w, 5, m->model_version);
    wire_text_if(w, 6, m->doc);
    for (uint32_t i = 0; i < m->opset_count; i++)
        put_opset(w, 8, &m->opsets[i]);
    mark = wire_begin(w, 7);
    INLAY_TRY(save_graph(s, m->main, NULL, NULL));
    wire_end(w, mark);
    for (uint32_t i = 0; i < m->metadata_count; i++)
        save_entry(w, 14, m->metadata[i].key, m->metadata[i].value);
    for (uint32_t i = 0; i < m->function_count; i++) {
        mark = wire_begin(w, 25);
        INLAY_TRY(save_function(s, &m->functions[i]));
        for (uint32_t k = 0; k < m->functions[i].opset_count; k++)
            put_opset(w, 9, &m->functions[i].opsets[k]);
        wire_end(w, mark);
    }
    wire_raw(w, m->extra.data, (size_t)m->extra.bytes);
    if (w->failed)
        return no_memory(s->diag, "to save the model");
    if (wire_size(w) >= MAX_MODEL_BYTES)
        return inlay_fail(s->diag, INLAY_LIMIT_EXCEEDED,
                          "the model would have %" PRIu64
                          " bytes, but an ONNX file ends at 2 GiB; put the weights into an "
                          "external file",
                          wire_size(w));
done:
    return status;
}

inlay_status model_save(const graph_model *model, const char *path, const model_save_options *options, inlay_diag *diag)
{
    struct saver s = { .model = model, .options = options, .diag = diag };
    const char *name = options == NULL ? NULL : options->external_file;
    inlay_status status = INLAY_OK;

    if (name != NULL &&
        (name[0] == '\0' || strchr(name, '/') != NULL || strcmp(name, ".") == 0 || strcmp(name, "..") == 0))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "external_file '%.200s' must be a plain file name; it goes beside the model", name);
    INLAY_TRY(put_model(&s));
    INLAY_TRY(write_files(&s, path));
done:
    wire_deinit(&s.w);
    free(s.external);
    arena_deinit(&s.scratch);
    return status;
}
