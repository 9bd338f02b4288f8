/* Random regions on cpu against the same on the reference: at shapes that change from run to run and come back, on
 * one thread and two, with and without the optimiser, and from several threads at once. */
#include "region_provider.h"
#include "region_models.h"
#include <math.h>
#include <pthread.h>

enum { MODELS = 60, SHAPES = 3 };

static inlay_session *open_session(const struct wire *w, const char *providers, const char *threads, const char *level)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *o = rig_options((const char *const[]){ "providers", providers, "policy", "priority", "intra_threads",
                                                          threads, "level", level, NULL },
                                   &diag);
    inlay_session *s = NULL;

    if (inlay_session_create_from_bytes(w->bytes, w->count, o, &s, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    inlay_options_destroy(o);
    return s;
}

static inlay_value *random_input(uint32_t rank, const int64_t *dims, uint64_t seed)
{
    struct dice d = { seed };
    inlay_value *v = NULL;

    assert_int_equal(inlay_value_create(INLAY_FLOAT, rank, dims, &v, NULL), INLAY_OK);
    for (int64_t i = 0; i < inlay_value_count(v); i++)
        ((float *)inlay_value_data(v))[i] = roll_float(&d);
    return v;
}

static void run(inlay_context *c, inlay_value *x)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    assert_int_equal(inlay_context_set_input(c, 0, x, &diag), INLAY_OK);
    if (inlay_context_run(c, NULL, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
}

static double peak_of(const inlay_value *v, double least)
{
    const float *data = inlay_value_data(v);

    for (int64_t i = 0; i < inlay_value_count(v); i++)
        least = fabs((double)data[i]) > least ? fabs((double)data[i]) : least;
    return least;
}

/* The worst error in units of the largest value, of the result or of what led to it (peak). */
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

/* Of an image model, theirs has all tensors inside as outputs, too, behind those of ours. A step may subtract what is
 * nearly the same (MaxPool(x) - x): what is left can be an eighth of x, and holds all of x's rounding. Winograd's
 * F(4x4) rounds at some fifty units of 6e-8 of its sum, 3e-6, which then is 2.4e-5 of the result, and right. So errors
 * are measured by the largest value that there was on the way. */
struct subject {
    region_model m, whole; /* whole: empty, the model is m for both */
    inlay_session *ours, *theirs;
    inlay_context *a, *b;
};

static void open_subject(struct subject *s, const char *threads, const char *level)
{
    assert_false(s->m.w.failed);
    s->ours = open_session(&s->m.w, REGION ",reference", threads, level);
    s->theirs = open_session(s->whole.w.count > 0 ? &s->whole.w : &s->m.w, "reference", "1", "0");
    assert_int_equal(inlay_context_create(s->ours, &s->a, NULL), INLAY_OK);
    assert_int_equal(inlay_context_create(s->theirs, &s->b, NULL), INLAY_OK);
}

static void close_subject(struct subject *s)
{
    inlay_context_destroy(s->a);
    inlay_context_destroy(s->b);
    inlay_session_destroy(s->ours);
    inlay_session_destroy(s->theirs);
    wire_deinit(&s->m.w);
    wire_deinit(&s->whole.w);
}

static void compare(struct subject *s, const char *kind, uint64_t seed, uint32_t rank, const int64_t *dims)
{
    inlay_value *x = random_input(rank, dims, seed + (uint64_t)dims[0] * 31 + (uint64_t)dims[rank - 1]);
    double peak = 1e-3;

    run(s->a, x);
    run(s->b, x);
    inlay_value_unref(x);
    for (uint32_t o = 0; o < inlay_session_output_count(s->theirs); o++)
        peak = peak_of(inlay_context_output(s->b, o), peak);
    for (uint32_t o = 0; o < inlay_session_output_count(s->ours); o++) {
        double d = distance(inlay_context_output(s->a, o), inlay_context_output(s->b, o), peak);

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
        struct subject s = { 0 };
        int64_t channels;

        write_image_model(&s.m, seed, 2 + seed % 9, &channels);
        write_image_model_of(&s.whole, seed, 2 + seed % 9, &channels, true);
        open_subject(&s, seed % 2 ? "1" : "2", seed % 3 ? "99" : "0");
        for (uint32_t i = 0; i < SHAPES + 2; i++)
            compare(&s, "image", seed, 4, (const int64_t[]){ sizes[i][0], channels, sizes[i][1], sizes[i][2] });
        close_subject(&s);
    }
}

static void sequences(void **state)
{
    static const int64_t sizes[SHAPES][2] = { { 1, 7 }, { 3, 20 }, { 1, 1 } };

    (void)state;
    for (uint64_t seed = 1; seed <= MODELS; seed++) {
        struct subject s = { 0 };

        write_sequence_model(&s.m, seed, 1 + seed % 5);
        open_subject(&s, seed % 2 ? "1" : "2", seed % 3 ? "99" : "0");
        for (uint32_t i = 0; i < SHAPES; i++)
            compare(&s, "sequence", seed, 3, (const int64_t[]){ sizes[i][0], sizes[i][1], WIDTH });
        close_subject(&s);
    }
}

/* ------------------------------------------------------------------ two at once */

struct runner {
    inlay_session *session;
    inlay_value *x;
    const inlay_value *want;
    double worst;
    bool failed;
};

static void *run_often(void *arg)
{
    struct runner *r = arg;
    inlay_context *c = NULL;

    if (inlay_context_create(r->session, &c, NULL) != INLAY_OK || inlay_context_set_input(c, 0, r->x, NULL) != INLAY_OK)
        r->failed = true;
    for (int i = 0; !r->failed && i < 20; i++) {
        if (inlay_context_run(c, NULL, NULL) != INLAY_OK) {
            r->failed = true;
        } else {
            double d = distance(inlay_context_output(c, 0), r->want, 1e-3);
            r->worst = !(d <= r->worst) ? d : r->worst;
        }
    }
    inlay_context_destroy(c);
    return NULL;
}

static void two_at_once(void **state)
{
    (void)state;
    for (uint64_t seed = 100; seed < 106; seed++) {
        struct subject s = { 0 };
        struct runner r[3];
        pthread_t threads[3];
        inlay_value *wants[3];
        int64_t channels;

        write_image_model(&s.m, seed, 8, &channels);
        open_subject(&s, seed % 2 ? "1" : "2", "99");
        for (int i = 0; i < 3; i++) {
            inlay_value *x = random_input(4, (const int64_t[]){ 1 + i / 2, channels, 14, 10 }, seed + (uint64_t)i);

            run(s.b, x);
            wants[i] = inlay_value_ref(inlay_context_output(s.b, 0));
            r[i] = (struct runner){ .session = s.ours, .x = x, .want = wants[i] };
        }
        for (int i = 0; i < 3; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, run_often, &r[i]), 0);
        for (int i = 0; i < 3; i++) {
            (void)pthread_join(threads[i], NULL);
            assert_false(r[i].failed);
            if (!(r[i].worst <= 1e-6))
                fail_msg("model %llu, thread %d: off by %g", (unsigned long long)seed, i, r[i].worst);
            inlay_value_unref(r[i].x);
            inlay_value_unref(wants[i]);
        }
        close_subject(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(images), cmocka_unit_test(sequences),
                                        cmocka_unit_test(two_at_once) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
