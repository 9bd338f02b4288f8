/* Work in flight on the fake device: reuse of memory, attribution of failures, hung devices. */
#include "fake_rig.h"
#include "base/provider_calls.h"
#include "threads/fence.h"
#include "random.h"
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ms(void)
{
    struct timespec timespec;

    (void)clock_gettime(CLOCK_MONOTONIC, &timespec);
    return (uint64_t)timespec.tv_sec * 1000 + (uint64_t)timespec.tv_nsec / 1000000;
}

/* Alternates Neg on the device and Floor on the host: `pairs` regions with a copy before and after each. */
static void alternate(onnx_bytes *bytes, int pairs, const int64_t *shape)
{
    char from[16] = "a", mid[16], to[16];

    onnx_input(bytes, "a", INLAY_FLOAT, 2, shape);
    for (int i = 0; i < pairs; i++) {
        (void)snprintf(mid, sizeof mid, "m%d", i);
        (void)snprintf(to, sizeof to, i == pairs - 1 ? "y" : "t%d", i);
        onnx_node(bytes, "Neg", "", from, mid);
        onnx_node(bytes, "Floor", "", mid, to);
        (void)snprintf(from, sizeof from, "%s", to);
    }
    onnx_output(bytes, "y", INLAY_FLOAT, 2, shape);
}

/* Memory of values without further consumers is reused, although devices work asynchronously. */
static void bytes_are_shared_with_work_in_flight(void **state)
{
    static const char *const ways[2][5] = { { "delay_us", "200", NULL },
                                            { "delay_us", "200", "in_place", "true", NULL } };
    static const int64_t shape[] = { 256, 256 };
    enum { COUNT = 256 * 256 };
    float *input = malloc(COUNT * sizeof *input), *output = malloc(COUNT * sizeof *output);

    (void)state;
    assert_non_null(input);
    assert_non_null(output);
    for (uint32_t in_place = 0; in_place < 2; in_place++) {
        onnx_bytes bytes = { .count = 0 };
        struct rig rig;

        alternate(&bytes, 8, shape);
        rig = open_rig(&bytes, ways[in_place]);
        for (int round = 0; round < 4; round++) {
            for (int i = 0; i < COUNT; i++)
                input[i] = output[i] = (float)(i % 1000 + round);
            set_floats(rig.context, 0, 2, shape, input);
            run(&rig);
            expect_floats(rig.context, 0, output, COUNT);
        }
        assert_int_equal(rig.counters->compiled, 8);
        assert_in_range(rig.counters->peak_kib, in_place ? 256 : 512,
                        in_place ? 511 : 768); /* values of 256 KiB; 16 without reuse */
        close_rig(&rig);
    }
    free(input);
    free(output);
}

/* A region and the host read a value while the next regions are in flight: writers wait for readers of the same
 * memory. */
static void read_by_many(const char *const *options)
{
    onnx_bytes bytes = { .count = 0 };
    float x[6], want[6];
    char from[16] = "a", name[48], made[16];
    struct rig rig;

    onnx_input(&bytes, "a", INLAY_FLOAT, 2, dims);
    for (int i = 0; i < 6; i++) { /* t = floor(-x) + -x + x = -x */
        (void)snprintf(made, sizeof made, "n%d", i);
        onnx_node(&bytes, "Neg", "", from, made);
        (void)snprintf(name, sizeof name, "f%d", i);
        onnx_node(&bytes, "Floor", "", made, name);
        (void)snprintf(name, sizeof name, "f%d,n%d", i, i);
        (void)snprintf(made, sizeof made, "s%d", i);
        onnx_node(&bytes, "Add", "", name, made);
        (void)snprintf(name, sizeof name, "s%d,%s", i, from);
        (void)snprintf(made, sizeof made, i == 5 ? "y" : "t%d", i);
        onnx_node(&bytes, "Add", "", name, made);
        (void)snprintf(from, sizeof from, "%s", made);
    }
    onnx_output(&bytes, "y", INLAY_FLOAT, 2, dims);
    rig = open_rig(&bytes, options);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 6; i++)
            x[i] = want[i] = (float)(i - 3 + round);
        set_floats(rig.context, 0, 2, dims, x);
        run(&rig);
        expect_floats(rig.context, 0, want, 6);
    }
    close_rig(&rig);
}

static void readers_are_waited_for(void **state)
{
    static const char *const ways[2][5] = { { "delay_us", "100", NULL },
                                            { "delay_us", "100", "in_place", "true", NULL } };

    (void)state;
    read_by_many(ways[0]);
    read_by_many(ways[1]);
}

enum { RANDOM_NODES = 10, RANDOM_VALUES = RANDOM_NODES + 2 };

/* Neg, Relu, Add and Mul run on the device, Floor, Ceil and Max on the host. */
static float apply(uint32_t op, float x, float y)
{
    switch (op) {
    case 0:
        return -x;
    case 1:
        return x > 0 ? x : 0;
    case 2:
        return x + y;
    case 3:
        return x * y;
    case 4:
        return floorf(x);
    case 5:
        return ceilf(x);
    default:
        return x > y ? x : y;
    }
}

/* Random graphs on host and device: values have several consumers, are computed in place, and some are outputs, whose
 * memory earlier steps share. The host must not overwrite memory that the slow device still reads. */
static void random_graphs(const char *const *options, uint32_t first_seed)
{
    static const char *const ops[] = { "Neg", "Relu", "Add", "Mul", "Floor", "Ceil", "Max" };

    for (uint32_t seed = first_seed; seed < first_seed + 150; seed++) {
        float want[RANDOM_VALUES][6], x[2][6];
        bool is_read[RANDOM_VALUES] = { false };
        uint32_t outputs[RANDOM_VALUES], output_count = 0;
        uint64_t dice = seed;
        onnx_bytes bytes = { .count = 0 };
        struct rig rig;

        onnx_input(&bytes, "v0", INLAY_FLOAT, 2, dims);
        onnx_input(&bytes, "v1", INLAY_FLOAT, 2, dims);
        for (int i = 0; i < 12; i++)
            want[i / 6][i % 6] = x[i / 6][i % 6] = (float)(random_below(&dice, 64)) / 8 - 4;
        for (uint32_t v = 2; v < RANDOM_VALUES; v++) {
            const uint32_t op = random_below(&dice, 7), near = v < 4 ? v : 4;
            const uint32_t left = v - 1 - random_below(&dice, near), right = v - 1 - random_below(&dice, near);
            const bool is_binary = op == 2 || op == 3 || op == 6;
            char inputs[16], name[8];

            (void)snprintf(inputs, sizeof inputs, is_binary ? "v%u,v%u" : "v%u", left, right);
            (void)snprintf(name, sizeof name, "v%u", v);
            onnx_node(&bytes, ops[op], "", inputs, name);
            is_read[left] = true;
            is_read[right] |= is_binary;
            for (int i = 0; i < 6; i++)
                want[v][i] = apply(op, want[left][i], want[right][i]);
        }
        for (uint32_t v = 2; v < RANDOM_VALUES; v++)
            if (!is_read[v] || random_below(&dice, 4) == 0) {
                char name[8];

                (void)snprintf(name, sizeof name, "v%u", v);
                onnx_output(&bytes, name, INLAY_FLOAT, 2, dims);
                outputs[output_count++] = v;
            }
        rig = open_rig(&bytes, options);
        set_floats(rig.context, 0, 2, dims, x[0]);
        set_floats(rig.context, 1, 2, dims, x[1]);
        for (int round = 0; round < 2; round++) {
            run(&rig);
            for (uint32_t k = 0; k < output_count; k++) {
                const float *made = inlay_value_data(inlay_context_output(rig.context, k));

                for (int i = 0; i < 6; i++)
                    if (made[i] != want[outputs[k]][i])
                        fail_msg("seed %u: v%u[%d] is %g, not %g", seed, outputs[k], i, (double)made[i],
                                 (double)want[outputs[k]][i]);
            }
        }
        close_rig(&rig);
    }
}

static void random_graphs_in_flight(void **state)
{
    static const char *const ways[2][5] = { { "delay_us", "300", NULL },
                                            { "delay_us", "300", "in_place", "true", NULL } };

    (void)state;
    random_graphs(ways[0], 1);
    random_graphs(ways[1], 1000);
}

/* No matter which job loses the device: the error names the device, even if a step of another provider noticed it
 * first. The next session gets a new device. */
static void a_loss_names_the_device(void **state)
{
    uint32_t jobs = 0;

    (void)state;
    for (uint32_t lose_after = 0; lose_after <= jobs; lose_after++) {
        char number[16];
        const char *const options[] = { "lose_after", number, NULL };
        float want[6] = { 1, -2, 3, -4, 5, -6 };
        onnx_bytes bytes = { .count = 0 }, again = { .count = 0 };
        inlay_diag diag = INLAY_DIAG_INIT;
        struct rig rig, next;

        (void)snprintf(number, sizeof number, "%u", lose_after);
        alternate(&bytes, 2, dims);
        rig = open_rig(&bytes, options);
        set_floats(rig.context, 0, 2, dims, a);
        if (lose_after == 0) {
            run(&rig);
            expect_floats(rig.context, 0, want, 6);
            jobs = rig.counters->executed + rig.counters->copied_in + rig.counters->copied_out;
            assert_int_equal(jobs, 6);
            close_rig(&rig);
            continue;
        }
        assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_DEVICE_LOST);
        if (strstr(diag.text, "provider fake") == NULL || strstr(diag.text, "reference") != NULL)
            fail_msg("job %u: %s", lose_after, diag.text);
        (void)snprintf(number, sizeof number, "%u", lose_after);
        alternate(&again, 2, dims);
        next = open_rig(&again, options);
        assert_ptr_not_equal(next.device, rig.device);
        close_rig(&next);
        close_rig(&rig);
    }
}

/* A run reports that its deadline has passed even if the device does not poll and finishes later. */
static void a_deadline_in_flight(void **state)
{
    inlay_run_options options = { .struct_size = sizeof options, .timeout_ns = 50000000 };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig;

    (void)state;
    rig = open_chain(NULL);
    hold(rig.device, FAKE_UNTIL_STOPPED);
    assert_int_equal(inlay_context_run(rig.context, &options, &diag), INLAY_DEADLINE_EXCEEDED);
    assert_null(inlay_context_output(rig.context, 0));
    hold(rig.device, FAKE_FREE);
    run(&rig);
    expect_floats(rig.context, 0, chain_result, 6);
    close_rig(&rig);
}

/* No matter which job never ends: the run ends with an error that names the device, and the next session works. Memory
 * that the device may still write to is not freed. */
static void a_device_that_hangs(void **state)
{
    (void)state;
    for (int job = 1; job <= 6; job++) {
        char number[16];
        const char *const options[] = { "hang_at", number, NULL };
        float want[6] = { 1, -2, 3, -4, 5, -6 };
        onnx_bytes bytes = { .count = 0 };
        inlay_diag diag = INLAY_DIAG_INIT;
        uint64_t begin;
        struct rig rig, next;

        (void)snprintf(number, sizeof number, "%d", 6 + job); /* in the second run */
        alternate(&bytes, 2, dims);
        rig = open_rig(&bytes, options);
        set_floats(rig.context, 0, 2, dims, a);
        run(&rig);
        shorten_timeout(&rig);
        begin = now_ms();
        assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_DEVICE_LOST);
        assert_true(now_ms() - begin >= 100);
        if (strstr(diag.text, "device_timeout_ms") == NULL || strstr(diag.text, "fake") == NULL)
            fail_msg("job %d: %s", job, diag.text);
        assert_null(inlay_context_output(rig.context, 0));
        assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_DEVICE_LOST);
        inlay_context_destroy(rig.context);
        /* Another context of the session does not wait for it again. */
        assert_int_equal(inlay_context_create(rig.session, &rig.context, &diag), INLAY_OK);
        set_floats(rig.context, 0, 2, dims, a);
        assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_DEVICE_LOST);
        leave_rig(&rig);

        bytes.count = 0;
        alternate(&bytes, 2, dims);
        next = open_rig(&bytes, options);
        assert_ptr_not_equal(next.device, rig.device);
        set_floats(next.context, 0, 2, dims, a);
        run(&next);
        expect_floats(next.context, 0, want, 6);
        close_rig(&next);
    }
}

/* Tuning uses the timeout of runs: no matter which job never ends, it ends with a message. */
static void tuning_a_device_that_hangs(void **state)
{
    static const char *const short_timeout[] = { "device_timeout_ms", "100", NULL };
    char dir[] = "/tmp/inlay-tune-XXXXXX", line[64];

    (void)state;
    assert_non_null(mkdtemp(dir));
    cache_dir = dir;
    session_options = short_timeout;
    for (int job = 1; job <= 3; job++) { /* an upload, and two runs of the only kernel */
        char number[16];
        const char *const options[] = { "hang_at", number, NULL };
        const inlay_tune_options how = { .struct_size = sizeof how, .runs = 1 };
        onnx_bytes bytes = { .count = 0 };
        inlay_diag diag = INLAY_DIAG_INIT;
        struct rig rig;

        (void)snprintf(number, sizeof number, "%d", job);
        alternate(&bytes, 2, dims);
        rig = open_rig(&bytes, options);
        assert_int_equal(inlay_tune(rig.session, &how, NULL, &diag), INLAY_DEVICE_LOST);
        if (strstr(diag.text, "device_timeout_ms") == NULL || strstr(diag.text, "fake") == NULL)
            fail_msg("job %d: %s", job, diag.text);
        leave_rig(&rig);
        (void)snprintf(line, sizeof line, "rm -rf %s/*", dir); /* clear the cache for the next job */
        assert_int_equal(system(line), 0);
    }
    session_options = NULL;
    cache_dir = NULL;
    assert_int_equal(rmdir(dir), 0);
}

/* Two devices of one kind in a session, each with its own name, options and memory, exchange values. */
static void two_of_one_kind(void **state)
{
    static const char *const settings[] = {
        "providers", "fake,fake#two,reference", "fake#two.bounded", "true", "pin", "op:Relu=fake#two", NULL
    };
    static const float expected[] = { 0, -2, 0, -4, 0, -6 };
    const provider_setting bounded[] = { { "bounded", "true" } };
    const fake_counters *counters;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session_provider_info info = { .struct_size = sizeof info };
    onnx_bytes bytes = { .count = 0 };
    const struct provider *second;
    struct rig rig;

    (void)state;
    onnx_input(&bytes, "a", INLAY_FLOAT, 2, dims);
    onnx_node(&bytes, "Neg", "", "a", "n");
    onnx_node(&bytes, "Relu", "", "n", "p");
    onnx_node(&bytes, "Neg", "", "p", "y");
    onnx_output(&bytes, "y", INLAY_FLOAT, 2, dims);
    session_options = settings;
    rig = open_rig(&bytes, NULL);
    session_options = NULL;
    assert_int_equal(inlay_session_provider(rig.session, 1, &info), INLAY_OK);
    assert_string_equal(info.name, "fake#two");
    assert_int_equal(provider_open(rig.set, "fake#two", bounded, 1, &second, &diag), INLAY_OK);
    counters = second->table->extension(second->state, "fake.counters");
    assert_ptr_not_equal(counters, rig.counters);
    assert_int_not_equal(second->first_domain, rig.device->first_domain);
    set_floats(rig.context, 0, 2, dims, a);
    for (uint32_t i = 1; i <= 3; i++) {
        run(&rig);
        expect_floats(rig.context, 0, expected, 6);
        assert_int_equal(counted(&rig.counters->executed), 2 * i);
        assert_int_equal(counted(&counters->executed), i);
    }
    provider_close(second);
    close_rig(&rig);
}

/* Device values bound as input and output, and passed on to the next run: no run copies, and the caller downloads the
 * result. */
static void values_stay_on_the_device(void **state)
{
    onnx_bytes bytes = { .count = 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *state_now, *state_next, *step, *home, *large, *list = NULL;
    static const char *const one_more[] = { "element_ps", "1", NULL };
    float start[6] = { 1, 2, 3, 4, 5, 6 }, want[6];
    static const int64_t more[] = { 4, 3 };
    uint32_t copies;
    struct rig rig, other;

    (void)state;
    onnx_input(&bytes, "a", INLAY_FLOAT, 2, dims);
    onnx_input(&bytes, "b", INLAY_FLOAT, 2, dims);
    onnx_node(&bytes, "Add", "", "a,b", "y");
    onnx_output(&bytes, "y", INLAY_FLOAT, 2, dims);
    rig = open_rig(&bytes, NULL);
    assert_int_equal(inlay_session_value_create_on(rig.session, "fake", INLAY_FLOAT, 2, dims, &state_now, &diag),
                     INLAY_OK);
    assert_int_equal(inlay_session_value_create_on(rig.session, "fake", INLAY_FLOAT, 2, dims, &state_next, &diag),
                     INLAY_OK);
    assert_int_equal(inlay_session_value_create_on(rig.session, "fake", INLAY_FLOAT, 2, dims, &step, &diag), INLAY_OK);
    assert_int_equal(inlay_session_value_create_on(rig.session, "fake", INLAY_STRING, 2, dims, &home, &diag),
                     INLAY_UNSUPPORTED);
    assert_int_equal(inlay_session_value_create_on(rig.session, "reference", INLAY_FLOAT, 2, dims, &home, &diag),
                     INLAY_UNSUPPORTED);
    assert_int_equal(inlay_session_value_create_on(rig.session, "missing", INLAY_FLOAT, 2, dims, &home, &diag),
                     INLAY_NOT_FOUND);
    assert_null(inlay_value_data(state_now));
    assert_string_equal(inlay_value_device(state_now), "fake");
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 2, dims, &home, &diag), INLAY_OK);
    assert_null(inlay_value_device(home));
    memcpy(inlay_value_data(home), start, sizeof start);
    assert_int_equal(inlay_value_copy(home, state_now, &diag), INLAY_OK);
    for (int i = 0; i < 6; i++)
        ((float *)inlay_value_data(home))[i] = want[i] = (float)i;
    assert_int_equal(inlay_value_copy(home, step, &diag), INLAY_OK);
    copies = counted(&rig.counters->copied_in) + counted(&rig.counters->copied_out);
    assert_int_equal(copies, 2);
    for (int round = 0; round < 5; round++) {
        inlay_value *was = state_now;

        assert_int_equal(inlay_context_set_input(rig.context, 0, state_now, &diag), INLAY_OK);
        assert_int_equal(inlay_context_set_input(rig.context, 1, step, &diag), INLAY_OK);
        assert_int_equal(inlay_context_set_output(rig.context, 0, state_next, &diag), INLAY_OK);
        run(&rig);
        assert_ptr_equal(inlay_context_output(rig.context, 0), state_next);
        state_now = state_next;
        state_next = was;
    }
    assert_int_equal(counted(&rig.counters->copied_in) + counted(&rig.counters->copied_out), copies);
    assert_int_equal(inlay_value_copy(state_now, home, &diag), INLAY_OK);
    for (int i = 0; i < 6; i++)
        assert_float_equal(((float *)inlay_value_data(home))[i], start[i] + 5 * want[i], 1e-6);

    /* One input on the device, one on the host, the result on the host: only the necessary copies. */
    assert_int_equal(inlay_context_set_output(rig.context, 0, NULL, &diag), INLAY_OK);
    set_floats(rig.context, 1, 2, dims, start);
    copies = counted(&rig.counters->copied_in) + counted(&rig.counters->copied_out);
    run(&rig);
    assert_int_equal(inlay_context_set_input(rig.context, 0, state_next, &diag), INLAY_OK); /* of the previous round */
    run(&rig);
    for (int i = 0; i < 6; i++)
        want[i] = start[i] + 4 * (float)i + start[i];
    expect_floats(rig.context, 0, want, 6);
    assert_int_equal(counted(&rig.counters->copied_in) + counted(&rig.counters->copied_out), copies + 4);

    /* An output that is also the input, or too small, is refused. */
    assert_int_equal(inlay_context_set_output(rig.context, 0, state_next, &diag), INLAY_OK);
    assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_SHAPE_MISMATCH);
    assert_int_equal(inlay_session_value_create_on(rig.session, "fake", INLAY_FLOAT, 2, more, &large, &diag), INLAY_OK);
    assert_int_equal(inlay_value_copy(large, home, &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(inlay_context_set_output(rig.context, 0, large, &diag), INLAY_OK);
    run(&rig);
    assert_int_equal(inlay_value_bytes(large), sizeof start);
    assert_int_equal(inlay_value_copy(large, home, &diag), INLAY_OK);
    assert_memory_equal(inlay_value_data(home), want, sizeof want);
    assert_int_equal(inlay_value_create_list(INLAY_KIND_SEQUENCE, INLAY_FLOAT, &large, 1, &list, &diag),
                     INLAY_UNSUPPORTED);
    other = open_chain(one_more);
    assert_int_equal(inlay_context_set_input(other.context, 0, large, &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(inlay_context_set_output(other.context, 0, large, &diag), INLAY_INVALID_ARGUMENT);
    close_rig(&other);
    inlay_value_unref(state_now);
    inlay_value_unref(state_next);
    inlay_value_unref(step);
    inlay_value_unref(home);
    inlay_value_unref(large);
    close_rig(&rig);
}

/* Option device_failure: no matter what happens to the device at which job, other providers complete the run correctly,
 * and the next run, too. */
static void other_providers_take_over(void **state)
{
    static const char *const settings[] = { "device_failure", "other", NULL };
    static const char *const faults[] = { "lose_after", "hang_at", "memory_kib" };
    static const int64_t shape[] = { 64, 64 };
    static float x[64 * 64];

    (void)state;
    session_options = settings;
    for (int i = 0; i < 64 * 64; i++)
        x[i] = (float)(i % 100 - 50);
    for (int kind = 0; kind < 3; kind++)
        for (int job = 1; job <= (kind == 2 ? 1 : 12); job++) {
            char number[16];
            const char *const options[] = { faults[kind], number, NULL };
            onnx_bytes bytes = { .count = 0 };
            struct rig rig;

            (void)snprintf(number, sizeof number, "%d", job);
            alternate(&bytes, 2, shape);
            rig = open_rig(&bytes, options);
            if (kind == 1)
                shorten_timeout(&rig);
            set_floats(rig.context, 0, 2, shape, x);
            for (int round = 0; round < 4; round++) {
                run(&rig);
                expect_floats(rig.context, 0, x, 64 * 64);
            }
            if (kind != 1) {
                close_rig(&rig);
                continue;
            }
            leave_rig(&rig);
        }
    session_options = NULL;
}

/* A memory limit holds at every size: above it a run fails or uses other providers, and below it idle plans are
 * evicted. */
static void limits_hold_at_every_size(void **state)
{
    static const char *const options[][7] = { { "memory_limit", "fake=1MiB", NULL },
                                              { "memory_limit", "fake=1MiB", "device_failure", "other", NULL } };
    static const int64_t any[] = { -1, 1024 }, rows[] = { 1, 60, 2000, 100, 50, 70, 1 };
    static float x[2000 * 1024], want[2000 * 1024];

    (void)state;
    for (int i = 0; i < 2000 * 1024; i++)
        want[i] = -2 * (x[i] = (float)(i % 77));
    for (int other = 0; other < 2; other++) {
        onnx_bytes bytes = { .count = 0 };
        struct rig rig;

        onnx_input(&bytes, "a", INLAY_FLOAT, 2, any);
        onnx_node(&bytes, "Neg", "", "a", "n");
        onnx_node(&bytes, "Add", "", "n,n", "y");
        onnx_output(&bytes, "y", INLAY_FLOAT, 2, any);
        session_options = options[other];
        rig = open_rig(&bytes, NULL);
        session_options = NULL;
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            const int64_t shape[] = { rows[i], 1024 };
            inlay_diag diag = INLAY_DIAG_INIT;

            set_floats(rig.context, 0, 2, shape, x);
            if (rows[i] == 2000 && other == 0) {
                assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_LIMIT_EXCEEDED);
                assert_non_null(strstr(diag.text, "memory_limit"));
                continue;
            }
            run(&rig);
            expect_floats(rig.context, 0, want, rows[i] * 1024);
        }
        assert_in_range(rig.counters->peak_kib, 400, 1024);
        assert_true(counted(&rig.counters->executed) >= 6);
        close_rig(&rig);
    }
}

/* Regions report their resident memory in compile, which replaces the estimate of the offer: weights of 6 KiB, which
 * the offer does not state, leave 10 of a limit of 16 KiB for runs, which need 12. */
static void reported_resident_memory(void **state)
{
    static const char *const options[] = { "memory_limit", "fake=16KiB", NULL };
    static const int64_t shape[] = { 12, 128 };
    static float x[12 * 128], w[12 * 128];
    onnx_bytes bytes = { .count = 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig;

    (void)state;
    onnx_input(&bytes, "a", INLAY_FLOAT, 2, shape);
    onnx_constant(&bytes, "w", INLAY_FLOAT, 2, shape, w, sizeof w);
    onnx_node(&bytes, "Add", "", "a,w", "y");
    onnx_output(&bytes, "y", INLAY_FLOAT, 2, shape);
    session_options = options;
    rig = open_rig(&bytes, NULL);
    session_options = NULL;
    assert_int_equal(rig.counters->compiled, 1);
    set_floats(rig.context, 0, 2, shape, x);
    assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_LIMIT_EXCEEDED);
    if (strstr(diag.text, "memory_limit, 10240 without weights") == NULL)
        fail_msg("%s", diag.text);
    close_rig(&rig);
}

/* A step with a data-dependent size reads its input at the negotiated placement. */
static void placements_of_data_dependent_steps(void **state)
{
    static const char *const options[] = { "host_input", "true", NULL };
    static const int64_t expected[] = { 0, 0, 1, 0, 2, 1 };
    float x[] = { 7, 0, 7, 0, 7, 0 };
    const inlay_value *value;
    struct rig rig;

    (void)state;
    rig = open_script(options, "a : 2,3\n"
                               "y = NonZero(a)\n"
                               "-> y : int64 n,n");
    set_floats(rig.context, 0, 2, dims, x);
    run(&rig);
    value = inlay_context_output(rig.context, 0);
    assert_non_null(value);
    assert_memory_equal(inlay_value_data(value), expected, sizeof expected);
    assert_int_equal(rig.counters->copied_in, 0);
    assert_int_equal(rig.counters->copied_out, 1);
    close_rig(&rig);
}

static void *release_later(void *device)
{
    (void)usleep(50000); /* the session is about to be destroyed */
    hold(device, FAKE_FREE);
    return NULL;
}

/* If a device exceeds the timeout but is still working, destroying the session waits for its work. */
static void late_work_ends_before_the_session(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    const fake_counters *counters;
    pthread_t thread;
    struct rig rig;

    (void)state;
    rig = open_chain(NULL);
    shorten_timeout(&rig);
    hold(rig.device, FAKE_DEAF);
    assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_DEVICE_LOST);
    counters = rig.counters;
    await(&counters->begun, 1);
    assert_true(counted(&counters->begun) > counted(&counters->ended));
    rig.session->env.runs.device_timeout_ms = 0; /* the session waits for such work without a limit */
    assert_int_equal(pthread_create(&thread, NULL, release_later, (void *)(uintptr_t)rig.device), 0);
    leave_rig(&rig);
    assert_true(counted(&counters->begun) <= counted(&counters->ended));
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* A copy of inlay_value_copy() hangs: the session can still be destroyed, and the device stays open. */
static void copies_that_hang(void **state)
{
    static float target[6];
    static inlay_run copying;
    static const uint32_t never;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_buffer device = { 0 }, host = { .handle = (uintptr_t)target, .bytes = sizeof target };
    inlay_fence done = { 0, 1 };
    const struct provider *provider, *next;
    struct rig rig;

    (void)state;
    rig = open_chain(NULL);
    provider = rig.device;
    shorten_timeout(&rig);
    copying = (inlay_run){ .cancel = &never, .max_threads = 1 };
    assert_int_equal(timeline_create(&done.timeline, &diag), INLAY_OK);
    assert_int_equal(call_alloc(provider->table, provider->state, provider->first_domain, provider->first_domain,
                                sizeof target, (buffer_use){ .lifetime = INLAY_LIFETIME_RUN }, &device, &diag),
                     INLAY_OK);
    hold(provider, FAKE_DEAF);
    assert_int_equal(call_copy(provider->table, provider->state, &copying, &host, &device, NULL, done, &diag),
                     INLAY_OK);
    await(&rig.counters->begun, 1);
    provider_hung(provider);
    provider_hung(provider); /* for a second copy */
    assert_int_equal(provider_open(rig.set, "fake", NULL, 0, &next, &diag), INLAY_OK);
    assert_ptr_not_equal(next, provider);
    provider_close(next);
    leave_rig(&rig);
    assert_true(provider_is_lost(provider->state));
    assert_false(fence_reached(done, NULL));
    hold(provider, FAKE_FREE);
    assert_int_equal(fence_wait_until(done, NULL, 0, &diag), INLAY_OK);
    timeline_destroy(done.timeline);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_shared_with_work_in_flight),
        cmocka_unit_test(readers_are_waited_for),
        cmocka_unit_test(random_graphs_in_flight),
        cmocka_unit_test(a_loss_names_the_device),
        cmocka_unit_test(a_deadline_in_flight),
        cmocka_unit_test(placements_of_data_dependent_steps),
        cmocka_unit_test(limits_hold_at_every_size),
        cmocka_unit_test(reported_resident_memory),
        cmocka_unit_test(values_stay_on_the_device),
        cmocka_unit_test(two_of_one_kind),
        cmocka_unit_test(other_providers_take_over),
        cmocka_unit_test(tuning_a_device_that_hangs),
        cmocka_unit_test(late_work_ends_before_the_session), /* last, because they abandon devices */
        cmocka_unit_test(copies_that_hang),
        cmocka_unit_test(a_device_that_hangs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
