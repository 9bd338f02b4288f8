/* Device functions of inlay.h, on the fake device: device lists, mapping, wrapping of native memory, DLPack, external
 * streams, and asynchronous runs. */
#include "fake_rig.h"
#include "threads/fence.h"
#include <pthread.h>
#include <string.h>

/* The structs of the DLPack specification. */
struct dl_tensor {
    void *data;
    int32_t device_type, device_id, rank;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *dims, *strides;
    uint64_t offset;
};
struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    struct dl_tensor tensor;
};

static const char *const unified[] = { "unified", "true", NULL };

static void list_device(void *user, const inlay_device *device)
{
    size_t used = strlen(user);

    (void)snprintf((char *)user + used, 1024 - used, "%s: %s %s=%s (%s) %llu;", device->provider, device->name,
                   device->setting, device->value, device->unusable, (unsigned long long)device->memory_bytes);
}

static void devices_are_listed(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options;
    char text[1024] = "";

    (void)state;
    assert_int_equal(inlay_options_create(&options, &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "plugin_dirs", FAKE_DIR, &diag), INLAY_OK);
    assert_int_equal(inlay_device_list(options, list_device, text, &diag), INLAY_OK);
    inlay_options_destroy(options);
    assert_non_null(strstr(text, "fake: Fake 1000 fake.device=0 () 1073741824;"));
    assert_non_null(strstr(text, "fake: Fake 2000 fake.device=1 (the second device was removed) 0;"));
}

/* Alternating regions of device and host: with unified memory, values between them are not copied, nor are tensors that
 * the caller allocates there. */
static void unified_memory_copies_nothing(void **state)
{
    static const float want[] = { 3, 0, 9, 0, 15, 0 };
    onnx_bytes bytes = { .count = 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value, *y;
    void *data;

    (void)state;
    onnx_input(&bytes, "a", INLAY_FLOAT, 2, dims);
    onnx_node(&bytes, "Neg", "", "a", "n");   /* device */
    onnx_node(&bytes, "Ceil", "", "n", "c");  /* host */
    onnx_node(&bytes, "Neg", "", "c", "m");   /* device */
    onnx_node(&bytes, "Floor", "", "m", "f"); /* host */
    onnx_node(&bytes, "Add", "", "f,m", "s"); /* device */
    onnx_node(&bytes, "Abs", "", "m", "h");   /* host, reads a value that the device also reads */
    onnx_node(&bytes, "Add", "", "s,h", "t"); /* device */
    onnx_node(&bytes, "Relu", "", "t", "y");
    onnx_output(&bytes, "y", INLAY_FLOAT, 2, dims);
    for (int is_unified = 0; is_unified < 2; is_unified++) {
        struct rig rig = open_rig(&bytes, is_unified ? unified : NULL);

        assert_int_equal(inlay_session_value_create_on(rig.session, "fake", INLAY_FLOAT, 2, dims, &value, &diag),
                         INLAY_OK);
        assert_int_equal(inlay_session_value_create_on(rig.session, "fake", INLAY_FLOAT, 2, dims, &y, &diag), INLAY_OK);
        if (!is_unified) {
            assert_int_equal(inlay_value_map(value, &data, &diag), INLAY_UNSUPPORTED);
            set_floats(rig.context, 0, 2, dims, a);
            run(&rig);
            expect_floats(rig.context, 0, want, 6);
            assert_int_equal(counted(&rig.counters->copied_in), 4);
            assert_int_equal(counted(&rig.counters->copied_out), 3);
        } else {
            assert_int_equal(inlay_value_map(value, &data, &diag), INLAY_OK);
            memcpy(data, a, sizeof a);
            inlay_value_unmap(value);
            assert_int_equal(inlay_context_set_input(rig.context, 0, value, &diag), INLAY_OK);
            assert_int_equal(inlay_context_set_output(rig.context, 0, y, &diag), INLAY_OK);
            for (int i = 0; i < 3; i++)
                run(&rig);
            assert_int_equal(counted(&rig.counters->copied_in), 0);
            assert_int_equal(counted(&rig.counters->copied_out), 0);
            assert_int_equal(inlay_value_map(y, &data, &diag), INLAY_OK);
            assert_memory_equal(data, want, sizeof want);
            inlay_value_unmap(y);
        }
        inlay_value_unref(value);
        inlay_value_unref(y);
        inlay_context_destroy(rig.context);
        rig.context = NULL;
        assert_int_equal(counted(&rig.counters->mapped), 0);
        close_rig(&rig);
    }
}

/* Inputs in the caller's memory are read in place, with their current content; each is imported once. Inputs that the
 * device cannot import are copied. */
static void inputs_are_read_in_place(void **state)
{
    static const char *const imports[] = { "unified", "true", "imports", "true", NULL };
    static _Alignas(64) float memory[64];
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *odd, *even, *small;
    inlay_context *second;
    float want[6], c[6];
    struct rig rig;

    (void)state;
    rig = open_script(imports, "a : 2,3\n"
                               "b : 2,3\n"
                               "y = Add(a,b)\n"
                               "c = Ceil(b)\n"
                               "-> y, c : 2,3");
    assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 2, dims, memory, 24, &even, &diag), INLAY_OK);
    assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 2, dims, memory + 17, 24, &odd, &diag), INLAY_OK);
    assert_int_equal(inlay_context_create(rig.session, &second, &diag), INLAY_OK);
    memcpy(memory + 33, b, sizeof b);
    set_floats(rig.context, 1, 2, dims, memory + 33);
    set_floats(second, 1, 2, dims, memory + 33);
    for (uint32_t i = 1; i <= 4; i++) {
        inlay_context *context = i % 2 != 0 ? rig.context : second;

        assert_int_equal(inlay_context_set_input(context, 0, even, &diag), INLAY_OK);
        for (int k = 0; k < 6; k++) {
            memory[k] = (float)k * (float)i;
            want[k] = memory[k] + b[k];
            c[k] = b[k];
        }
        assert_int_equal(inlay_context_run(context, NULL, &diag), INLAY_OK);
        expect_floats(context, 0, want, 6);
        expect_floats(context, 1, c, 6);
        assert_int_equal(counted(&rig.counters->imported), 1);
        assert_int_equal(counted(&rig.counters->copied_in), i); /* b, which is not aligned */
    }
    inlay_context_destroy(second);
    for (uint32_t i = 1; i <= 2; i++) {
        assert_int_equal(inlay_context_set_input(rig.context, 0, odd, &diag), INLAY_OK);
        for (int k = 0; k < 6; k++) {
            memory[17 + k] = (float)i;
            want[k] = (float)i + b[k];
        }
        run(&rig);
        expect_floats(rig.context, 0, want, 6);
        assert_int_equal(counted(&rig.counters->copied_in), 4 + 2 * i);
    }
    /* The import is released with the value. */
    assert_int_equal(counted(&rig.counters->imported), 1);
    inlay_value_unref(even);
    inlay_value_unref(odd);
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, dims, &small, &diag), INLAY_OK);
    assert_int_equal(inlay_context_set_input(rig.context, 0, small, &diag), INLAY_OK);
    inlay_value_unref(small);
    run(&rig);
    expect_floats(rig.context, 0, b, 6);
    assert_int_equal(counted(&rig.counters->imported), 2);
    close_rig(&rig);
}

/* Unified memory with many plans, sizes and slow jobs: memory must not be reused while work in flight uses it. */
static void unified_memory_at_many_sizes(void **state)
{
    static const char *const slow[] = { "unified", "true", "delay_us", "100", NULL };
    static const int64_t any[] = { -1, 3 };
    onnx_bytes bytes = { .count = 0 };
    char from[16] = "a", mid[16], to[16];
    float x[90], want[90];
    struct rig rig;

    (void)state;
    onnx_input(&bytes, "a", INLAY_FLOAT, 2, any);
    for (int i = 0; i < 8; i++) {
        (void)snprintf(mid, sizeof mid, "m%d", i);
        (void)snprintf(to, sizeof to, i == 7 ? "y" : "t%d", i);
        onnx_node(&bytes, i % 2 == 0 ? "Neg" : "Ceil", "", from, mid);
        onnx_node(&bytes, i % 3 == 0 ? "Floor" : "Neg", "", mid, to);
        (void)snprintf(from, sizeof from, "%s", to);
    }
    onnx_output(&bytes, "y", INLAY_FLOAT, 2, any);
    rig = open_rig(&bytes, slow);
    for (int round = 0; round < 10; round++) {
        const int64_t shape[] = { 1 + round * 7 % 30, 3 };

        for (int i = 0; i < 90; i++) {
            x[i] = (float)(i + round);
            want[i] = x[i];
        }
        for (int i = 0; i < 90; i++)
            for (int k = 0; k < 8; k++)
                want[i] = (k % 2 == 0 ? -1.0f : 1.0f) * (k % 3 == 0 ? 1.0f : -1.0f) * want[i];
        set_floats(rig.context, 0, 2, shape, x);
        run(&rig);
        expect_floats(rig.context, 0, want, shape[0] * 3);
    }
    close_rig(&rig);
}

/* With unified memory the device computes results directly in host memory: the caller owns them as long as needed, and
 * they are not copied when used as inputs. Outputs bound to memory that the device cannot import are copied. */
static void results_in_host_memory(void **state)
{
    static const int64_t any[] = { -1, 3 };
    static const char *const imports[] = { "unified", "true", "imports", "true", NULL };
    static _Alignas(64) float memory[6] = { 1, -2, 3, -4, 5, -6 };
    onnx_bytes bytes = { .count = 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *kept[3], *own;
    static _Alignas(64) float room[7]; /* from its second element on it is not aligned, so it cannot be imported */
    float x[90], want[6], *lent = room + 1;

    (void)state;
    onnx_input(&bytes, "a", INLAY_FLOAT, 2, any);
    onnx_node(&bytes, "Neg", "", "a", "y");
    onnx_output(&bytes, "y", INLAY_FLOAT, 2, any);
    for (int can_import = 0; can_import < 2; can_import++) {
        struct rig rig = open_rig(&bytes, can_import ? imports : unified);

        for (uint32_t i = 0; i < 3; i++) { /* the holder of a result keeps it */
            for (int k = 0; k < 6; k++)
                memory[k] = (float)(k + 1) * (float)(i + 1);
            set_floats(rig.context, 0, 2, dims, memory);
            run(&rig);
            kept[i] = inlay_value_ref((inlay_value *)(uintptr_t)inlay_context_output(rig.context, 0));
            assert_null(inlay_value_device(kept[i]));
        }
        assert_int_equal(counted(&rig.counters->copied_in), can_import ? 0 : 3);
        assert_int_equal(inlay_context_set_input(rig.context, 0, kept[2], &diag), INLAY_OK);
        run(&rig);
        for (int k = 0; k < 6; k++)
            want[k] = 3 * (float)(k + 1);
        expect_floats(rig.context, 0, want, 6);
        assert_int_equal(counted(&rig.counters->copied_in), can_import ? 0 : 3); /* the last input was not copied */
        for (int round = 0; round < 12; round++) {                               /* memory is reused at other sizes */
            const int64_t shape[] = { 1 + round * 7 % 30, 3 };

            for (int k = 0; k < 90; k++)
                x[k] = (float)(k + round);
            set_floats(rig.context, 0, 2, shape, x);
            run(&rig);
            for (int k = 0; k < 90; k++)
                x[k] = -x[k];
            expect_floats(rig.context, 0, x, shape[0] * 3);
        }
        assert_int_equal(counted(&rig.counters->copied_out), 0);
        assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 2, dims, lent, 6 * sizeof *lent, &own, &diag), INLAY_OK);
        assert_int_equal(inlay_context_set_output(rig.context, 0, own, &diag), INLAY_OK);
        set_floats(rig.context, 0, 2, dims, memory);
        run(&rig);
        assert_memory_equal(lent, inlay_value_data(kept[2]), 6 * sizeof *lent);
        assert_int_equal(counted(&rig.counters->copied_out), 1);
        inlay_value_unref(own);
        inlay_context_destroy(rig.context);
        rig.context = NULL;
        inlay_session_destroy(rig.session);
        rig.session = NULL;
        for (uint32_t i = 0; i < 3; i++) {
            for (int k = 0; k < 6; k++)
                assert_true(((float *)inlay_value_data(kept[i]))[k] == -1 * (float)(k + 1) * (float)(i + 1));
            inlay_value_unref(kept[i]);
        }
        assert_int_equal(counted(&rig.counters->mapped), 0);
        close_rig(&rig);
    }
}

static void native_handles_are_wrapped(void **state)
{
    static const float want[] = { -1, 2, -3, 4, -5, 6 };
    static const int64_t more[] = { 7, 3 };
    static const char *const settings[] = { "no_domain", "true", NULL }; /* the host knows the domain */
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_native_memory memory = { .struct_size = sizeof memory };
    inlay_value *value, *same, *home;
    struct rig rig;

    (void)state;
    rig = open_script(settings, "a : 2,3\n"
                                "y = Neg(a)\n"
                                "-> y : 2,3");
    assert_int_equal(inlay_session_value_create_on(rig.session, "fake", INLAY_FLOAT, 2, dims, &value, &diag), INLAY_OK);
    assert_int_equal(inlay_value_native(value, &memory, &diag), INLAY_OK);
    assert_int_equal(memory.device_type, 12);
    assert_true(memory.bytes == sizeof a);
    assert_int_equal(inlay_session_value_wrap(rig.session, "fake", &memory, INLAY_FLOAT, 2, dims, &same, &diag),
                     INLAY_OK);
    assert_string_equal(inlay_value_device(same), "fake");
    assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 2, dims, a, sizeof a, &home, &diag), INLAY_OK);
    assert_int_equal(inlay_value_copy(home, value, &diag),
                     INLAY_OK); /* visible through `same`, which is the same memory */
    assert_int_equal(inlay_context_set_input(rig.context, 0, same, &diag), INLAY_OK);
    run(&rig);
    expect_floats(rig.context, 0, want, 6);
    assert_int_equal(counted(&rig.counters->copied_in), 1);

    /* Memory that cannot be imported is refused, and the caller keeps it. */
    inlay_value_unref(same);
    assert_int_equal(inlay_context_set_input(rig.context, 0, NULL, &diag), INLAY_OK);
    assert_int_equal(inlay_session_value_wrap(rig.session, "fake", &memory, INLAY_FLOAT, 2, more, &same, &diag),
                     INLAY_INVALID_ARGUMENT);
    for (uint32_t kind = 0; kind < 2; kind++) { /* another kind of handle, rows with gaps */
        memory.kind = kind == 0 ? INLAY_MEMORY_DMA_BUF : INLAY_MEMORY_DEVICE;
        memory.pitch = kind == 0 ? 0 : 64;
        memory.bytes = kind == 0 ? sizeof a : 128;
        assert_int_equal(inlay_session_value_wrap(rig.session, "fake", &memory, INLAY_FLOAT, 2, dims, &same, &diag),
                         INLAY_UNSUPPORTED);
    }
    /* A program that was built before these fields: they are not read. */
    memory.struct_size = offsetof(inlay_native_memory, kind);
    assert_int_equal(inlay_session_value_wrap(rig.session, "fake", &memory, INLAY_FLOAT, 2, dims, &same, &diag),
                     INLAY_OK);
    inlay_value_unref(same);
    memory.device_type = 2;
    assert_int_equal(inlay_session_value_wrap(rig.session, "fake", &memory, INLAY_FLOAT, 2, dims, &same, &diag),
                     INLAY_UNSUPPORTED);
    assert_null(same);
    assert_int_equal(inlay_session_value_wrap(rig.session, "reference", &memory, INLAY_FLOAT, 2, dims, &same, &diag),
                     INLAY_UNSUPPORTED);
    assert_int_equal(inlay_value_native(home, &memory, &diag), INLAY_UNSUPPORTED);
    inlay_value_unref(home);
    inlay_value_unref(value);
    close_rig(&rig);
}

static int deleted;

static void count_deleted(struct DLManagedTensorVersioned *self)
{
    struct DLManagedTensorVersioned *inner = self->context;

    deleted++;
    inner->deleter(inner);
}

static void dlpack_names_the_device(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct DLManagedTensorVersioned *out = NULL, mine;
    inlay_value *value, *back, *home;
    struct rig rig;

    (void)state;
    rig = open_chain(NULL);
    assert_int_equal(inlay_session_value_create_on(rig.session, "fake", INLAY_FLOAT, 2, dims, &value, &diag), INLAY_OK);
    assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 2, dims, a, sizeof a, &home, &diag), INLAY_OK);
    assert_int_equal(inlay_value_copy(home, value, &diag), INLAY_OK);
    inlay_value_unref(home);
    assert_int_equal(inlay_value_to_dlpack_versioned(value, &out, &diag), INLAY_OK);
    inlay_value_unref(value); /* the view holds it */
    assert_int_equal(out->tensor.device_type, 12);
    assert_int_equal(out->tensor.device_id, 0);
    assert_int_equal(out->tensor.rank, 2);
    assert_int_equal(out->tensor.dims[1], 3);
    assert_non_null(out->tensor.data);

    /* Import it again: it is device memory, not host memory. */
    mine = *out;
    mine.context = out;
    mine.deleter = count_deleted;
    assert_int_equal(inlay_value_from_dlpack_versioned(&mine, &back, &diag), INLAY_UNSUPPORTED);
    assert_int_equal(inlay_session_value_from_dlpack(rig.session, "missing", &mine, &back, &diag), INLAY_NOT_FOUND);
    assert_int_equal(deleted, 0);
    assert_int_equal(inlay_session_value_from_dlpack(rig.session, "fake", &mine, &back, &diag), INLAY_OK);
    assert_int_equal(inlay_context_set_input(rig.context, 0, back, &diag), INLAY_OK);
    set_floats(rig.context, 1, 2, dims, b);
    run(&rig);
    expect_floats(rig.context, 0, chain_result, 6);
    assert_int_equal(counted(&rig.counters->copied_in), 2);
    assert_int_equal(inlay_context_set_input(rig.context, 0, NULL, &diag), INLAY_OK);
    inlay_value_unref(back);
    assert_int_equal(deleted, 1);
    close_rig(&rig);
}

static inlay_value *on_device(inlay_session *session, const float *data)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value, *home;

    assert_int_equal(inlay_session_value_create_on(session, "fake", INLAY_FLOAT, 2, dims, &value, &diag), INLAY_OK);
    assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 2, dims, (void *)(uintptr_t)data, 24, &home, &diag), INLAY_OK);
    assert_int_equal(inlay_value_copy(home, value, &diag), INLAY_OK);
    inlay_value_unref(home);
    return value;
}

/* An input is still being computed in the stream of its producer. The run waits for it on the device, while the host
 * continues to submit the run. */
static void runs_come_after_streams(void **state)
{
    fake_stream first = { .kind = FAKE_STREAM, .busy = 1 }, second = { .kind = FAKE_STREAM, .busy = 1 },
                strange = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct DLManagedTensorVersioned *out;
    inlay_value *value, *in, *home;
    uint32_t done = 0;
    struct rig rig;

    (void)state;
    rig = open_chain(NULL);
    value = on_device(rig.session, a);
    assert_int_equal(inlay_value_to_dlpack_versioned(value, &out, &diag), INLAY_OK);
    inlay_value_unref(value);
    assert_int_equal(inlay_session_value_from_dlpack(rig.session, "fake", out, &in, &diag), INLAY_OK);
    assert_int_equal(inlay_context_set_input(rig.context, 0, in, &diag), INLAY_OK);
    for (int both = 0; both < 2; both++) { /* one producer, then two at once */
        const uint32_t notices_before = counted(&rig.counters->notices);

        first.busy = second.busy = 1;
        assert_int_equal(inlay_value_wait_stream(in, (uintptr_t)&first, &diag), INLAY_OK);
        if (both) {
            assert_int_equal(inlay_value_wait_stream(in, (uintptr_t)&second, &diag), INLAY_OK);
            assert_int_equal(second.gate_count, 1);
        }
        assert_int_equal(inlay_context_run_async(rig.context, NULL, NULL, NULL, &diag), INLAY_OK);
        await(&rig.counters->notices, notices_before + 1);
        assert_int_equal(inlay_context_wait(rig.context, 0, &diag), INLAY_BUSY);
        assert_int_equal(counted(&rig.counters->executed), done);
        end_stream(&first, INLAY_OK);
        if (both) {
            assert_int_equal(inlay_context_wait(rig.context, 0, &diag), INLAY_BUSY);
            end_stream(&second, INLAY_OK);
        }
        assert_int_equal(inlay_context_wait(rig.context, UINT64_MAX, &diag), INLAY_OK);
        expect_floats(rig.context, 0, chain_result, 6);
        assert_int_equal(counted(&rig.counters->executed), ++done);
    }
    /* A failure of the stream fails this run, but not the next one. */
    first.busy = 1;
    assert_int_equal(inlay_value_wait_stream(in, (uintptr_t)&first, &diag), INLAY_OK);
    end_stream(&first, INLAY_IO_ERROR);
    assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_IO_ERROR);
    if (strstr(diag.text, "the external kernel failed") == NULL)
        fail_msg("%s", diag.text);
    assert_int_equal(inlay_value_wait_stream(in, (uintptr_t)&first, &diag), INLAY_OK); /* the stream is idle now */
    run(&rig);
    expect_floats(rig.context, 0, chain_result, 6);
    /* Unknown streams, and values in host memory. */
    assert_int_equal(inlay_value_wait_stream(in, (uintptr_t)&strange, &diag), INLAY_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "none of mine"));
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, dims, &home, &diag), INLAY_OK);
    assert_int_equal(inlay_value_wait_stream(home, (uintptr_t)&first, &diag), INLAY_UNSUPPORTED);
    assert_int_equal(inlay_value_signal_stream(home, (uintptr_t)&first, &diag), INLAY_UNSUPPORTED);
    inlay_value_unref(home);
    assert_int_equal(inlay_context_set_input(rig.context, 0, NULL, &diag), INLAY_OK);
    inlay_value_unref(in);
    close_rig(&rig);
}

static void *end_stream_later(void *stream)
{
    (void)usleep(20000);
    end_stream(stream, INLAY_OK);
    return NULL;
}

/* The host reads the elements only once the producer has written them. */
static void maps_come_after_streams(void **state)
{
    fake_stream stream = { .kind = FAKE_STREAM, .busy = 1 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value;
    pthread_t thread;
    struct rig rig;
    void *data;

    (void)state;
    rig = open_chain(unified);
    value = on_device(rig.session, a);
    assert_int_equal(inlay_value_wait_stream(value, (uintptr_t)&stream, &diag), INLAY_OK);
    assert_int_equal(pthread_create(&thread, NULL, end_stream_later, &stream), 0);
    assert_int_equal(inlay_value_map(value, &data, &diag), INLAY_OK);
    assert_int_equal(stream.busy, 0);
    assert_memory_equal(data, a, sizeof a);
    inlay_value_unmap(value);
    assert_int_equal(pthread_join(thread, NULL), 0);
    /* A failure of the stream fails the map until the value is written again. */
    stream.busy = 1;
    assert_int_equal(inlay_value_wait_stream(value, (uintptr_t)&stream, &diag), INLAY_OK);
    end_stream(&stream, INLAY_IO_ERROR);
    assert_int_equal(inlay_value_map(value, &data, &diag), INLAY_IO_ERROR);
    assert_int_equal(inlay_value_wait_stream(value, (uintptr_t)&stream, &diag), INLAY_OK);
    assert_int_equal(inlay_value_map(value, &data, &diag), INLAY_OK);
    inlay_value_unmap(value);
    inlay_value_unref(value);
    close_rig(&rig);
}

/* A result is passed on while its run is in flight: a consumer's stream and a run of another session wait for it. */
static void streams_come_after_runs(void **state)
{
    static const float want[6] = { 1, -2, 3, -4, 5, -6 };
    fake_stream consumer = { .kind = FAKE_STREAM };
    uint32_t cancel = 0;
    const inlay_run_options stop = { .struct_size = sizeof stop, .cancel = &cancel };
    onnx_bytes bytes[2] = { { .count = 0 }, { .count = 0 } };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value, *y;
    struct rig rig[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        onnx_input(&bytes[i], "a", INLAY_FLOAT, 2, dims);
        onnx_node(&bytes[i], "Neg", "", "a", "y");
        onnx_output(&bytes[i], "y", INLAY_FLOAT, 2, dims);
        rig[i] = open_rig(&bytes[i], NULL);
    }
    assert_ptr_equal(rig[0].device, rig[1].device);
    value = on_device(rig[0].session, a);
    y = on_device(rig[0].session, a);
    assert_int_equal(inlay_context_set_input(rig[0].context, 0, value, &diag), INLAY_OK);
    assert_int_equal(inlay_context_set_output(rig[0].context, 0, y, &diag), INLAY_OK);
    assert_int_equal(inlay_context_set_input(rig[1].context, 0, y, &diag), INLAY_OK);
    assert_int_equal(inlay_value_signal_stream(y, (uintptr_t)&consumer, &diag), INLAY_OK); /* no run is in flight */
    assert_int_equal(consumer.gate_count, 0);
    for (uint32_t i = 1; i <= 2; i++) {
        hold(rig[0].device, FAKE_HELD);
        assert_int_equal(inlay_context_run_async(rig[0].context, NULL, NULL, NULL, &diag), INLAY_OK);
        assert_int_equal(inlay_value_signal_stream(y, (uintptr_t)&consumer, &diag), INLAY_OK);
        assert_int_equal(consumer.gate_count, i);
        assert_false(fence_reached(consumer.gates[i - 1], NULL));
        assert_int_equal(inlay_context_run_async(rig[1].context, NULL, NULL, NULL, &diag), INLAY_OK);
        await(&rig[0].counters->notices, i);
        hold(rig[0].device, FAKE_FREE);
        assert_int_equal(inlay_context_wait(rig[1].context, UINT64_MAX, &diag), INLAY_OK);
        assert_int_equal(inlay_context_wait(rig[0].context, UINT64_MAX, &diag), INLAY_OK);
        assert_true(fence_reached(consumer.gates[i - 1], NULL));
        expect_floats(rig[1].context, 0, want, 6);
    }
    /* The output of a failed run stays invalid until a later run overwrites it. */
    hold(rig[0].device, FAKE_HELD);
    assert_int_equal(inlay_context_run_async(rig[0].context, &stop, NULL, NULL, &diag), INLAY_OK);
    __atomic_store_n(&cancel, 1, __ATOMIC_RELAXED);
    assert_int_equal(inlay_context_wait(rig[0].context, UINT64_MAX, &diag), INLAY_CANCELLED);
    hold(rig[0].device, FAKE_FREE);
    assert_int_equal(inlay_context_run(rig[1].context, NULL, &diag), INLAY_CANCELLED);
    run(&rig[0]);
    run(&rig[1]);
    expect_floats(rig[1].context, 0, want, 6);
    assert_int_equal(inlay_context_set_input(rig[0].context, 0, NULL, &diag), INLAY_OK);
    assert_int_equal(inlay_context_set_output(rig[0].context, 0, NULL, &diag), INLAY_OK);
    assert_int_equal(inlay_context_set_input(rig[1].context, 0, NULL, &diag), INLAY_OK);
    inlay_value_unref(value);
    inlay_value_unref(y);
    inlay_context_destroy(rig[1].context);
    inlay_session_destroy(rig[1].session);
    provider_close(rig[1].device);
    plugin_set_destroy(rig[1].set);
    free(rig[1].model);
    close_rig(&rig[0]);
}

static void note_done(void *user, inlay_status status)
{
    __atomic_store_n((int *)user, 100 + status, __ATOMIC_RELEASE);
}

static void runs_return_before_they_are_done(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t cancel = 0;
    const inlay_run_options options = { .struct_size = sizeof options, .cancel = &cancel };
    int done = 0;
    struct rig rig;

    (void)state;
    rig = open_chain(NULL);
    assert_int_equal(inlay_context_wait(rig.context, 0, &diag), INLAY_OK); /* no run is in flight */
    for (int i = 0; i < 2; i++) {
        done = 0;
        hold(rig.device, FAKE_HELD);
        assert_int_equal(inlay_context_run_async(rig.context, NULL, note_done, &done, &diag), INLAY_OK);
        assert_int_equal(inlay_context_wait(rig.context, 0, &diag), INLAY_BUSY);
        assert_int_equal(inlay_context_run_async(rig.context, NULL, NULL, NULL, &diag), INLAY_BUSY);
        hold(rig.device, FAKE_FREE);
        assert_int_equal(inlay_context_wait(rig.context, UINT64_MAX, &diag), INLAY_OK);
        assert_int_equal(__atomic_load_n(&done, __ATOMIC_ACQUIRE), 100 + INLAY_OK);
        expect_floats(rig.context, 0, chain_result, 6);
    }
    /* The wait reports failures, and the next run succeeds. */
    hold(rig.device, FAKE_HELD);
    assert_int_equal(inlay_context_run_async(rig.context, &options, note_done, &done, &diag), INLAY_OK);
    __atomic_store_n(&cancel, 1, __ATOMIC_RELAXED);
    assert_int_equal(inlay_context_wait(rig.context, UINT64_MAX, &diag), INLAY_CANCELLED);
    assert_int_equal(diag.code, INLAY_CANCELLED);
    assert_int_equal(done, 100 + INLAY_CANCELLED);
    hold(rig.device, FAKE_FREE);
    run(&rig);
    expect_floats(rig.context, 0, chain_result, 6);
    /* Destroying a context waits for its run. */
    assert_int_equal(inlay_context_run_async(rig.context, NULL, note_done, &done, &diag), INLAY_OK);
    inlay_context_destroy(rig.context);
    rig.context = NULL;
    assert_int_equal(done, 100 + INLAY_OK);
    close_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_listed),       cmocka_unit_test(unified_memory_copies_nothing),
        cmocka_unit_test(inputs_are_read_in_place), cmocka_unit_test(unified_memory_at_many_sizes),
        cmocka_unit_test(results_in_host_memory),   cmocka_unit_test(native_handles_are_wrapped),
        cmocka_unit_test(dlpack_names_the_device),  cmocka_unit_test(runs_come_after_streams),
        cmocka_unit_test(streams_come_after_runs),  cmocka_unit_test(runs_return_before_they_are_done),
        cmocka_unit_test(maps_come_after_streams),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
