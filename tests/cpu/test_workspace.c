/* Memory of kernels: it does not grow with the batch, except for the tensors of the model. */
#include "compare.h"

/* The largest memory of a run at this batch. */
static uint64_t peak_of(const char *script, int64_t batch)
{
    inlay_memory_info info = { .struct_size = sizeof info };
    struct rig rig = compare_open(script, 17, "cpu,reference", "1", NULL);

    script_feed_sized(&rig, batch, 1, 0);
    rig_run(&rig);
    assert_int_equal(inlay_session_memory(rig.session, &info), INLAY_OK);
    rig_close(&rig);
    return info.peak_bytes;
}

/* A transposed convolution between two convolutions: its output, 32 x 32 pixels of 64 channels, is the largest tensor
 * of a run, and while it is computed, only its input and copies of the model's input and output may be allocated, too.
 * The products of all taps would be as large as the output again, or four times as large if windows overlap. */
static void transposed_products(void **state)
{
    static const char *const windows[] = { "w = [64,64,2,2]\na = Conv(x, v)\nb = ConvTranspose(a, w) strides=2,2\n",
                                           ("w = [64,64,4,4]\na = Conv(x, v)\n"
                                            "b = ConvTranspose(a, w) strides=2,2 pads=1,1,1,1\n") };
    const uint64_t output = 32 * 32 * 64 * sizeof(float);

    (void)state;
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        char script[256];
        uint64_t growth;

        (void)snprintf(script, sizeof script, "x : N,64,16,16\nv = [64,64,1,1]\nu = [8,64,1,1]\n%sy = Conv(b, u)\n-> y",
                       windows[i]);
        growth = (peak_of(script, 34) - peak_of(script, 2)) / 32;
        assert_true(growth >= output);
        assert_true(growth <= output + output / 4 * 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(transposed_products) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
