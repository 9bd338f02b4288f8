/* inlay/operator_detail.hpp - implementation of operator.hpp, which includes it. */
#ifndef INLAY_OPERATOR_DETAIL_HPP
#define INLAY_OPERATOR_DETAIL_HPP
#include "inlay/operator.hpp"

namespace inlay {
namespace detail {

template <class T> constexpr inlay_dtype dtype_of()
{
    using U = std::remove_const_t<T>;
    constexpr inlay_dtype of_signed[] = { INLAY_INT8, INLAY_INT16, 0, INLAY_INT32, 0, 0, 0, INLAY_INT64 };
    constexpr inlay_dtype of_unsigned[] = { INLAY_UINT8, INLAY_UINT16, 0, INLAY_UINT32, 0, 0, 0, INLAY_UINT64 };

    static_assert(std::is_same_v<U, float> || std::is_same_v<U, double> || std::is_same_v<U, float16> ||
                      std::is_same_v<U, bfloat16> || std::is_same_v<U, text> || std::is_integral_v<U>,
                  "elements are float, double, inlay::float16, inlay::bfloat16, inlay::text, bool or integers");
    if constexpr (std::is_same_v<U, float>)
        return INLAY_FLOAT;
    else if constexpr (std::is_same_v<U, double>)
        return INLAY_DOUBLE;
    else if constexpr (std::is_same_v<U, float16>)
        return INLAY_FLOAT16;
    else if constexpr (std::is_same_v<U, bfloat16>)
        return INLAY_BFLOAT16;
    else if constexpr (std::is_same_v<U, text>)
        return INLAY_STRING;
    else if constexpr (std::is_same_v<U, bool>)
        return INLAY_BOOL;
    else
        return (std::is_signed_v<U> ? of_signed : of_unsigned)[sizeof(U) - 1];
}
}

namespace detail {

enum : uint32_t { MOST_PARAMETERS = 32 };

/* ------------------------------------------------------------------ parameters */

enum kind { INPUT, OPTIONAL, VARIADIC, OUTPUT, OPTIONAL_OUTPUT, RESULT, VARIADIC_OUTPUT,
            INTEGER, FLOAT, STRING, INTEGERS, FLOATS, STRINGS, CALL, STATE };
constexpr bool is_input(kind k) { return k <= VARIADIC; }
constexpr bool is_output(kind k) { return k >= OUTPUT && k <= VARIADIC_OUTPUT; }
constexpr bool is_tensor(kind k) { return k <= VARIADIC_OUTPUT; }
constexpr bool is_attribute(kind k) { return k >= INTEGER && k <= STRINGS; }

struct parameter {
    kind what;
    inlay_dtype dtype; /* element type of tensors */
    const void *type;  /* STATE: identifies S */
};

/* The value of an attribute; its kind selects the members. */
struct value {
    int64_t i = 0;
    double f = 0;
    std::string s;
    std::vector<int64_t> ints;
    std::vector<float> floats;
    std::vector<std::string> strings;
    std::vector<const char *> texts; /* of strings */
};

/* The arguments of a call, consumed in order. */
struct cursor {
    const kit_call *run;
    const value *values;
    const void *state;
    uint32_t in, out;
};

template <class P> struct read {
    static_assert(!sizeof(P), "a parameter is a tensor, tensors, optional, result, int64_t, float, double, const char "
                              "*, list, state or call");
};
template <class T> struct read<tensor<T>> {
    static constexpr parameter is = { std::is_const_v<T> ? INPUT : OUTPUT, detail::dtype_of<T>(), nullptr };
    static tensor<T> take(cursor &c)
    {
        return tensor_of<T>(std::is_const_v<T> ? c.run->in[c.in++] : c.run->out[c.out++]);
    }
};
template <class T> struct read<tensors<T>> {
    static constexpr parameter is = { std::is_const_v<T> ? VARIADIC : VARIADIC_OUTPUT, detail::dtype_of<T>(), nullptr };
    static tensors<T> take(cursor &c)
    {
        uint32_t &at = std::is_const_v<T> ? c.in : c.out;
        const uint32_t first = at, end = std::is_const_v<T> ? c.run->in_count : c.run->out_count;

        at = end;
        return { (std::is_const_v<T> ? c.run->in : c.run->out) + first, end > first ? end - first : 0 };
    }
};
template <class T> struct read<result<T>> {
    static constexpr parameter is = { RESULT, detail::dtype_of<T>(), nullptr };
    static result<T> take(cursor &c) { return { c.run, c.out++, {} }; }
};
template <class T> struct read<optional<T>> {
    static constexpr parameter is = { std::is_const_v<T> ? OPTIONAL : OPTIONAL_OUTPUT, detail::dtype_of<T>(), nullptr };
    static optional<T> take(cursor &c)
    {
        const uint32_t i = std::is_const_v<T> ? c.in++ : c.out++;

        if (!(std::is_const_v<T> ? kit_has_input(c.run, i) : kit_has_output(c.run, i)))
            return {};
        return { tensor_of<T>(std::is_const_v<T> ? c.run->in[i] : c.run->out[i]) };
    }
};
template <> struct read<int64_t> {
    static constexpr parameter is = { INTEGER, 0, nullptr };
    static int64_t take(cursor &c) { return (c.values++)->i; }
};
template <> struct read<double> {
    static constexpr parameter is = { FLOAT, 0, nullptr };
    static double take(cursor &c) { return (c.values++)->f; }
};
template <> struct read<float> {
    static constexpr parameter is = { FLOAT, 0, nullptr };
    static float take(cursor &c) { return static_cast<float>((c.values++)->f); }
};
template <> struct read<const char *> {
    static constexpr parameter is = { STRING, 0, nullptr };
    static const char *take(cursor &c) { return (c.values++)->s.c_str(); }
};
template <class T> list<T> list_of(const std::vector<T> &v)
{
    return { v.data(), static_cast<uint32_t>(v.size()) };
}
template <> struct read<list<int64_t>> {
    static constexpr parameter is = { INTEGERS, 0, nullptr };
    static list<int64_t> take(cursor &c) { return list_of((c.values++)->ints); }
};
template <> struct read<list<float>> {
    static constexpr parameter is = { FLOATS, 0, nullptr };
    static list<float> take(cursor &c) { return list_of((c.values++)->floats); }
};
template <> struct read<list<const char *>> {
    static constexpr parameter is = { STRINGS, 0, nullptr };
    static list<const char *> take(cursor &c) { return list_of((c.values++)->texts); }
};
template <class S> struct read<state<S>> {
    static constexpr parameter is = { STATE, 0, &type_of<S> };
    static state<S> take(cursor &c) { return { static_cast<const S *>(c.state) }; }
};
template <> struct read<call> {
    static constexpr parameter is = { CALL, 0, nullptr };
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

template <auto Make> struct made;
template <class S, std::unique_ptr<S> (*Make)(const node &)> struct made<Make> {
    static void *make(const node &n) { return Make(n).release(); }
    static void destroy(void *state) { delete static_cast<S *>(state); }
    static constexpr maker functions = { make, destroy, &type_of<S> };
};

/* Calls fn and converts exceptions to a status; none leaves the plugin. */
template <class F> inlay_status guarded(inlay_diag *diag, const char *type, F fn)
{
    try {
        fn();
        return INLAY_OK;
    } catch (const stopped &e) {
        return e.status;
    } catch (const std::bad_alloc &) {
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "%s: out of memory", type);
    } catch (const std::invalid_argument &e) {
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: %s", type, e.what());
    } catch (const std::exception &e) {
        return inlay_fail(diag, INLAY_INTERNAL, "%s: %s", type, e.what());
    } catch (...) {
        return inlay_fail(diag, INLAY_INTERNAL, "%s: an exception without a text", type);
    }
}

/* An attribute of an operator. */
struct attribute {
    std::string name;
    kind what;
};

/* An example in the structs of the ABI, which point into `source`. */
struct built_example {
    example source;
    std::vector<inlay_tensor_view> in, out;
    std::vector<inlay_attr_info> attrs;
    std::vector<std::vector<inlay_str>> strings;  /* of the attributes */
    std::vector<std::vector<inlay_str>> elements; /* of string tensors */
};

/* An operator of an open plugin. */
struct opened {
    spec s;
    std::vector<attribute> attributes;
    uint32_t in_count = 0, out_count = 0; /* parameters; a variadic one counts once */
    std::string signature;

    /* The parameter of output `output` of a node. */
    kind output_kind(uint32_t output) const
    {
        kind last = OUTPUT;

        for (uint32_t p = 0, o = 0; p < s.forms[0].count; p++)
            if (is_output(s.forms[0].parameters[p].what)) {
                last = s.forms[0].parameters[p].what;
                if (o++ == output)
                    break;
            }
        return last;
    }
    std::vector<std::unique_ptr<built_example>> built;
    std::vector<inlay_op_example> examples;
};

/* A plugin with its operators. */
struct plugin {
    std::vector<opened> operators;
    std::vector<inlay_operator> described;
    std::vector<kit_kernel> kernels;
    kit_table table;
    const kit_table *tables[1];
    kit_provider provider;
    kit_plugin self;
    kit_exports exports;
};
}
}
#include "inlay/operator_schema.hpp"
#include "inlay/operator_kernel.hpp"
#endif
