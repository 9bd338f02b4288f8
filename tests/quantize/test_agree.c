/* Agreement scores of outputs whose scores are known. */
#include "cmocka_all.h"
#include "random.h"
#include "quantize/evaluate.h"
#include <math.h>
#include <string.h>

static inlay_tensor_view floats(const float *data, const int64_t *dims, uint32_t rank)
{
    int64_t count = 1;

    for (uint32_t i = 0; i < rank; i++)
        count *= dims[i];
    return (inlay_tensor_view){
        .data = data, .bytes = (uint64_t)count * sizeof *data, .dims = dims, .rank = rank, .dtype = INLAY_FLOAT
    };
}

static struct agree compared(agree_metric metric, const float *want, const float *got, const int64_t *dims,
                             uint32_t rank)
{
    struct agree agree = { .metric = metric };
    const inlay_tensor_view input = floats(want, dims, rank), output = floats(got, dims, rank);
    inlay_diag diag = INLAY_DIAG_INIT;

    assert_int_equal(agree_add(&agree, &input, &output, &diag), INLAY_OK);
    return agree;
}

static const int64_t rows[] = { 4, 3 };
static const float want[] = { 1, 2, 3, 3, 2, 1, 0, 5, 1, 4, 4.5F, 0 };

static void equal_outputs(void **state)
{
    (void)state;
    for (agree_metric metric = AGREE_top1; metric < AGREE_METRIC_COUNT; metric++) {
        const struct agree agree = compared(metric, want, want, rows, 2);
        const double best = metric == AGREE_kl ? 0 : metric == AGREE_psnr ? 200 : 1;

        assert_true(fabs(agree_result(&agree).value - best) < 1e-12);
        assert_true(agree.max_error == 0 && agree_relative(&agree) == 0 && fabs(agree_cosine(&agree) - 1) < 1e-12);
        assert_true(agree_holds(metric, agree_result(&agree).value, best));
    }
}

/* Rows that differ in their last bits: a divergence that is negative because of rounding counts as 0. */
static void nearly_equal_rows(void **state)
{
    static const int64_t one[] = { 1, 10 };
    uint64_t seed = 3;

    (void)state;
    for (int i = 0; i < 500; i++) {
        float x[10], y[10], sum = 0;

        for (int k = 0; k < 10; k++)
            sum += x[k] = 4 * random_unit(&seed);
        for (int k = 0; k < 10; k++) {
            x[k] /= sum;
            y[k] = nextafterf(x[k], (k & 1) != 0 ? 9.0F : -9.0F);
        }
        for (agree_metric metric = AGREE_top1; metric < AGREE_METRIC_COUNT; metric++) {
            const struct agree agree = compared(metric, x, y, one, 2);

            assert_true(agree_distance(&agree) >= 0 && agree_distance(&agree) < 1e-3);
        }
    }
}

static void different_outputs(void **state)
{
    float got[12];
    struct agree agree;

    (void)state;
    memcpy(got, want, sizeof got);
    got[9] = 5; /* another value is now the largest of the last row */
    agree = compared(AGREE_top1, want, got, rows, 2);
    assert_true(agree_result(&agree).value == 0.75);
    assert_true(agree_result(&agree).low > 0.2 && agree_result(&agree).low < 0.75 && agree_result(&agree).high < 1);
    assert_true(agree.max_error == 1 && fabs(agree_rms(&agree) - sqrt(1.0 / 12)) < 1e-12);
    agree = compared(AGREE_text, want, got, rows, 2); /* both texts are "2 1": the last row is the blank now */
    assert_true(agree_result(&agree).value == 1);
    got[6] = 9; /* now the third row is the blank as well, and the text is "2" */
    agree = compared(AGREE_text, want, got, rows, 2);
    assert_true(agree_result(&agree).value == 0);
}

enum { STEPS = 6, SYMBOLS = 3 };

/* Fills rows in which one symbol has the probability `sure`, and another the rest. */
static void fill_text_rows(const char *symbols, float sure, float *rows_out)
{
    for (int r = 0; r < STEPS; r++)
        for (int k = 0; k < SYMBOLS; k++)
            rows_out[r * SYMBOLS + k] = symbols[r] - '0' == k ? sure : (1 - sure) / (SYMBOLS - 1);
}

/* Distance of texts: independent of the position of a symbol, small if it is nearly as probable, large if another
 * symbol is read. */
static void distance_of_texts(void **state)
{
    static const int64_t dims[] = { 1, STEPS, SYMBOLS };
    static const char *const spelled[] = { "011020", "001120", "011020", "010020", "022010", "011000" };
    static const float sure[] = { 0.98F, 0.98F, 0.95F, 0.98F, 0.98F, 0.98F };
    float x[STEPS * SYMBOLS], y[STEPS * SYMBOLS], broken[STEPS * SYMBOLS];
    double off[6];

    (void)state;
    fill_text_rows(spelled[0], sure[0], x);
    for (int i = 0; i < 6; i++) {
        struct agree agree;

        fill_text_rows(spelled[i], sure[i], y);
        agree = compared(AGREE_text, x, y, dims, 3);
        off[i] = agree_distance(&agree);
        assert_true(agree_result(&agree).value == (i < 4)); /* the last two read "21" and "1" */
    }
    assert_true(off[0] == 0 && off[1] < 0.02 && off[3] < 0.05);
    assert_true(off[2] > 0.05 && off[2] < 0.3);
    assert_true(off[4] * off[4] > AGREE_TEXT_DIFFERS && off[5] * off[5] > AGREE_TEXT_DIFFERS);
    assert_true(off[4] <= 1 && off[5] <= 1);
    memcpy(broken, x, sizeof x);
    broken[4] = NAN;
    {
        const struct agree agree = compared(AGREE_text, x, broken, dims, 3);

        assert_true(agree_distance(&agree) > 0.9 && agree_distance(&agree) <= 1 && agree_result(&agree).value == 0);
    }
}

/* Confidence from few samples. If 95 of 100 other texts must agree, 2 of 96 sampled texts may differ, but not 3, and of
 * 10 texts none. Texts with a small difference count, too. */
static void confidence_of_few_texts(void **state)
{
    struct verdict verdict = { .metric = AGREE_text, .samples = 96, .score = { .value = 94 / 96.0 } };

    (void)state;
    assert_true(verdict_holds(&verdict, 0.95, true));
    verdict.error = 0.12;
    assert_true(verdict_holds(&verdict, 0.95, true));
    verdict.error = 0.14;
    assert_true(!verdict_holds(&verdict, 0.95, true) && verdict_holds(&verdict, 0.95, false));
    verdict.error = 0;
    verdict.score.value = 93 / 96.0;
    assert_true(!verdict_holds(&verdict, 0.95, true) && verdict_holds(&verdict, 0.95, false));
    verdict.samples = 10;
    verdict.score.value = 0.9;
    assert_true(!verdict_holds(&verdict, 0.8, true));
    verdict.score.value = 1;
    assert_true(verdict_holds(&verdict, 0.95, true));
    verdict = (struct verdict){ .metric = AGREE_cosine, .samples = 10, .score = { .value = 0.96 }, .error = 0.5 };
    assert_true(verdict_holds(&verdict, 0.95, true));
}

static void divergence_of_probabilities(void **state)
{
    static const float p[] = { 0.5F, 0.5F }, q[] = { 0.25F, 0.75F };
    static const int64_t dims[] = { 1, 2 };
    const struct agree agree = compared(AGREE_kl, p, q, dims, 2);

    (void)state;
    assert_true(fabs(agree_result(&agree).value - (0.5 * log(2) + 0.5 * log(0.5 / 0.75))) < 1e-6);
    assert_true(agree_holds(AGREE_kl, 0.1, 0.2) && !agree_holds(AGREE_kl, 0.3, 0.2));
}

static void overlap(void **state)
{
    static const float p[] = { 0.9F, 0.9F, 0.1F, 0.1F }, q[] = { 0.9F, 0.1F, 0.9F, 0.1F };
    static const int64_t dims[] = { 2, 2 };
    const struct agree agree = compared(AGREE_iou, p, q, dims, 2);

    (void)state;
    assert_true(fabs(agree_result(&agree).value - 1.0 / 3) < 1e-12);
}

/* Outputs agree if both have NaN at the same element, and disagree if only one of them has NaN. */
static void nan_outputs(void **state)
{
    float got[12], nan_both[12];
    struct agree agree;

    (void)state;
    memcpy(got, want, sizeof got);
    memcpy(nan_both, want, sizeof nan_both);
    got[2] = nan_both[2] = NAN;
    agree = compared(AGREE_cosine, want, got, rows, 2);
    assert_true(agree.broken == 1 && agree_result(&agree).value == 0);
    assert_true(isinf(agree_relative(&agree)) && isinf(agree_distance(&agree)));
    agree = compared(AGREE_kl, want, got, rows, 2);
    assert_true(isinf(agree_result(&agree).value));
    agree = compared(AGREE_cosine, nan_both, nan_both, rows, 2);
    assert_true(agree.broken == 0 && fabs(agree_result(&agree).value - 1) < 1e-12);
}

/* The larger one of the error of all samples together and the mean of the samples. A metric that says nothing of any
 * sample leaves the verdict to it. */
static void relative_errors(void **state)
{
    static const int64_t one[] = { 3, 1 }, two[] = { 2 };
    static const float prices[] = { 1000, 1010, 990 }, cheap[] = { 50, 51, 49 };
    static const float low[] = { 0.3F, 0.2F }, lower[] = { 0.003F, 0.002F }, large[] = { 1e5F, 2e5F };
    struct agree agree = compared(AGREE_relative, prices, cheap, one, 2);
    inlay_tensor_view views[2];
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    assert_true(fabs(agree_result(&agree).value - 0.05) < 1e-3);
    agree = compared(AGREE_top1, prices, cheap, one, 2); /* rows of one element */
    assert_int_equal(agree_used(&agree), AGREE_relative);
    assert_true(agree_result(&agree).value < 0.06);
    agree = compared(AGREE_iou, low, lower, two, 1); /* nothing above 0.5 */
    assert_int_equal(agree_used(&agree), AGREE_relative);
    assert_true(agree_result(&agree).value < 0.02);
    agree = compared(AGREE_relative, large, large, two, 1);
    views[0] = floats(low, two, 1);
    views[1] = floats(lower, two, 1);
    assert_int_equal(agree_add(&agree, &views[0], &views[1], &diag), INLAY_OK);
    assert_true(agree_relative(&agree) < 1e-5 && fabs(agree_relative_error(&agree) - 0.495) < 1e-3);
    agree = compared(AGREE_relative, low, low, (const int64_t[]){ 0 }, 1);
    assert_true(!agree_any(&agree) && agree_result(&agree).value == 0);
}

static void equal_elements(void **state)
{
    static const int64_t dims[] = { 4 }, first[] = { 1, 2, 3, INT64_C(1) << 60 };
    static const int64_t second[] = { 1, 9, 3, (INT64_C(1) << 60) + 1 }; /* equal to the first one's last as doubles */
    static const float parts[] = { 1, 2, 3, 4 }, other_parts[] = { 1, 2, 3, 5 };
    const inlay_str texts[] = { { "a", 1 }, { "b", 1 }, { "c", 1 }, { "d", 1 } };
    const inlay_str other_texts[] = { { "a", 1 }, { "x", 1 }, { "c", 1 }, { "dd", 2 } };
    struct {
        inlay_dtype dtype;
        const void *want, *got;
        double equal;
    } cases[] = { { INLAY_INT64, first, second, 0.5 },
                  { INLAY_COMPLEX64, parts, other_parts, 0.75 },
                  { INLAY_STRING, texts, other_texts, 0.5 } };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct agree agree = { .metric = AGREE_equal };
        const inlay_tensor_view want_view = {
            .data = cases[i].want, .dims = i == 1 ? (const int64_t[]){ 2 } : dims, .rank = 1, .dtype = cases[i].dtype
        };
        inlay_tensor_view got_view = want_view;
        inlay_diag diag = INLAY_DIAG_INIT;

        got_view.data = cases[i].got;
        assert_int_equal(agree_add(&agree, &want_view, &got_view, &diag), INLAY_OK);
        assert_true(agree_result(&agree).value == cases[i].equal);
    }
}

static void refusals_and_edges(void **state)
{
    static const int64_t other[] = { 3, 4 }, none[] = { 0, 3 };
    struct agree agree = { .metric = AGREE_cosine };
    inlay_diag diag = INLAY_DIAG_INIT;
    const inlay_tensor_view input = floats(want, rows, 2), output = floats(want, other, 2),
                            empty = floats(want, none, 2);
    const inlay_tensor_view scalar = floats(want, NULL, 0);

    (void)state;
    assert_int_equal(agree_add(&agree, &input, &output, &diag), INLAY_SHAPE_MISMATCH);
    assert_int_equal(agree.samples, 0);
    assert_int_equal(agree_add(&agree, &empty, &empty, &diag), INLAY_OK);
    assert_int_equal(agree_add(&agree, &scalar, &scalar, &diag), INLAY_OK);
    assert_true(fabs(agree_result(&agree).value - 1) < 1e-12);
    assert_int_equal(agree_metric_find("nonsense"), AGREE_METRIC_COUNT);
    assert_int_equal(agree_metric_find("kl"), AGREE_kl);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(equal_outputs),
                                        cmocka_unit_test(nearly_equal_rows),
                                        cmocka_unit_test(different_outputs),
                                        cmocka_unit_test(distance_of_texts),
                                        cmocka_unit_test(confidence_of_few_texts),
                                        cmocka_unit_test(divergence_of_probabilities),
                                        cmocka_unit_test(overlap),
                                        cmocka_unit_test(nan_outputs),
                                        cmocka_unit_test(relative_errors),
                                        cmocka_unit_test(equal_elements),
                                        cmocka_unit_test(refusals_and_edges) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
