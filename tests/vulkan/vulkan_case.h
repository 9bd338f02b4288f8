/* vulkan_case.h - runs a small model on a Vulkan device and on the reference provider, and compares the outputs.
 * Tests are skipped if there is no device. */
#ifndef VULKAN_CASE_H
#define VULKAN_CASE_H
#include "graph_script.h"
#include <math.h>

/* Tolerated error of an element, relative to the largest element of its tensor. */
#define MAX_RELATIVE_ERROR 2e-5f

/* Opens a session of the script. All nodes of type op (may be NULL) must run on Vulkan. */
static inline inlay_status vulkan_case_try(const char *script, int64_t opset, const char *op, bool vulkan,
                                           struct rig *out, inlay_diag *diag)
{
    const char *fault = getenv("VULKAN_CASE_FAULT"); /* "gpu:0" tests the shaders of GPUs on a CPU driver */
    char pin[96] = "op:Relu=vulkan";
    struct wire wire = { 0 };

    if (op != NULL)
        (void)snprintf(pin, sizeof pin, "op:%s=vulkan", op);
    script_model(&wire, opset, script);
    if (!vulkan)
        return rig_try_open(&wire, (const char *const[]){ "providers", "reference", NULL }, out, diag);
    return rig_try_open(&wire,
                        (const char *const[]){ "providers", "vulkan,reference", "policy", "priority", "vulkan.device",
                                               "auto", "vulkan.tiles", "estimate", "vulkan.fault",
                                               fault != NULL ? fault : "", op != NULL ? "pin" : NULL, pin, NULL },
                        out, diag);
}

/* A session that stays open, so that later sessions need not load the driver again. */
static struct rig vulkan_case_session;
static int vulkan_case_device = -1; /* 1: there is a device; -1: not tested yet */

/* Closes vulkan_case_session, for tests that need the device closed. */
static inline void vulkan_case_release_device(void)
{
    if (vulkan_case_device == 1)
        rig_close(&vulkan_case_session);
    vulkan_case_device = -1;
}

/* Ends a group of tests. The device is closed before exit(), which may end layers of the driver first. */
static inline int vulkan_case_end(void **state)
{
    (void)state;
    vulkan_case_release_device();
    return 0;
}

/* Skips the test if there is no Vulkan device. */
static inline void vulkan_case_require_device(void)
{
    if (vulkan_case_device < 0) {
        inlay_diag diag = INLAY_DIAG_INIT;

        vulkan_case_device =
            vulkan_case_try("x : 4\ny = Abs(x)\n-> y", 13, "Abs", true, &vulkan_case_session, &diag) == INLAY_OK;
        if (vulkan_case_device == 0)
            print_message("skipped: %s\n", diag.text);
    }
    if (vulkan_case_device == 0)
        skip();
}

static inline struct rig vulkan_case_open(const char *script, int64_t opset, const char *op, bool vulkan)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig;

    if (vulkan_case_try(script, opset, op, vulkan, &rig, &diag) != INLAY_OK)
        fail_msg("%s\n%s", diag.text, script);
    return rig;
}

/* Compares the outputs. NaN must be at the same elements; integers and booleans must be equal. */
static inline void vulkan_case_compare(const struct rig *vulkan, const struct rig *reference, const char *script)
{
    for (uint32_t i = 0; i < inlay_session_output_count(vulkan->session); i++) {
        const inlay_value *got = inlay_context_output(vulkan->context, i),
                          *want = inlay_context_output(reference->context, i);
        const float *got_data = inlay_value_data(got), *want_data = inlay_value_data(want);
        float peak = 1e-3f;

        if (inlay_value_bytes(got) != inlay_value_bytes(want))
            fail_msg("output %u has the wrong size in\n%s", i, script);
        if (inlay_value_dtype(got) != INLAY_FLOAT) {
            if (memcmp(got_data, want_data, inlay_value_bytes(got)) != 0)
                fail_msg("output %u has wrong elements in\n%s", i, script);
            continue;
        }
        for (int64_t k = 0; k < inlay_value_count(got); k++)
            peak = fabsf(want_data[k]) > peak && isfinite(want_data[k]) ? fabsf(want_data[k]) : peak;
        for (int64_t k = 0; k < inlay_value_count(got); k++)
            if (!(fabsf(got_data[k] - want_data[k]) <= MAX_RELATIVE_ERROR * peak) && got_data[k] != want_data[k] &&
                !(isnan(got_data[k]) && isnan(want_data[k])))
                fail_msg("element %lld is %g, not %g, in\n%s", (long long)k, (double)got_data[k], (double)want_data[k],
                         script);
    }
}

/* Runs the script on both and compares. share: fraction of special inputs such as NaN and infinity. The second run
 * replays the recorded commands and must give identical bits. */
static inline void vulkan_case_expect(const char *script, int64_t opset, const char *op, float share)
{
    struct rig vulkan, reference;
    void *first;
    size_t bytes;

    vulkan_case_require_device();
    vulkan = vulkan_case_open(script, opset, op, true);
    reference = vulkan_case_open(script, opset, op, false);
    script_feed_odd(&vulkan, 1, share);
    script_feed_odd(&reference, 1, share);
    rig_run(&vulkan);
    rig_run(&reference);
    vulkan_case_compare(&vulkan, &reference, script);
    bytes = inlay_value_bytes(inlay_context_output(vulkan.context, 0));
    first = malloc(bytes + 1);
    assert_non_null(first);
    memcpy(first, inlay_value_data(inlay_context_output(vulkan.context, 0)), bytes);
    rig_run(&vulkan);
    if (bytes > 0)
        assert_memory_equal(first, inlay_value_data(inlay_context_output(vulkan.context, 0)), bytes);
    free(first);
    rig_close(&vulkan);
    rig_close(&reference);
}

/* Appends to user: a text with room for 1 << 16 bytes. */
static inline void vulkan_case_keep(void *user, const char *data, size_t bytes)
{
    char *text = user;
    const size_t used = strlen(text), room = 1 << 16, n = bytes < room - used - 1 ? bytes : room - used - 1;

    memcpy(text + used, data, n);
    text[used + n] = '\0';
}

/* Number of nodes that vulkan runs; -1: the session has no such provider. */
static inline int vulkan_case_nodes(const inlay_session *session)
{
    static char text[1 << 16];
    inlay_diag diag = INLAY_DIAG_INIT;
    const char *at;

    text[0] = '\0';
    assert_int_equal(inlay_session_explain(
                         session,
                         &(inlay_explain_options){ .struct_size = sizeof(inlay_explain_options), .format = "json" },
                         vulkan_case_keep, text, &diag),
                     INLAY_OK);
    at = strstr(text, "{\"name\": \"vulkan\"");
    at = at != NULL ? strstr(at, "\"nodes\": ") : NULL;
    return at != NULL ? atoi(at + strlen("\"nodes\": ")) : -1;
}

/* A model as a script, and the operator that must run on Vulkan. */
typedef struct vulkan_case_row {
    const char *op;
    const char *script;
} vulkan_case_row;

static inline void vulkan_case_rows(const vulkan_case_row *rows, size_t count, int64_t opset, float share)
{
    for (size_t i = 0; i < count; i++)
        vulkan_case_expect(rows[i].script, opset, rows[i].op, share);
}
#define VULKAN_CASE_ROWS(rows, opset, share) vulkan_case_rows(rows, sizeof(rows) / sizeof((rows)[0]), opset, share)
#endif
