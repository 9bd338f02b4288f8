/* Scores of agreement, on outputs of which they are known. */
#include "cmocka_all.h"
#include "quantize/agree.h"
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

static agree compared(agree_metric metric, const float *want, const float *got, const int64_t *dims, uint32_t rank)
{
    agree a = { .metric = metric };
    const inlay_tensor_view x = floats(want, dims, rank), y = floats(got, dims, rank);
    inlay_diag diag = INLAY_DIAG_INIT;

    assert_int_equal(agree_add(&a, &x, &y, &diag), INLAY_OK);
    return a;
}

static const int64_t rows[] = { 4, 3 };
static const float want[] = { 1, 2, 3, 3, 2, 1, 0, 5, 1, 4, 4.5F, 0 };

static void equal_outputs(void **state)
{
    (void)state;
    for (agree_metric m = AGREE_top1; m < AGREE_METRIC_COUNT; m++) {
        const agree a = compared(m, want, want, rows, 2);
        const double best = m == AGREE_kl ? 0 : m == AGREE_psnr ? 200 : 1;

        assert_true(fabs(agree_result(&a).value - best) < 1e-12);
        assert_true(a.max_error == 0 && agree_relative(&a) == 0 && fabs(agree_cosine(&a) - 1) < 1e-12);
        assert_true(agree_holds(m, agree_result(&a).value, best));
    }
}

static void other_outputs(void **state)
{
    float got[12];
    agree a;

    (void)state;
    memcpy(got, want, sizeof got);
    got[9] = 5; /* the largest of the last row moves */
    a = compared(AGREE_top1, want, got, rows, 2);
    assert_true(agree_result(&a).value == 0.75);
    assert_true(agree_result(&a).low > 0.2 && agree_result(&a).low < 0.75 && agree_result(&a).high < 1);
    assert_true(a.max_error == 1 && fabs(agree_rms(&a) - sqrt(1.0 / 12)) < 1e-12);
    a = compared(AGREE_text, want, got, rows, 2); /* 2, nothing, 1, 1 -> "2 1" becomes "2 1", nothing at the end */
    assert_true(agree_result(&a).value == 1);
    got[6] = 9; /* ... and now the third row says nothing: "2" */
    a = compared(AGREE_text, want, got, rows, 2);
    assert_true(agree_result(&a).value == 0);
}

static void divergence_of_probabilities(void **state)
{
    static const float p[] = { 0.5F, 0.5F }, q[] = { 0.25F, 0.75F };
    static const int64_t dims[] = { 1, 2 };
    const agree a = compared(AGREE_kl, p, q, dims, 2);

    (void)state;
    assert_true(fabs(agree_result(&a).value - (0.5 * log(2) + 0.5 * log(0.5 / 0.75))) < 1e-6);
    assert_true(agree_holds(AGREE_kl, 0.1, 0.2) && !agree_holds(AGREE_kl, 0.3, 0.2));
}

static void overlap(void **state)
{
    static const float p[] = { 0.9F, 0.9F, 0.1F, 0.1F }, q[] = { 0.9F, 0.1F, 0.9F, 0.1F };
    static const int64_t dims[] = { 2, 2 };
    const agree a = compared(AGREE_iou, p, q, dims, 2);

    (void)state;
    assert_true(fabs(agree_result(&a).value - 1.0 / 3) < 1e-12);
}

/* NaN in one alone is no agreement; in both at the same place it is. */
static void not_numbers(void **state)
{
    float got[12], nan_both[12];
    agree a;

    (void)state;
    memcpy(got, want, sizeof got);
    memcpy(nan_both, want, sizeof nan_both);
    got[2] = nan_both[2] = NAN;
    a = compared(AGREE_cosine, want, got, rows, 2);
    assert_true(a.broken == 1 && agree_result(&a).value == 0);
    a = compared(AGREE_kl, want, got, rows, 2);
    assert_true(isinf(agree_result(&a).value));
    a = compared(AGREE_cosine, nan_both, nan_both, rows, 2);
    assert_true(a.broken == 0 && fabs(agree_result(&a).value - 1) < 1e-12);
}

static void refusals_and_edges(void **state)
{
    static const int64_t other[] = { 3, 4 }, none[] = { 0, 3 };
    agree a = { .metric = AGREE_cosine };
    inlay_diag diag = INLAY_DIAG_INIT;
    const inlay_tensor_view x = floats(want, rows, 2), y = floats(want, other, 2), empty = floats(want, none, 2);
    const inlay_tensor_view scalar = floats(want, NULL, 0);

    (void)state;
    assert_int_equal(agree_add(&a, &x, &y, &diag), INLAY_SHAPE_MISMATCH);
    assert_int_equal(a.samples, 0);
    assert_int_equal(agree_add(&a, &empty, &empty, &diag), INLAY_OK);
    assert_int_equal(agree_add(&a, &scalar, &scalar, &diag), INLAY_OK);
    assert_true(fabs(agree_result(&a).value - 1) < 1e-12);
    assert_int_equal(agree_metric_find("nonsense"), AGREE_METRIC_COUNT);
    assert_int_equal(agree_metric_find("kl"), AGREE_kl);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_outputs), cmocka_unit_test(other_outputs), cmocka_unit_test(divergence_of_probabilities),
        cmocka_unit_test(overlap),       cmocka_unit_test(not_numbers),   cmocka_unit_test(refusals_and_edges)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
