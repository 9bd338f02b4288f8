/* Memory that Vulkan devices share through file descriptors: between two providers, and with the program. Both sides
 * are the same physical device, opened twice: opaque descriptors are for one device and driver only. */
#include "process_counts.h"
#include "vulkan_case.h"
#include <unistd.h>

static const char script[] = "x : 5,8\na = Neg(x)\nb = Abs(a)\nc = Neg(b)\ny = Abs(c)\n-> y";

/* Neg runs on one Vulkan device, Abs on the other one. */
static struct rig open_two(void)
{
    struct wire wire = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig;

    script_model(&wire, 13, script);
    if (rig_try_open(&wire,
                     (const char *const[]){ "providers", "vulkan,vulkan#two,reference", "policy", "priority",
                                            "vulkan.device", "0", "vulkan#two.device", "0", "pin", "op:Neg=vulkan",
                                            "pin", "op:Abs=vulkan#two", NULL },
                     &rig, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    return rig;
}

/* The kind of descriptor that the device shares; skips the test if there is none. */
static uint32_t require_kind(struct rig *rig)
{
    static const uint32_t kinds[] = { INLAY_MEMORY_OPAQUE_FD, INLAY_MEMORY_DMA_BUF };
    const int64_t dims[] = { 5, 8 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value = NULL;

    assert_int_equal(inlay_session_value_create_on(rig->session, "vulkan", INLAY_FLOAT, 2, dims, &value, &diag),
                     INLAY_OK);
    for (size_t i = 0; i < 2; i++) {
        inlay_native_memory memory = { .struct_size = sizeof memory, .kind = kinds[i] };

        if (inlay_value_native(value, &memory, &diag) != INLAY_OK)
            continue;
        assert_int_equal(memory.ownership, INLAY_MEMORY_OWNED);
        (void)close((int)memory.handle);
        inlay_value_unref(value);
        return kinds[i];
    }
    inlay_value_unref(value);
    rig_close(rig);
    print_message("skipped: %s\n", diag.text);
    skip();
    return 0;
}

static void keep_text(void *user, const char *text, size_t bytes)
{
    char *out = user;
    const size_t used = strlen(out);

    if (bytes < 65536 - used) {
        memcpy(out + used, text, bytes);
        out[used + bytes] = '\0';
    }
}

/* Values between the two devices are not copied: the plan has no copy of them. */
static void values_are_shared(void **state)
{
    static char text[65536];
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig, reference;
    int before;

    (void)state;
    vulkan_case_require_device();
    before = descriptor_count();
    rig = open_two();
    (void)require_kind(&rig);
    reference = vulkan_case_open(script, 13, NULL, false);
    script_feed_odd(&rig, 1, 0);
    script_feed_odd(&reference, 1, 0);
    assert_int_equal(inlay_context_profile(rig.context, 1, 0, &diag), INLAY_OK);
    rig_run(&rig);
    rig_run(&rig);
    rig_run(&reference);
    vulkan_case_compare(&rig, &reference, script);
    assert_int_equal(inlay_context_profile_write(
                         rig.context,
                         &(inlay_profile_options){ .struct_size = sizeof(inlay_profile_options), .format = "trace" },
                         keep_text, text, &diag),
                     INLAY_OK);
    for (const char *name = "abc"; *name != '\0'; name++) {
        char copy[16];

        (void)snprintf(copy, sizeof copy, "\"copy of %c\"", *name);
        assert_null(strstr(text, copy));
    }
    text[0] = '\0';
    assert_int_equal(inlay_session_explain(rig.session, NULL, keep_text, text, &diag), INLAY_OK);
    assert_non_null(strstr(text, "3 values in shared memory"));
    rig_close(&reference);
    rig_close(&rig);
    assert_int_equal(descriptor_count(), before);
}

/* The memory of a value, exported as a descriptor and imported by the other device: both see writes to either. */
static void descriptors_are_wrapped(void **state)
{
    const int64_t dims[] = { 5, 8 };
    float sent[40], got[40] = { 0 };
    inlay_value *value = NULL, *twin = NULL, *home = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig;
    int before;

    (void)state;
    vulkan_case_require_device();
    rig = open_two();
    for (int i = 0; i < 40; i++)
        sent[i] = (float)i;
    for (uint32_t ownership = INLAY_MEMORY_BORROWED; ownership <= INLAY_MEMORY_OWNED; ownership++) {
        inlay_native_memory memory = { .struct_size = sizeof memory, .kind = require_kind(&rig) };

        before = descriptor_count();
        assert_int_equal(inlay_session_value_create_on(rig.session, "vulkan", INLAY_FLOAT, 2, dims, &value, &diag),
                         INLAY_OK);
        assert_int_equal(inlay_value_native(value, &memory, &diag), INLAY_OK);
        memory.ownership = ownership;
        if (inlay_session_value_wrap(rig.session, "vulkan#two", &memory, INLAY_FLOAT, 2, dims, &twin, &diag) !=
            INLAY_OK)
            fail_msg("%s", diag.text);
        if (ownership == INLAY_MEMORY_BORROWED)
            (void)close((int)memory.handle);
        assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 2, dims, sent, sizeof sent, &home, &diag), INLAY_OK);
        assert_int_equal(inlay_value_copy(home, value, &diag), INLAY_OK);
        inlay_value_unref(home);
        assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 2, dims, got, sizeof got, &home, &diag), INLAY_OK);
        assert_int_equal(inlay_value_copy(twin, home, &diag), INLAY_OK);
        inlay_value_unref(home);
        assert_memory_equal(got, sent, sizeof got);
        memset(got, 0, sizeof got);
        inlay_value_unref(twin);
        inlay_value_unref(value);
        assert_int_equal(descriptor_count(), before);
    }
    rig_close(&rig);
}

/* A descriptor of too little memory, or of another device, is refused and stays the caller's. */
static void wrong_descriptors_are_refused(void **state)
{
    const int64_t dims[] = { 5, 8 }, many[] = { 1 << 20, 64 };
    inlay_value *value = NULL, *twin = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_native_memory memory = { .struct_size = sizeof memory };
    struct rig rig;
    int before;

    (void)state;
    vulkan_case_require_device();
    rig = open_two();
    memory.kind = require_kind(&rig);
    assert_int_equal(inlay_session_value_create_on(rig.session, "vulkan", INLAY_FLOAT, 2, dims, &value, &diag),
                     INLAY_OK);
    assert_int_equal(inlay_value_native(value, &memory, &diag), INLAY_OK);
    before = descriptor_count();
    memory.bytes = (uint64_t)many[0] * 64 * sizeof(float);
    assert_int_not_equal(
        inlay_session_value_wrap(rig.session, "vulkan#two", &memory, INLAY_FLOAT, 2, many, &twin, &diag), INLAY_OK);
    memory.bytes = 5 * 8 * sizeof(float);
    memory.device_id = 15;
    if (memory.kind == INLAY_MEMORY_OPAQUE_FD)
        assert_int_equal(
            inlay_session_value_wrap(rig.session, "vulkan#two", &memory, INLAY_FLOAT, 2, dims, &twin, &diag),
            INLAY_UNSUPPORTED);
    assert_int_equal(descriptor_count(), before);
    (void)close((int)memory.handle);
    inlay_value_unref(value);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_shared),
        cmocka_unit_test(descriptors_are_wrapped),
        cmocka_unit_test(wrong_descriptors_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, vulkan_case_end);
}
