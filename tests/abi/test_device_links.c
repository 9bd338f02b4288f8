/* Values between two devices, on those of samples/devices_meet: imported, copied directly, or through the host; memory
 * of the program; file descriptors. */
#include "../../samples/devices_meet/devices.h"
#include "cmocka_all.h"
#include "inlay/inlay.h"
#include "inlay/plugin.h"
#include "onnx_bytes.h"
#include "plugin_dirs.h"
#include "process_counts.h"
#include "run_context.h"
#include <fcntl.h>
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROWS = 5, COLUMNS = 13, COUNT = ROWS * COLUMNS };
static const int64_t dims[] = { ROWS, COLUMNS };

struct rig {
    inlay_session *session;
    inlay_context *context;
    onnx_bytes file; /* the session reads from it */
};

/* y = Sqrt(c), with a = Sqrt(x) and b = Relu(a), c = Relu(b) and also d = Sqrt(b): values cross in both directions, and
 * b is read on both devices. */
static void open_rig(struct rig *rig, const char *isp_share, const char *npu_share)
{
    static onnx_bytes model;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options;

    model.count = 0;
    *rig = (struct rig){ 0 };
    onnx_input(&model, "x", INLAY_FLOAT, 2, dims);
    onnx_node(&model, "Sqrt", "", "x", "a");
    onnx_node(&model, "Relu", "", "a", "b");
    onnx_node(&model, "Relu", "", "b", "c");
    onnx_node(&model, "Sqrt", "", "b", "d");
    onnx_node(&model, "Sqrt", "", "c", "y");
    onnx_output(&model, "y", INLAY_FLOAT, 2, dims);
    onnx_output(&model, "d", INLAY_FLOAT, 2, dims);
    assert_int_equal(onnx_file(&rig->file, &model, 17, NULL), 0);
    assert_int_equal(inlay_plugin_register(inlay_plugin_open, &diag), INLAY_OK);
    assert_int_equal(inlay_options_create(&options, &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "providers", "isp,npu,reference", &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "policy", "priority", &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "level", "0", &diag), INLAY_OK); /* keeps both Relu */
    assert_int_equal(inlay_options_set(options, "isp.share", isp_share, &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "npu.share", npu_share, &diag), INLAY_OK);
    if (inlay_session_create_from_bytes(rig->file.data, rig->file.count, options, &rig->session, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    inlay_options_destroy(options);
    assert_int_equal(inlay_context_create(rig->session, &rig->context, &diag), INLAY_OK);
}

static void close_rig(struct rig *rig)
{
    inlay_context_destroy(rig->context);
    inlay_session_destroy(rig->session);
}

/* Runs twice, with other elements, and checks both outputs. */
static void run_twice(struct rig *rig)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    for (int round = 0; round < 2; round++) {
        inlay_value *x = NULL;

        assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, dims, &x, &diag), INLAY_OK);
        for (int i = 0; i < COUNT; i++)
            ((float *)inlay_value_data(x))[i] = (float)(i + 100 * round);
        assert_int_equal(inlay_context_set_input(rig->context, 0, x, &diag), INLAY_OK);
        run_context(rig->context);
        for (uint32_t k = 0; k < 2; k++)
            for (int i = 0; i < COUNT; i++)
                assert_float_equal(((const float *)inlay_value_data(inlay_context_output(rig->context, k)))[i],
                                   sqrtf(sqrtf((float)(i + 100 * round))), 1e-5f);
        inlay_value_unref(x);
    }
}

static void keep_text(void *user, const char *text, size_t bytes)
{
    char *out = user;
    const size_t used = strlen(out);

    if (bytes < (1 << 20) - used) {
        memcpy(out + used, text, bytes);
        out[used + bytes] = '\0';
    }
}

static const char *explained(const struct rig *rig, const char *format)
{
    static char text[1 << 20];
    const inlay_explain_options options = { .struct_size = sizeof options, .format = format };
    inlay_diag diag = INLAY_DIAG_INIT;

    text[0] = '\0';
    assert_int_equal(inlay_session_explain(rig->session, &options, keep_text, text, &diag), INLAY_OK);
    return text;
}

/* Each kind of link, by what the two devices export and import. a crosses from isp to npu; b and c from npu to isp. The
 * input and the two outputs are copied from and to the host. */
static void links_are_chosen(void **state)
{
    static const struct {
        const char *isp, *npu;
        uint32_t host_copies, device_copies; /* of one run */
        const char *text, *no_text;
    } rows[] = {
        { "both", "both", 3, 0, "3 values in shared memory", ", directly" },
        { "both", "none", 9, 0, "-> host", "in shared memory" },
        { "exports", "imports", 3, 2, ", directly", "2 values in shared memory" }, /* npu writes b and c */
        { "imports", "exports", 3, 1, ", directly", "3 values in shared memory" }, /* isp writes a */
        { "exports", "exports", 9, 0, "-> host", "in shared memory" },
        { "imports", "imports", 9, 0, "-> host", "in shared memory" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const int descriptors = descriptor_count();
        uint32_t host_copies, device_copies;
        struct rig rig;

        open_rig(&rig, rows[i].isp, rows[i].npu);
        host_copies = isp_counters.host_copies + npu_counters.host_copies;
        device_copies = isp_counters.device_copies + npu_counters.device_copies;
        run_twice(&rig);
        host_copies = isp_counters.host_copies + npu_counters.host_copies - host_copies;
        device_copies = isp_counters.device_copies + npu_counters.device_copies - device_copies;
        if (host_copies != 2 * rows[i].host_copies || device_copies != 2 * rows[i].device_copies ||
            strstr(explained(&rig, "text"), rows[i].text) == NULL ||
            strstr(explained(&rig, "text"), rows[i].no_text) != NULL)
            fail_msg("isp %s, npu %s: %u host copies, %u device copies\n%s", rows[i].isp, rows[i].npu, host_copies,
                     device_copies, explained(&rig, "text"));
        close_rig(&rig);
        assert_int_equal(isp_counters.buffers + npu_counters.buffers, 0);
        assert_int_equal(descriptor_count(), descriptors);
    }
}

static void links_are_in_reports(void **state)
{
    struct rig rig;

    (void)state;
    open_rig(&rig, "both", "both");
    assert_non_null(strstr(explained(&rig, "json"), "\"link\": \"import\""));
    close_rig(&rig);
    open_rig(&rig, "imports", "exports");
    assert_non_null(strstr(explained(&rig, "json"), "\"link\": \"direct\""));
    close_rig(&rig);
}

static inlay_status wrap(const struct rig *rig, const inlay_native_memory *memory, const int64_t *shape,
                         inlay_value **out, inlay_diag *diag)
{
    return inlay_session_value_wrap(rig->session, "isp", memory, INLAY_FLOAT, 2, shape, out, diag);
}

/* Memory of the program is read in place. Ownership is that of the descriptor: it is closed once, by the right side. */
static void memory_of_the_program_is_read(void **state)
{
    const int descriptors = descriptor_count();
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value = NULL;
    struct rig rig;

    (void)state;
    open_rig(&rig, "both", "both");
    for (uint32_t ownership = INLAY_MEMORY_BORROWED; ownership <= INLAY_MEMORY_OWNED; ownership++) {
        const int fd = memfd_create("program", MFD_CLOEXEC);
        inlay_native_memory memory = { .struct_size = sizeof memory,
                                       .handle = (uint64_t)fd,
                                       .bytes = COUNT * sizeof(float),
                                       .kind = INLAY_MEMORY_SHARED_FD,
                                       .ownership = ownership,
                                       .pitch = COLUMNS * sizeof(float) }; /* the pitch of dense rows */
        const uint32_t copies = isp_counters.host_copies;
        float *data;

        assert_int_equal(ftruncate(fd, 4096), 0);
        data = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        assert_ptr_not_equal(data, MAP_FAILED);
        assert_int_equal(wrap(&rig, &memory, dims, &value, &diag), INLAY_OK);
        if (ownership == INLAY_MEMORY_BORROWED)
            assert_int_equal(close(fd), 0);
        assert_int_equal(inlay_context_set_input(rig.context, 0, value, &diag), INLAY_OK);
        for (int i = 0; i < COUNT; i++) /* after the import */
            data[i] = (float)i;
        assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_OK);
        for (int i = 0; i < COUNT; i++)
            assert_float_equal(((const float *)inlay_value_data(inlay_context_output(rig.context, 0)))[i],
                               sqrtf(sqrtf((float)i)), 1e-5f);
        assert_int_equal(isp_counters.host_copies, copies + 2); /* the outputs */
        assert_int_equal(inlay_context_set_input(rig.context, 0, NULL, &diag), INLAY_OK);
        inlay_value_unref(value);
        assert_int_equal(munmap(data, 4096), 0);
    }
    close_rig(&rig);
    assert_int_equal(descriptor_count(), descriptors);
}

/* A value on one device is an input that the other one reads: in place, if that imports it. */
static void values_of_other_devices_are_read(void **state)
{
    (void)state;
    for (int imports = 0; imports < 2; imports++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_value *value = NULL, *home = NULL;
        uint32_t copies;
        struct rig rig;

        open_rig(&rig, imports ? "both" : "none", "both");
        assert_int_equal(inlay_session_value_create_on(rig.session, "npu", INLAY_FLOAT, 2, dims, &value, &diag),
                         INLAY_OK);
        assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, dims, &home, &diag), INLAY_OK);
        for (int round = 0; round < 2; round++) {
            for (int i = 0; i < COUNT; i++)
                ((float *)inlay_value_data(home))[i] = (float)(i + round);
            assert_int_equal(inlay_value_copy(home, value, &diag), INLAY_OK);
            assert_int_equal(inlay_context_set_input(rig.context, 0, value, &diag), INLAY_OK);
            copies = isp_counters.host_copies + npu_counters.host_copies;
            assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_OK);
            for (int i = 0; i < COUNT; i++)
                assert_float_equal(((const float *)inlay_value_data(inlay_context_output(rig.context, 0)))[i],
                                   sqrtf(sqrtf((float)(i + round))), 1e-5f);
            copies = isp_counters.host_copies + npu_counters.host_copies - copies;
            assert_int_equal(copies, imports ? 2 : 10); /* 2: the outputs */
        }
        assert_int_equal(inlay_context_set_input(rig.context, 0, NULL, &diag), INLAY_OK);
        inlay_value_unref(home);
        inlay_value_unref(value);
        close_rig(&rig);
        assert_int_equal(isp_counters.buffers + npu_counters.buffers, 0);
    }
}

/* The first device of the sample as another plugin, without the function that makes buffers of descriptors. */
static inlay_status open_without_import(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag)
{
    static inlay_plugin plugin;
    static inlay_provider provider;
    const inlay_status status = inlay_plugin_open(host, out_plugin, diag);

    plugin = **out_plugin;
    provider = plugin.providers[0];
    provider.name = "half";
    provider.buffer_import = NULL;
    plugin.name = "half";
    plugin.providers = &provider;
    plugin.provider_count = 1;
    *out_plugin = &plugin;
    return status;
}

static void kinds_require_functions(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    assert_int_equal(inlay_plugin_register(open_without_import, &diag), INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "domain 'isp.memory' exports or imports memory"));
}

/* Each refusal states its reason in one line, and leaves the descriptor to the caller, also an owned one. */
static void wrong_memory_is_refused(void **state)
{
    static const struct {
        inlay_native_memory memory; /* the rest is right */
        inlay_status status;
        const char *text;
    } rows[] = {
        { { .bytes = 4096, .pitch = 128 }, INLAY_UNSUPPORTED, "the isp reads dense rows" },
        { { .bytes = 4096, .pitch = 16 },
          INLAY_INVALID_ARGUMENT,
          "a pitch of 16 bytes; it must be at least a row, 52" },
        { { .bytes = 300, .pitch = 128 }, INLAY_INVALID_ARGUMENT, "has 300 bytes; this shape needs 564" },
        { { .bytes = 100 }, INLAY_INVALID_ARGUMENT, "has 100 bytes; this shape needs 260" },
        { { .bytes = 8192 }, INLAY_INVALID_ARGUMENT, "does not have 8192 bytes" },
        { { .bytes = 260, .offset = 8 }, INLAY_UNSUPPORTED, "from a multiple of 256 bytes" },
        { { .bytes = 260, .kind = INLAY_MEMORY_DMA_BUF }, INLAY_UNSUPPORTED, "provider isp cannot import a DMA-buf" },
        { { .bytes = 260, .kind = INLAY_MEMORY_OPAQUE_FD },
          INLAY_UNSUPPORTED,
          "provider isp cannot import an opaque file descriptor" },
    };
    const int fd = memfd_create("program", MFD_CLOEXEC);
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value = NULL;
    struct rig rig;

    (void)state;
    assert_int_equal(ftruncate(fd, 4096), 0);
    open_rig(&rig, "both", "both");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        inlay_native_memory memory = rows[i].memory;

        memory.struct_size = sizeof memory;
        memory.handle = (uint64_t)fd;
        memory.kind = memory.kind == 0 ? (uint32_t)INLAY_MEMORY_SHARED_FD : memory.kind;
        memory.ownership = INLAY_MEMORY_OWNED;
        if (wrap(&rig, &memory, dims, &value, &diag) != rows[i].status || strstr(diag.text, rows[i].text) == NULL)
            fail_msg("row %zu: %s", i, diag.text);
        assert_null(value);
        assert_int_not_equal(fcntl(fd, F_GETFD), -1);
    }
    close_rig(&rig);
    open_rig(&rig, "exports", "both");
    {
        const inlay_native_memory memory = { .struct_size = sizeof memory,
                                             .handle = (uint64_t)fd,
                                             .bytes = 4096,
                                             .kind = INLAY_MEMORY_SHARED_FD,
                                             .ownership = INLAY_MEMORY_OWNED };

        assert_int_equal(wrap(&rig, &memory, dims, &value, &diag), INLAY_UNSUPPORTED);
        assert_non_null(strstr(diag.text, "provider isp cannot import shared memory"));
    }
    close_rig(&rig);
    assert_int_equal(close(fd), 0);
}

/* A value of a device is exported to the program. */
static void values_are_exported(void **state)
{
    inlay_native_memory memory = { .struct_size = sizeof memory, .kind = INLAY_MEMORY_SHARED_FD };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value = NULL;
    const float *data;
    struct rig rig;

    (void)state;
    open_rig(&rig, "both", "both");
    assert_int_equal(inlay_session_value_create_on(rig.session, "isp", INLAY_FLOAT, 2, dims, &value, &diag), INLAY_OK);
    assert_int_equal(inlay_value_native(value, &memory, &diag), INLAY_OK);
    assert_int_equal(memory.kind, INLAY_MEMORY_SHARED_FD);
    assert_int_equal(memory.ownership, INLAY_MEMORY_BORROWED);
    data = mmap(NULL, COUNT * sizeof *data, PROT_READ, MAP_SHARED, (int)memory.handle, (off_t)memory.offset);
    assert_ptr_not_equal(data, MAP_FAILED);
    assert_int_equal(inlay_context_set_output(rig.context, 0, value, &diag), INLAY_OK);
    {
        inlay_value *x = NULL;

        assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, dims, &x, &diag), INLAY_OK);
        for (int i = 0; i < COUNT; i++)
            ((float *)inlay_value_data(x))[i] = (float)i;
        assert_int_equal(inlay_context_set_input(rig.context, 0, x, &diag), INLAY_OK);
        inlay_value_unref(x);
    }
    assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_OK);
    for (int i = 0; i < COUNT; i++)
        assert_float_equal(data[i], sqrtf(sqrtf((float)i)), 1e-5f);
    memory.kind = INLAY_MEMORY_DMA_BUF;
    assert_int_equal(inlay_value_native(value, &memory, &diag), INLAY_UNSUPPORTED);
    assert_int_equal(munmap((void *)(uintptr_t)data, COUNT * sizeof *data), 0);
    inlay_value_unref(value);
    close_rig(&rig);
}

static float expected_branch(float x, int length)
{
    float value = x;

    for (int i = 0; i < length; i++)
        value = i % 2 == 0 ? -value : value + x;
    return value;
}

/* Two asynchronous devices with queues of their own, which run ready jobs out of order: fences order the accesses to
 * memory that both use. Many branches cross between them. links: what fake, and fake#two, export (1) and import (2). */
static void queues_share_memory(void **state)
{
    enum { BRANCHES = 12, LENGTH = 4, ELEMENTS = 5000 };
    static const struct {
        const char *first, *second;
        bool through_host;
    } rows[] = { { "3", "3", false }, { "1", "2", false }, { "2", "1", false }, { "1", "1", true } };
    static const int64_t shape[] = { ELEMENTS };
    static float x[ELEMENTS];
    static onnx_bytes model, file;
    char in[32], out[32], last[32] = "x";
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    model.count = 0;
    onnx_input(&model, "x", INLAY_FLOAT, 1, shape);
    for (int b = 0; b < BRANCHES; b++) {
        (void)snprintf(in, sizeof in, "x");
        for (int i = 0; i < LENGTH; i++) { /* Neg runs on one device, Add on the other */
            (void)snprintf(out, sizeof out, "v%d_%d", b, i);
            if (i % 2 == 0) {
                onnx_node(&model, "Neg", "", in, out);
            } else {
                char both[72];

                (void)snprintf(both, sizeof both, "%s,x", in);
                onnx_node(&model, "Add", "", both, out);
            }
            memcpy(in, out, sizeof in);
        }
        if (b > 0) {
            char both[72];

            (void)snprintf(both, sizeof both, "%s,%s", last, in);
            (void)snprintf(last, sizeof last, "s%d", b);
            onnx_node(&model, "Add", "", both, last);
        } else {
            memcpy(last, in, sizeof last);
        }
    }
    onnx_node(&model, "Relu", "", last, "y");
    onnx_output(&model, "y", INLAY_FLOAT, 1, shape);
    file.count = 0;
    assert_int_equal(onnx_file(&file, &model, 17, NULL), 0);
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        const char *const settings[] = { "plugin_dirs",
                                         FAKE_DIR,
                                         "providers",
                                         "fake,fake#two,reference",
                                         "policy",
                                         "priority",
                                         "level",
                                         "0",
                                         "pin",
                                         "op:Neg=fake#two",
                                         "fake.unordered",
                                         "true",
                                         "fake#two.unordered",
                                         "true",
                                         "fake.delay_us",
                                         "200",
                                         "fake#two.delay_us",
                                         "100",
                                         "fake.shares",
                                         rows[row].first,
                                         "fake#two.shares",
                                         rows[row].second,
                                         NULL };
        const int descriptors = descriptor_count();
        inlay_options *options;
        inlay_value *value;
        struct rig rig = { 0 };

        assert_int_equal(inlay_options_create(&options, &diag), INLAY_OK);
        for (const char *const *o = settings; *o != NULL; o += 2)
            if (inlay_options_set(options, o[0], o[1], &diag) != INLAY_OK)
                fail_msg("%s", diag.text);
        if (inlay_session_create_from_bytes(file.data, file.count, options, &rig.session, &diag) != INLAY_OK)
            fail_msg("%s", diag.text);
        inlay_options_destroy(options);
        if ((strstr(explained(&rig, "json"), "\"link\": ") == NULL) != rows[row].through_host)
            fail_msg("row %zu\n%s", row, explained(&rig, "json"));
        assert_int_equal(inlay_context_create(rig.session, &rig.context, &diag), INLAY_OK);
        assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 1, shape, x, sizeof x, &value, &diag), INLAY_OK);
        assert_int_equal(inlay_context_set_input(rig.context, 0, value, &diag), INLAY_OK);
        for (int round = 0; round < 3; round++) {
            for (int i = 0; i < ELEMENTS; i++)
                x[i] = (float)(i % 97 + round);
            run_context(rig.context);
            for (int i = 0; i < ELEMENTS; i++) {
                const float got = ((const float *)inlay_value_data(inlay_context_output(rig.context, 0)))[i];

                if (got != BRANCHES * expected_branch(x[i], LENGTH))
                    fail_msg("row %zu, round %d, element %d: %g", row, round, i, (double)got);
            }
        }
        inlay_value_unref(value);
        close_rig(&rig);
        if (row > 0) /* the process opens what stays open with the first session */
            assert_int_equal(descriptor_count(), descriptors);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_are_chosen),
        cmocka_unit_test(links_are_in_reports),
        cmocka_unit_test(memory_of_the_program_is_read),
        cmocka_unit_test(values_of_other_devices_are_read),
        cmocka_unit_test(wrong_memory_is_refused),
        cmocka_unit_test(kinds_require_functions),
        cmocka_unit_test(values_are_exported),
        cmocka_unit_test(queues_share_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
