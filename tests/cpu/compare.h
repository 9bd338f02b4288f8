/* compare.h - runs a small model on cpu and on the reference, and compares the outputs. */
#ifndef CPU_COMPARE_H
#define CPU_COMPARE_H
#include "graph_script.h"
#include <math.h>

/* A model as text, and an operator that cpu must run; NULL: any. */
typedef struct compare_case {
    const char *op;
    const char *script;
} compare_case;

static inline struct rig compare_open(const char *script, int64_t opset, const char *providers, const char *threads,
                                      const char *op)
{
    char pin[64];
    struct wire wire = { 0 };

    script_model(&wire, opset, script);
    if (op == NULL)
        return rig_open(&wire, (const char *const[]){ "providers", providers, "policy", "priority", "intra_threads",
                                                      threads, NULL });
    (void)snprintf(pin, sizeof pin, "op:%s=cpu", op);
    return rig_open(&wire, (const char *const[]){ "providers", providers, "policy", "priority", "intra_threads",
                                                  threads, "pin", pin, NULL });
}

/* Tolerance, relative to the largest element. The default covers a Sigmoid after a few hundred terms that cancel,
 * summed in two different orders. A file that needs another tolerance defines it first. tests/numeric has bounds by
 * element. */
#ifndef COMPARE_TOLERANCE
#define COMPARE_TOLERANCE 2e-5f
#endif

/* Compares the outputs; NaN must match NaN. */
static inline void compare_outputs(const struct rig *a, const struct rig *b, const char *script)
{
    for (uint32_t i = 0; i < inlay_session_output_count(a->session); i++) {
        const inlay_value *got = inlay_context_output(a->context, i), *want = inlay_context_output(b->context, i);
        const float *input = inlay_value_data(got), *output = inlay_value_data(want);
        float peak = 1e-3f;

        assert_int_equal(inlay_value_bytes(got), inlay_value_bytes(want));
        for (int64_t k = 0; k < inlay_value_count(got); k++)
            peak = fabsf(output[k]) > peak && isfinite(output[k]) ? fabsf(output[k]) : peak;
        for (int64_t k = 0; k < inlay_value_count(got); k++)
            if (!(fabsf(input[k] - output[k]) <= COMPARE_TOLERANCE * peak) && input[k] != output[k] &&
                !(isnan(input[k]) && isnan(output[k])))
                fail_msg("element %lld is %g, not %g, in\n%s", (long long)k, (double)input[k], (double)output[k],
                         script);
    }
}

/* Runs both with the same random inputs, compares the outputs and closes both. */
static inline void compare_runs(struct rig *a, struct rig *b, const char *script)
{
    script_feed(a, 1);
    script_feed(b, 1);
    rig_run(a);
    rig_run(b);
    compare_outputs(a, b, script);
    rig_close(a);
    rig_close(b);
}

/* feed fills the inputs; NULL: random inputs. */
static inline void compare_expect(const compare_case *row, int64_t opset, void (*feed)(struct rig *rig))
{
    for (int threads = 1; threads <= 2; threads++) {
        struct rig a = compare_open(row->script, opset, "cpu,reference", threads == 1 ? "1" : "2", row->op);
        struct rig b = compare_open(row->script, opset, "reference", "1", NULL);

        for (int side = 0; side < 2; side++) {
            if (feed != NULL)
                feed(side == 0 ? &a : &b);
            else
                script_feed(side == 0 ? &a : &b, 1);
            rig_run(side == 0 ? &a : &b);
        }
        compare_outputs(&a, &b, row->script);
        rig_close(&a);
        rig_close(&b);
    }
}
#endif
