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
 *     inlay::tensor<const T>     an input
 *     inlay::optional<const T>   an optional input: converts to false if the node omits it
 *     inlay::tensors<const T>    the last input: any number of tensors
 *     int64_t, float, double     an attribute: an integer, a float
 *     const char *               an attribute: a string; borrowed for the call
 *     inlay::list<T>             an attribute: a list; T is int64_t, float or const char *
 *     inlay::state<S>            what spec::with_state prepared for the node; it has no name in the text
 *     inlay::call                the run, for parallel loops and polling; it has no name in the text
 *     inlay::tensor<T>           an output
 *     inlay::optional<T>         an optional output: converts to false if the node omits it
 *     inlay::result<T>           an output whose shape the function decides, and which it allocates
 *     inlay::tensors<T>          the last output: any number of tensors
 *
 * The text of op<> names the parameters in the same order; `name=value` states the default of an attribute (`0.5`,
 * `'fast'`, `[1, 2]`), and an attribute without a default is required. T is float, double, inlay::float16,
 * inlay::bfloat16, inlay::text (an element of a string tensor), bool or an integer type. Several functions in op<>
 * implement the same operator for different element types. An output has the shape of the first input unless a shape
 * function is given (with_shape) or the output is an inlay::result.
 *
 * If a function throws, the run fails with the text of the exception: std::invalid_argument as INLAY_INVALID_ARGUMENT,
 * std::bad_alloc as INLAY_OUT_OF_MEMORY, others as INLAY_INTERNAL. Functions are called by any number of threads at
 * once. Tensors are borrowed for the call.
 *
 * Source compatibility: a plugin that compiles with these headers also compiles with later ones of the same major
 * version of the ABI. So use the names of namespace inlay that this file and operator_types.hpp declare, none of
 * inlay::detail; create specs by op<>() and with_*, and examples by braces. Compile with -fvisibility=hidden and link
 * with sdk/cmake/plugin.map, as inlay_add_plugin() does: otherwise two plugins in one process may share a variable of
 * the C++ library.
 *
 * A plugin may define these before it includes inlay's headers: INLAY_NOTE_VERSION, its version ("1.0.0"), and
 * INLAY_OPERATORS_DESCRIPTION, the description of its provider, one line. */
#ifndef INLAY_OPERATOR_HPP
#define INLAY_OPERATOR_HPP
#ifndef INLAY_NOTE_VERSION
#define INLAY_NOTE_VERSION "1.0.0"
#endif
#ifndef INLAY_OPERATORS_DESCRIPTION
#define INLAY_OPERATORS_DESCRIPTION "operators of a plugin in C++"
#endif
#include "inlay/operator_types.hpp"
#include <memory>
#include <new>
#include <string>
#include <tuple>
#include <utility>

namespace inlay {
struct node;
namespace detail {
struct opened;
struct value;
struct form;

/* The functions of spec::with_state. */
struct maker {
    void *(*make)(const node &);
    void (*destroy)(void *);
    const void *type; /* identifies S of state<S> */
};
template <class S> inline constexpr char type_of = 0;
}

/* The attributes of a node. A name that the operator does not have, or not with this type, throws
 * std::invalid_argument. Texts and lists are borrowed for the call. */
struct attributes {
    int64_t integer(const char *name) const;
    double number(const char *name) const;
    const char *text(const char *name) const;
    list<int64_t> integers(const char *name) const;
    list<float> numbers(const char *name) const;
    list<const char *> texts(const char *name) const;

    const detail::opened *op;
    const detail::value *values;
};

/* The type and shape of an input. */
struct input_shape {
    const dim *dims; /* [rank] */
    uint32_t rank;
    inlay_dtype dtype; /* INLAY_UNDEFINED: the node omits the input */

    /* The number of elements. */
    dim count() const
    {
        dim n = 1;

        for (uint32_t d = 0; d < rank; d++)
            n = n * dims[d];
        return n;
    }
};

/* Argument of a shape function: the shapes of the inputs and the attributes. The function sets the shapes of the
 * outputs; it throws std::invalid_argument if the shapes of the inputs are invalid. It is called when the model is
 * loaded, where sizes may be unknown (inlay::dim); whenever sizes become known; and in a run if they are known only
 * then. Outputs that it does not set, or that depend on the value of an unknown size, get their shape later. */
struct shapes : attributes {
    static constexpr uint32_t most_outputs = 32;

    const input_shape *in; /* [in_count] */
    uint32_t in_count;
    /* the shapes that were set */
    bool is_set[most_outputs];
    uint32_t rank[most_outputs];
    dim dims[most_outputs][INLAY_MAX_RANK]; /* [output][axis] */

    /* Sets the shape of output `output`, from 0, to one size for each axis. */
    template <class... D> void set(uint32_t output, D... sizes)
    {
        static_assert(sizeof...(D) <= INLAY_MAX_RANK, "more axes than INLAY_MAX_RANK");
        const dim all[] = { dim(sizes)..., dim() };

        set_dims(output, all, sizeof...(D));
    }
    void set_dims(uint32_t output, const dim *sizes, size_t count)
    {
        if (output >= most_outputs || count > INLAY_MAX_RANK)
            throw std::invalid_argument("the shape function sets output " + std::to_string(output) + " with " +
                                        std::to_string(count) + " axes; outputs end at " +
                                        std::to_string(most_outputs - 1) + ", axes at 16");
        for (size_t d = 0; d < count; d++) {
            if (sizes[d].known() && sizes[d] < 0)
                throw std::invalid_argument("the shape function sets a negative size");
            dims[output][d] = sizes[d];
        }
        rank[output] = static_cast<uint32_t>(count);
        is_set[output] = true;
    }
    /* Sets the shape of an output to that of an input. */
    void set_like(uint32_t output, uint32_t input) { set_dims(output, in[input].dims, in[input].rank); }
};
using shape_fn = void (*)(shapes &);

/* Refines an estimate of the cost of a node. Setting cost.flops suffices (see kit_kernel.cost); all sizes are known.
 * Without this function, one operation for each output element is assumed. */
using cost_fn = void (*)(const shapes &, inlay_cost &cost);

/* Argument of the function of with_state: a node whose state is to be prepared. */
struct node : attributes {
    const kit_node *raw;

    /* Returns constant input i; false if it is omitted or no constant. Valid as long as the state. */
    template <class T> optional<const T> constant(uint32_t i) const;
    /* States that no function reads constant input i, because the state has what the functions need of the input. The
     * host may release the constant; `data` of the input is then null in the functions. */
    void drop(uint32_t i) const { kit_drop_constant(raw, i); }

    mutable int64_t dims[INLAY_MAX_RANK]; /* internal */
};

/* An operator, created by op<>(). Each with_* function returns a copy. All texts must be static. */
struct spec {
    const char *type, *signature;
    const detail::form *forms;
    uint32_t form_count;
    const char *doc;
    uint32_t version, poll_ms;
    shape_fn shape;
    cost_fn cost;
    detail::maker maker;
    std::vector<example> examples;

    /* A paragraph that describes the operator. */
    spec with_doc(const char *words) const { spec s = *this; s.doc = words; return s; }
    /* The since_version; 1 by default. */
    spec with_version(uint32_t since) const { spec s = *this; s.version = since; return s; }
    spec with_shape(shape_fn fn) const { spec s = *this; s.shape = fn; return s; }
    spec with_cost(cost_fn fn) const { spec s = *this; s.cost = fn; return s; }
    /* States that long runs of the functions call inlay::call::poll() at least once in ms milliseconds, so that a
     * cancelled run ends within that time. Operators whose runs are short need not state it. */
    spec with_poll(uint32_t ms) const { spec s = *this; s.poll_ms = ms; return s; }
    /* An example, which `inlay plugin-check` and the host's probe run. May be used several times. */
    spec with_example(example e) const { spec s = *this; s.examples.push_back(std::move(e)); return s; }
    /* Make, a function std::unique_ptr<S>(const inlay::node &), prepares the state of a node once for each session:
     * what depends on attributes and constant inputs only. The functions' parameter inlay::state<S> is this state. */
    template <auto Make> spec with_state() const;
};

/* Describes an operator: type is its op_type, signature names its parameters (see above), and F are its functions, one
 * for each combination of element types. */
template <auto... F> spec op(const char *type, const char *signature);
}
#include "inlay/operator_detail.hpp"

/* Defines a complete plugin with one provider of the same name ([a-z0-9_]): INLAY_OPERATORS("name", "domain", op<>(),
 * op<>() ..). Use it at file scope of one source file, without a semicolon. */
#define INLAY_OPERATORS(name_, domain_, ...)                                                                        \
    INLAY_PLUGIN_NOTE(name_, name_, domain_)                                                                        \
    static inlay::detail::plugin *inlay_own_plugin; /* never freed: code may run until the process has ended */     \
    static inlay_status inlay_own_provider(const inlay_host *, const inlay_create_args *, void **out, inlay_diag *) \
    {                                                                                                               \
        *out = inlay_own_plugin;                                                                                    \
        return INLAY_OK;                                                                                            \
    }                                                                                                               \
    extern "C" inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out_plugin,              \
                                              inlay_diag *diag)                                                     \
    {                                                                                                               \
        return inlay::detail::open(                                                                                 \
            inlay_own_plugin, { name_, domain_, INLAY_NOTE_VERSION, INLAY_OPERATORS_DESCRIPTION },                  \
            [] { return std::vector<inlay::spec>{ __VA_ARGS__ }; }, host, out_plugin, diag, inlay_own_provider);    \
    }
#endif
