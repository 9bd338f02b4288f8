/* Checks, when a model is loaded, that it ignores the padding. */
#include "base/element.h"
#include "inlay/check.h"
#include "codecs/datatype.h"
#include "serve/model/model.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double tolerance = 1e-3; /* kernels may depend on the shape */

/* 1, 0, 1, 0 ...; masks are all 1. Valid for tokens, token types and positions alike. */
static void fill_pattern(const inlay_io_info *io, uint64_t count, void *out)
{
    bool mask = strstr(io->name, "mask") != NULL;

    for (uint64_t i = 0; i < count; i++)
        (void)element_put(io->dtype, out, (int64_t)i, mask || i % 2 == 0);
}

/* Length of the axis before and after padding. */
typedef struct padded_size {
    uint64_t own, length;
} padded_size;

static inlay_status make_input(const struct model *model, uint32_t k, const void *user, inlay_value **out,
                               inlay_diag *diag)
{
    const padded_size *size = user;
    const inlay_io_info *io = &model->io.inputs[k];
    infer_tensor tensor = { .dtype = io->dtype, .input = k };
    int64_t dims[INLAY_MAX_RANK];
    inlay_status status;

    *out = NULL;
    if (io->optional && model->padding.input_axes[k] == 0)
        return INLAY_OK;
    tensor.rank = model_generated_dims(model, k, 1, (int64_t)size->own, tensor.dims);
    (void)model_generated_dims(model, k, 1, (int64_t)size->length, dims);
    if (io->dtype == INLAY_STRING || !infer_count(tensor.rank, tensor.dims, &tensor.count))
        return inlay_fail(diag, INLAY_UNSUPPORTED, "input '%s' holds texts", io->name);
    tensor.bytes = tensor.count * datatype_bytes(tensor.dtype);
    tensor.data = malloc(tensor.bytes + 1);
    if (tensor.data == NULL)
        return no_memory(diag, "for input '%s'", io->name);
    fill_pattern(io, tensor.count, tensor.data);
    status = inlay_value_create(io->dtype, tensor.rank, dims, out, diag);
    if (status == INLAY_OK)
        (void)padding_write(&model->padding, &tensor, size->length, inlay_value_data(*out));
    free(tensor.data);
    return status;
}

static bool is_close(double left, double right)
{
    return left == right || (isnan(left) && isnan(right)) || fabs(left - right) <= tolerance * fmax(1, fabs(left));
}

/* Copies output k, trimmed as for a request. The caller frees out->data, which is NULL after a failure. */
static inlay_status copy_output(const struct model *model, struct instance *instance, uint32_t k, uint64_t own,
                                infer_output *out, inlay_diag *diag)
{
    inlay_value *value = inlay_context_output(instance->context, k);
    uint32_t axis = model->padding.output_axes[k];
    infer_output output = { .name = model->io.outputs[k].name };
    void *copy = NULL;
    uint64_t bytes = 0;

    INLAY_CHECK(k < model->io.output_count);
    *out = output;
    if (value == NULL || inlay_value_kind(value) != INLAY_KIND_TENSOR || inlay_value_dtype(value) == INLAY_STRING ||
        (inlay_value_data(value) == NULL && inlay_value_count(value) > 0))
        return inlay_fail(diag, INLAY_UNSUPPORTED, "output '%s' is not a tensor of numbers in host memory",
                          output.name);
    output.dtype = inlay_value_dtype(value);
    output.rank = inlay_value_rank(value);
    output.count = (uint64_t)inlay_value_count(value);
    output.data = inlay_value_data(value);
    if (output.rank > 0)
        memcpy(output.dims, inlay_value_dims(value), output.rank * sizeof output.dims[0]);
    if (axis > 0 && (axis >= output.rank || (uint64_t)output.dims[axis] < own))
        return inlay_fail(diag, INLAY_UNSUPPORTED, "output '%s' is shorter than the inputs", output.name);
    if (axis > 0 && !padding_trim(&output, axis, own, &copy, &bytes))
        return no_memory(diag, "for output '%s'", output.name);
    bytes = output.count * datatype_bytes(output.dtype);
    if (copy == NULL && (copy = malloc(bytes + 1)) == NULL)
        return no_memory(diag, "for output '%s'", output.name);
    if (copy != output.data && bytes > 0)
        memcpy(copy, output.data, bytes);
    output.data = copy;
    *out = output;
    return INLAY_OK;
}

static inlay_status compare(const infer_output *plain, const infer_output *padded, inlay_diag *diag)
{
    if (plain->count != padded->count || plain->dtype != padded->dtype)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "the shape of output '%s' depends on the padding", plain->name);
    for (uint64_t i = 0; i < plain->count; i++) {
        double expected = 0, found = 0;

        (void)element_number(plain->dtype, plain->data, (int64_t)i, &expected, NULL);
        (void)element_number(padded->dtype, padded->data, (int64_t)i, &found, NULL);
        if (!is_close(expected, found))
            return inlay_fail(diag, INLAY_UNSUPPORTED, "padding changes output '%s' from %g to %g", plain->name,
                              expected, found);
    }
    return INLAY_OK;
}

/* Compares the outputs of the last run with those in `plain`. */
static inlay_status compare_run(const struct model *model, struct instance *instance, uint64_t own,
                                const infer_output *plain, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t k = 0; status == INLAY_OK && k < model->io.output_count; k++) {
        infer_output padded;

        status = copy_output(model, instance, k, own, &padded, diag);
        if (status == INLAY_OK)
            status = compare(&plain[k], &padded, diag);
        free((void *)(uintptr_t)padded.data);
    }
    return status;
}

inlay_status padding_check(const struct model *model, struct instance *instance, inlay_diag *diag)
{
    const padding_config *config = &model->settings.padding;
    infer_output *plain;
    const uint64_t length = config->sizes[config->size_count > 1 && config->sizes[0] == 1], own = (length + 1) / 2;
    const padded_size unpadded = { own, own }, padded = { own, length };
    inlay_diag failure = INLAY_DIAG_INIT;
    inlay_status status;

    if (model->padding.axis == NULL || length <= 1) /* no padding possible */
        return INLAY_OK;
    plain = calloc(model->io.output_count + 1u, sizeof *plain);
    if (plain == NULL)
        return no_memory(diag, "for outputs");
    status = instance_run_generated(model, instance, make_input, &unpadded, &failure);
    for (uint32_t k = 0; status == INLAY_OK && k < model->io.output_count; k++)
        status = copy_output(model, instance, k, own, &plain[k], &failure);
    if (status == INLAY_OK)
        status = instance_run_generated(model, instance, make_input, &padded, &failure);
    if (status == INLAY_OK)
        status = compare_run(model, instance, own, plain, &failure);
    for (uint32_t k = 0; k < model->io.output_count; k++)
        free((void *)(uintptr_t)plain[k].data);
    free(plain);
    return status == INLAY_OK ? INLAY_OK : inlay_fail(diag, status, "buckets: %s", failure.text);
}
