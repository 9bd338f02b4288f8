/* The measured error of Winograd's convolutions with given weights. */
#include "cpu/choice/kernels.h"
#include "inlay/extensions.h"
#include "cpu/convolution/tiles.h"
#include "cpu/weights/packs.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { ORDINARY, NOTHING, WHOLE, CANCELLING, INFINITE, NOT_A_NUMBER, TINY, HUGE_ONES };

/* Weights of kind `kind`; CANCELLING: the second half of the input channels cancels the first. */
static float weight(int kind, int64_t o, int64_t i, int64_t t, int64_t in)
{
    const int64_t half = in / 2, like = kind == CANCELLING && i >= half ? i - half : i;
    const float w = (float)(((o * in + like) * 9 + t) * 7919 % 1009) / 1009 - 0.5f;

    if (kind == NOTHING)
        return 0;
    if (kind == CANCELLING)
        return i == 2 * half ? 0 : i >= half ? -w : w;
    if ((kind == INFINITE || kind == NOT_A_NUMBER) && o == 5 && i == in - 1 && t == 8)
        return kind == INFINITE ? -INFINITY : NAN;
    if (kind == WHOLE)
        return rintf(8 * w);
    return kind == TINY ? 1e-20f * w : kind == HUGE_ONES ? 1e20f * w : w;
}

/* The caller frees the result. */
static winograd_accuracy *measure_kind(int kind, int64_t out, int64_t in, int64_t points)
{
    const int64_t dims[] = { out, in, 3, 3 };
    const cpu_state state = { .winograd = true };
    char *odd = malloc((size_t)(out * in * 9) * sizeof(float) + 1); /* model files do not align tensors */
    winograd_accuracy *accuracy = malloc(winograd_accuracy_bytes(in));
    tensor_layout plain;

    assert_non_null(odd);
    assert_non_null(accuracy);
    for (int64_t k = 0; k < out * in * 9; k++) {
        float w = weight(kind, k / 9 / in, k / 9 % in, k % 9, in);

        memcpy(odd + 1 + (size_t)k * sizeof w, &w, sizeof w);
    }
    layout_plain(&plain, 4, dims);
    assert_true(winograd_measure_accuracy(&state, &plain, odd + 1, points, accuracy));
    free(odd);
    return accuracy;
}

static void expect_verdict(int kind, uint32_t verdict)
{
    const cpu_state fast = { .fast = true }, usual = { .fast = false };
    winograd_accuracy *accuracy = measure_kind(kind, 33, 17, 6);
    char text[100] = "";

    assert_int_equal(accuracy->verdict, verdict);
    assert_false(winograd_is_accurate(&usual, accuracy));
    assert_false(winograd_is_accurate(&fast, accuracy));
    winograd_explain_inaccuracy(&usual, accuracy, text, sizeof text);
    assert_true(strlen(text) > 10);
    free(accuracy);
}

static void verdicts(void **unused)
{
    (void)unused;
    if (tiles_of_cpu() == NULL)
        skip();
    expect_verdict(NOTHING, TILE_INTEGERS);
    expect_verdict(WHOLE, TILE_INTEGERS);
    expect_verdict(INFINITE, TILE_NO_NUMBERS);
    expect_verdict(NOT_A_NUMBER, TILE_NO_NUMBERS);
    expect_verdict(TINY, TILE_EXTREME);
    expect_verdict(HUGE_ONES, TILE_EXTREME);
}

static void errors(void **unused)
{
    static const int64_t sizes[][2] = { { 16, 16 }, { 33, 17 }, { 64, 100 }, { 20, 801 }, { 48, 384 } };
    const cpu_state state = { .winograd = true };

    (void)unused;
    if (tiles_of_cpu() == NULL)
        skip();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int64_t points = 4; points <= 6; points += 2) {
            const int64_t out = sizes[i][0], in = sizes[i][1];
            winograd_accuracy *accuracy = measure_kind(ORDINARY, out, in, points),
                              *odd = measure_kind(CANCELLING, out, in, points);

            if (!(accuracy->error > 1e-8 && accuracy->error < TILE_MOST_ERROR &&
                  accuracy->times_plain < TILE_MOST_TIMES && accuracy->uneven > 0 &&
                  winograd_is_accurate(&state, accuracy)))
                fail_msg("%lld by %lld, %lld points: off by %g, %g times a plain sum, %g uneven", (long long)out,
                         (long long)in, (long long)points, accuracy->error, accuracy->times_plain, accuracy->uneven);
            assert_true(odd->error > 5 * accuracy->error);
            for (int64_t c = 0; c < in; c++)
                assert_true(accuracy->weight[c] > 0.5f && accuracy->weight[c] <= 1);
            free(accuracy);
            free(odd);
        }
    }
}

/* A host with a cache for one pack. */
static struct {
    uint64_t data[64];
    uint64_t key[8], key_bytes;
    int taken, kept;
} store;

/* A pack is found if the same key was kept before. */
static inlay_status take_pack(void *ctx, void *compile, const void *key, uint64_t key_bytes, uint64_t bytes,
                              void **out_data, uint32_t *out_known)
{
    (void)ctx, (void)compile;
    assert_true(bytes <= sizeof store.data);
    assert_true(key_bytes <= sizeof store.key);
    *out_known = store.kept > 0 && key_bytes == store.key_bytes && memcmp(key, store.key, key_bytes) == 0;
    memcpy(store.key, key, key_bytes);
    store.key_bytes = key_bytes;
    store.taken++;
    *out_data = store.data;
    return INLAY_OK;
}

static void keep_pack(void *ctx, void *compile, const void *data)
{
    (void)ctx, (void)compile;
    assert_ptr_equal(data, store.data);
    store.kept++;
}

static void cached_accuracy(void **unused)
{
    const int64_t dims[] = { 16, 16, 3, 3 };
    const inlay_ext_packs packs = { .struct_size = sizeof packs, .take = take_pack, .keep = keep_pack };
    const inlay_host host = { .struct_size = sizeof host };
    const cpu_state state = { .winograd = true, .packs = &packs, .host = &host };
    inlay_compiled compiled = { .state = &state, .compiling = &store };
    float *weights = malloc(16 * 16 * 9 * sizeof *weights);
    cpu_constant first = { .data = weights, .bytes = 16 * 16 * 9 * sizeof *weights, .content_hash = 77 };
    cpu_constant later = { .bytes = first.bytes, .content_hash = 77 },
                 other = { .data = weights, .bytes = first.bytes };
    const winograd_accuracy *accuracy = NULL, *again = NULL;
    tensor_layout plain;

    (void)unused;
    assert_non_null(weights);
    for (int64_t k = 0; k < 16 * 16 * 9; k++)
        weights[k] = weight(ORDINARY, k / 9 / 16, k / 9 % 16, k % 9, 16);
    layout_plain(&plain, 4, dims);
    assert_int_equal(cpu_constant_accuracy(&compiled, &first, &plain, 6, winograd_measure_accuracy, &accuracy, NULL),
                     INLAY_OK);
    assert_int_equal(store.taken + store.kept, 2);
    assert_int_equal(cpu_constant_accuracy(&compiled, &first, &plain, 6, winograd_measure_accuracy, &again, NULL),
                     INLAY_OK); /* found in the constant */
    assert_ptr_equal(again, accuracy);
    assert_int_equal(store.taken + store.kept, 2);
    assert_int_equal(cpu_constant_accuracy(&compiled, &later, &plain, 6, winograd_measure_accuracy, &again, NULL),
                     INLAY_OK); /* found in the cache */
    assert_ptr_not_equal(again, accuracy);
    assert_memory_equal(again, accuracy, winograd_accuracy_bytes(16));
    assert_int_equal(store.kept, 1);
    assert_int_equal(cpu_constant_accuracy(&compiled, &other, &plain, 4, winograd_measure_accuracy, &again, NULL),
                     INLAY_OK); /* without a content hash: not cached */
    assert_int_equal(store.taken, 2);
    cpu_constant_deinit(&first);
    cpu_constant_deinit(&later);
    cpu_constant_deinit(&other);
    free(weights);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(verdicts), cmocka_unit_test(errors),
                                        cmocka_unit_test(cached_accuracy) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
