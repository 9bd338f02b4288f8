/* inlay/operator_types.hpp - the parameter types of functions in operator.hpp, which includes this file. */
#ifndef INLAY_OPERATOR_TYPES_HPP
#define INLAY_OPERATOR_TYPES_HPP
#include "inlay/kit.h"
#include <cstdint>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace inlay {

/* ------------------------------------------------------------------ elements */

namespace detail {
inline uint32_t bits_of(float f)
{
    uint32_t u;

    std::memcpy(&u, &f, sizeof u);
    return u;
}
inline float float_of(uint32_t u)
{
    float f;

    std::memcpy(&f, &u, sizeof f);
    return f;
}
}

/* The element types FLOAT16 and BFLOAT16. They convert to float implicitly, and from float explicitly, rounded to the
 * nearest value (ties to even). */
struct float16 {
    uint16_t bits;

    float16() = default;
    explicit float16(float f)
    {
        const uint32_t u = detail::bits_of(f), sign = u >> 16 & 0x8000, magnitude = u & 0x7fffffff;

        if (magnitude > 0x7f800000) /* NaN */
            bits = static_cast<uint16_t>(sign | 0x7e00);
        else if (magnitude >= 0x477ff000) /* infinity, or rounds to it */
            bits = static_cast<uint16_t>(sign | 0x7c00);
        else if (magnitude < 0x38800000) /* subnormal: the addition rounds to units of 2^-24 */
            bits = static_cast<uint16_t>(sign | (detail::bits_of(detail::float_of(magnitude) + 0.5f) - 0x3f000000));
        else
            bits = static_cast<uint16_t>(sign | (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13);
    }
    operator float() const
    {
        const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, rest = bits & 0x7fffu;

        if (rest >= 0x7c00) /* infinity, NaN */
            return detail::float_of(sign | 0x7f800000 | rest << 13);
        if (rest < 0x400) /* subnormal: a multiple of 2^-24 */
            return (sign != 0 ? -1.f : 1.f) * static_cast<float>(rest) / 16777216;
        return detail::float_of(sign | ((rest << 13) + 0x38000000));
    }
};
struct bfloat16 {
    uint16_t bits;

    bfloat16() = default;
    explicit bfloat16(float f)
    {
        const uint32_t u = detail::bits_of(f);

        if ((u & 0x7fffffff) > 0x7f800000) /* NaN: rounding could make it infinite */
            bits = static_cast<uint16_t>(u >> 16 | 0x40);
        else
            bits = static_cast<uint16_t>((u + 0x7fff + (u >> 16 & 1)) >> 16);
    }
    operator float() const { return detail::float_of(static_cast<uint32_t>(bits) << 16); }
};

/* ------------------------------------------------------------------ tensors and lists */

/* A dense row-major tensor. */
template <class T> struct tensor {
    T *data;
    const int64_t *dims; /* [rank] */
    int64_t count;       /* elements */
    uint32_t rank;

    T &operator[](int64_t i) const { return data[i]; }
};
/* An input or output that a node may omit: converts to false if the node omits it. */
template <class T> struct optional : tensor<T> {
    explicit operator bool() const { return this->data != nullptr; }
};

/* An element of a string tensor, UTF-8 by convention; not NUL-terminated. Outputs are written by call::store(). */
struct text : inlay_str {
    std::string_view view() const { return { data, static_cast<size_t>(bytes) }; }
    operator std::string_view() const { return view(); }
};
static_assert(sizeof(text) == sizeof(inlay_str), "the elements of a string tensor");

namespace detail {
template <class T> tensor<T> tensor_of(const kit_tensor &t)
{
    return { static_cast<T *>(t.data), t.dims, t.count, t.rank };
}
}

/* A variadic input or output, the last one: any number of tensors of one element type. */
template <class T> struct tensors {
    const kit_tensor *raw; /* [count] */
    uint32_t count;

    tensor<T> operator[](uint32_t i) const { return detail::tensor_of<T>(raw[i]); }
};

/* An output whose shape the function decides, and which it allocates once. */
template <class T> struct result {
    const kit_call *raw;
    uint32_t index;

    tensor<T> allocate(const int64_t *dims, size_t rank);
    tensor<T> allocate(std::initializer_list<int64_t> dims) { return allocate(dims.begin(), dims.size()); }
    tensor<T> allocate(const std::vector<int64_t> &dims) { return allocate(dims.data(), dims.size()); }

    int64_t own_dims[INLAY_MAX_RANK]; /* internal */
};

/* The value of a list attribute: T is int64_t, float or const char *. */
template <class T> struct list {
    const T *data;
    uint32_t count;

    const T &operator[](uint32_t i) const { return data[i]; }
    const T *begin() const { return data; }
    const T *end() const { return data + count; }
};

/* The state of a node, which spec::with_state prepares. Read-only: runs of all threads share it. */
template <class S> struct state {
    const S *data;

    const S &operator*() const { return *data; }
    const S *operator->() const { return data; }
};

/* ------------------------------------------------------------------ the run */

/* Thrown by the functions of inlay::call if the run was cancelled or exceeded its deadline. Do not catch it. */
struct stopped : std::exception {
    inlay_status status;
    explicit stopped(inlay_status s) : status(s) {}
    const char *what() const noexcept override { return inlay_status_text(status); }
};

/* The run in progress. Borrowed for the call. */
struct call {
    const kit_call *raw;

    /* Throws `stopped` if the run has to end. Call it about once a millisecond in long loops; see spec::with_poll. */
    void poll() const
    {
        if (inlay_status status = kit_poll(raw); status != INLAY_OK)
            throw stopped(status);
    }
    /* Writes an element of a string output. Any thread of the run. */
    void store(text &to, std::string_view from) const
    {
        char *bytes = kit_alloc_string(raw, from.size());

        if (bytes == nullptr)
            throw std::bad_alloc();
        if (!from.empty())
            std::memcpy(bytes, from.data(), from.size());
        to.data = bytes;
        to.bytes = from.size();
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

template <class T> tensor<T> result<T>::allocate(const int64_t *dims, size_t rank)
{
    if (rank > INLAY_MAX_RANK)
        throw std::invalid_argument("an output has more than 16 axes");
    for (size_t d = 0; d < rank; d++)
        own_dims[d] = dims[d];
    if (raw->out[index].data != nullptr)
        throw std::invalid_argument("an output is allocated twice");
    if (inlay_status status = kit_alloc_output(raw, index, static_cast<uint32_t>(rank), own_dims); status != INLAY_OK)
        throw stopped(status);
    return detail::tensor_of<T>(raw->out[index]);
}

/* ------------------------------------------------------------------ sizes */

/* Thrown when a shape function needs the value of a size that is not known yet. Do not catch it: the shape is computed
 * again when the sizes are known. */
struct unknown_size : std::exception {
    const char *what() const noexcept override { return "a size is not known yet"; }
};

/* The size of an axis, which may be known only later, for instance a batch size. Arithmetic keeps it unknown; a
 * comparison, or another use of its value, throws unknown_size. A copied size stays equal to its origin. */
class dim {
public:
    template <class T, class = std::enable_if_t<std::is_integral_v<T>>>
    dim(T size) : size_(static_cast<int64_t>(size)), known_(true), symbol_(INLAY_NONE)
    {
    }
    dim() : dim(0) {}
    static dim unknown(uint32_t symbol = INLAY_NONE)
    {
        dim d;

        d.known_ = false;
        d.symbol_ = symbol;
        return d;
    }
    bool known() const { return known_; }
    uint32_t symbol() const { return symbol_; } /* of an unknown size: inlay_dim.symbol; INLAY_NONE = none */
    operator int64_t() const
    {
        if (!known_)
            throw unknown_size();
        return size_;
    }

private:
    int64_t size_;
    bool known_;
    uint32_t symbol_;
};
namespace detail {
template <class A, class B>
inline constexpr bool are_sizes = (std::is_same_v<A, dim> || std::is_integral_v<A>) &&
                                  (std::is_same_v<B, dim> || std::is_integral_v<B>) &&
                                  (std::is_same_v<A, dim> || std::is_same_v<B, dim>);
template <class F> dim combine(const dim &a, const dim &b, F fn)
{
    return a.known() && b.known() ? dim(fn(int64_t(a), int64_t(b))) : dim::unknown();
}
inline int64_t divisor(int64_t b)
{
    if (b == 0)
        throw std::invalid_argument("the shape divides by zero");
    return b;
}
}
template <class A, class B, class = std::enable_if_t<detail::are_sizes<A, B>>> dim operator+(const A &a, const B &b)
{
    return detail::combine(a, b, [](int64_t x, int64_t y) { return x + y; });
}
template <class A, class B, class = std::enable_if_t<detail::are_sizes<A, B>>> dim operator-(const A &a, const B &b)
{
    return detail::combine(a, b, [](int64_t x, int64_t y) { return x - y; });
}
template <class A, class B, class = std::enable_if_t<detail::are_sizes<A, B>>> dim operator*(const A &a, const B &b)
{
    return detail::combine(a, b, [](int64_t x, int64_t y) { return x * y; });
}
template <class A, class B, class = std::enable_if_t<detail::are_sizes<A, B>>> dim operator/(const A &a, const B &b)
{
    return detail::combine(a, b, [](int64_t x, int64_t y) { return x / detail::divisor(y); });
}
template <class A, class B, class = std::enable_if_t<detail::are_sizes<A, B>>> dim operator%(const A &a, const B &b)
{
    return detail::combine(a, b, [](int64_t x, int64_t y) { return x % detail::divisor(y); });
}

/* ------------------------------------------------------------------ examples */

namespace detail {
template <class T> constexpr inlay_dtype dtype_of();
}

/* A tensor of an example: array::of<float>({ 2, 3 }, { 1, 2, 3, 4, 5, 6 }), array::of_texts({ 2 }, { "a", "b" }). */
struct array {
    inlay_dtype dtype = INLAY_UNDEFINED;
    std::vector<int64_t> dims;
    std::vector<unsigned char> bytes;
    std::vector<std::string> strings; /* of a string tensor, instead of bytes */

    template <class T> static array of(std::initializer_list<int64_t> dims, std::initializer_list<T> elements)
    {
        array a;

        a.dtype = detail::dtype_of<T>();
        a.dims = dims;
        a.bytes.resize(elements.size() * sizeof(T));
        if (elements.size() > 0)
            std::memcpy(a.bytes.data(), elements.begin(), a.bytes.size());
        return a;
    }
    static array of_texts(std::initializer_list<int64_t> dims, std::initializer_list<const char *> elements)
    {
        array a;

        a.dtype = INLAY_STRING;
        a.dims = dims;
        a.strings.assign(elements.begin(), elements.end());
        return a;
    }
};

/* An attribute of an example: { "alpha", 0.5 }, { "axes", { 0, 1 } }, { "mode", "fast" }. */
struct setting {
    std::string name;
    uint32_t kind; /* INLAY_ATTR_* */
    int64_t i = 0;
    double f = 0;
    std::vector<int64_t> ints;
    std::vector<float> floats;
    std::vector<std::string> strings; /* one for kind STRING */

    setting(const char *n, int64_t value) : name(n), kind(INLAY_ATTR_INT), i(value) {}
    setting(const char *n, int value) : setting(n, static_cast<int64_t>(value)) {}
    setting(const char *n, double value) : name(n), kind(INLAY_ATTR_FLOAT), f(static_cast<float>(value)) {}
    setting(const char *n, const char *value) : name(n), kind(INLAY_ATTR_STRING), strings{ value } {}
    setting(const char *n, std::vector<int64_t> value) : name(n), kind(INLAY_ATTR_INTS), ints(std::move(value)) {}
    setting(const char *n, std::vector<float> value) : name(n), kind(INLAY_ATTR_FLOATS), floats(std::move(value)) {}
    setting(const char *n, std::vector<std::string> value)
        : name(n), kind(INLAY_ATTR_STRINGS), strings(std::move(value))
    {
    }
};

/* Inputs and expected outputs of a node; trailing optional ones may be omitted. |got - want| <= atol + rtol * |want| */
struct example {
    const char *name;
    std::vector<array> in, out;
    std::vector<setting> settings = {};
    double rtol = 1e-5, atol = 1e-6;
};
}
#endif
