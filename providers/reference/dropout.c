/* Dropout: ONNX 1 and 6 (random unless is_test), 7 and 10 (never random), 12, 13 and 22 (random in training mode). */
#include "inlay/check.h"
#include "operators/elementwise.h"
#include "reference/twister.h"
#include <stdlib.h>

typedef struct dropout_state {
    twister_source source;
    double ratio;  /* attribute of versions below 12, default for the others */
    bool training; /* likewise */
} dropout_state;

static inlay_status prepare_dropout(const kit_node *node, void **out_state, inlay_diag *diag)
{
    dropout_state *state = calloc(1, sizeof *state);

    *out_state = state;
    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a kernel's state");
    twister_source_init(&state->source, node);
    state->ratio = kit_attr_float(node->info, "ratio", 0.5);
    state->training = kit_since_version(node) < 7 && kit_attr_int(node->info, "is_test", 0) == 0;
    return INLAY_OK;
}

/* Keeps each element with probability 1 - ratio and scales it by 1 / (1 - ratio). */
static void drop_elements(const kit_call *call, struct twister *twister, double ratio)
{
    const kit_tensor *input = &call->in[0], *output = &call->out[0];
    bool masked = kit_has_output(call, 1);
    double scale = 1 / (1 - ratio);

    INLAY_CHECK(ratio > 0 && ratio < 1);
    for (int64_t i = 0; i < input->count; i += ELEMENTWISE_BLOCK) {
        double block[ELEMENTWISE_BLOCK], mask[ELEMENTWISE_BLOCK];
        int64_t count = input->count - i < ELEMENTWISE_BLOCK ? input->count - i : ELEMENTWISE_BLOCK;

        convert_to_f64(block, input->dtype, input->data, i, count);
        twister_uniforms(twister, mask, count);
        for (int64_t k = 0; k < count; k++) {
            mask[k] = mask[k] >= ratio ? 1.0 : 0.0;
            block[k] = mask[k] != 0 ? block[k] * scale : 0;
        }
        convert_from_f64(output->dtype, output->data, i, count, block, CONVERT_SATURATE);
        if (masked)
            convert_from_f64(call->out[1].dtype, call->out[1].data, i, count, mask, CONVERT_SATURATE);
    }
}

static inlay_status run_dropout(const kit_call *call)
{
    dropout_state *state = call->state;
    const kit_tensor *input = &call->in[0], *output = &call->out[0];
    double ratio = state->ratio;
    bool training = state->training;
    struct twister twister;

    if (kit_has_input(call, 1) && call->in[1].count > 0)
        ratio = convert_get_f64(call->in[1].dtype, call->in[1].data, 0);
    if (kit_has_input(call, 2) && call->in[2].count > 0)
        training = *(const uint8_t *)call->in[2].data != 0;
    if (training && ratio != 0) {
        if (!(ratio > 0 && ratio < 1))
            return inlay_fail(call->diag, INLAY_INVALID_ARGUMENT, "Dropout: the ratio is %g; it must be in [0, 1)",
                              ratio);
        twister_start(&twister, &state->source);
        drop_elements(call, &twister, ratio);
        return INLAY_OK;
    }
    if (output->data != input->data)
        memcpy(output->data, input->data, kit_bytes(input->dtype, input->count));
    for (int64_t i = 0; kit_has_output(call, 1) && i < input->count; i += ELEMENTWISE_BLOCK) {
        int64_t ones[ELEMENTWISE_BLOCK],
            count = input->count - i < ELEMENTWISE_BLOCK ? input->count - i : ELEMENTWISE_BLOCK;

        for (int64_t k = 0; k < count; k++)
            ones[k] = 1;
        convert_from_i64(call->out[1].dtype, call->out[1].data, i, count, ones, CONVERT_SATURATE);
    }
    return INLAY_OK;
}

static const kit_kernel kernels[] = {
    { .op_type = "Dropout",
      .in_types = { KIT_FLOATS | (KIT_FLOAT8 & ~KIT_BIT(FLOAT8E8M0)) },
      .flags = KIT_IN_PLACE,
      .prepare = prepare_dropout,
      .run = run_dropout },
};
const kit_table reference_dropout = { kernels, KIT_COUNT(kernels) };
