/* Gate functions, see recurrent_loops.h. */
#include "operators/recurrent/recurrent_loops.h"
#include "simd/vec.h"
#include "simd/vecmath.h"
#include <math.h>
#include <string.h>

#define T float
#define NAME(name) f32_##name
#define EXP vm_exp
#define EXPM1 vm_expm1
#define TANH vm_tanh
#define SIGMOID vm_sigmoid
#define LOG1P vm_log1p
#define ABS vm_abs
#include "operators/recurrent/recurrent_loops.inc"
#undef T
#undef NAME
#undef EXP
#undef EXPM1
#undef TANH
#undef SIGMOID
#undef LOG1P
#undef ABS
#define T double
#define NAME(name) f64_##name
#define EXP exp
#define EXPM1 expm1
#define TANH tanh
#define SIGMOID(x) (1 / (1 + exp(-(x))))
#define LOG1P log1p
#define ABS fabs
#include "operators/recurrent/recurrent_loops.inc"

const f32_recurrent_loops KERNEL(recurrent_f32) = {
    .plain_lstm = f32_plain_lstm,
    .plain_gru = f32_plain_gru,
    .plain_reset = f32_plain_reset,
    .plain_rnn = f32_plain_rnn,
    .activate = f32_activate,
};

const f64_recurrent_loops KERNEL(recurrent_f64) = {
    .plain_lstm = f64_plain_lstm,
    .plain_gru = f64_plain_gru,
    .plain_reset = f64_plain_reset,
    .plain_rnn = f64_plain_rnn,
    .activate = f64_activate,
};
