#include "serve/padding.h"
#include "base/element.h"
#include "serve/datatype.h"
#include "serve/model.h"
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ config.yaml */

inlay_status padding_set_sizes(padding_config *config, const char *text, inlay_diag *diag)
{
    for (const char *at = text; at != NULL;) {
        char *end;
        uint64_t size = strtoull(at, &end, 10);

        if (end == at || *at < '0' || *at > '9' || size == 0 || size > INT32_MAX ||
            config->size_count == PADDING_SIZES ||
            (config->size_count > 0 && size <= config->sizes[config->size_count - 1]) || (*end != ',' && *end != '\0'))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "buckets is at most %d ascending numbers: 16,32,64",
                              PADDING_SIZES);
        config->sizes[config->size_count++] = size;
        at = *end == ',' ? end + 1 : NULL;
    }
    return INLAY_OK;
}

inlay_status padding_set_value(padding_config *config, const char *text, inlay_diag *diag)
{
    size_t name = strcspn(text, "=");
    char *end = NULL;
    int64_t value = text[name] != '\0' ? strtoll(text + name + 1, &end, 10) : 0;

    if (name == 0 || name >= PADDING_NAME || end == NULL || end == text + name + 1 || *end != '\0' ||
        config->value_count == PADDING_VALUES)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "pad: '%.64s' is not INPUT=NUMBER, or there are more than %d",
                          text, PADDING_VALUES);
    (void)snprintf(config->values[config->value_count].input, PADDING_NAME, "%.*s", (int)name, text);
    config->values[config->value_count++].value = value;
    return INLAY_OK;
}

/* ------------------------------------------------------------------ the model's axis */

/* Where an input or output has the axis; 0: nowhere. The first axis is that of the rows. */
static uint32_t find_axis(const inlay_io_info *io, const char *axis)
{
    for (uint32_t d = 1; io->kind == INLAY_KIND_TENSOR && io->rank != INLAY_RANK_UNKNOWN && d < io->rank; d++)
        if (io->dims[d] < 0 && strcmp(io->dim_names[d], axis) == 0)
            return d;
    return 0;
}

/* The one name that inputs have for open sizes besides the first. */
static const char *open_name(const struct model *model, inlay_diag *diag)
{
    const char *found = NULL;

    for (uint32_t k = 0; k < model->input_count; k++) {
        const inlay_io_info *io = &model->inputs[k];

        for (uint32_t d = 1; io->rank != INLAY_RANK_UNKNOWN && d < io->rank; d++) {
            if (io->dims[d] >= 0)
                continue;
            if (io->dim_names[d][0] == '\0' || (found != NULL && strcmp(found, io->dim_names[d]) != 0)) {
                (void)inlay_fail(diag, INLAY_UNSUPPORTED, "buckets: axis %u of input '%s' %s", d, io->name,
                                 found != NULL ? "is another open axis than that of the inputs before it"
                                               : "has no name; give it one with inlay edit");
                return NULL;
            }
            found = io->dim_names[d];
        }
    }
    if (found == NULL)
        (void)inlay_fail(diag, INLAY_UNSUPPORTED, "buckets: the inputs have no open axis besides the first");
    return found;
}

/* Each open size is that of the rows or of the axis, which occurs once. */
static inlay_status check_axes(const struct model *model, const inlay_io_info *io, const char *what, inlay_diag *diag)
{
    uint32_t times = 0;

    if (io->kind != INLAY_KIND_TENSOR || io->rank == INLAY_RANK_UNKNOWN)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "buckets: %s '%s' has no known rank", what, io->name);
    for (uint32_t d = 0; d < io->rank; d++) {
        bool same = io->dims[d] < 0 && strcmp(io->dim_names[d], model->padding.axis) == 0;

        if (io->dims[d] >= 0 || (d == 0 && !same))
            continue;
        if (d == 0 || !same || times++ > 0)
            return inlay_fail(diag, INLAY_UNSUPPORTED,
                              "buckets: axis %u of %s '%s' is open in another way than '%s' of the "
                              "inputs",
                              d, what, io->name, model->padding.axis);
    }
    if (times > 0 && io->dtype == INLAY_STRING)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "buckets: %s '%s' is of texts, which are not padded", what,
                          io->name);
    return INLAY_OK;
}

static inlay_status take_values(struct model *model, inlay_diag *diag)
{
    const padding_config *config = &model->settings.padding;

    for (uint32_t value = 0; value < config->value_count; value++) {
        uint32_t input = inlay_session_find_input(model->session, config->values[value].input);

        if (input == INLAY_NONE || model->padding.input_axes[input] == 0)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "pad: no input '%s' is padded",
                              config->values[value].input);
        model->padding.values[input] = config->values[value].value;
    }
    return INLAY_OK;
}

inlay_status padding_init(struct model *model, inlay_diag *diag)
{
    struct padding *padding = &model->padding;
    const char *axis;

    if (model->settings.padding.size_count == 0)
        return model->settings.padding.value_count == 0
                   ? INLAY_OK
                   : inlay_fail(diag, INLAY_INVALID_ARGUMENT, "pad: without buckets nothing is padded");
    if ((axis = open_name(model, diag)) == NULL)
        return INLAY_UNSUPPORTED;
    padding->input_axes = calloc(model->input_count + 1u, sizeof *padding->input_axes);
    padding->output_axes = calloc(model->output_count + 1u, sizeof *padding->output_axes);
    padding->values = calloc(model->input_count + 1u, sizeof *padding->values);
    if (padding->input_axes == NULL || padding->output_axes == NULL || padding->values == NULL)
        return no_memory(diag, "for the model's inputs");
    padding->axis = axis;
    for (uint32_t k = 0; k < model->input_count + model->output_count; k++) {
        bool input = k < model->input_count;
        const inlay_io_info *io = input ? &model->inputs[k] : &model->outputs[k - model->input_count];
        inlay_status status = check_axes(model, io, input ? "input" : "output", diag);

        if (status != INLAY_OK)
            return status;
        *(input ? &padding->input_axes[k] : &padding->output_axes[k - model->input_count]) = find_axis(io, axis);
    }
    return take_values(model, diag);
}

void padding_deinit(struct padding *padding)
{
    free(padding->input_axes);
    free(padding->output_axes);
    free(padding->values);
    *padding = (struct padding){ .axis = NULL };
}

/* ------------------------------------------------------------------ requests */

void padding_choose(struct job *job)
{
    const struct model *model = job->model;
    const padding_config *config = &model->settings.padding;
    uint32_t given = 0, wanted = 0, n = 0;

    job->length = job->padded = 0;
    if (model->padding.axis == NULL || job->rows == 0 || job->request->sequence[0] != '\0')
        return;
    for (uint32_t k = 0; k < model->input_count; k++)
        wanted += model->padding.input_axes[k] > 0;
    for (uint32_t i = 0; i < job->request->input_count; i++) {
        const infer_tensor *tensor = &job->request->inputs[i];
        uint32_t axis = model->padding.input_axes[tensor->input];

        if (axis == 0)
            continue;
        if (tensor->bytes == 0 || (given > 0 && (uint64_t)tensor->dims[axis] != job->length))
            return;
        job->length = (uint64_t)tensor->dims[axis];
        given++;
    }
    while (n < config->size_count && config->sizes[n] < job->length)
        n++;
    if (given == wanted && n < config->size_count) /* a mask with a default value, not given, would exclude nothing */
        job->padded = config->sizes[n];
}

static void fill(inlay_dtype dtype, int64_t value, uint64_t count, char *out)
{
    const uint32_t bytes = datatype_bytes(dtype);

    if (count == 0)
        return;
    if (value == 0 || !element_put(dtype, out, 0, value)) {
        memset(out, 0, count * bytes);
        return;
    }
    for (uint64_t i = 1; i < count; i++)
        memcpy(out + i * bytes, out, bytes);
}

/* The products of the sizes before and behind the axis. */
static void around(uint32_t rank, const int64_t *dims, uint32_t axis, uint64_t *out_before, uint64_t *out_behind)
{
    *out_before = *out_behind = 1;
    for (uint32_t d = 0; d < rank; d++)
        *(d < axis ? out_before : out_behind) *= d == axis ? 1 : (uint64_t)dims[d];
}

uint64_t padding_write(const struct padding *padding, const infer_tensor *tensor, uint64_t length, char *out)
{
    uint32_t axis = padding->axis != NULL ? padding->input_axes[tensor->input] : 0;
    uint64_t before, behind, step = datatype_bytes(tensor->dtype), own = axis > 0 ? (uint64_t)tensor->dims[axis] : 0;

    if (axis == 0 || length == 0 || length == own) {
        if (tensor->bytes > 0)
            memcpy(out, tensor->data, tensor->bytes);
        return tensor->bytes;
    }
    around(tensor->rank, tensor->dims, axis, &before, &behind);
    step *= behind;
    for (uint64_t n = 0; n < before; n++) {
        memcpy(out + n * length * step, (const char *)tensor->data + n * own * step, own * step);
        fill(tensor->dtype, padding->values[tensor->input], (length - own) * behind, out + (n * length + own) * step);
    }
    return before * length * step;
}

bool padding_cut(infer_output *output, uint32_t axis, uint64_t length, void **scratch, uint64_t *scratch_bytes)
{
    uint64_t before, behind, step, padded = (uint64_t)output->dims[axis], bytes;

    around(output->rank, output->dims, axis, &before, &behind);
    step = behind * datatype_bytes(output->dtype);
    bytes = before * length * step;
    if (before > 1 && bytes > 0) { /* of one row the beginning is it */
        if (*scratch_bytes < bytes) {
            free(*scratch);
            *scratch = malloc(bytes);
            *scratch_bytes = *scratch != NULL ? bytes : 0;
        }
        if (*scratch == NULL)
            return false;
        for (uint64_t n = 0; n < before; n++)
            memcpy((char *)*scratch + n * length * step, (const char *)output->data + n * padded * step, length * step);
        output->data = *scratch;
    }
    output->dims[axis] = (int64_t)length;
    output->count = before * length * behind;
    return true;
}
