/* lanes.h - folds of numbers, for instance sums, in several lanes: in one lane each addition would wait for the
 * previous one.
 *
 * In plain C lanes are fixed, so that results are the same on every CPU and with every compiler: element i belongs to
 * lane i % (16 / sizeof(element)), but a rest of fewer elements belongs to lane 0. At the end the lanes are folded in
 * their order. Instances for an instruction level (instance.h) leave this to OpenMP's simd, with vectors of that level.
 *
 *   SUM_IN_LANES(T, element, sum, i, begin, end, term)        adds `term`, an expression of i, to sum for i in [begin,
 *   end) SUM_OF_BLOCK(T, element, sum, i, begin, end, term)        the same for long ranges
 *   SUM_AND_SQUARES_IN_LANES(T, element, sum, squares, i, begin, end, term)  also adds the squares of the terms to
 *   squares FOLD_IN_LANES(T, number, element, FOLD, operator, start, total, NANS, nan, i, begin, end, term)
 *       total = FOLD(total, term); number: type of the terms; start: the neutral element; operator: OpenMP's name of
 *       FOLD. nan, an int, becomes 1 if NANS(term) is 1 for any term
 *
 * T: type of the results, and of the terms of sums; element: type that determines the number of lanes, that of the
 * input. */
#ifndef OPERATORS_LANES_H
#define OPERATORS_LANES_H
#include <stdint.h>

/* FOLD and NANS of FOLD_IN_LANES for a maximum. */
#define LANES_MAX(a, v) ((v) > (a) ? (v) : (a))
#define LANES_NAN(v) ((v) != (v))
#define LANES_NO_NAN(v) 0

/* Unrolls a loop over lanes. */
#if defined(__clang__)
#define LANES_UNROLL _Pragma("clang loop unroll(full)")
#else
#define LANES_UNROLL _Pragma("GCC unroll 16")
#endif

#ifdef KERNEL_LEVEL
#define LANES_OMP(text) _Pragma(#text)
#define SUM_IN_LANES(T, element, sum, i, begin, end, term)                                                             \
    do {                                                                                                               \
        LANES_OMP(omp simd reduction(+ : sum))                                                                         \
        for (int64_t i = (begin); i < (end); i++)                                                                      \
            (sum) += (term);                                                                                           \
    } while (0)
/* Adds the term of element `at`. */
#define LANES_ADD(part, i, at, term)                                                                                   \
    {                                                                                                                  \
        const int64_t i = (at);                                                                                        \
        (part) += (term);                                                                                              \
    }
/* Independent sums of the quarters hide the latency of additions. */
#define SUM_OF_BLOCK(T, element, sum, i, begin, end, term)                                                             \
    do {                                                                                                               \
        const int64_t quarter_ = ((end) - (begin)) / 4;                                                                \
        T first_ = 0, second_ = 0, third_ = 0, last_ = 0;                                                              \
        LANES_OMP(omp simd reduction(+ : first_, second_, third_, last_))                                              \
        for (int64_t at_ = (begin); at_ < (begin) + quarter_; at_++) {                                                 \
            LANES_ADD(first_, i, at_, term)                                                                            \
            LANES_ADD(second_, i, at_ + quarter_, term)                                                                \
            LANES_ADD(third_, i, at_ + 2 * quarter_, term)                                                             \
            LANES_ADD(last_, i, at_ + 3 * quarter_, term)                                                              \
        }                                                                                                              \
        for (int64_t i = (begin) + 4 * quarter_; i < (end); i++)                                                       \
            last_ += (term);                                                                                           \
        (sum) += (first_ + second_) + (third_ + last_);                                                                \
    } while (0)
#define LANES_ADD_SQUARE(T, part, squares, i, at, term)                                                                \
    {                                                                                                                  \
        const int64_t i = (at);                                                                                        \
        const T term_ = (term);                                                                                        \
        (part) += term_;                                                                                               \
        (squares) += term_ * term_;                                                                                    \
    }
#define SUM_AND_SQUARES_IN_LANES(T, element, sum, squares, i, begin, end, term)                                        \
    do {                                                                                                               \
        const int64_t half_ = ((end) - (begin)) / 2;                                                                   \
        T first_ = 0, last_ = 0, first_squares_ = 0, last_squares_ = 0;                                                \
        LANES_OMP(omp simd reduction(+ : first_, last_, first_squares_, last_squares_))                                \
        for (int64_t at_ = (begin); at_ < (begin) + half_; at_++) {                                                    \
            LANES_ADD_SQUARE(T, first_, first_squares_, i, at_, term)                                                  \
            LANES_ADD_SQUARE(T, last_, last_squares_, i, at_ + half_, term)                                            \
        }                                                                                                              \
        for (int64_t at_ = (begin) + 2 * half_; at_ < (end); at_++)                                                    \
            LANES_ADD_SQUARE(T, last_, last_squares_, i, at_, term)                                                    \
        (sum) += first_ + last_;                                                                                       \
        (squares) += first_squares_ + last_squares_;                                                                   \
    } while (0)
#define FOLD_IN_LANES(T, number, element, FOLD, operator, start, total, NANS, nan, i, begin, end, term)                \
    do {                                                                                                               \
        LANES_OMP(omp simd reduction(operator: total) reduction(| : nan))                                              \
        for (int64_t i = (begin); i < (end); i++) {                                                                    \
            const number term_ = (term);                                                                               \
            (total) = FOLD((total), term_);                                                                            \
            (nan) |= NANS(term_);                                                                                      \
        }                                                                                                              \
    } while (0)
#else
/* For each element i: `body`, which has its lane as `lane_`. */
#define LANES_EACH(lanes, i, begin, end, body)                                                                         \
    for (int64_t block_ = (begin); block_ + (lanes) <= (end); block_ += (lanes)) {                                     \
        LANES_UNROLL                                                                                                   \
        for (int lane_ = 0; lane_ < (lanes); lane_++) {                                                                \
            const int64_t i = block_ + lane_;                                                                          \
            body                                                                                                       \
        }                                                                                                              \
    }                                                                                                                  \
    for (int64_t i = (end) - ((end) - (begin)) % (lanes); i < (end); i++) {                                            \
        enum { lane_ = 0 };                                                                                            \
        body                                                                                                           \
    }
#define SUM_IN_LANES(T, element, sum, i, begin, end, term)                                                             \
    do {                                                                                                               \
        enum { LANES_ = 16 / sizeof(element) };                                                                        \
        T sums_[LANES_] = { 0 };                                                                                       \
        LANES_EACH(LANES_, i, begin, end, sums_[lane_] += (term);)                                                     \
        for (int lane_ = 0; lane_ < LANES_; lane_++)                                                                   \
            (sum) += sums_[lane_];                                                                                     \
    } while (0)
#define SUM_OF_BLOCK SUM_IN_LANES
/* GCC does not vectorise two sums in a loop of lanes. */
#define SUM_AND_SQUARES_IN_LANES(T, element, sum, squares, i, begin, end, term)                                        \
    do {                                                                                                               \
        SUM_IN_LANES(T, element, sum, i, begin, end, term);                                                            \
        SUM_IN_LANES(T, element, squares, i, begin, end, (term) * (term));                                             \
    } while (0)
#define FOLD_IN_LANES(T, number, element, FOLD, operator, start, total, NANS, nan, i, begin, end, term)                \
    do {                                                                                                               \
        enum { LANES_ = 16 / sizeof(element) };                                                                        \
        T folds_[LANES_];                                                                                              \
        for (int lane_ = 0; lane_ < LANES_; lane_++)                                                                   \
            folds_[lane_] = (start);                                                                                   \
        LANES_EACH(LANES_, i, begin, end, const number term_ = (term); folds_[lane_] = FOLD(folds_[lane_], term_);     \
                   (nan) |= NANS(term_);)                                                                              \
        for (int lane_ = 0; lane_ < LANES_; lane_++)                                                                   \
            (total) = FOLD((total), folds_[lane_]);                                                                    \
    } while (0)
#endif
#endif
