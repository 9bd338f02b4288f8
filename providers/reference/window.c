/* HannWindow, HammingWindow, BlackmanWindow: ONNX 17; for any numeric output type. */
#include "simd/convert.h"
#include "operators/operators.h"
#include <math.h>
#include <stdlib.h>

enum { BLOCK = 256 };

/* sum of coefficient[i] * cos(2 pi i n / period) */
typedef struct window_state {
    double coefficient[3];
    bool periodic;
} window_state;

static inlay_status prepare(const kit_node *node, void **out_state, inlay_diag *diag)
{
    static const struct {
        const char *name;
        double coefficient[3];
    } rows[] = {
        { "HannWindow", { 0.5, -0.5, 0 } },
        { "HammingWindow", { 25.0 / 46, -21.0 / 46, 0 } },
        { "BlackmanWindow", { 0.42, -0.5, 0.08 } },
    };
    window_state *state = calloc(1, sizeof *state);

    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the state of a kernel");
    for (uint32_t i = 0; i < KIT_COUNT(rows); i++)
        if (strcmp(rows[i].name, kit_op_type(node)) == 0)
            memcpy(state->coefficient, rows[i].coefficient, sizeof state->coefficient);
    state->periodic = kit_attr_int(node->info, "periodic", 1) != 0;
    *out_state = state;
    return INLAY_OK;
}

static inlay_status run(const kit_call *call)
{
    const window_state *state = call->state;
    const kit_tensor *output = &call->out[0];
    const double two_pi = 6.283185307179586476925;
    int64_t period = state->periodic ? output->count : output->count - 1;
    double block[BLOCK];

    for (int64_t i = 0; i < output->count; i += BLOCK) {
        int64_t count = output->count - i < BLOCK ? output->count - i : BLOCK;
        for (int64_t j = 0; j < count; j++) {
            /* A window of one sample consists of the center of a window. */
            double angle = period > 0 ? two_pi * (double)(i + j) / (double)period : two_pi / 2;
            block[j] = state->coefficient[0] + state->coefficient[1] * cos(angle);
            if (state->coefficient[2] != 0)
                block[j] += state->coefficient[2] * cos(2 * angle);
        }
        convert_from_f64(output->dtype, output->data, i, count, block, 0);
    }
    return INLAY_OK;
}

static const kit_kernel kernels[] = {
    { .op_type = "HannWindow", .since_max = 17, .prepare = prepare, .run = run },
    { .op_type = "HammingWindow", .since_max = 17, .prepare = prepare, .run = run },
    { .op_type = "BlackmanWindow", .since_max = 17, .prepare = prepare, .run = run },
};
const kit_table reference_window = { kernels, KIT_COUNT(kernels) };
