/* planted.h - the frame of plugins whose kernels have a planted defect.
 *
 * A file defines `enum fault` with NONE first and FAULTS last. Option `fault` selects one of its defects; has() tells
 * which. Option `when` selects a row of planted_when.def: a condition under which any kernel that is defined with
 * PLANTED_KERNEL() has a wrong result. Without these options nothing is wrong. */
#ifndef PLANTED_H
#define PLANTED_H
#include "inlay/kit.h"
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>

enum { MOST_RANK = 8 };

enum when {
    WHEN_NEVER,
#define WHEN(name, operators, damage, condition) WHEN_##name,
#include "planted_when.def"
#undef WHEN
    WHENS
};

/* Which elements of a result are wrong. */
enum damage { LAST, ALL };

static int64_t planted, planted_when;

/* fault: one of enum fault. */
static bool has(int64_t fault)
{
    return planted == fault;
}

/* Dim k from the end; 0: there is none. */
static inline int64_t from_end(const kit_tensor *tensor, uint32_t k)
{
    return tensor->rank > k ? tensor->dims[tensor->rank - 1 - k] : 0;
}

static inline double number_of_element(const kit_tensor *tensor, int64_t i)
{
    switch (tensor->dtype) {
    case INLAY_FLOAT:
        return (double)((const float *)tensor->data)[i];
    case INLAY_DOUBLE:
        return ((const double *)tensor->data)[i];
    case INLAY_INT8:
        return ((const int8_t *)tensor->data)[i];
    case INLAY_UINT8:
        return ((const uint8_t *)tensor->data)[i];
    case INLAY_INT32:
        return ((const int32_t *)tensor->data)[i];
    case INLAY_INT64:
        return (double)((const int64_t *)tensor->data)[i];
    default:
        return 1;
    }
}

static inline bool some(const kit_tensor *tensor, bool (*is)(double x))
{
    for (int64_t i = 0; i < tensor->count; i++)
        if (is(number_of_element(tensor, i)))
            return true;
    return false;
}

static inline bool every(const kit_tensor *tensor, bool (*is)(double x))
{
    for (int64_t i = 0; i < tensor->count; i++)
        if (!is(number_of_element(tensor, i)))
            return false;
    return tensor->count > 0;
}

static inline bool is_negative_zero(double x)
{
    return x == 0 && signbit(x);
}

static inline bool is_denormal(double x)
{
    return x != 0 && fabs(x) < (double)FLT_MIN;
}

static inline bool is_large(double x)
{
    return fabs(x) > 1e6 && isfinite(x);
}

static inline bool is_below_infinity(double x)
{
    return isinf(x) && x < 0;
}

static inline bool is_half(double x)
{
    return x - floor(x) == 0.5;
}

static inline bool is_negative(double x)
{
    return x < 0;
}

static inline bool is_small(double x)
{
    return fabs(x) < 0.125;
}

static inline bool is_lowest(double x)
{
    return x == -128 || x == INT32_MIN || x == (double)INT64_MIN;
}

static inline bool has_tie(const kit_tensor *tensor)
{
    for (int64_t i = 1; i < tensor->count; i++)
        if (number_of_element(tensor, i) == number_of_element(tensor, i - 1))
            return true;
    return false;
}

static inline bool has_odd_dims(const kit_tensor *tensor)
{
    bool odd = tensor->rank > 2;

    for (uint32_t d = 0; d < tensor->rank; d++)
        odd = odd && tensor->dims[d] > 1 && tensor->dims[d] % 2 == 1;
    return odd;
}

static inline bool is_aligned(const kit_tensor *tensor, uintptr_t bytes)
{
    return (uintptr_t)tensor->data % bytes == 0;
}

/* The runs of the process so far, for conditions that depend on them. */
struct run_history {
    uint64_t runs;
    inlay_status (*body)(const kit_call *call); /* of the previous run */
    int64_t count, earlier_count;               /* elements of the results of the previous run and the one before */
    int64_t largest;                            /* of all runs */
    uint64_t sum;                               /* of the input of the previous run */
    const void *address;                        /* of that input */
    uint32_t in_progress;
    bool has_failed; /* the previous run did */
};
static struct run_history history;
static pthread_mutex_t history_lock = PTHREAD_MUTEX_INITIALIZER;

/* What the loop of a run has seen of its workers. */
struct loop_history {
    int64_t end; /* of the latest range */
    uint32_t highest, inside;
    bool went_back, has_overlap;
};

static inline inlay_status observe_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    struct loop_history *loop = user;

    loop->has_overlap |= __atomic_add_fetch(&loop->inside, 1, __ATOMIC_SEQ_CST) > 1;
    loop->highest = worker > loop->highest ? worker : loop->highest;
    loop->went_back |= begin < loop->end;
    loop->end = end;
    (void)sched_yield();
    (void)__atomic_sub_fetch(&loop->inside, 1, __ATOMIC_SEQ_CST);
    return INLAY_OK;
}

/* A loop over the rows of the result, as a kernel would have. */
static inline struct loop_history observe_loop(const kit_call *call)
{
    struct loop_history loop = { .end = 0 };

    (void)!kit_parallel(call, call->out[0].count, 1, observe_range, &loop);
    return loop;
}

static inline uint64_t sum_of(const kit_tensor *tensor)
{
    uint64_t sum = 0;

    for (uint64_t i = 0; i < kit_bytes(tensor->dtype, tensor->count); i++)
        sum = 31 * sum + ((const uint8_t *)tensor->data)[i];
    return sum;
}

/* Damages elements in a way that no tolerance permits. */
static inline void damage_result(const kit_tensor *out, bool all)
{
    const size_t width = inlay_dtype_bits(out->dtype) / 8;

    for (int64_t i = all || out->count == 0 ? 0 : out->count - 1; i < out->count; i++)
        ((uint8_t *)out->data)[(size_t)i * width + width - 1] ^= out->dtype == INLAY_BOOL ? 1 : 0x40;
}

/* Does the condition of option `when` hold for this run? */
static inline bool planted_holds(const kit_call *call, inlay_status (*body)(const kit_call *call), bool *out_all)
{
    static const uint8_t damages[] = {
        LAST,
#define WHEN(name, operators, damage, condition) damage,
#include "planted_when.def"
#undef WHEN
    };
    const kit_tensor *x = &call->in[0], *y = call->in_count > 1 ? &call->in[1] : x, *z = &call->out[0];
    const int64_t rows = from_end(z, 0) > 0 ? z->count / from_end(z, 0) : 0;
    const uint64_t sum = sum_of(x);
    const struct loop_history loop = observe_loop(call);
    struct run_history past;

    (void)pthread_mutex_lock(&history_lock);
    past = history;
    history = (struct run_history){ .runs = past.runs + 1,
                                    .body = body,
                                    .count = z->count,
                                    .earlier_count = past.count,
                                    .largest = z->count > past.largest ? z->count : past.largest,
                                    .sum = sum,
                                    .address = x->data,
                                    .in_progress = past.in_progress + 1 };
    (void)pthread_mutex_unlock(&history_lock);
    *out_all = damages[planted_when] == ALL;
    switch ((enum when)planted_when) {
#define WHEN(name, operators, damage, condition)                                                                       \
    case WHEN_##name:                                                                                                  \
        return condition;
#include "planted_when.def"
#undef WHEN
    case WHEN_NEVER:
    case WHENS:
        break;
    }
    return false;
}

static inline inlay_status planted_run(const kit_call *call, inlay_status (*body)(const kit_call *call))
{
    bool all, holds;
    inlay_status status;

    if (planted_when == WHEN_NEVER)
        return body(call);
    holds = planted_holds(call, body, &all);
    status = body(call);
    (void)pthread_mutex_lock(&history_lock);
    history.in_progress--;
    history.has_failed = status != INLAY_OK;
    (void)pthread_mutex_unlock(&history_lock);
    if (status == INLAY_OK && holds)
        damage_result(&call->out[0], all);
    return status;
}

/* The head of function `name`, which runs a kernel. Its argument is `call`. */
#define PLANTED_KERNEL(name)                                                                                           \
    static inlay_status name##_body(const kit_call *call);                                                             \
    static inlay_status name(const kit_call *call)                                                                     \
    {                                                                                                                  \
        return planted_run(call, name##_body);                                                                         \
    }                                                                                                                  \
    static inlay_status name##_body(const kit_call *call)

/* The rows of the options that every plugin has; it may have more after them. Texts, as plugin-check also opens a
 * provider with other numbers for its options. */
#define PLANTED_OPTIONS                                                                                                \
    { .name = "fault", .doc = "number of the planted defect", .default_value = "0", .kind = INLAY_OPTION_STRING },     \
    {                                                                                                                  \
        .name = "when", .doc = "number of the condition", .default_value = "0", .kind = INLAY_OPTION_STRING            \
    }

/* The number in option `at` of the plugin. */
static inline int64_t planted_option(const inlay_create_args *args, uint32_t at)
{
    return strtol(INLAY_AT(inlay_option_value, args->options, args->option_stride, at)->s, NULL, 10);
}

static inlay_status planted_open(const inlay_host *host, const inlay_create_args *args, void **out, inlay_diag *diag)
{
    (void)host, (void)out, (void)diag;
    planted = planted_option(args, 0);
    planted_when = planted_option(args, 1);
    return INLAY_OK;
}

/* The plugin `plugin_name` and its provider, with arrays `kernels` and `options` of the file; open_function calls
 * planted_open() or is it. Use it at the end of the file, without a semicolon. */
#define PLANTED_PLUGIN(plugin_name, text, open_function)                                                               \
    static const kit_table table = { kernels, KIT_COUNT(kernels) }, *const tables[] = { &table };                      \
    static const kit_provider provider = { .name = plugin_name,                                                        \
                                           .description = text,                                                        \
                                           .tables = tables,                                                           \
                                           .table_count = KIT_COUNT(tables),                                           \
                                           .options = options,                                                         \
                                           .option_count = KIT_COUNT(options),                                         \
                                           .open = open_function };                                                    \
    static const kit_plugin plugin = { .name = plugin_name, .version = "1.0.0", .provider = &provider };               \
    KIT_PLUGIN_NAMED(plugin, plugin_name, plugin_name, "")
#endif
