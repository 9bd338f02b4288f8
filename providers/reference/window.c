/* HannWindow, HammingWindow, BlackmanWindow: ONNX 17; any numeric output type. */
#include "instance.h"
#include "simd/convert.h"
#include "reference.h"
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
    window_state *s = calloc(1, sizeof *s);

    if (s == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the state of a kernel");
    for (uint32_t i = 0; i < KIT_COUNT(rows); i++)
        if (strcmp(rows[i].name, node->info->op_type.data) == 0)
            memcpy(s->coefficient, rows[i].coefficient, sizeof s->coefficient);
    s->periodic = kit_attr_int(node->info, "periodic", 1) != 0;
    *out_state = s;
    return INLAY_OK;
}

static inlay_status run(const kit_call *call)
{
    const window_state *s = call->state;
    const kit_tensor *y = &call->out[0];
    const double turn = 6.283185307179586476925;
    int64_t period = s->periodic ? y->count : y->count - 1;
    double block[BLOCK];

    for (int64_t i = 0; i < y->count; i += BLOCK) {
        int64_t n = y->count - i < BLOCK ? y->count - i : BLOCK;
        for (int64_t j = 0; j < n; j++) {
            double angle = period > 0 ? turn * (double)(i + j) / (double)period : turn / 2; /* one sample: the middle */
            block[j] = s->coefficient[0] + s->coefficient[1] * cos(angle) + s->coefficient[2] * cos(2 * angle);
        }
        convert_from_f64(y->dtype, y->data, i, n, block, 0);
    }
    return INLAY_OK;
}

static const kit_kernel kernels[] = {
    { .op_type = "HannWindow", .since_max = 17, .prepare = prepare, .run = run },
    { .op_type = "HammingWindow", .since_max = 17, .prepare = prepare, .run = run },
    { .op_type = "BlackmanWindow", .since_max = 17, .prepare = prepare, .run = run },
};
const kit_table OPERATOR(reference_window) = { kernels, KIT_COUNT(kernels) };
