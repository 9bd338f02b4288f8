/* Groups of nodes that oneDNN computes at once: the host runs each as one step, and the results are those of provider
 * reference, also for NaN and infinity, with any number of threads, and for sizes that change. */
#include "compare.h"

struct row {
    const char *script; /* of opset 17 */
    uint32_t steps;     /* of a run */
};

static const struct row rows[] = {
    { "x : 1,20,9,10\nw = [36,20,3,3]\nb = [36]\ny = Conv(x, w, b) pads=1,1,1,1\n-> y", 1 },
    { "x : 2,16,30\nw = [24,8,3]\ny = Conv(x, w) group=2 pads=1,1\n-> y", 1 },
    { "x : 1,8,5,6,7\nw = [16,8,3,3,3]\nb = [16]\nk = Conv(x, w, b) pads=1,1,1,1,1,1\ny = Relu(k)\n-> y", 1 },
    { "x : 1,32,9,10\nw = [32,1,3,3]\ny = Conv(x, w) group=32 strides=2,2 auto_pad=SAME_UPPER\n-> y", 1 },
    { "x : 1,3,17,19\nw = [18,3,5,5]\ny = Conv(x, w) auto_pad=SAME_LOWER dilations=2,2\n-> y", 1 },
    { "x : 1,12,11,10\nw : 33,12,3,3\nb : 33\ny = Conv(x, w, b) strides=2,2 pads=1,1,1,1\n-> y", 1 },
    { "x : 2,32,9,10\nw = [32,8,3,3]\nz : 2,32,9,10\nk = Conv(x, w) group=4 pads=1,1,1,1\nm = Add(z, k)\n"
      "y = Relu(m)\n-> y",
      1 },
    { "x : 1,24,9,10\nw = [40,24,1,1]\nl = [] 0.25\nh = [] 6\nk = Conv(x, w)\ny = Clip(k, l, h)\n-> y", 1 },
    { "x : 1,24,9,10\nw = [40,24,1,1]\nh = [] 6\nk = Conv(x, w)\ny = Clip(k, _, h)\n-> y", 1 },
    { "x : 1,24,9,10\nw = [40,24,1,1]\nk = Conv(x, w)\ny = LeakyRelu(k) alpha=0.2\n-> y", 1 },
    { "x : 1,24,9,10\nw = [40,24,1,1]\nk = Conv(x, w)\ny = Relu(k)\n-> k, y", 2 }, /* k is read elsewhere */
    { "x : 1,24,9,10\nw = [40,24,1,1]\nk = Conv(x, w)\ny = Sigmoid(k)\n-> y", 2 }, /* the library's loses NaN */
    { "x : 1,12,5,6\nw = [12,20,2,2]\nb = [20]\nk = ConvTranspose(x, w, b) strides=2,2\ny = Relu(k)\n-> y", 1 },
    { "x : 1,8,5,6\nw = [8,5,3,3]\ny = ConvTranspose(x, w) group=2 strides=2,2 output_padding=1,1 pads=1,1,1,1\n-> y",
      1 },
    { "x : 1,4,3,4,5\nw = [4,6,3,3,3]\ny = ConvTranspose(x, w) strides=2,1,2\n-> y", 1 },
    { "x : 7,24\nw = [24,40]\nb = [40]\nk = Gemm(x, w, b)\ny = Relu(k)\n-> y", 1 },
    { "x : 24,7\nw = [40,24]\ny = Gemm(x, w) transA=1 transB=1\n-> y", 1 },
    { "x : 2,5,24\nw = [24,33]\nb = [33]\nk = MatMul(x, w)\ny = Add(k, b)\n-> y", 1 },
    { "x : 2,64,96\nw = [96,700]\nz : 2,64,700\nk = MatMul(x, w)\nm = Add(k, z)\ny = Relu(m)\n-> y", 1 },
    { "x : 7,24\nw = [40,24]\nb : 40\ny = Gemm(x, w, b) transB=1\n-> y", 1 },
    { "x : 0,24\nw = [24,40]\ny = MatMul(x, w)\n-> y", 1 },
};

static struct rig open_script(const char *script, const char *providers, const char *threads)
{
    static const char *const products[] = { "ConvTranspose", "Conv", "Gemm", "MatMul" };
    const bool library = strcmp(providers, "reference") != 0;
    struct wire wire = { 0 };
    char pin[40];

    for (size_t i = sizeof products / sizeof *products; i-- > 0;)
        if (strstr(script, products[i]) != NULL)
            (void)snprintf(pin, sizeof pin, "op:%s=onednn", products[i]);
    script_model(&wire, 17, script);
    return rig_open(&wire, (const char *const[]){ "providers", providers, "intra_threads", threads, "level", "0",
                                                  library ? "pin" : NULL, pin, NULL });
}

/* Fills the inputs. If planted is not 0, an element of the first input gets this value. */
static void feed(struct rig *rig, float planted)
{
    uint64_t seed = 1;

    for (uint32_t i = 0; i < inlay_session_input_count(rig->session); i++) {
        inlay_value *value = script_input(rig, i, 3, &seed, 0);

        if (i == 0 && planted != 0 && inlay_value_count(value) > 40)
            ((float *)inlay_value_data(value))[40] = planted;
        rig_bind(rig, i, value);
    }
}

static void expect_row(const struct row *row, float planted, const char *threads)
{
    inlay_plan_info plan = { .struct_size = sizeof plan };
    struct rig rigs[] = { open_script(row->script, "onednn,reference", threads),
                          open_script(row->script, "reference", "1") };

    for (int side = 0; side < 2; side++) {
        feed(&rigs[side], planted);
        rig_run(&rigs[side]);
    }
    compare_outputs(&rigs[0], &rigs[1], row->script);
    assert_int_equal(inlay_context_plan(rigs[0].context, &plan), INLAY_OK);
    if (plan.step_count != row->steps)
        fail_msg("%u steps, not %u, in\n%s", plan.step_count, row->steps, row->script);
    rig_close(&rigs[0]);
    rig_close(&rigs[1]);
}

static void groups(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        expect_row(&rows[i], 0, "1");
        expect_row(&rows[i], 0, "2");
    }
}

static void special_values(void **state)
{
    static const float values[] = { NAN, INFINITY, -INFINITY };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t k = 0; k < sizeof values / sizeof *values; k++)
            expect_row(&rows[i], values[k], "1");
}

/* Sizes that change between runs: the weights are packed once, and read by kernels for all sizes. */
static void sizes(void **state)
{
    static const char *const scripts[] = {
        "x : 1,20,H,W\nw = [36,20,3,3]\nk = Conv(x, w) pads=1,1,1,1\ny = Relu(k)\n-> y",
        "x : N,96\nw = [96,200]\nb = [200]\nk = MatMul(x, w)\ny = Add(k, b)\n-> y",
    };
    static const int64_t dims[][4] = { { 1, 20, 9, 10 }, { 1, 20, 40, 3 }, { 1, 20, 1, 1 }, { 1, 20, 9, 10 } };
    static const int64_t rows_of[][2] = { { 1, 96 }, { 40, 96 }, { 0, 96 }, { 3, 96 } };

    (void)state;
    for (size_t s = 0; s < sizeof scripts / sizeof *scripts; s++) {
        struct rig rigs[] = { open_script(scripts[s], "onednn,reference", "2"),
                              open_script(scripts[s], "reference", "1") };

        for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
            for (int side = 0; side < 2; side++) {
                inlay_value *value = NULL;

                assert_int_equal(
                    inlay_value_create(INLAY_FLOAT, s == 0 ? 4 : 2, s == 0 ? dims[i] : rows_of[i], &value, NULL),
                    INLAY_OK);
                for (int64_t k = 0; k < inlay_value_count(value); k++)
                    ((float *)inlay_value_data(value))[k] = (float)(k % 17) - 8;
                assert_int_equal(inlay_context_set_input(rigs[side].context, 0, value, NULL), INLAY_OK);
                inlay_value_unref(value);
                rig_run(&rigs[side]);
            }
            compare_outputs(&rigs[0], &rigs[1], scripts[s]);
            if (i % 2 != 0) /* the kernels are made again */
                assert_int_equal(inlay_session_trim(rigs[0].session, NULL), INLAY_OK);
        }
        rig_close(&rigs[0]);
        rig_close(&rigs[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(groups), cmocka_unit_test(special_values),
                                        cmocka_unit_test(sizes) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
