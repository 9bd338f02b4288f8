#include "serve/model/files.h"
#include "inlay/check.h"
#include "codecs/datatype.h"
#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <string.h>

static const int64_t list_dims[1] = { -1 };
static const char *const list_names[1] = { "files" };

const inlay_str files_example = { "P6 2 1 255\n\x01\x02\x03\xff\x80\x40", 17 };

bool files_is_list(const inlay_io_info *io)
{
    return io->dim_names == list_names;
}

/* Describes an output of one row for each file; false: it has other sizes. */
static bool describe_rows(inlay_io_info *io, struct file_output *output)
{
    uint64_t count;

    if (io->kind != INLAY_KIND_TENSOR || io->rank == INLAY_RANK_UNKNOWN || io->rank == 0 || io->dims[0] != 1)
        return false;
    memcpy(output->dims, io->dims, io->rank * sizeof output->dims[0]);
    memcpy((void *)output->dim_names, (const void *)io->dim_names, io->rank * sizeof output->dim_names[0]);
    if (io->dtype != INLAY_STRING && infer_count(io->rank, io->dims, &count))
        output->row_bytes = count * datatype_bytes(io->dtype);
    output->dims[0] = -1;
    output->dim_names[0] = list_names[0];
    io->dims = output->dims;
    io->dim_names = output->dim_names;
    return true;
}

inlay_status files_describe(struct model *model, inlay_diag *diag)
{
    inlay_io_info *input = &model->io.inputs[0];

    if (model->io.input_count != 1 || input->dtype != INLAY_UINT8 || input->rank != 1 || input->dims[0] >= 0 ||
        strcmp(input->dim_names[0], "file_bytes") != 0)
        return INLAY_OK;
    model->io.files = calloc(model->io.output_count + 1u, sizeof *model->io.files);
    if (model->io.files == NULL)
        return no_memory(diag, "for the model's outputs");
    input->dtype = INLAY_STRING;
    input->dims = list_dims;
    input->dim_names = list_names;
    for (uint32_t k = 0; k < model->io.output_count; k++)
        (void)describe_rows(&model->io.outputs[k], &model->io.files[k]);
    return INLAY_OK;
}

/* Makes the tensor, the bytes of a file, the list of that file. */
static inlay_status take_one(infer_tensor *tensor, inlay_diag *diag)
{
    inlay_str *list = malloc(sizeof *list);

    if (list == NULL)
        return no_memory(diag, "for input '%s'", tensor->name);
    *list = (inlay_str){ tensor->data, tensor->bytes };
    if (tensor->owned) { /* its data becomes the buffer that the list points into */
        free(tensor->buffer);
        tensor->buffer = tensor->data;
    }
    tensor->data = list;
    tensor->owned = true;
    tensor->dtype = INLAY_STRING;
    tensor->bytes = sizeof *list;
    tensor->dims[0] = 1;
    tensor->count = 1;
    return INLAY_OK;
}

/* Decodes the texts of JSON where they are. */
static inlay_status decode(infer_tensor *tensor, inlay_diag *diag)
{
    inlay_str *list = tensor->data;

    for (uint64_t i = 0; i < tensor->count; i++) {
        gnutls_datum_t text = { (unsigned char *)(uintptr_t)list[i].data, (unsigned)list[i].bytes }, file;
        int code = list[i].bytes <= UINT32_MAX ? gnutls_base64_decode2(&text, &file) : GNUTLS_E_BASE64_DECODING_ERROR;

        if (code == GNUTLS_E_MEMORY_ERROR)
            return no_memory(diag, "for input '%s'", tensor->name);
        if (code < 0)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "input '%s', element %llu: in JSON, a file is a text in base64", tensor->name,
                              (unsigned long long)i);
        INLAY_CHECK(file.size <= list[i].bytes);
        memcpy(text.data, file.data, file.size);
        list[i].bytes = file.size;
        gnutls_free(file.data);
    }
    tensor->is_text = false;
    return INLAY_OK;
}

inlay_status files_take(infer_tensor *tensor, inlay_diag *diag)
{
    if (tensor->dtype == INLAY_UINT8 && tensor->rank == 1)
        return take_one(tensor, diag);
    if (tensor->dtype != INLAY_STRING)
        return INLAY_OK; /* the caller compares the types */
    if (tensor->rank == 2 && tensor->dims[1] == 1)
        tensor->rank = 1;
    if (tensor->rank == 1 && (tensor->count == 0 || tensor->count > FILES_MAX))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "input '%s' has %llu files; a request has from 1 to %d",
                          tensor->name, (unsigned long long)tensor->count, FILES_MAX);
    return tensor->is_text ? decode(tensor, diag) : INLAY_OK;
}

inlay_status files_init(const struct model *model, struct file_rows *rows, inlay_diag *diag)
{
    rows->values = calloc(model->io.output_count + 1u, sizeof *rows->values);
    rows->memory = calloc(model->io.output_count + 1u, sizeof *rows->memory);
    rows->bytes = calloc(model->io.output_count + 1u, sizeof *rows->bytes);
    return rows->values != NULL && rows->memory != NULL && rows->bytes != NULL ? INLAY_OK
                                                                               : no_memory(diag, "for an instance");
}

static void clear(const struct model *model, struct file_rows *rows)
{
    for (uint32_t k = 0; rows->values != NULL && k < model->io.output_count; k++) {
        inlay_value_unref(rows->values[k]);
        rows->values[k] = NULL;
    }
}

void files_deinit(const struct model *model, struct file_rows *rows)
{
    clear(model, rows);
    for (uint32_t k = 0; rows->memory != NULL && k < model->io.output_count; k++)
        free(rows->memory[k]);
    free((void *)rows->values);
    free(rows->memory);
    free(rows->bytes);
    *rows = (struct file_rows){ .values = NULL };
}

/* The files of a run, and the result of each. */
typedef struct file_loop {
    const struct model *model;
    inlay_context *context;
    struct file_rows *rows;
    const char *name;
    const inlay_str *files;
    uint32_t count;
    inlay_value **parts; /* [count * output_count] outputs that are not written into their rows; owned */
    inlay_run_options options;
    uint64_t start, timeout_ns;
} file_loop;

static inlay_status run_file(file_loop *loop, uint32_t i, inlay_diag *diag)
{
    const inlay_str *file = &loop->files[i];
    const int64_t dims[1] = { (int64_t)file->bytes };
    inlay_diag failure = INLAY_DIAG_INIT;
    inlay_value *value = NULL;
    uint64_t used = clock_ns() - loop->start;
    inlay_status status;

    if (loop->timeout_ns > 0)
        loop->options.timeout_ns = loop->timeout_ns > used ? loop->timeout_ns - used : 1;
    status = inlay_value_borrow(INLAY_UINT8, 1, dims, (void *)(uintptr_t)file->data, file->bytes, &value, &failure);
    if (status == INLAY_OK)
        status = inlay_context_set_input(loop->context, 0, value, &failure);
    if (status == INLAY_OK)
        status = inlay_context_run(loop->context, &loop->options, &failure);
    (void)inlay_context_set_input(loop->context, 0, NULL, NULL);
    inlay_value_unref(value);
    return status == INLAY_OK ? INLAY_OK
                              : inlay_fail(diag, status, "input '%s', element %u: %s", loop->name, i, failure.text);
}

/* The rows of the file are the memory that the model writes its outputs to. */
static inlay_status bind_rows(const file_loop *loop, uint32_t i, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t k = 0; status == INLAY_OK && k < loop->model->io.output_count; k++) {
        const struct file_output *output = &loop->model->io.files[k];
        inlay_value *row = NULL;
        int64_t dims[INLAY_MAX_RANK];

        if (output->row_bytes == 0)
            continue;
        memcpy(dims, output->dims, sizeof dims);
        dims[0] = 1;
        status =
            inlay_value_borrow(loop->model->io.outputs[k].dtype, loop->model->io.outputs[k].rank, dims,
                               (char *)loop->rows->memory[k] + i * output->row_bytes, output->row_bytes, &row, diag);
        if (status == INLAY_OK)
            status = inlay_context_set_output(loop->context, k, row, diag);
        inlay_value_unref(row);
    }
    return status;
}

static void unbind_rows(const file_loop *loop)
{
    for (uint32_t k = 0; k < loop->model->io.output_count; k++)
        if (loop->model->io.files[k].row_bytes > 0)
            (void)inlay_context_set_output(loop->context, k, NULL, NULL);
}

static inlay_status make_room(const file_loop *loop, uint64_t *grown, inlay_diag *diag)
{
    struct file_rows *rows = loop->rows;

    for (uint32_t k = 0; k < loop->model->io.output_count; k++) {
        uint64_t bytes = 0;

        if (__builtin_mul_overflow(loop->model->io.files[k].row_bytes, (uint64_t)loop->count, &bytes) ||
            bytes > INT64_MAX)
            return no_memory(diag, "for %u files", loop->count);
        if (bytes <= rows->bytes[k])
            continue;
        free(rows->memory[k]);
        rows->memory[k] = aligned_alloc(64, (bytes + 63) / 64 * 64);
        *grown += bytes - rows->bytes[k];
        rows->bytes[k] = rows->memory[k] != NULL ? bytes : 0;
        if (rows->memory[k] == NULL)
            return no_memory(diag, "for %u files", loop->count);
    }
    return INLAY_OK;
}

/* Keeps the outputs of a file that have no row. */
static inlay_status keep_parts(const file_loop *loop, uint32_t i, inlay_diag *diag)
{
    for (uint32_t k = 0; k < loop->model->io.output_count; k++) {
        inlay_value *value = inlay_context_output(loop->context, k);

        if (loop->model->io.files[k].row_bytes > 0)
            continue;
        if (value == NULL || inlay_value_kind(value) != INLAY_KIND_TENSOR)
            return inlay_fail(diag, INLAY_UNSUPPORTED, "output '%s' is not a tensor", loop->model->io.outputs[k].name);
        loop->parts[(size_t)i * loop->model->io.output_count + k] = inlay_value_ref(value);
    }
    return INLAY_OK;
}

static const inlay_value *part_of(const file_loop *loop, uint32_t i, uint32_t k)
{
    return loop->parts[(size_t)i * loop->model->io.output_count + k];
}

/* Joins parts of output k, which all have the same shape, to one tensor. */
static inlay_status join_parts(const file_loop *loop, uint32_t k, inlay_diag *diag)
{
    const inlay_value *first = part_of(loop, 0, k);
    const uint32_t rank = inlay_value_rank(first);
    const inlay_dtype dtype = inlay_value_dtype(first);
    const uint64_t bytes = (uint64_t)inlay_value_count(first) * datatype_bytes(dtype);
    int64_t dims[INLAY_MAX_RANK];
    inlay_value **value = &loop->rows->values[k];
    inlay_status status = INLAY_OK;
    inlay_str *texts = NULL;
    char *to;

    for (uint32_t i = 0; i < loop->count; i++) {
        const inlay_value *part = part_of(loop, i, k);

        if (rank == 0 || inlay_value_rank(part) != rank || inlay_value_dims(part)[0] != 1 ||
            memcmp(inlay_value_dims(part), inlay_value_dims(first), rank * sizeof dims[0]) != 0)
            return inlay_fail(diag, INLAY_SHAPE_MISMATCH,
                              "input '%s', element %u: output '%s' does not have the shape of that of element 0; send "
                              "these files one by one",
                              loop->name, i, loop->model->io.outputs[k].name);
    }
    memcpy(dims, inlay_value_dims(first), rank * sizeof dims[0]);
    dims[0] = loop->count;
    if (dtype == INLAY_STRING)
        status = (texts = malloc(bytes * loop->count + 1)) != NULL
                     ? INLAY_OK
                     : no_memory(diag, "for output '%s'", loop->model->io.outputs[k].name);
    else
        status = inlay_value_create(dtype, rank, dims, value, diag);
    if (status != INLAY_OK)
        return status;
    to = dtype == INLAY_STRING ? (char *)texts : inlay_value_data(*value);
    for (uint32_t i = 0; i < loop->count && bytes > 0; i++)
        memcpy(to + i * bytes, inlay_value_data(part_of(loop, i, k)), bytes);
    if (dtype == INLAY_STRING)
        status = inlay_value_create_strings(rank, dims, texts, value, diag);
    free(texts);
    return status;
}

/* Joins the outputs of all files into the outputs of the request. */
static inlay_status join(const file_loop *loop, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t k = 0; status == INLAY_OK && k < loop->model->io.output_count; k++) {
        const struct file_output *output = &loop->model->io.files[k];
        int64_t dims[INLAY_MAX_RANK];

        if (output->row_bytes == 0) {
            status = join_parts(loop, k, diag);
            continue;
        }
        memcpy(dims, output->dims, sizeof dims);
        dims[0] = loop->count;
        status =
            inlay_value_borrow(loop->model->io.outputs[k].dtype, loop->model->io.outputs[k].rank, dims,
                               loop->rows->memory[k], output->row_bytes * loop->count, &loop->rows->values[k], diag);
    }
    return status;
}

static inlay_status run_all(file_loop *loop, uint64_t *grown, inlay_diag *diag)
{
    inlay_status status = make_room(loop, grown, diag);

    loop->options.flags |= INLAY_RUN_OUTPUTS_BOUND;
    for (uint32_t i = 0; status == INLAY_OK && i < loop->count; i++) {
        status = bind_rows(loop, i, diag);
        if (status == INLAY_OK)
            status = run_file(loop, i, diag);
        if (status == INLAY_OK)
            status = keep_parts(loop, i, diag);
    }
    unbind_rows(loop);
    return status == INLAY_OK ? join(loop, diag) : status;
}

inlay_status files_run(const struct model *model, inlay_context *context, struct file_rows *rows, const char *name,
                       const inlay_value *files, const inlay_run_options *run, uint64_t *grown, inlay_diag *diag)
{
    file_loop loop = { .model = model,
                       .context = context,
                       .rows = rows,
                       .name = name,
                       .files = inlay_value_data(files),
                       .count = (uint32_t)inlay_value_count(files),
                       .options = *run,
                       .start = clock_ns(),
                       .timeout_ns = run->timeout_ns };
    inlay_status status;

    clear(model, rows);
    if (loop.count == 0) /* of another stage */
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "input '%s' has no files", name);
    if (loop.count == 1)
        return run_file(&loop, 0, diag);
    loop.parts = calloc((size_t)loop.count * model->io.output_count + 1, sizeof *loop.parts);
    status = loop.parts != NULL ? run_all(&loop, grown, diag) : no_memory(diag, "for %u files", loop.count);
    for (size_t i = 0; loop.parts != NULL && i < (size_t)loop.count * model->io.output_count; i++)
        inlay_value_unref(loop.parts[i]);
    free((void *)loop.parts);
    return status;
}

inlay_value *files_output(inlay_context *context, const struct file_rows *rows, uint32_t k)
{
    return rows->values[k] != NULL ? rows->values[k] : inlay_context_output(context, k);
}
