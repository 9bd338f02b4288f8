/* functions.h - names of the functions that kernels apply to elements. */
#ifndef CPU_LAYOUT_FUNCTIONS_H
#define CPU_LAYOUT_FUNCTIONS_H

/* Functions of one element, of two elements, and of the elements in a window. */
typedef enum element_function {
    FUNCTION_NONE,
    FUNCTION_ABS,
    FUNCTION_CLIP, /* min(max(x, alpha), beta); NaN stays */
    FUNCTION_ELU,
    FUNCTION_EXP,
    FUNCTION_GELU,
    FUNCTION_GELU_TANH,
    FUNCTION_HARDSWISH,
    FUNCTION_LINEAR, /* alpha x + beta */
    FUNCTION_LOG,
    FUNCTION_SIGMOID,
    FUNCTION_MISH,
    FUNCTION_RELU, /* x < 0 ? alpha x : x */
    FUNCTION_SOFTPLUS,
    FUNCTION_SQRT,
    FUNCTION_SWISH, /* x sigmoid(alpha x) */
    FUNCTION_TANH,
    FUNCTION_ERF,
    FUNCTION_RECIPROCAL,
    FUNCTION_FLOOR,
    FUNCTION_CEIL,
    FUNCTION_ROUND, /* ties to even */
    FUNCTION_SIGN,
    FUNCTION_SOFTSIGN,
    FUNCTION_SELU, /* beta: gamma */
    FUNCTION_CELU,
    FUNCTION_THRESHOLD, /* x above alpha, otherwise 0 */
    FUNCTION_SHRINK,    /* alpha: lambd, beta: bias */
    FUNCTION_SQUARE,
    FUNCTION_CUBE,
    FUNCTION_ROOT, /* the power 1/2 */
    FUNCTION_SIN,
    FUNCTION_COS,
    FUNCTION_ADD,
    FUNCTION_SUB,
    FUNCTION_MUL,
    FUNCTION_DIV,
    FUNCTION_MAX,
    FUNCTION_MIN,
    FUNCTION_PRELU, /* x if x is not negative, otherwise x times the other operand */
    FUNCTION_POOL_MAX,
    FUNCTION_POOL_MEAN_OF_PADS,
    FUNCTION_POOL_MEAN
} element_function;
#endif
