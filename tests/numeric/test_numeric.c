/* Compares every kernel for convolutions and matrix multiplications with sums in double, relative to the magnitudes of
 * the terms of each element, with data that stresses float arithmetic, on one and several threads. */
#include "cpu/choice/kernels.h"
#include "layer.h"
#include "cpu/convolution/tiles.h"
#include "random.h"
#include "text_buffer.h"

/* Error bound of precision f32 in units of eps * sqrt(terms), and the stricter bound of precision strict. */
static const double BOUND = 8, STRICT_BOUND = 2;

/* name, is_gemm, dynamic_weights, transposed, images, in, out, height, width, kernel, stride, dilation, pad, group,
 * ending, copies */
static const nm_layer layers[] = {
    { "GEMM", true, false, false, 1, 150, 70, 37, 1, 0, 0, 0, 0, 0, NM_NONE, 0 },
    { "long GEMM with bias", true, false, false, 2, 900, 33, 9, 1, 0, 0, 0, 0, 0, NM_BIAS_RELU, 0 },
    { "one row", true, false, false, 1, 400, 130, 1, 1, 0, 0, 0, 0, 0, NM_NONE, 0 },
    { "transposed matrix, residual", true, false, true, 1, 260, 48, 21, 1, 0, 0, 0, 0, 0, NM_RESIDUAL, 0 },
    { "dynamic matrices", true, true, false, 3, 90, 40, 25, 1, 0, 0, 0, 0, 0, NM_NONE, 0 },
    { "dynamic matrix", true, true, false, 1, 300, 50, 30, 1, 0, 0, 0, 0, 0, NM_NONE, 0 },
    { "1x1", false, false, false, 1, 96, 40, 13, 11, 1, 1, 1, 0, 1, NM_NONE, 0 },
    { "1x1 with stride 2, residual", false, false, false, 2, 40, 24, 12, 11, 1, 2, 1, 0, 1, NM_RESIDUAL, 0 },
    { "3x3", false, false, false, 1, 48, 24, 14, 16, 3, 1, 1, 1, 1, NM_NONE, 0 },
    { "3x3 of two images, bias", false, false, false, 2, 20, 33, 9, 10, 3, 1, 1, 1, 1, NM_BIAS_RELU, 0 },
    { "3x3 with stride 2", false, false, false, 1, 24, 20, 15, 15, 3, 2, 1, 1, 1, NM_BIAS_RELU, 0 },
    { "3x3 dilated", false, false, false, 1, 18, 17, 15, 13, 3, 1, 2, 2, 1, NM_NONE, 0 },
    { "5x5 of few channels", false, false, false, 1, 3, 20, 19, 18, 5, 2, 1, 2, 1, NM_BIAS_RELU, 0 },
    { "depthwise", false, false, false, 1, 40, 40, 14, 15, 3, 1, 1, 1, 40, NM_BIAS_RELU, 0 },
    { "four groups", false, false, false, 1, 32, 48, 11, 12, 3, 1, 1, 1, 4, NM_NONE, 0 },
    { "six groups", false, false, false, 1, 12, 30, 11, 12, 3, 1, 1, 1, 6, NM_NONE, 0 },
    { "3x3 after another", false, false, false, 1, 32, 24, 12, 13, 3, 1, 1, 1, 1, NM_BIAS_RELU, 4 },
    { "13x13, bias", false, false, false, 1, 3, 4, 40, 38, 13, 1, 1, 6, 1, NM_BIAS_RELU, 0 },
    { "depthwise 17x17", false, false, false, 2, 3, 3, 37, 45, 17, 1, 1, 8, 3, NM_NONE, 0 },
};
enum { LAYERS = sizeof layers / sizeof *layers };

static const char *const threads[] = { "1", "2", "3" };
static uint32_t kind_count; /* of data: all, or some at equal distances, among them those with zero weights */
static nm_case *cases;      /* [LAYERS][kind_count] */

static int draw_cases(void **state)
{
    (void)state;
    kind_count = random_rounds(nm_kind_count);
    cases = calloc(LAYERS * kind_count, sizeof *cases);
    assert_non_null(cases);
    for (uint32_t i = 0; i < LAYERS * kind_count; i++)
        nm_case_init(&cases[i], &layers[i / kind_count],
                     &nm_kinds[i % kind_count * (nm_kind_count - 1) / (kind_count - 1)]);
    return 0;
}

static int drop_cases(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < LAYERS * kind_count; i++)
        nm_case_deinit(&cases[i]);
    free(cases);
    return 0;
}

/* The kernel that runs the layer; KERNEL_COUNT: no kernel choice applies. */
static uint32_t kernel_of(const struct rig *rig)
{
    const inlay_explain_options how = { .struct_size = sizeof how, .format = "json", .flags = INLAY_EXPLAIN_KERNELS };
    static const char before[] = "\"kernel\": {\"name\": \"";
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t kernel = KERNEL_COUNT;
    char name[32] = "";
    const char *at;
    struct text_buffer told = { 0 };

    if (inlay_session_explain(rig->session, &how, text_buffer_append, &told, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    for (at = told.data; (at = strstr(at, before)) != NULL;) { /* the last one belongs to the layer */
        at += sizeof before - 1;
        kernel = sscanf(at, "%31[a-z0-9_]", name) == 1 ? kernel_find(name) : KERNEL_COUNT;
    }
    text_buffer_free(&told);
    return kernel;
}

/* Runs the layer, checks its error, and returns the kernel that ran. */
static uint32_t expect(const nm_case *test_case, const char *kernel, const char *thread_count, const char *precision,
                       double bound)
{
    struct wire wire = { 0 };
    uint32_t ran;
    double error;
    struct rig rig;

    nm_case_model(test_case, &wire);
    rig = rig_open(&wire, (const char *const[]){ "providers", "cpu,reference", "policy", "priority", "intra_threads",
                                                 thread_count, "precision", precision, "cpu.kernel", kernel, NULL });
    ran = kernel_of(&rig);
    nm_case_feed(test_case, &rig);
    rig_run(&rig);
    error = nm_case_error(test_case, inlay_value_data(inlay_context_output(rig.context, 0)), bound);
    if (!(error <= 1))
        fail_msg("%s, %s: precision %s, kernel %s, %s threads: off by %.3g times the bound", test_case->layer->name,
                 test_case->kind->name, precision, ran < KERNEL_COUNT ? kernel_table[ran].name : "-", thread_count,
                 error);
    rig_close(&rig);
    return ran;
}

/* Winograd kernels refuse some weights; the others run a layer with any data. */
static bool depends_on_weights(uint32_t kernel)
{
    return kernel_table[kernel].points > 0;
}

/* Can a float layer choose the kernel on this CPU? Kernels for low-bit weights are tested in tests/cpu/test_nbits.c. */
static bool is_choice(uint32_t kernel)
{
    return kernel_table[kernel].lower != NULL &&
           ((kernel != KERNEL_GEMM_TERMS && kernel != KERNEL_TERMS) || terms_of_cpu() != NULL);
}

static void every_kernel(void **state)
{
    uint32_t runs[KERNEL_COUNT + 1] = { 0 };

    (void)state;
    for (int l = 0; l < LAYERS; l++) {
        bool refused[KERNEL_COUNT] = { false };

        for (uint32_t d = 0; d < kind_count; d++) {
            for (uint32_t k = 0; k < KERNEL_COUNT; k++) {
                uint32_t ran;

                if (refused[k] || !is_choice(k))
                    continue;
                ran = expect(&cases[(uint32_t)l * kind_count + d], kernel_table[k].name, threads[(d + k) % 3], "f32",
                             BOUND);
                refused[k] = ran != k && !depends_on_weights(k);
                runs[ran]++;
            }
        }
    }
    for (uint32_t k = 0; k < KERNEL_COUNT && tiles_of_cpu() != NULL; k++)
        if (runs[k] == 0 && is_choice(k))
            fail_msg("no layer ran on %s", kernel_table[k].name);
}

/* Kernels without an error bound for difficult data are correct for noise. */
static void fast(void **state)
{
    bool ran[KERNEL_COUNT + 1] = { false };

    (void)state;
    for (int l = 0; l < LAYERS; l++)
        for (uint32_t k = 0; k < KERNEL_COUNT; k++)
            if (is_choice(k) && depends_on_weights(k))
                ran[expect(&cases[(uint32_t)l * kind_count], kernel_table[k].name, threads[k % 3], "fast", BOUND)] =
                    true;
    assert_true(tiles_of_cpu() == NULL || (ran[KERNEL_WINOGRAD_4] && ran[KERNEL_WINOGRAD_2]));
}

static void strict(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < LAYERS * kind_count; i++) {
        const uint32_t ran = expect(&cases[i], "auto", threads[i % 3], "strict", STRICT_BOUND);

        assert_true(ran == KERNEL_COUNT || !depends_on_weights(ran));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_kernel), cmocka_unit_test(fast),
                                        cmocka_unit_test(strict) };

    return cmocka_run_group_tests(tests, draw_cases, drop_cases);
}
