/* double_rows.h - folds of rows of doubles (reduce_fold.inc): vectors of the instruction set, in two chains. The rest
 * of a row is read as the last vector, of which the elements that are folded already are masked. */
#ifndef OPERATORS_DOUBLE_ROWS_H
#define OPERATORS_DOUBLE_ROWS_H
#include "operators/reduce_types.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

/* FOLD_HALVES: folds the lanes of `all` to those of a vector of two. */
typedef double two __attribute__((vector_size(16)));
typedef int64_t two_words __attribute__((vector_size(16)));
#if defined(__AVX__)
typedef double four __attribute__((vector_size(32)));
typedef int64_t four_words __attribute__((vector_size(32)));
#define FOLD_FOUR(FOLD, all, out)                                                                                      \
    {                                                                                                                  \
        two halves_[2];                                                                                                \
                                                                                                                       \
        memcpy(halves_, &(all), sizeof halves_);                                                                       \
        (out) = FOLD(two, two_words, halves_[0], halves_[1]);                                                          \
    }
#endif
#if defined(__AVX512F__)
enum { ROW_LANES = 8 };
typedef double row_lanes __attribute__((vector_size(64)));
typedef int64_t row_words __attribute__((vector_size(64)));
#define FOLD_HALVES(FOLD, all, out)                                                                                    \
    {                                                                                                                  \
        four fours_[2];                                                                                                \
                                                                                                                       \
        memcpy(fours_, &(all), sizeof fours_);                                                                         \
        fours_[0] = FOLD(four, four_words, fours_[0], fours_[1]);                                                      \
        FOLD_FOUR(FOLD, fours_[0], out)                                                                                \
    }
#elif defined(__AVX__)
enum { ROW_LANES = 4 };
typedef four row_lanes;
typedef four_words row_words;
#define FOLD_HALVES FOLD_FOUR
#else
enum { ROW_LANES = 2 };
typedef two row_lanes;
typedef two_words row_words;
#define FOLD_HALVES(FOLD, all, out) (out) = (all);
#endif

/* For vectors of type V with words of type W. These are macros, because not every instruction set passes vectors of
 * each size to functions. SELECT: m ? x : y. */
#define SELECT(V, W, m, x, y) ((V)(((m) & (W)(x)) | (~(m) & (W)(y))))
#define SAME(v) (v)
#define SQUARE(v) ((v) * (v))
#define MAGNITUDE(v) ((row_lanes)((row_words)(v)&INT64_MAX))
#define SUM(V, W, a, b) ((a) + (b))
#define MOST(V, W, a, b) SELECT(V, W, (b) > (a), b, a)
#define LEAST(V, W, a, b) SELECT(V, W, (b) < (a), b, a)
#define EITHER(V, W, a, b) ((V)((W)(a) | (W)(b)))
#define NO_NANS(v) ((row_words){ 0 })
#define ANY_NANS(v) ((v) != (v))

/* Folds the vector at `from` into `chain`; m selects its elements. */
#define FOLD_VECTOR(chain, from, m, MAP, FOLD, NANS)                                                                   \
    {                                                                                                                  \
        row_lanes v_;                                                                                                  \
                                                                                                                       \
        memcpy(&v_, (from), sizeof v_);                                                                                \
        nan |= NANS(v_);                                                                                               \
        v_ = SELECT(row_lanes, row_words, m, MAP(v_), none);                                                           \
        (chain) = FOLD(row_lanes, row_words, chain, v_);                                                               \
    }

/* Defines the fold `kind` of MAP(v), which starts with `start`. NANS(v): which elements make the result NaN although
 * FOLD would lose them. */
#define DOUBLE_ROW(kind, start, MAP, FOLD, NANS)                                                                       \
    static void row_##kind##_f64(void *acc, const void *input, int64_t rows, int64_t stride, int64_t count,            \
                                 const void *shifts)                                                                   \
    {                                                                                                                  \
        static const int64_t selected[] = { 0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1 };                  \
        const row_lanes none = (row_lanes){ 0 } + (start);                                                             \
        const row_words every = ~(row_words){ 0 };                                                                     \
        const double *elements = input;                                                                                \
        row_words nan = { 0 };                                                                                         \
        two total = { *(double *)acc, (start) };                                                                       \
                                                                                                                       \
        (void)shifts;                                                                                                  \
        for (int64_t row = 0; row < rows; row++, elements += stride) {                                                 \
            for (int64_t i = 0; i < count;) {                                                                          \
                const int64_t end = i + REDUCE_BLOCK < count ? i + REDUCE_BLOCK : count;                               \
                row_lanes a = none, b = none;                                                                          \
                two pair;                                                                                              \
                                                                                                                       \
                for (; i + 2 * ROW_LANES <= end; i += 2 * ROW_LANES) {                                                 \
                    FOLD_VECTOR(a, elements + i, every, MAP, FOLD, NANS)                                               \
                    FOLD_VECTOR(b, elements + i + ROW_LANES, every, MAP, FOLD, NANS)                                   \
                }                                                                                                      \
                if (i + ROW_LANES <= end) {                                                                            \
                    FOLD_VECTOR(a, elements + i, every, MAP, FOLD, NANS)                                               \
                    i += ROW_LANES;                                                                                    \
                }                                                                                                      \
                if (i < end) {                                                                                         \
                    double rest[ROW_LANES] = { 0 };                                                                    \
                    row_words m;                                                                                       \
                                                                                                                       \
                    memcpy(&m, selected + 8 - ROW_LANES + (end - i), sizeof m);                                        \
                    if (count < ROW_LANES)                                                                             \
                        memcpy(rest + ROW_LANES - count, elements, (size_t)count * sizeof *rest);                      \
                    FOLD_VECTOR(b, count < ROW_LANES ? rest : elements + end - ROW_LANES, m, MAP, FOLD, NANS)          \
                    i = end;                                                                                           \
                }                                                                                                      \
                a = FOLD(row_lanes, row_words, a, b);                                                                  \
                FOLD_HALVES(FOLD, a, pair)                                                                             \
                total = FOLD(two, two_words, total, pair);                                                             \
            }                                                                                                          \
        }                                                                                                              \
        {                                                                                                              \
            const two other = { total[1], total[1] };                                                                  \
            const row_lanes nans = (row_lanes)nan;                                                                     \
            two any;                                                                                                   \
            int64_t bits[2];                                                                                           \
                                                                                                                       \
            FOLD_HALVES(EITHER, nans, any)                                                                             \
            memcpy(bits, &any, sizeof bits);                                                                           \
            total = FOLD(two, two_words, total, other);                                                                \
            *(double *)acc = (bits[0] | bits[1]) != 0 ? (double)NAN : total[0];                                        \
        }                                                                                                              \
    }
DOUBLE_ROW(sum, 0.0, SAME, SUM, NO_NANS)
DOUBLE_ROW(squares, 0.0, SQUARE, SUM, NO_NANS)
DOUBLE_ROW(magnitudes, 0.0, MAGNITUDE, SUM, NO_NANS)
DOUBLE_ROW(max, -(double)INFINITY, SAME, MOST, ANY_NANS)
DOUBLE_ROW(min, (double)INFINITY, SAME, LEAST, ANY_NANS)
#undef DOUBLE_ROW
#undef FOLD_VECTOR
#undef FOLD_HALVES
#undef FOLD_FOUR
#undef SELECT
#undef SAME
#undef SQUARE
#undef MAGNITUDE
#undef SUM
#undef MOST
#undef LEAST
#undef EITHER
#undef NO_NANS
#undef ANY_NANS
#endif
