#include "texts/decode/model.h"
#include <string.h>

inlay_status decode_model_keep_logits(const decode_model *model, inlay_context *context, int64_t count,
                                      inlay_diag *diag)
{
    inlay_value *size = NULL;
    inlay_status status;

    if (model->last_logits == INLAY_NONE)
        return INLAY_OK;
    status = inlay_value_create(INLAY_INT64, 1, &count, &size, diag);
    if (status == INLAY_OK)
        status = inlay_context_set_input(context, model->last_logits, size, diag);
    inlay_value_unref(size);
    return status;
}

inlay_status decode_step_outputs(const decode_step *step, decode_output *out, inlay_diag *diag)
{
    for (uint32_t i = 0; i < step->output_count; i++) {
        inlay_value *value = inlay_context_output(step->context, step->outputs[i]);

        if (value == NULL || inlay_value_kind(value) != INLAY_KIND_TENSOR)
            return inlay_fail(diag, INLAY_UNSUPPORTED, "output %u of the model is not a tensor", step->outputs[i]);
        out[i] = (decode_output){ .dtype = inlay_value_dtype(value),
                                  .rank = inlay_value_rank(value),
                                  .count = (uint64_t)inlay_value_count(value),
                                  .data = inlay_value_data(value) };
        if (out[i].rank > 0)
            memcpy(out[i].dims, inlay_value_dims(value), out[i].rank * sizeof out[i].dims[0]);
        if (out[i].data == NULL && out[i].count > 0)
            return inlay_fail(diag, INLAY_UNSUPPORTED, "output %u of the model is not in host memory",
                              step->outputs[i]);
    }
    return INLAY_OK;
}
