/* Random regions on cpu compared with the reference: with shapes that change between runs and repeat, on one thread and
 * two, with and without the optimiser, and concurrently from several threads. */
#include "region_models.h"
#include "graph_script.h"
#include "run_context.h"
#include <math.h>
#include <pthread.h>

enum { MODELS = 60, SHAPES = 3 };

static inlay_session *open_session(const struct wire *wire, const char *providers, const char *threads,
                                   const char *level)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options = rig_options((const char *const[]){ "providers", providers, "policy", "priority",
                                                                "intra_threads", threads, "level", level, NULL },
                                         &diag);
    inlay_session *session = NULL;

    if (inlay_session_create_from_bytes(wire->bytes, wire->count, options, &session, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    inlay_options_destroy(options);
    return session;
}

static inlay_value *random_input(uint32_t rank, const int64_t *dims, uint64_t seed)
{
    inlay_value *value = NULL;

    assert_int_equal(inlay_value_create(INLAY_FLOAT, rank, dims, &value, NULL), INLAY_OK);
    for (int64_t i = 0; i < inlay_value_count(value); i++)
        ((float *)inlay_value_data(value))[i] = random_signed(&seed);
    return value;
}

static void run(inlay_context *context, inlay_value *value)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    assert_int_equal(inlay_context_set_input(context, 0, value, &diag), INLAY_OK);
    run_context(context);
}

static double peak_of(const inlay_value *value, double least)
{
    const float *data = inlay_value_data(value);

    for (int64_t i = 0; i < inlay_value_count(value); i++)
        least = fabs((double)data[i]) > least ? fabs((double)data[i]) : least;
    return least;
}

/* Returns the largest error relative to the largest value of the result, or to `peak`, the largest value before it. */
static double distance(const inlay_value *got, const inlay_value *want, double peak)
{
    const float *a = inlay_value_data(got), *b = inlay_value_data(want);
    double worst = 0;

    assert_int_equal(inlay_value_count(got), inlay_value_count(want));
    for (uint32_t d = 0; d < inlay_value_rank(want); d++)
        assert_int_equal(inlay_value_dims(got)[d], inlay_value_dims(want)[d]);
    for (int64_t i = 0; i < inlay_value_count(want); i++)
        worst = !(fabs((double)a[i] - b[i]) <= worst) ? fabs((double)a[i] - b[i]) : worst;
    return worst / peak_of(want, peak);
}

/* For an image model, the reference's model also has all inner tensors as outputs, after the regular ones. A step may
 * subtract nearly equal values (MaxPool(x) - x): the result can be an eighth of x, but has the rounding error of x.
 * Winograd's F(4x4) has a rounding error of about 50 * 6e-8 = 3e-6 of its sum, which then is a correct 2.4e-5 of the
 * result. So errors are relative to the largest value on the way. */
struct subject {
    region_model model, whole; /* whole: empty if both sessions use `model` */
    inlay_session *ours, *reference;
    inlay_context *our_context, *reference_context;
};

static void open_subject(struct subject *subject, const char *threads, const char *level)
{
    assert_false(subject->model.wire.failed);
    subject->ours = open_session(&subject->model.wire, "cpu,reference", threads, level);
    subject->reference = open_session(subject->whole.wire.count > 0 ? &subject->whole.wire : &subject->model.wire,
                                      "reference", "1", "0");
    assert_int_equal(inlay_context_create(subject->ours, &subject->our_context, NULL), INLAY_OK);
    assert_int_equal(inlay_context_create(subject->reference, &subject->reference_context, NULL), INLAY_OK);
}

static void close_subject(struct subject *subject)
{
    inlay_context_destroy(subject->our_context);
    inlay_context_destroy(subject->reference_context);
    inlay_session_destroy(subject->ours);
    inlay_session_destroy(subject->reference);
    wire_deinit(&subject->model.wire);
    wire_deinit(&subject->whole.wire);
}

static void compare(struct subject *subject, const char *kind, uint64_t seed, uint32_t rank, const int64_t *dims)
{
    inlay_value *value = random_input(rank, dims, seed + (uint64_t)dims[0] * 31 + (uint64_t)dims[rank - 1]);
    double peak = 1e-3;

    run(subject->our_context, value);
    run(subject->reference_context, value);
    inlay_value_unref(value);
    for (uint32_t o = 0; o < inlay_session_output_count(subject->reference); o++)
        peak = peak_of(inlay_context_output(subject->reference_context, o), peak);
    for (uint32_t o = 0; o < inlay_session_output_count(subject->ours); o++) {
        double d = distance(inlay_context_output(subject->our_context, o),
                            inlay_context_output(subject->reference_context, o), peak);

        if (!(d <= 1e-6))
            fail_msg("%s model %llu, [%lld, %lld, ..]: output %u is off by %g of its largest value", kind,
                     (unsigned long long)seed, (long long)dims[0], (long long)dims[1], o, d);
    }
}

static void images(void **state)
{
    static const int64_t sizes[SHAPES + 2][3] = {
        { 1, 12, 12 }, { 2, 7, 9 }, { 1, 12, 12 }, { 3, 16, 5 }, { 2, 7, 9 }
    };

    (void)state;
    for (uint64_t seed = 1; seed <= MODELS; seed++) {
        struct subject subject = { 0 };
        int64_t channels;

        write_image_model(&subject.model, seed, 2 + seed % 9, &channels);
        write_image_model_of(&subject.whole, seed, 2 + seed % 9, &channels, true);
        open_subject(&subject, seed % 2 ? "1" : "2", seed % 3 ? "99" : "0");
        for (uint32_t i = 0; i < SHAPES + 2; i++)
            compare(&subject, "image", seed, 4, (const int64_t[]){ sizes[i][0], channels, sizes[i][1], sizes[i][2] });
        close_subject(&subject);
    }
}

static void sequences(void **state)
{
    static const int64_t sizes[SHAPES][2] = { { 1, 7 }, { 3, 20 }, { 1, 1 } };

    (void)state;
    for (uint64_t seed = 1; seed <= MODELS; seed++) {
        struct subject subject = { 0 };

        write_sequence_model(&subject.model, seed, 1 + seed % 5);
        open_subject(&subject, seed % 2 ? "1" : "2", seed % 3 ? "99" : "0");
        for (uint32_t i = 0; i < SHAPES; i++)
            compare(&subject, "sequence", seed, 3, (const int64_t[]){ sizes[i][0], sizes[i][1], WIDTH });
        close_subject(&subject);
    }
}

struct runner {
    inlay_session *session;
    inlay_value *value;
    const inlay_value *want;
    double worst;
    bool failed;
};

static void *run_often(void *arg)
{
    struct runner *runner = arg;
    inlay_context *context = NULL;

    if (inlay_context_create(runner->session, &context, NULL) != INLAY_OK ||
        inlay_context_set_input(context, 0, runner->value, NULL) != INLAY_OK)
        runner->failed = true;
    for (int i = 0; !runner->failed && i < 20; i++) {
        if (inlay_context_run(context, NULL, NULL) != INLAY_OK) {
            runner->failed = true;
        } else {
            double d = distance(inlay_context_output(context, 0), runner->want, 1e-3);
            runner->worst = !(d <= runner->worst) ? d : runner->worst;
        }
    }
    inlay_context_destroy(context);
    return NULL;
}

static void two_at_once(void **state)
{
    (void)state;
    for (uint64_t seed = 100; seed < 106; seed++) {
        struct subject subject = { 0 };
        struct runner runner[3];
        pthread_t threads[3];
        inlay_value *wants[3];
        int64_t channels;

        write_image_model(&subject.model, seed, 8, &channels);
        open_subject(&subject, seed % 2 ? "1" : "2", "99");
        for (int i = 0; i < 3; i++) {
            inlay_value *value = random_input(4, (const int64_t[]){ 1 + i / 2, channels, 14, 10 }, seed + (uint64_t)i);

            run(subject.reference_context, value);
            wants[i] = inlay_value_ref(inlay_context_output(subject.reference_context, 0));
            runner[i] = (struct runner){ .session = subject.ours, .value = value, .want = wants[i] };
        }
        for (int i = 0; i < 3; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, run_often, &runner[i]), 0);
        for (int i = 0; i < 3; i++) {
            (void)pthread_join(threads[i], NULL);
            assert_false(runner[i].failed);
            if (!(runner[i].worst <= 1e-6))
                fail_msg("model %llu, thread %d: off by %g", (unsigned long long)seed, i, runner[i].worst);
            inlay_value_unref(runner[i].value);
            inlay_value_unref(wants[i]);
        }
        close_subject(&subject);
    }
}

enum { BRANCHES = 5, BRANCH_LENGTH = 4 };

/* Writes a node of a branch: pools, which differ from branch to branch, then the difference to the previous branches,
 * and a pool of that, so that the differences are not computed all at the same time. */
static int write_branch_node(char *text, size_t room, int branch, int step)
{
    char from[32];

    if (step == BRANCH_LENGTH)
        return branch == 0 ? snprintf(text, room, "d0 = Relu(v0_%d)\n", step - 1)
                           : snprintf(text, room, "d%d = Sub(s%d, v%d_%d)\n", branch, branch - 1, branch, step - 1);
    if (step == BRANCH_LENGTH + 1)
        return snprintf(text, room, "s%d = MaxPool(d%d) kernel_shape=3,3 pads=1,1,1,1\n", branch, branch);
    (void)snprintf(from, sizeof from, step == 0 ? "x" : "v%d_%d", branch, step - 1);
    return snprintf(text, room, "v%d_%d = MaxPool(%s) kernel_shape=%d,3 pads=%d,1,%d,1\n", branch, step, from,
                    2 * branch + 3, branch + 1, branch + 1);
}

/* The memory of a run of a network whose branches are listed one after another, or by turns. */
static uint64_t memory_of_branches(bool by_turns)
{
    const char *const options[] = { "providers", "cpu,reference", "policy", "priority", "intra_threads", "1", NULL };
    inlay_memory_info memory = { .struct_size = sizeof memory };
    const int steps = BRANCH_LENGTH + 2;
    struct wire wire = { 0 };
    struct rig rig;
    char script[4096];
    int at = snprintf(script, sizeof script, "x : 1,16,64,64\n");

    for (int n = 0; n < BRANCHES * steps; n++)
        at += write_branch_node(script + at, sizeof script - (size_t)at, by_turns ? n % BRANCHES : n / steps,
                                by_turns ? n / BRANCHES : n % steps);
    (void)snprintf(script + at, sizeof script - (size_t)at, "-> s%d", BRANCHES - 1);
    script_model(&wire, 17, script);
    rig = rig_open(&wire, options);
    script_feed(&rig, 1);
    rig_run(&rig);
    assert_int_equal(inlay_session_memory(rig.session, &memory), INLAY_OK);
    rig_close(&rig);
    return memory.peak_bytes;
}

static void branches(void **state)
{
    (void)state;
    assert_true(memory_of_branches(true) <= memory_of_branches(false));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(images), cmocka_unit_test(sequences),
                                        cmocka_unit_test(two_at_once), cmocka_unit_test(branches) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
