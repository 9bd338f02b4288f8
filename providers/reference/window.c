/* HannWindow, HammingWindow, BlackmanWindow: ONNX 17; for any numeric output type. */
#include "simd/convert.h"
#include "operators/operators.h"
#include "operators/work.h"
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

/* cos(2 pi n / period) for 0 <= n <= period, with an absolute error of about 2^-52: 1 - 2 sin^2(pi n / period), exact
 * at multiples of a half period. n is first reduced to a quarter of a period, where a short series suffices. There are
 * no branches and no calls, so that compilers vectorise loops of it. */
static inline double cosine(double n, double period)
{
    const double half_pi = 1.57079632679489661923;
    const double distance = n < period - n ? n : period - n; /* the cosine is symmetric about the half period */
    const bool beyond = 4 * distance > period;               /* and antisymmetric about a quarter */
    const double angle = (beyond ? period - 2 * distance : 2 * distance) * (half_pi / period), z = angle * angle;
    double sine = 1.0 / 355687428096000, square, result;

    sine = sine * z - 1.0 / 1307674368000;
    sine = sine * z + 1.0 / 6227020800;
    sine = sine * z - 1.0 / 39916800;
    sine = sine * z + 1.0 / 362880;
    sine = sine * z - 1.0 / 5040;
    sine = sine * z + 1.0 / 120;
    sine = sine * z - 1.0 / 6;
    sine = angle + angle * z * sine;
    square = sine * sine;
    result = 1 - 2 * square;
    return beyond ? -result : result;
}

static inlay_status run(const kit_call *call)
{
    const window_state *state = call->state;
    const kit_tensor *output = &call->out[0];
    const double *coefficient = state->coefficient;
    const int64_t last = state->periodic ? output->count : output->count - 1;
    /* A window of one sample consists of the center of a window. */
    const double period = last > 0 ? (double)last : 2, shift = last > 0 ? 0 : 1;
    double block[BLOCK];

    for (int64_t i = 0; i < output->count; i += BLOCK) {
        const int32_t count = output->count - i < BLOCK ? (int32_t)(output->count - i) : BLOCK;
        const double first = (double)i + shift;

        for (int32_t j = 0; j < count; j++)
            block[j] = cosine(first + (double)j, period);
        for (int32_t j = 0; j < count; j++) /* the cosine of the doubled angle is 2 cos^2 - 1 */
            block[j] = coefficient[0] + coefficient[1] * block[j] + coefficient[2] * (2 * block[j] * block[j] - 1);
        convert_from_f64(output->dtype, output->data, i, count, block, 0);
    }
    return INLAY_OK;
}

static const kit_kernel kernels[] = {
    { .op_type = "HannWindow", .since_max = 17, .prepare = prepare, .cost = work_cost_of_stream, .run = run },
    { .op_type = "HammingWindow", .since_max = 17, .prepare = prepare, .cost = work_cost_of_stream, .run = run },
    { .op_type = "BlackmanWindow", .since_max = 17, .prepare = prepare, .cost = work_cost_of_stream, .run = run },
};
const kit_table reference_window = { kernels, KIT_COUNT(kernels) };
