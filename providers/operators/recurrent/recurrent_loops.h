/* recurrent_loops.h - the gate functions of LSTM, GRU and RNN, compiled for each instruction level. They process
 * blocks [first, end) of the hidden state of n elements of one sample. */
#ifndef RECURRENT_LOOPS_H
#define RECURRENT_LOOPS_H
#include "operators/recurrent/recurrent.h"
#include "simd/instances.h"

/* limit: gates are clipped to [-limit, limit]; infinity: no clipping. */
#define RECURRENT_LOOPS(name, T)                                                                                       \
    typedef struct name##_recurrent_loops {                                                                            \
        /* the default activations */                                                                                  \
        void (*plain_lstm)(T limit, int64_t n, int64_t first, int64_t end, const T *restrict x, const T *restrict g,   \
                           T *restrict c, T *restrict h);                                                              \
        void (*plain_gru)(T limit, int64_t n, int64_t first, int64_t end, const T *restrict x, const T *restrict g,    \
                          const T *restrict candidate, const T *restrict old, T *restrict h);                          \
        void (*plain_reset)(T limit, int64_t n, int64_t first, int64_t end, const T *restrict x, T *restrict g,        \
                            const T *restrict old, T *restrict reset);                                                 \
        void (*plain_rnn)(T limit, int64_t n, int64_t first, int64_t end, const T *restrict x, const T *restrict g,    \
                          T *restrict h);                                                                              \
        /* any function of a block */                                                                                  \
        void (*activate)(const struct activation *f, T *x);                                                            \
    } name##_recurrent_loops;                                                                                          \
    KERNEL_INSTANCES(name##_recurrent_loops, recurrent_##name)
RECURRENT_LOOPS(f32, float)
RECURRENT_LOOPS(f64, double)
#undef RECURRENT_LOOPS
#endif
