/* Option precision: random networks with bfloat16 products, and with strict sums, compared with provider reference. */
#include "region_models.h"
#include "run_context.h"
#include <math.h>

static struct rig open_with(const struct wire *wire, const char *providers, const char *precision)
{
    return model_open(wire, (const char *const[]){ "providers", providers, "precision", precision, NULL });
}

/* The root mean square of the error relative to that of the result. */
static double distance(struct rig *actual, struct rig *expected, uint32_t rank, const int64_t *dims, uint64_t seed)
{
    const inlay_value *a, *b;
    inlay_value *value = NULL;
    double error = 0, size = 0;

    assert_int_equal(inlay_value_create(INLAY_FLOAT, rank, dims, &value, NULL), INLAY_OK);
    for (int64_t i = 0; i < inlay_value_count(value); i++)
        ((float *)inlay_value_data(value))[i] = random_signed(&seed);
    for (int i = 0; i < 2; i++) {
        struct rig *rig = i == 0 ? actual : expected;
        inlay_diag diag = INLAY_DIAG_INIT;

        assert_int_equal(inlay_context_set_input(rig->context, 0, value, &diag), INLAY_OK);
        run_context(rig->context);
    }
    inlay_value_unref(value);
    a = inlay_context_output(actual->context, 0);
    b = inlay_context_output(expected->context, 0);
    assert_int_equal(inlay_value_count(a), inlay_value_count(b));
    for (int64_t i = 0; i < inlay_value_count(b); i++) {
        double p = (double)((const float *)inlay_value_data(a))[i], q = (double)((const float *)inlay_value_data(b))[i];

        error += (p - q) * (p - q);
        size += q * q;
    }
    return sqrt(error / (size + 1e-6));
}

static void check(region_model *model, uint64_t seed, const char *precision, uint32_t rank, const int64_t *dims,
                  double most)
{
    struct rig actual, expected;
    double d;

    assert_false(model->wire.failed);
    actual = open_with(&model->wire, "onednn,reference", precision);
    expected = open_with(&model->wire, "reference", "f32");
    d = distance(&actual, &expected, rank, dims, seed);
    if (!(d <= most))
        fail_msg("model %llu, %s: off by %g", (unsigned long long)seed, precision, d);
    rig_close(&actual);
    rig_close(&expected);
    wire_deinit(&model->wire);
}

static void sequences(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        region_model model;

        write_sequence_model(&model, seed, 1 + seed % 5);
        check(&model, seed, seed % 4 ? "reduced" : "strict", 3, (const int64_t[]){ 2, 19, WIDTH },
              seed % 4 ? 2e-2 : 1e-6);
    }
}

static void images(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        region_model model;
        int64_t channels;

        write_image_model(&model, seed, 2 + seed % 5, &channels);
        check(&model, seed, seed % 4 ? "reduced" : "strict", 4, (const int64_t[]){ 2, channels, 13, 9 },
              seed % 4 ? 3e-2 : 1e-6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(sequences), cmocka_unit_test(images) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
