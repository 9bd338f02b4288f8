/* ABI features for devices, on the fake device: device lists, several copies in one request, notifications of fences,
 * bindings, element types between regions, times of asynchronous kernels. */
#include "fake_models.h"
#include "threads/fence.h"
#include <string.h>

static inlay_status note_device(void *user, const inlay_device_info *info)
{
    size_t used = strlen(user);

    (void)snprintf((char *)user + used, 512 - used, "%s|%s=%s|%s|%llu|%s;", info->name, info->option, info->value,
                   info->unusable != NULL ? info->unusable : "usable", (unsigned long long)info->memory_bytes,
                   info->facts != NULL ? info->facts : "");
    return INLAY_OK;
}

static void devices_are_listed_without_opening(void **state)
{
    const char *dirs[] = { FAKE_DIR };
    inlay_diag diag = INLAY_DIAG_INIT;
    const plugin_provider *provider;
    plugin_set *set;
    const struct provider *open;
    const provider_setting second = { "device", "1" }, small = { "memory_kib", "64" };
    char text[512] = "";

    (void)state;
    assert_int_equal(plugin_set_create(dirs, 1, NULL, NULL, &set, &diag), INLAY_OK);
    provider = plugin_set_find(set, "fake");
    assert_non_null(provider);
    assert_int_equal(plugin_devices(provider, note_device, text, &diag), INLAY_OK);
    assert_string_equal(text, "Fake 1000|device=0|usable|1073741824|speed=none; colour=grey;"
                              "Fake 2000|device=1|the second device was removed|0|;");
    /* Opening the removed device fails with the reason that the list gives. */
    assert_int_equal(provider_open(set, "fake", &second, 1, &open, &diag), INLAY_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "the second device was removed"));
    /* The properties of a device are known once it is open. */
    assert_int_equal(provider_open(set, "fake", &small, 1, &open, &diag), INLAY_OK);
    assert_string_equal(open->device->name, "Fake 1000");
    assert_true(open->device->memory_bytes == 64 * 1024);
    assert_true(open->table->domains[0].memory_bytes == 64 * 1024);
    assert_int_equal(open->table->domains[0].flags, 0);
    provider_close(open);
    plugin_set_destroy(set);
}

/* Tables of sessions are as long as the highest id of a domain, so ids of closed providers are used again. */
static void ids_of_domains(void **state)
{
    const char *dirs[] = { FAKE_DIR };
    const provider_setting sizes[] = { { "memory_kib", "64" }, { "memory_kib", "128" } };
    inlay_diag diag = INLAY_DIAG_INIT;
    plugin_set *set;
    const struct provider *open[2];
    uint32_t first[2];

    (void)state;
    assert_int_equal(plugin_set_create(dirs, 1, NULL, NULL, &set, &diag), INLAY_OK);
    for (int i = 0; i < 20; i++) {
        for (int k = 0; k < 2; k++) {
            assert_int_equal(provider_open(set, "fake", &sizes[k], 1, &open[k], &diag), INLAY_OK);
            if (i == 0)
                first[k] = open[k]->first_domain;
            assert_int_equal(open[k]->first_domain, first[k]);
        }
        assert_true(first[1] >= first[0] + open[0]->table->domain_count);
        if (i % 2 == 0) { /* the first is closed and opened again while the second is in use */
            provider_close(open[0]);
            assert_int_equal(provider_open(set, "fake", &sizes[0], 1, &open[0], &diag), INLAY_OK);
            assert_int_equal(open[0]->first_domain, first[0]);
        }
        provider_close(open[0]);
        provider_close(open[1]);
    }
    plugin_set_destroy(set);
}

/* In every run one request uploads both inputs, and another one downloads the result. */
static void copies_share_a_request(void **state)
{
    struct rig rig;

    (void)state;
    rig = open_chain(NULL);
    for (uint32_t i = 1; i <= 3; i++) {
        run(&rig);
        expect_floats(rig.context, 0, chain_result, 6);
        assert_int_equal(counted(&rig.counters->copied_in), 2 * i);
        assert_int_equal(counted(&rig.counters->copy_requests), 2 * i);
    }
    close_rig(&rig);
}

static void expect_allocations(const struct rig *rig, uint32_t uses, uint32_t lifetimes)
{
    assert_int_equal(counted(&rig->counters->uses), uses);
    assert_int_equal(counted(&rig->counters->lifetimes), lifetimes);
}

/* Allocations state what the memory holds and how long: here copies of the inputs, the result, and the workspace of the
 * region; then a tensor of the user. */
static void allocations_state_their_use(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value;
    struct rig rig;

    (void)state;
    rig = open_chain(NULL);
    expect_allocations(&rig, 0, 0);
    run(&rig);
    expect_allocations(&rig, INLAY_USE_INPUT | INLAY_USE_OUTPUT | INLAY_USE_WORKSPACE, 1u << INLAY_LIFETIME_PLAN);
    expect_floats(rig.context, 0, chain_result, 6);
    assert_int_equal(inlay_session_value_create_on(rig.session, "fake", INLAY_FLOAT, 2, dims, &value, &diag), INLAY_OK);
    expect_allocations(&rig, INLAY_USE_INPUT | INLAY_USE_OUTPUT | INLAY_USE_WORKSPACE,
                       1u << INLAY_LIFETIME_PLAN | 1u << INLAY_LIFETIME_USER);
    inlay_value_unref(value);
    close_rig(&rig);
}

/* A value that the shapes determine is written once in each plan, and then only read. */
static void allocations_of_constants(void **state)
{
    static const int64_t two[] = { 2 };
    static const float want[] = { 3, 6 };
    float more[] = { 1, 3 };
    onnx_bytes bytes = { .count = 0 };
    struct rig rig;

    (void)state;
    onnx_input(&bytes, "a", INLAY_FLOAT, 2, (const int64_t[]){ -1, -1 });
    onnx_input(&bytes, "b", INLAY_FLOAT, 1, two);
    onnx_node(&bytes, "Shape", "", "a", "shape");
    onnx_node_int(&bytes, "Cast", "", "shape", "sizes", "to", INLAY_FLOAT);
    onnx_node(&bytes, "Add", "", "sizes,b", "y");
    onnx_output(&bytes, "y", INLAY_FLOAT, 1, two);
    rig = open_rig(&bytes, NULL);
    set_floats(rig.context, 0, 2, dims, a);
    set_floats(rig.context, 1, 1, two, more);
    for (uint32_t i = 1; i <= 2; i++) {
        run(&rig);
        expect_floats(rig.context, 0, want, 2);
        assert_int_equal(counted(&rig.counters->copied_in), 1 + i);
    }
    expect_allocations(&rig, INLAY_USE_INPUT | INLAY_USE_OUTPUT | INLAY_USE_WEIGHTS, 1u << INLAY_LIFETIME_PLAN);
    close_rig(&rig);
}

/* Memory whose size is known during the run only lives until its end. */
static void allocations_of_a_run(void **state)
{
    struct rig rig;

    (void)state;
    rig = run_compressed(NULL, NULL);
    expect_allocations(&rig, INLAY_USE_INNER, 1u << INLAY_LIFETIME_RUN);
    close_rig(&rig);
}

/* A region on the device only: all waits are for fences of the device itself, and are declared as such. */
static void a_device_knows_its_own_fences(void **state)
{
    static const char *const slow[] = { "delay_us", "200", NULL };
    struct rig rig;

    (void)state;
    rig = open_chain(slow);
    run(&rig);
    expect_floats(rig.context, 0, chain_result, 6);
    assert_int_equal(counted(&rig.counters->own_waits),
                     2); /* the region waits for its inputs, the download for the region */
    assert_int_equal(counted(&rig.counters->notices), 0);
    close_rig(&rig);
}

/* A value passes between two devices of one kind: each is notified of the other's fences, and no thread waits. */
static void fences_of_other_devices(void **state)
{
    static const char *const options[] = { "providers", "fake,fake#two,reference", "pin", "z=fake#two", NULL };
    static const char *const slow[] = { "delay_us", "300", NULL };
    static const float relu[] = { 0, 2, 0, 4, 0, 6 };
    onnx_bytes bytes = { .count = 0 };
    struct rig rig;

    (void)state;
    onnx_input(&bytes, "a", INLAY_FLOAT, 2, dims);
    onnx_node(&bytes, "Neg", "", "a", "n");
    onnx_node(&bytes, "Relu", "", "n", "z");
    onnx_output(&bytes, "z", INLAY_FLOAT, 2, dims);
    session_options = options;
    rig = open_rig(&bytes, slow);
    session_options = NULL;
    set_floats(rig.context, 0, 2, dims, a);
    for (int i = 0; i < 3; i++) {
        run(&rig);
        expect_floats(rig.context, 0, relu, 6);
    }
    assert_int_equal(counted(&rig.counters->executed), 3);
    assert_int_equal(counted(&rig.counters->copied_out), 3);
    close_rig(&rig);
}

struct text_buffer {
    int calls;
    inlay_status status;
    char why[64];
};

static void note_fence(void *user, inlay_status status, const inlay_diag *why)
{
    struct text_buffer *notification = user;

    notification->calls++;
    notification->status = status;
    (void)snprintf(notification->why, sizeof notification->why, "%.60s", why != NULL ? why->text : "");
}

static void notices_come_once(void **state)
{
    const inlay_host *host = host_table();
    inlay_diag diag = INLAY_DIAG_INIT, why = INLAY_DIAG_INIT;
    inlay_status status;
    struct text_buffer notification[5] = { { 0 } };
    inlay_fence_notice notice[5];
    uint64_t line;

    (void)state;
    assert_int_equal(timeline_create(&line, &diag), INLAY_OK);
    for (uint32_t i = 0; i < 5; i++) {
        notice[i] = (inlay_fence_notice){
            .struct_size = sizeof notice[i], .fence = { line, i + 1 }, .reached = note_fence, .user = &notification[i]
        };
        if (i > 0)
            host->fence_notify(host->ctx, &notice[i]);
    }
    assert_int_equal(host->fence_query(host->ctx, notice[0].fence, &status), 0);
    fence_signal((inlay_fence){ line, 2 }, INLAY_OK, NULL);
    host->fence_notify(host->ctx, &notice[0]); /* already reached: notified at once */
    for (int i = 0; i < 5; i++)
        assert_int_equal(notification[i].calls, i < 2);
    assert_int_equal(notification[0].status, INLAY_OK);
    assert_int_equal(host->fence_forget(host->ctx, &notice[3]), 1);
    assert_int_equal(host->fence_forget(host->ctx, &notice[1]), 0);
    (void)inlay_fail(&why, INLAY_DEVICE_LOST, "it fell off the bus");
    fence_signal((inlay_fence){ line, 3 }, INLAY_DEVICE_LOST, &why);
    assert_int_equal(notification[2].calls, 1);
    assert_int_equal(notification[2].status, INLAY_DEVICE_LOST);
    assert_string_equal(notification[2].why, "it fell off the bus");
    assert_int_equal(notification[3].calls, 0);
    assert_int_equal(notification[4].calls, 1);
    assert_int_equal(host->fence_query(host->ctx, notice[4].fence, &status), 1);
    assert_int_equal(status, INLAY_DEVICE_LOST);
    timeline_destroy(line);

    /* Destroying a timeline notifies its waiters. */
    assert_int_equal(timeline_create(&line, &diag), INLAY_OK);
    notice[3].fence = (inlay_fence){ line, 1 };
    host->fence_notify(host->ctx, &notice[3]);
    timeline_destroy(line);
    assert_int_equal(notification[3].calls, 1);
    assert_int_equal(notification[3].status, INLAY_CANCELLED);
}

/* Ready jobs overtake jobs that wait, and the results are still correct. */
static void work_that_ends_out_of_order(void **state)
{
    static const char *const settings[] = { "unordered", "true", NULL };
    fake_stream other = { .kind = FAKE_STREAM };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value, *there[2], *home;
    float want[2][6];
    struct rig rig;

    (void)state;
    rig = open_script(settings, "a : 2,3\n"
                                "b : 2,3\n"
                                "q = Relu(a)\n" /* waits for an external stream */
                                "m = Mul(b,b)\n"
                                "z = Add(m,b)\n" /* waits for nothing */
                                "-> q, z : 2,3");
    for (int i = 0; i < 6; i++) {
        want[0][i] = a[i] < 0 ? 0 : a[i];
        want[1][i] = b[i] * b[i] + b[i];
    }
    assert_int_equal(inlay_value_borrow(INLAY_FLOAT, 2, dims, a, sizeof a, &home, &diag), INLAY_OK);
    assert_int_equal(inlay_session_value_create_on(rig.session, "fake", INLAY_FLOAT, 2, dims, &value, &diag), INLAY_OK);
    assert_int_equal(inlay_value_copy(home, value, &diag), INLAY_OK);
    inlay_value_unref(home);
    assert_int_equal(inlay_context_set_input(rig.context, 0, value, &diag), INLAY_OK);
    set_floats(rig.context, 1, 2, dims, b);
    for (uint32_t k = 0; k < 2; k++) { /* no bytes are shared */
        assert_int_equal(inlay_session_value_create_on(rig.session, "fake", INLAY_FLOAT, 2, dims, &there[k], &diag),
                         INLAY_OK);
        assert_int_equal(inlay_context_set_output(rig.context, k, there[k], &diag), INLAY_OK);
    }
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, dims, &home, &diag), INLAY_OK);
    for (uint32_t i = 1; i <= 5; i++) {
        other.busy = 1;
        assert_int_equal(inlay_value_wait_stream(value, (uintptr_t)&other, &diag), INLAY_OK);
        assert_int_equal(inlay_context_run_async(rig.context, NULL, NULL, NULL, &diag), INLAY_OK);
        await(&rig.counters->overtaken, i); /* while the stream does nothing */
        other.busy = 0;
        fence_signal(other.marks[--other.mark_count], INLAY_OK, NULL);
        assert_int_equal(inlay_context_wait(rig.context, UINT64_MAX, &diag), INLAY_OK);
        for (uint32_t k = 0; k < 2; k++) {
            assert_int_equal(inlay_value_copy(there[k], home, &diag), INLAY_OK);
            assert_memory_equal(inlay_value_data(home), want[k], sizeof want[k]);
        }
    }
    assert_true(counted(&rig.counters->notices) > 0);
    inlay_value_unref(value);
    inlay_value_unref(there[0]);
    inlay_value_unref(there[1]);
    inlay_value_unref(home);
    close_rig(&rig);
}

/* Each run of a context uses its bindings, one for each region and plan. They are released with the context. */
static void a_context_keeps_a_binding(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_context *second;
    float x[30] = { 0 };
    struct rig rig;

    (void)state;
    rig = open_script(NULL, "a : n,3\n"
                            "n = Neg(a)\n"
                            "c = Ceil(n)\n"
                            "y = Neg(c)\n"
                            "-> y : n,3");
    for (uint32_t i = 1; i <= 9; i++) {
        const int64_t shape[] = { 1 + i % 3, 3 }; /* larger plans reallocate the host memory */

        set_floats(rig.context, 0, 2, shape, x);
        run(&rig);
        assert_int_equal(counted(&rig.counters->bound_runs), 2 * i);
        assert_int_equal(counted(&rig.counters->live_bindings), 2 * (i < 3 ? i : 3));
    }
    assert_int_equal(inlay_context_create(rig.session, &second, &diag), INLAY_OK);
    set_floats(second, 0, 2, dims, x);
    assert_int_equal(inlay_context_run(second, NULL, &diag), INLAY_OK);
    assert_int_equal(counted(&rig.counters->live_bindings), 8);
    inlay_context_destroy(second);
    assert_int_equal(counted(&rig.counters->live_bindings), 6);
    inlay_context_destroy(rig.context);
    rig.context = NULL;
    assert_int_equal(counted(&rig.counters->live_bindings), 0);
    close_rig(&rig);
}

/* Neg is one region, Mul and Add another. The value between them is bfloat16 if both regions request it; inputs and
 * outputs are not. */
static void borders_in_other_elements(void **state)
{
    static const char *const narrow[] = { "narrow", "true", NULL };
    static const float want[] = { 0, 3, -2, 10, -8, 14 };
    const float plain = 1.0f + 1.0f / 1024;
    float fine[6];
    onnx_bytes bytes = { .count = 0 };
    struct rig rig;

    (void)state;
    onnx_input(&bytes, "a", INLAY_FLOAT, 2, dims);
    onnx_input(&bytes, "b", INLAY_FLOAT, 2, dims);
    onnx_node(&bytes, "Neg", "", "a", "n");
    onnx_node(&bytes, "Mul", "", "n,b", "m");
    onnx_node(&bytes, "Add", "", "m,b", "y");
    onnx_output(&bytes, "y", INLAY_FLOAT, 2, dims);
    for (int asks = 0; asks < 2; asks++) {
        float ones[6] = { 1, 1, 1, 1, 1, 1 };

        rig = open_rig(&bytes, asks ? narrow : NULL);
        assert_int_equal(rig.counters->groups, 1);
        set_floats(rig.context, 0, 2, dims, a);
        for (int i = 0; i < 6; i++)
            fine[i] = i < 3 ? 1 : 2;
        set_floats(rig.context, 1, 2, dims, fine);
        run(&rig);
        expect_floats(rig.context, 0, want, 6);
        assert_int_equal(counted(&rig.counters->narrow_runs), asks ? 2 : 0);
        /* Precision is reduced to that of bfloat16 between the regions, and only there. */
        for (int i = 0; i < 6; i++)
            fine[i] = plain;
        set_floats(rig.context, 0, 2, dims, fine);
        set_floats(rig.context, 1, 2, dims, ones);
        run(&rig);
        for (int i = 0; i < 6; i++)
            assert_true(((const float *)inlay_value_data(inlay_context_output(rig.context, 0)))[i] ==
                        (asks ? 0.0f : 1.0f - plain));
        close_rig(&rig);
    }
}

/* A value that the host also reads, or that is a graph output, keeps the type of the model. */
static void shared_values_keep_their_type(void **state)
{
    static const char *const narrow[] = { "narrow", "true", NULL };
    struct rig rig;

    (void)state;
    rig = open_script(narrow, "a : 2,3\n"
                              "b : 2,3\n"
                              "n = Neg(a)\n"
                              "m = Mul(n,b)\n"
                              "y = Add(m,b)\n"
                              "c = Ceil(n)\n"
                              "-> y, c : 2,3");
    set_floats(rig.context, 0, 2, dims, a);
    set_floats(rig.context, 1, 2, dims, b);
    run(&rig);
    assert_int_equal(counted(&rig.counters->narrow_runs), 0);
    close_rig(&rig);
}

static void append(void *user, const char *text, size_t bytes)
{
    char *to = user;
    size_t used = strlen(to);

    if (used + bytes < 65536) {
        memcpy(to + used, text, bytes);
        to[used + bytes] = '\0';
    }
}

/* The profile contains the kernels of a device with times of the device's clock: a millisecond each. */
static void kernels_by_the_devices_clock(void **state)
{
    char *text = calloc(1, 65536);
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t found = 0;
    struct rig rig;

    (void)state;
    assert_non_null(text);
    rig = open_chain(NULL);
    assert_int_equal(inlay_context_profile(rig.context, 1, 0, &diag), INLAY_OK);
    run(&rig);
    assert_int_equal(inlay_context_profile_write(
                         rig.context,
                         &(inlay_profile_options){ .struct_size = sizeof(inlay_profile_options), .format = "trace" },
                         append, text, &diag),
                     INLAY_OK);
    for (const char *at = text; (at = strstr(at, "\"dur\":")) != NULL; at++)
        found += strtod(at + 6, NULL) == 1000.0;
    assert_int_equal(found, 4);
    close_rig(&rig);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_listed_without_opening),
        cmocka_unit_test(ids_of_domains),
        cmocka_unit_test(copies_share_a_request),
        cmocka_unit_test(allocations_state_their_use),
        cmocka_unit_test(allocations_of_constants),
        cmocka_unit_test(allocations_of_a_run),
        cmocka_unit_test(a_device_knows_its_own_fences),
        cmocka_unit_test(fences_of_other_devices),
        cmocka_unit_test(notices_come_once),
        cmocka_unit_test(work_that_ends_out_of_order),
        cmocka_unit_test(a_context_keeps_a_binding),
        cmocka_unit_test(borders_in_other_elements),
        cmocka_unit_test(shared_values_keep_their_type),
        cmocka_unit_test(kernels_by_the_devices_clock),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
