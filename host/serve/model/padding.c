#include "serve/model/padding.h"
#include "inlay/check.h"
#include "base/element.h"
#include "codecs/datatype.h"
#include "serve/model/model.h"
#include <stdlib.h>
#include <string.h>

inlay_status padding_set_sizes(padding_config *config, const char *text, inlay_diag *diag)
{
    for (const char *at = text; at != NULL;) {
        char *end;
        uint64_t size = strtoull(at, &end, 10);

        if (end == at || *at < '0' || *at > '9' || size == 0 || size > INT32_MAX ||
            config->size_count == PADDING_SIZES ||
            (config->size_count > 0 && size <= config->sizes[config->size_count - 1]) || (*end != ',' && *end != '\0'))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "buckets must be at most %d ascending numbers: 16,32,64",
                              PADDING_SIZES);
        config->sizes[config->size_count++] = size;
        at = *end == ',' ? end + 1 : NULL;
    }
    return INLAY_OK;
}

inlay_status padding_set_value(padding_config *config, const char *text, inlay_diag *diag)
{
    size_t name_bytes = strcspn(text, "=");
    char *end = NULL;
    int64_t value = text[name_bytes] != '\0' ? strtoll(text + name_bytes + 1, &end, 10) : 0;

    if (name_bytes == 0 || name_bytes >= PADDING_NAME || end == NULL || end == text + name_bytes + 1 || *end != '\0' ||
        config->value_count == PADDING_VALUES)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "pad: '%.64s' is not INPUT=NUMBER, or there are more than %d",
                          text, PADDING_VALUES);
    (void)snprintf(config->values[config->value_count].input, PADDING_NAME, "%.*s", (int)name_bytes, text);
    config->values[config->value_count++].value = value;
    return INLAY_OK;
}

/* Index of the axis in an input or output; 0: none. The first axis is never padded: it has the rows. */
static uint32_t find_axis(const inlay_io_info *io, const char *axis)
{
    for (uint32_t index = 1; io->kind == INLAY_KIND_TENSOR && io->rank != INLAY_RANK_UNKNOWN && index < io->rank;
         index++)
        if (io->dims[index] < 0 && strcmp(io->dim_names[index], axis) == 0)
            return index;
    return 0;
}

/* Returns the only name of symbolic axes of the inputs other than the first axis; NULL: diag says why. */
static const char *symbolic_name(const struct model *model, inlay_diag *diag)
{
    const char *found = NULL;

    for (uint32_t k = 0; k < model->io.input_count; k++) {
        const inlay_io_info *io = &model->io.inputs[k];

        for (uint32_t axis = 1; io->rank != INLAY_RANK_UNKNOWN && axis < io->rank; axis++) {
            if (io->dims[axis] >= 0)
                continue;
            if (io->dim_names[axis][0] == '\0' || (found != NULL && strcmp(found, io->dim_names[axis]) != 0)) {
                (void)inlay_fail(diag, INLAY_UNSUPPORTED, "buckets: axis %u of input '%s' %s", axis, io->name,
                                 found != NULL ? "is symbolic, but has another name than that of the inputs before it"
                                               : "has no name; give it one with inlay edit");
                return NULL;
            }
            found = io->dim_names[axis];
        }
    }
    if (found == NULL)
        (void)inlay_fail(diag, INLAY_UNSUPPORTED, "buckets: the inputs have no symbolic axis other than the first");
    return found;
}

/* Checks that every symbolic axis is the first one or the padded one, which may occur once. */
static inlay_status check_axes(const struct model *model, const inlay_io_info *io, const char *what, inlay_diag *diag)
{
    uint32_t times = 0;

    if (io->kind != INLAY_KIND_TENSOR || io->rank == INLAY_RANK_UNKNOWN)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "buckets: %s '%s' has no known rank", what, io->name);
    for (uint32_t axis = 0; axis < io->rank; axis++) {
        bool same = io->dims[axis] < 0 && strcmp(io->dim_names[axis], model->padding.axis) == 0;

        if (io->dims[axis] >= 0 || (axis == 0 && !same))
            continue;
        if (axis == 0 || !same || times++ > 0)
            return inlay_fail(diag, INLAY_UNSUPPORTED,
                              "buckets: axis %u of %s '%s' is symbolic, but not the axis '%s' of the inputs", axis,
                              what, io->name, model->padding.axis);
    }
    if (times > 0 && io->dtype == INLAY_STRING)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "buckets: %s '%s' holds texts, which cannot be padded", what,
                          io->name);
    return INLAY_OK;
}

static inlay_status set_values(struct model *model, inlay_diag *diag)
{
    const padding_config *config = &model->settings.padding;

    for (uint32_t i = 0; i < config->value_count; i++) {
        uint32_t input = inlay_session_find_input(model->session, config->values[i].input);

        if (input == INLAY_NONE || model->padding.input_axes[input] == 0)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "pad: input '%s' is unknown or not padded",
                              config->values[i].input);
        model->padding.values[input] = config->values[i].value;
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
                   : inlay_fail(diag, INLAY_INVALID_ARGUMENT, "pad: needs buckets");
    if ((axis = symbolic_name(model, diag)) == NULL)
        return INLAY_UNSUPPORTED;
    padding->input_axes = calloc(model->io.input_count + 1u, sizeof *padding->input_axes);
    padding->output_axes = calloc(model->io.output_count + 1u, sizeof *padding->output_axes);
    padding->values = calloc(model->io.input_count + 1u, sizeof *padding->values);
    if (padding->input_axes == NULL || padding->output_axes == NULL || padding->values == NULL)
        return no_memory(diag, "for the model's inputs");
    padding->axis = axis;
    for (uint32_t k = 0; k < model->io.input_count + model->io.output_count; k++) {
        bool input = k < model->io.input_count;
        const inlay_io_info *io = input ? &model->io.inputs[k] : &model->io.outputs[k - model->io.input_count];
        inlay_status status = check_axes(model, io, input ? "input" : "output", diag);

        if (status != INLAY_OK)
            return status;
        *(input ? &padding->input_axes[k] : &padding->output_axes[k - model->io.input_count]) = find_axis(io, axis);
    }
    return set_values(model, diag);
}

void padding_deinit(struct padding *padding)
{
    free(padding->input_axes);
    free(padding->output_axes);
    free(padding->values);
    *padding = (struct padding){ .axis = NULL };
}

void padding_choose(struct job *job)
{
    const struct model *model = job->model;
    const padding_config *config = &model->settings.padding;
    uint32_t given = 0, wanted = 0, bucket = 0;

    job->size.length = job->size.padded = 0;
    if (model->padding.axis == NULL || job->size.rows == 0 || job->request->sequence[0] != '\0')
        return;
    for (uint32_t k = 0; k < model->io.input_count; k++)
        wanted += model->padding.input_axes[k] > 0;
    for (uint32_t i = 0; i < job->request->input_count; i++) {
        const infer_tensor *tensor = &job->request->inputs[i];
        uint32_t axis = model->padding.input_axes[tensor->input];

        if (axis == 0)
            continue;
        if (tensor->bytes == 0 || (given > 0 && (uint64_t)tensor->dims[axis] != job->size.length))
            return;
        job->size.length = (uint64_t)tensor->dims[axis];
        given++;
    }
    while (bucket < config->size_count && config->sizes[bucket] < job->size.length)
        bucket++;
    if (given == wanted &&
        bucket < config->size_count) /* an omitted mask has its default value, which would not exclude the padding */
        job->size.padded = config->sizes[bucket];
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

/* Products of the dimensions before and after the axis. */
static void sizes_around(uint32_t rank, const int64_t *dims, uint32_t axis, uint64_t *out_before, uint64_t *out_after)
{
    *out_before = *out_after = 1;
    for (uint32_t i = 0; i < rank; i++)
        *(i < axis ? out_before : out_after) *= i == axis ? 1 : (uint64_t)dims[i];
}

uint64_t padding_write(const struct padding *padding, const infer_tensor *tensor, uint64_t length, char *out)
{
    uint32_t axis = padding->axis != NULL ? padding->input_axes[tensor->input] : 0;
    uint64_t before, after, step = datatype_bytes(tensor->dtype), own = axis > 0 ? (uint64_t)tensor->dims[axis] : 0;

    if (axis == 0 || length == 0 || length == own) {
        if (tensor->bytes > 0)
            memcpy(out, tensor->data, tensor->bytes);
        return tensor->bytes;
    }
    sizes_around(tensor->rank, tensor->dims, axis, &before, &after);
    INLAY_CHECK(own < length);
    step *= after;
    for (uint64_t i = 0; i < before; i++) {
        memcpy(out + i * length * step, (const char *)tensor->data + i * own * step, own * step);
        fill(tensor->dtype, padding->values[tensor->input], (length - own) * after, out + (i * length + own) * step);
    }
    return before * length * step;
}

bool padding_trim(infer_output *output, uint32_t axis, uint64_t length, void **scratch, uint64_t *scratch_bytes)
{
    uint64_t before, after, step, padded = (uint64_t)output->dims[axis], bytes;

    INLAY_CHECK(length <= padded);
    sizes_around(output->rank, output->dims, axis, &before, &after);
    step = after * datatype_bytes(output->dtype);
    bytes = before * length * step;
    if (before > 1 && bytes > 0) { /* with one row, the result is the beginning of the data */
        if (*scratch_bytes < bytes) {
            free(*scratch);
            *scratch = malloc(bytes);
            *scratch_bytes = *scratch != NULL ? bytes : 0;
        }
        if (*scratch == NULL)
            return false;
        for (uint64_t i = 0; i < before; i++)
            memcpy((char *)*scratch + i * length * step, (const char *)output->data + i * padded * step, length * step);
        output->data = *scratch;
    }
    output->dims[axis] = (int64_t)length;
    output->count = before * length * after;
    return true;
}
