/* The lengths of rows and the numbers of pieces that prices count (common/price.h, common/price_moves.h), compared with
 * those of all elements of random shapes: by the elements that a loop reads, one after another. */
#include "common/price_moves.h"
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

/* A part of a tensor, which is cut along some axes: runs of elements that follow each other in both. */
static void pieces_are_runs_of_both_tensors(void **state)
{
    const uint32_t rounds = random_rounds(2000);

    (void)state;
    for (uint32_t n = 0; n < rounds; n++) {
        int64_t whole[RANK], part[RANK], pieces = 0, before = -2;
        const uint32_t rank = draw(1, RANK);

        for (uint32_t d = 0; d < rank; d++) {
            whole[d] = draw(1, MOST);
            part[d] = draw(0, 2) == 0 ? draw(1, (uint32_t)whole[d]) : whole[d];
        }
        for (int64_t i = 0; i < count_of(part, rank); i++) {
            int64_t rest = i, offset = 0, step = 1;

            for (uint32_t d = rank; d-- > 0; rest /= part[d], step *= whole[d])
                offset += rest % part[d] * step;
            pieces += offset != before + 1;
            before = offset;
        }
        assert_int_equal(price_pieces(part, whole, rank, (double)count_of(part, rank)), pieces);
        assert_int_equal(price_pieces(whole, part, rank, (double)count_of(part, rank)), pieces);
    }
}

static void shuffle(int64_t *perm, uint32_t rank)
{
    for (uint32_t d = 0; d < rank; d++)
        perm[d] = d;
    for (uint32_t d = rank; d > 1; d--) {
        const uint32_t other = draw(0, d - 1);
        const int64_t axis = perm[other];

        perm[other] = perm[d - 1];
        perm[d - 1] = axis;
    }
}

/* Replaces axis `axis` by two of sizes `size` and dims[axis] / size, which stay together. */
static void split(int64_t *dims, int64_t *perm, uint32_t rank, int64_t axis, int64_t size)
{
    for (uint32_t d = rank; d > (uint32_t)axis; d--)
        dims[d] = dims[d - 1];
    dims[axis] = size;
    dims[axis + 1] /= size;
    for (uint32_t d = 0; d < rank; d++)
        perm[d] += perm[d] > axis;
    for (uint32_t d = rank; d > 0; d--) {
        perm[d] = perm[d - 1];
        if (perm[d - 1] == axis) {
            perm[d] = axis + 1;
            return;
        }
    }
}

/* The price of a transpose depends on the order of its elements alone, not on the axes that describe it. */
static void split_axes_cost_what_whole_ones_do(void **state)
{
    static const int64_t sizes[] = { 1, 2, 3, 4, 6, 12, 16, 24, 64 };
    static const double bytes[] = { 1, 2, 4, 8, 16 };
    const uint32_t rounds = random_rounds(3000);
    uint32_t moved = 0;

    (void)state;
    for (uint32_t n = 0; n < rounds; n++) {
        int64_t dims[RANK + 1], perm[RANK + 1];
        const uint32_t rank = draw(1, RANK), axis = draw(0, rank - 1);
        const double element = bytes[draw(0, 4)];
        double whole;

        for (uint32_t d = 0; d < rank; d++)
            dims[d] = sizes[draw(0, 8)];
        shuffle(perm, rank);
        whole = price_transpose_ns(dims, perm, rank, element);
        assert_true(whole > 0);
        moved += whole > price_piece_ns(1e3);
        split(dims, perm, rank, axis, dims[axis] % 2 == 0 && draw(0, 1) == 0 ? 2 : draw(0, 1) == 0 ? 1 : dims[axis]);
        if (fabs(price_transpose_ns(dims, perm, rank + 1, element) - whole) > 1e-9 * whole)
            fail_msg("%.3f ns, and %.3f with axis %u split", whole, price_transpose_ns(dims, perm, rank + 1, element),
                     axis);
    }
    assert_true(moved > rounds / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_end_where_an_input_repeats),
        cmocka_unit_test(unknown_axes_count_as_one),
        cmocka_unit_test(pieces_are_runs_of_both_tensors),
        cmocka_unit_test(split_axes_cost_what_whole_ones_do),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
