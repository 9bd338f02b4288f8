/* preview/training.c - gradients and optimizers. */
#include "schema.h"
#include "inlay/check.h"
#include <string.h>

/* The inputs after R and T are `groups` groups of equal size: tensors, their gradients, and states. The outputs are the
 * same groups without the gradients. */
static inlay_status infer_optimizer(op_infer *infer)
{
    const uint32_t groups = strcmp(infer->node->op_type.data, "Adam") == 0 ? 4 : 3;
    const uint32_t count = infer->in_count < 2 ? 0 : (infer->in_count - 2) / groups;
    inlay_status status = INLAY_OK;

    for (uint32_t o = 0; o < infer->out_count && o < count * (groups - 1); o++) {
        const uint32_t group = o / count == 0 ? 0 : o / count + 1, i = 2 + group * count + o % count;

        INLAY_CHECK(group != 1 && i < infer->in_count);
        if (!infer_has_in(infer, i) || !infer_has_out(infer, o))
            continue;
        infer_set_dtype(infer, o, infer->in[i]->dtype);
        INLAY_TRY(infer_set_shape(infer, o, infer->in[i]->rank, infer->in[i]->dims));
    }
done:
    return status;
}

/* Output i is the derivative with respect to input i. */
static inlay_status infer_gradient(op_infer *infer)
{
    inlay_status status = INLAY_OK;

    for (uint32_t o = 0; o < infer->out_count; o++) {
        if (!infer_has_in(infer, o))
            continue;
        infer_set_dtype(infer, o, infer->in[o]->dtype);
        INLAY_TRY(infer_set_shape(infer, o, infer->in[o]->rank, infer->in[o]->dims));
    }
done:
    return status;
}

static const op_row preview_training_rows[] = {
    { "Adagrad", 1, 0,
      "R:T1, T:T2, inputs%:T3 -> outputs%:T3; T1=float|double, T2=int64, T3=float|double; decay_factor:f=0, "
      "epsilon:f=1e-06, norm_coefficient:f=0",
      infer_optimizer },
    { "Adam", 1, 0,
      "R:T1, T:T2, inputs%:T3 -> outputs%:T3; T1=float|double, T2=int64, T3=float|double; alpha:f=0.9, beta:f=0.999, "
      "epsilon:f=1e-06, norm_coefficient:f=0, norm_coefficient_post:f=0",
      infer_optimizer },
    { "Gradient", 1, 0, "Inputs%:T1 -> Outputs%:T2; T1=@all, T2=@float; xs:ss!, y:s!, zs:ss", infer_gradient },
    { "Momentum", 1, 0,
      "R:T1, T:T2, inputs%:T3 -> outputs%:T3; T1=float|double, T2=int64, T3=float|double; alpha:f!, beta:f!, mode:s!, "
      "norm_coefficient:f!",
      infer_optimizer },
};

const op_table op_preview_training = { "ai.onnx.preview.training", preview_training_rows,
                                       OP_COUNT(preview_training_rows) };
