/* inlay/operator.hpp - custom operators from plain C++17 functions, on the kit (inlay/kit.h).
 *
 *     #include "inlay/operator.hpp"
 *
 *     template <class T>
 *     void blend(inlay::tensor<const T> a, inlay::tensor<const T> b, float alpha, inlay::tensor<T> y)
 *     {
 *         for (int64_t i = 0; i < y.count; i++)
 *             y[i] = static_cast<T>(alpha * a[i] + (1 - alpha) * b[i]);
 *     }
 *
 *     INLAY_OPERATORS("blend", "com.example", inlay::op<blend<float>, blend<double>>("Blend", "a, b, alpha=0.5 -> y"))
 *
 * is a complete plugin: operator com.example.Blend-1 and a provider "blend" that runs it. The schema follows from the
 * parameters of the function, inputs and attributes first, outputs last:
 *
 *     inlay::tensor<const T>    an input
 *     inlay::optional<const T>  an optional input: converts to false if the node omits it
 *     int64_t                   an attribute: an integer
 *     float, double             an attribute: a float
 *     const char *              an attribute: a string; borrowed for the call
 *     inlay::call               the run, for parallel loops and polling; it has no name in the text
 *     inlay::tensor<T>          an output
 *
 * The text of op<> names the parameters in the same order; `name=value` states the default of an attribute, and an
 * attribute without a default is required. T is float, double, bool or an integer type. Several functions in op<>
 * implement the same operator for different element types. An output has the shape of the first input unless a shape
 * function is given:
 *
 *     inlay::op<sums>("Sums", "x -> y").with_shape([](inlay::shapes &s) { s.set(0, s.in[0].dims[0]); })
 *
 * If a function throws, the run fails with the text of the exception: std::invalid_argument as INLAY_INVALID_ARGUMENT,
 * std::bad_alloc as INLAY_OUT_OF_MEMORY, others as INLAY_INTERNAL. Functions are called by any number of threads at
 * once. Tensors are borrowed for the call. */
#ifndef INLAY_OPERATOR_HPP
#define INLAY_OPERATOR_HPP
#include "inlay/kit.h"
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <tuple>
#include <type_traits>

namespace inlay {

/* ------------------------------------------------------------------ parameter types of functions */

/* A dense row-major tensor. */
template <class T> struct tensor {
    T *data;
    const int64_t *dims; /* [rank] */
    int64_t count;       /* elements */
    uint32_t rank;

    T &operator[](int64_t i) const { return data[i]; }
};
template <class T> struct optional : tensor<T> {
    explicit operator bool() const { return this->data != nullptr; }
};

/* Thrown by the functions of inlay::call if the run was cancelled or exceeded its deadline. Do not catch it. */
struct stopped : std::exception {
    inlay_status status;
    explicit stopped(inlay_status s) : status(s) {}
    const char *what() const noexcept override { return inlay_status_text(status); }
};

/* The run in progress. Borrowed for the call. */
struct call {
    const kit_call *raw;

    /* Throws `stopped` if the run has to end. Call it about once a millisecond in long loops. */
    void poll() const
    {
        if (inlay_status status = kit_poll(raw); status != INLAY_OK)
            throw stopped(status);
    }
    /* Calls fn(begin, end) for ranges of [0, count) of at least grain elements, on the host's threads. fn must not
     * throw. */
    template <class F> void parallel(int64_t count, int64_t grain, F fn) const
    {
        const auto part = [](void *user, int64_t begin, int64_t end, uint32_t) -> inlay_status {
            (*static_cast<F *>(user))(begin, end);
            return INLAY_OK;
        };

        if (inlay_status status = kit_parallel(raw, count, grain, part, &fn); status != INLAY_OK)
            throw stopped(status);
    }
};

namespace detail {

/* ------------------------------------------------------------------ parameters */

enum kind { INPUT, OPTIONAL, OUTPUT, INTEGER, FLOAT, STRING, CALL };

template <class T> constexpr inlay_dtype dtype_of()
{
    using U = std::remove_const_t<T>;
    constexpr inlay_dtype of_signed[] = { INLAY_INT8, INLAY_INT16, 0, INLAY_INT32, 0, 0, 0, INLAY_INT64 };
    constexpr inlay_dtype of_unsigned[] = { INLAY_UINT8, INLAY_UINT16, 0, INLAY_UINT32, 0, 0, 0, INLAY_UINT64 };

    static_assert(std::is_same_v<U, float> || std::is_same_v<U, double> || std::is_integral_v<U>,
                  "elements are float, double, bool or integers");
    if constexpr (std::is_same_v<U, float>)
        return INLAY_FLOAT;
    else if constexpr (std::is_same_v<U, double>)
        return INLAY_DOUBLE;
    else if constexpr (std::is_same_v<U, bool>)
        return INLAY_BOOL;
    else
        return (std::is_signed_v<U> ? of_signed : of_unsigned)[sizeof(U) - 1];
}

struct parameter {
    kind what;
    inlay_dtype dtype; /* element type of tensors */
};

/* The value of an attribute; its kind selects the member. */
struct value {
    int64_t i;
    double f;
    const char *s;
};

/* The arguments of a call, consumed in order. */
struct cursor {
    const kit_call *run;
    const value *values;
    uint32_t in, out;
};

template <class P> struct read {
    static_assert(!sizeof(P), "a parameter is a tensor, optional, int64_t, float, double, const char * or call");
};
template <class T> struct read<tensor<T>> {
    static constexpr parameter is = { std::is_const_v<T> ? INPUT : OUTPUT, dtype_of<T>() };
    static tensor<T> take(cursor &c)
    {
        const kit_tensor &t = std::is_const_v<T> ? c.run->in[c.in++] : c.run->out[c.out++];

        return { static_cast<T *>(t.data), t.dims, t.count, t.rank };
    }
};
template <class T> struct read<optional<T>> {
    static_assert(std::is_const_v<T>, "only inputs can be optional");
    static constexpr parameter is = { OPTIONAL, dtype_of<T>() };
    static optional<T> take(cursor &c)
    {
        const uint32_t i = c.in++;

        if (!kit_has_input(c.run, i))
            return {};
        return { { static_cast<T *>(c.run->in[i].data), c.run->in[i].dims, c.run->in[i].count, c.run->in[i].rank } };
    }
};
template <> struct read<int64_t> {
    static constexpr parameter is = { INTEGER, 0 };
    static int64_t take(cursor &c) { return (c.values++)->i; }
};
template <> struct read<double> {
    static constexpr parameter is = { FLOAT, 0 };
    static double take(cursor &c) { return (c.values++)->f; }
};
template <> struct read<float> {
    static constexpr parameter is = { FLOAT, 0 };
    static float take(cursor &c) { return static_cast<float>((c.values++)->f); }
};
template <> struct read<const char *> {
    static constexpr parameter is = { STRING, 0 };
    static const char *take(cursor &c) { return (c.values++)->s; }
};
template <> struct read<call> {
    static constexpr parameter is = { CALL, 0 };
    static call take(cursor &c) { return { c.run }; }
};

/* ------------------------------------------------------------------ functions */

/* A function for one set of element types. */
struct form {
    const parameter *parameters;
    uint32_t count;
    void (*invoke)(cursor &c);
};

template <auto F> struct bound;
template <class... P, void (*F)(P...)> struct bound<F> {
    static constexpr parameter list[] = { read<P>::is... };

    static void invoke(cursor &c)
    {
        std::apply(F, std::tuple<P...>{ read<P>::take(c)... }); /* braces guarantee evaluation from left to right */
    }
};
template <auto... F> inline constexpr form forms_of[] = { { bound<F>::list, sizeof bound<F>::list / sizeof(parameter),
                                                            bound<F>::invoke }... };

struct opened;
int64_t integer_of(const opened &op, const value *values, const char *name);
}

/* Argument of a shape function: the shapes of the inputs and the attributes. The function sets the shapes of the
 * outputs; it throws std::invalid_argument if the shapes of the inputs are invalid. It is called before the run if all
 * sizes are known, and again during the run. Inputs and outputs have at most 8 axes, and an operator at most 8 outputs.
 */
struct shapes {
    static constexpr uint32_t most = 8; /* maximum number of axes, and of outputs */
    const kit_tensor *in;               /* [in_count]; only dims, rank and dtype may be read */
    uint32_t in_count;
    const detail::opened *op;
    const detail::value *values;
    uint32_t rank[most];
    int64_t dims[most][most]; /* [output][axis] */

    /* Returns the value of an integer attribute; throws std::invalid_argument if the operator has none of this name. */
    int64_t integer(const char *name) const { return detail::integer_of(*op, values, name); }

    /* Sets the shape of output `output`, from 0, to one size for each axis. */
    template <class... D> void set(uint32_t output, D... sizes)
    {
        static_assert(sizeof...(D) <= most, "too many axes");
        const int64_t all[] = { static_cast<int64_t>(sizes)..., 0 };

        if (output >= most)
            throw std::invalid_argument("an operator has at most 8 outputs");
        rank[output] = sizeof...(D);
        for (uint32_t d = 0; d < sizeof...(D); d++)
            dims[output][d] = all[d];
    }
};
using shape_fn = void (*)(shapes &);

/* An operator, created by op<>(). Each with_* function returns a copy with a documentation text, with a since_version
 * (1 by default), or with a shape function. All texts must be static. */
struct spec {
    const char *type, *text;
    const detail::form *forms;
    uint32_t form_count;
    const char *doc;
    uint32_t version;
    shape_fn shape;

    spec with_doc(const char *words) const { spec s = *this; s.doc = words; return s; }
    spec with_version(uint32_t since) const { spec s = *this; s.version = since; return s; }
    spec with_shape(shape_fn fn) const { spec s = *this; s.shape = fn; return s; }
};
/* Describes an operator: type is its op_type, text names its parameters (see above), and F are its functions, one for
 * each combination of element types. */
template <auto... F> constexpr spec op(const char *type, const char *text)
{
    static_assert(sizeof...(F) > 0, "an operator has a function");
    return { type, text, detail::forms_of<F...>, sizeof...(F), nullptr, 1, nullptr };
}
}
#include "inlay/operator_detail.hpp"

/* Defines a complete plugin with one provider of the same name ([a-z0-9_]): INLAY_OPERATORS("name", "domain", op<>(),
 * op<>() ..). The version of the plugin is "1.0.0". Use it at file scope of one source file, without a semicolon. */
#define INLAY_OPERATORS(name_, domain_, ...)                                                                        \
    INLAY_PLUGIN_NOTE(name_, name_, domain_)                                                                        \
    static inlay::detail::plugin inlay_own_plugin;                                                                  \
    static inlay_status inlay_own_provider(const inlay_host *, const inlay_create_args *, void **out, inlay_diag *) \
    {                                                                                                               \
        *out = &inlay_own_plugin;                                                                                   \
        return INLAY_OK;                                                                                            \
    }                                                                                                               \
    extern "C" inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out_plugin,              \
                                              inlay_diag *diag)                                                     \
    {                                                                                                               \
        const inlay::spec specs[] = { __VA_ARGS__ };                                                                \
        return inlay::detail::open(inlay_own_plugin, name_, domain_, "1.0.0", specs, KIT_COUNT(specs), host,        \
                                   out_plugin, diag, inlay_own_provider);                                           \
    }
#endif
