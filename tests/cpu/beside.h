/* beside.h - a small model on cpu and the same one on the reference: outputs must agree. */
#ifndef CPU_BESIDE_H
#define CPU_BESIDE_H
#include "region_provider.h"
#include "graph_script.h"
#include <math.h>

/* A model as text, and an operator that cpu itself has to run; NULL: wherever it can. */
typedef struct beside_row {
    const char *op;
    const char *script;
} beside_row;

static inline struct rig beside_open(const char *script, int64_t opset, const char *providers, const char *threads,
                                     const char *op)
{
    const char *loops = REGION_HAS_LIBRARY && strcmp(providers, "reference") != 0 ? REGION ".own_loops" : NULL;
    char pin[64];
    struct wire wire = { 0 };

    script_model(&wire, script, opset);
    if (op == NULL)
        return rig_open(&wire, (const char *const[]){ "providers", providers, "policy", "priority", "intra_threads",
                                                      threads, loops, "1", NULL });
    (void)snprintf(pin, sizeof pin, "op:%s=" REGION, op);
    return rig_open(&wire, (const char *const[]){ "providers", providers, "policy", "priority", "intra_threads",
                                                  threads, "pin", pin, loops, "1", NULL });
}

/* How far an element may be off, relative to the largest: what two orders of some hundred terms that cancel leave of a
 * Sigmoid. A file that needs more, or can do with less, defines it before; tests/numeric has bounds by element. */
#ifndef BESIDE_MOST
#define BESIDE_MOST 2e-5f
#endif

/* NaN where the other has it. */
static inline void beside_compare(const struct rig *a, const struct rig *b, const char *script)
{
    for (uint32_t i = 0; i < inlay_session_output_count(a->session); i++) {
        const inlay_value *got = inlay_context_output(a->context, i), *want = inlay_context_output(b->context, i);
        const float *input = inlay_value_data(got), *output = inlay_value_data(want);
        float peak = 1e-3f;

        assert_int_equal(inlay_value_bytes(got), inlay_value_bytes(want));
        for (int64_t k = 0; k < inlay_value_count(got); k++)
            peak = fabsf(output[k]) > peak && isfinite(output[k]) ? fabsf(output[k]) : peak;
        for (int64_t k = 0; k < inlay_value_count(got); k++)
            if (!(fabsf(input[k] - output[k]) <= BESIDE_MOST * peak) && input[k] != output[k] &&
                !(isnan(input[k]) && isnan(output[k])))
                fail_msg("element %lld is %g, not %g, in\n%s", (long long)k, (double)input[k], (double)output[k],
                         script);
    }
}

/* Convolutions and products by a library's kernels, which small models otherwise do without, where there is one. */
static inline struct rig beside_open_library(const char *script, int64_t opset)
{
    struct wire wire = { 0 };

    script_model(&wire, script, opset);
    return rig_open(&wire,
                    (const char *const[]){ "providers", REGION ",reference", "policy", "priority", "intra_threads", "1",
                                           REGION_HAS_LIBRARY ? REGION ".kernel" : NULL, "library", NULL });
}

/* feed fills the inputs; NULL: random ones. */
static inline void beside_expect(const beside_row *row, int64_t opset, void (*feed)(struct rig *rig))
{
    for (int threads = feed == NULL ? 0 : 1; threads <= 2; threads++) { /* oneDNN's have other NaNs */
        struct rig a = threads == 0
                           ? beside_open_library(row->script, opset)
                           : beside_open(row->script, opset, REGION ",reference", threads == 1 ? "1" : "2", row->op);
        struct rig b = beside_open(row->script, opset, "reference", "1", NULL);

        for (int side = 0; side < 2; side++) {
            if (feed != NULL)
                feed(side == 0 ? &a : &b);
            else
                script_feed(side == 0 ? &a : &b, 1);
            rig_run(side == 0 ? &a : &b);
        }
        beside_compare(&a, &b, row->script);
        rig_close(&a);
        rig_close(&b);
    }
}
#endif
