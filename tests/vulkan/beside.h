/* beside.h - a small model on a Vulkan device and the same one on the reference: outputs must agree. Where there is no
 * device, tests are skipped. */
#ifndef VULKAN_BESIDE_H
#define VULKAN_BESIDE_H
#include "graph_script.h"
#include <math.h>

/* How far an element may be off, relative to the largest of its tensor. */
#define BESIDE_MOST 2e-5f

/* Opens a session of the script; op (may be NULL) has to run on Vulkan. */
static inline inlay_status beside_try(const char *script, int64_t opset, const char *op, bool vulkan, struct rig *out,
                                      inlay_diag *diag)
{
    char pin[96] = "op:Relu=vulkan";
    struct wire wire = { 0 };

    if (op != NULL)
        (void)snprintf(pin, sizeof pin, "op:%s=vulkan", op);
    script_model(&wire, script, opset);
    if (!vulkan)
        return rig_try_open(&wire, (const char *const[]){ "providers", "reference", NULL }, out, diag);
    return rig_try_open(&wire,
                        (const char *const[]){ "providers", "vulkan,reference", "policy", "priority", "vulkan.device",
                                               "auto", op != NULL ? "pin" : NULL, pin, NULL },
                        out, diag);
}

/* A session that stays open: the drivers' libraries stay loaded with it, and the next session need not load them. */
static struct rig beside_first;
static int beside_present = -1; /* is there a device? -1: not tried yet */

/* For a test that is about the first session of a process, and at its end. */
static inline void beside_leave_device(void)
{
    if (beside_present == 1)
        rig_close(&beside_first);
    beside_present = -1;
}

/* Skips the test where there is no Vulkan device. */
static inline void beside_need_device(void)
{
    static bool leaves;

    if (!leaves)
        leaves = atexit(beside_leave_device) == 0;
    if (beside_present < 0) {
        inlay_diag diag = INLAY_DIAG_INIT;

        beside_present = beside_try("x : 4\ny = Abs(x)\n-> y", 13, "Abs", true, &beside_first, &diag) == INLAY_OK;
        if (beside_present == 0)
            print_message("skipped: %s\n", diag.text);
    }
    if (beside_present == 0)
        skip();
}

static inline struct rig beside_open(const char *script, int64_t opset, const char *op, bool vulkan)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig;

    if (beside_try(script, opset, op, vulkan, &rig, &diag) != INLAY_OK)
        fail_msg("%s\n%s", diag.text, script);
    return rig;
}

/* NaN where the other has it; integers and booleans to the bit. */
static inline void beside_compare(const struct rig *a, const struct rig *b, const char *script)
{
    for (uint32_t i = 0; i < inlay_session_output_count(a->session); i++) {
        const inlay_value *got = inlay_context_output(a->context, i), *want = inlay_context_output(b->context, i);
        const float *input = inlay_value_data(got), *output = inlay_value_data(want);
        float peak = 1e-3f;

        if (inlay_value_bytes(got) != inlay_value_bytes(want))
            fail_msg("output %u has other sizes in\n%s", i, script);
        if (inlay_value_dtype(got) != INLAY_FLOAT) {
            if (memcmp(input, output, inlay_value_bytes(got)) != 0)
                fail_msg("output %u has other elements in\n%s", i, script);
            continue;
        }
        for (int64_t k = 0; k < inlay_value_count(got); k++)
            peak = fabsf(output[k]) > peak && isfinite(output[k]) ? fabsf(output[k]) : peak;
        for (int64_t k = 0; k < inlay_value_count(got); k++)
            if (!(fabsf(input[k] - output[k]) <= BESIDE_MOST * peak) && input[k] != output[k] &&
                !(isnan(input[k]) && isnan(output[k])))
                fail_msg("element %lld is %g, not %g, in\n%s", (long long)k, (double)input[k], (double)output[k],
                         script);
    }
}

/* share: of inputs that are NaN, infinite and the like. The second run replays what the first recorded: the same bits.
 */
static inline void beside_expect(const char *script, int64_t opset, const char *op, float share)
{
    struct rig a, b;
    void *first;
    size_t bytes;

    beside_need_device();
    a = beside_open(script, opset, op, true);
    b = beside_open(script, opset, op, false);
    script_feed_odd(&a, 1, share);
    script_feed_odd(&b, 1, share);
    rig_run(&a);
    rig_run(&b);
    beside_compare(&a, &b, script);
    bytes = inlay_value_bytes(inlay_context_output(a.context, 0));
    first = malloc(bytes + 1);
    assert_non_null(first);
    memcpy(first, inlay_value_data(inlay_context_output(a.context, 0)), bytes);
    rig_run(&a);
    if (bytes > 0)
        assert_memory_equal(first, inlay_value_data(inlay_context_output(a.context, 0)), bytes);
    free(first);
    rig_close(&a);
    rig_close(&b);
}

/* A model as text, and the operator that Vulkan has to run. */
typedef struct beside_row {
    const char *op;
    const char *script;
} beside_row;

static inline void beside_rows(const beside_row *rows, size_t count, int64_t opset, float share)
{
    for (size_t i = 0; i < count; i++)
        beside_expect(rows[i].script, opset, rows[i].op, share);
}
#define BESIDE_ROWS(rows, opset, share) beside_rows(rows, sizeof(rows) / sizeof((rows)[0]), opset, share)
#endif
