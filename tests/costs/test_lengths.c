/* The lengths of rows that prices count (common/price.h), compared with those of all elements of random shapes: by the
 * elements that a loop reads, one after another. */
#include "common/price.h"
#include "cmocka_all.h"
#include "random.h"

enum { RANK = 5, MOST = 4 };

static uint64_t seed = 11;

static uint32_t draw(uint32_t low, uint32_t high)
{
    return (uint32_t)random_between(&seed, low, high);
}

/* The offset of the element of `in` that belongs to element `at` of `out`; in_rank <= out_rank, axes of size 1 repeat.
 */
static int64_t offset_of(const int64_t *out, uint32_t out_rank, const int64_t *in, uint32_t in_rank, int64_t at)
{
    int64_t offset = 0, step = 1;

    for (uint32_t d = 0; d < out_rank; d++) {
        const int64_t index = at % out[out_rank - 1 - d];

        at /= out[out_rank - 1 - d];
        if (d < in_rank) {
            offset += in[in_rank - 1 - d] > 1 ? index * step : 0;
            step *= in[in_rank - 1 - d];
        }
    }
    return offset;
}

static int64_t count_of(const int64_t *dims, uint32_t rank)
{
    int64_t count = 1;

    for (uint32_t d = 0; d < rank; d++)
        count *= dims[d];
    return count;
}

/* The longest product of innermost axes of the result in which the input's elements are all the same one, or all
 * different and contiguous. */
static int64_t plain_row_length(const int64_t *out, uint32_t out_rank, const int64_t *in, uint32_t in_rank)
{
    int64_t length = 1, longest = 1;

    for (uint32_t d = 0; d < out_rank; d++) {
        bool same = true, next = true;

        length *= out[out_rank - 1 - d];
        for (int64_t i = 0; i < length; i++) {
            same = same && offset_of(out, out_rank, in, in_rank, i) == 0;
            next = next && offset_of(out, out_rank, in, in_rank, i) == i;
        }
        longest = same || next ? length : longest;
    }
    return longest;
}

static void rows_end_where_an_input_repeats(void **state)
{
    const uint32_t rounds = random_rounds(3000);
    uint32_t shorter = 0;

    (void)state;
    for (uint32_t n = 0; n < rounds; n++) {
        int64_t out[RANK], in[RANK];
        const uint32_t out_rank = draw(0, RANK), in_rank = draw(0, out_rank);
        double length;

        for (uint32_t d = 0; d < out_rank; d++)
            out[d] = draw(1, MOST);
        for (uint32_t d = 0; d < in_rank; d++)
            in[d] = draw(0, 2) == 0 ? 1 : out[out_rank - in_rank + d];
        length = price_row_length(out, out_rank, in, in_rank);
        assert_int_equal(length, plain_row_length(out, out_rank, in, in_rank));
        shorter += length < (double)count_of(out, out_rank);
    }
    assert_true(shorter > rounds / 4);
}

/* Axes of unknown size are not known to be broadcast, and count as 1. */
static void unknown_axes_count_as_one(void **state)
{
    static const int64_t out[] = { 8, -1, 4 }, same[] = { 8, -1, 4 }, row[] = { 4 }, column[] = { 8, -1, 1 };

    (void)state;
    assert_int_equal(price_row_length(out, 3, same, 3), 32);
    assert_int_equal(price_row_length(out, 3, row, 1), 4);
    assert_int_equal(price_row_length(out, 3, column, 3), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_end_where_an_input_repeats),
        cmocka_unit_test(unknown_axes_count_as_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
