/* inlay/ort_lite.hpp - custom operators that are written for ONNX Runtime's onnxruntime_lite_custom_op.h.
 *
 * A file that defines operators with Ort::Custom::CreateLiteCustomOp() and registers them in RegisterCustomOps() is a
 * plugin of inlay if it includes this file instead of onnxruntime_lite_custom_op.h. One source file of a plugin
 * includes it. Functions and structs with Compute may have these parameters, T an element type or std::string:
 *
 *     const Tensor<T> & or *     an input             Tensor<T> & or *     an output, allocated by the function
 *     const Span<T> & or *, T    an input of one axis, of one element
 *     std::optional<...>         of a const Tensor<T> *, a const Span<T> * or a T: an input that nodes may omit;
 *                                of a Tensor<T> *: such an output
 *     const TensorArray &        the last input: any number of tensors of any types; TensorArray &: likewise outputs
 *
 * They return nothing or an Ort::Status. A struct is created with (const OrtApi *, const OrtKernelInfo *) for each
 * node; Ort::ConstKernelInfo(info).GetAttribute<T>() reads its attributes. Results have the shapes that the functions
 * allocate, which are known only in a run. Functions that infer shapes, and the C functions of OrtApi, are not
 * available: their use does not compile. Exceptions end the run with their text. */
#ifndef INLAY_ORT_LITE_HPP
#define INLAY_ORT_LITE_HPP
#include "inlay/operator.hpp"
#include <functional>
#include <numeric>
#include <optional>

#define ORT_API_VERSION 22
#define ORT_API_CALL
#define ORT_EXPORT
enum { MAX_CUSTOM_OP_END_VER = 0x7fffffff };
enum OrtErrorCode { ORT_OK, ORT_FAIL, ORT_INVALID_ARGUMENT, ORT_NO_SUCHFILE, ORT_NO_MODEL, ORT_ENGINE_ERROR,
                    ORT_RUNTIME_EXCEPTION, ORT_INVALID_PROTOBUF, ORT_MODEL_LOADED, ORT_NOT_IMPLEMENTED };

struct OrtApi {};
struct OrtApiBase {
    const OrtApi *(*GetApi)(uint32_t version);
};
struct OrtStatus; /* functions return NULL, or throw */
struct OrtKernelInfo {
    const inlay_node_info *node;
};
struct OrtSessionOptions;

/* Defined by the file that includes this one. */
extern "C" OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base);

namespace Ort {
using Float16_t = inlay::float16;
using BFloat16_t = inlay::bfloat16;

inline void InitApi(const OrtApi * = nullptr) {}
template <class T> struct Global {
    static inline const OrtApi *api_ = nullptr; /* as in older versions of ONNX Runtime */
};

struct Exception : std::runtime_error {
    explicit Exception(const std::string &text, OrtErrorCode = ORT_FAIL) : std::runtime_error(text) {}
};

/* The result of a function: success, or an error with a text. */
class Status {
public:
    Status() = default;
    explicit Status(std::nullptr_t) {}
    explicit Status(const char *text, OrtErrorCode = ORT_FAIL) : text_(text), ok_(false) {}
    explicit Status(const std::exception &e) : Status(e.what()) {}
    bool IsOK() const { return ok_; }
    std::string GetErrorMessage() const { return text_; }

private:
    std::string text_;
    bool ok_ = true;
};

/* The attributes of a node. */
class ConstKernelInfo {
public:
    explicit ConstKernelInfo(const OrtKernelInfo *info) : node_(info->node) {}
    template <class T> T GetAttribute(const char *name) const
    {
        const inlay_attr_info &a = find(name);

        if constexpr (std::is_same_v<T, int64_t>)
            return check(a, INLAY_ATTR_INT).i;
        else if constexpr (std::is_same_v<T, float>)
            return static_cast<float>(check(a, INLAY_ATTR_FLOAT).f);
        else {
            static_assert(std::is_same_v<T, std::string>, "attributes are int64_t, float or std::string");
            return std::string(check(a, INLAY_ATTR_STRING).s.data, a.s.bytes);
        }
    }
    template <class T> std::vector<T> GetAttributes(const char *name) const
    {
        const inlay_attr_info &a = find(name);

        static_assert(std::is_same_v<T, int64_t> || std::is_same_v<T, float>, "lists are of int64_t or float");
        if constexpr (std::is_same_v<T, int64_t>)
            return { check(a, INLAY_ATTR_INTS).ints, a.ints + a.count };
        else
            return { check(a, INLAY_ATTR_FLOATS).floats, a.floats + a.count };
    }

private:
    const inlay_node_info *node_;

    const inlay_attr_info &find(const char *name) const
    {
        const inlay_attr_info *a = kit_attr(node_, name);

        if (a == nullptr)
            throw Exception(std::string("the node has no attribute '") + name + "'");
        return *a;
    }
    static const inlay_attr_info &check(const inlay_attr_info &a, uint32_t kind)
    {
        if (a.kind != kind)
            throw Exception(std::string("attribute '") + a.name.data + "' has another type");
        return a;
    }
};
using KernelInfo = ConstKernelInfo;

namespace Custom {

/* An input or an output in a run. Borrowed for the call. */
class TensorBase {
public:
    TensorBase(const kit_call *call, uint32_t index, bool is_input) : call_(call), index_(index), is_input_(is_input)
    {
        if (is_input && kit_has_input(call, index))
            shape_.emplace(raw().dims, raw().dims + raw().rank);
    }
    virtual ~TensorBase() = default;
    operator bool() const { return shape_.has_value(); }
    const std::vector<int64_t> &Shape() const
    {
        if (!shape_)
            throw Exception("the shape of a tensor is not set yet");
        return *shape_;
    }
    int64_t NumberOfElement() const
    {
        return shape_ ? std::accumulate(shape_->begin(), shape_->end(), int64_t{ 1 }, std::multiplies<int64_t>()) : 0;
    }
    inlay_dtype Type() const { return raw().dtype; } /* the values are those of ONNXTensorElementDataType */
    bool IsCpuTensor() const { return true; }
    const void *DataRaw() const { return raw().data; }
    size_t SizeInBytes() const
    {
        return static_cast<size_t>(NumberOfElement()) * inlay_dtype_bits(raw().dtype) / 8;
    }

protected:
    const kit_call *call_;
    uint32_t index_;
    bool is_input_;
    std::optional<std::vector<int64_t>> shape_;

    const kit_tensor &raw() const { return is_input_ ? call_->in[index_] : call_->out[index_]; }
    /* Returns the memory of the output; further calls must pass the same shape. */
    void *allocate(const std::vector<int64_t> &shape)
    {
        if (raw().data == nullptr) {
            shape_ = shape; /* the output refers to it */
            if (shape.size() > INLAY_MAX_RANK)
                throw Exception("an output has more than 16 axes");
            if (inlay_status status =
                    kit_alloc_output(call_, index_, static_cast<uint32_t>(shape.size()), shape_->data());
                status != INLAY_OK)
                throw inlay::stopped(status);
        }
        return raw().data;
    }
};

template <class T> struct Span {
    const T *data_ = nullptr;
    size_t size_ = 0;

    size_t size() const { return size_; }
    T operator[](size_t i) const { return data_[i]; }
    const T *data() const { return data_; }
};

template <class T> class Tensor : public TensorBase {
public:
    using TensorBase::TensorBase;
    const T *Data() const { return static_cast<const T *>(raw().data); }
    T *Allocate(const std::vector<int64_t> &shape) { return static_cast<T *>(allocate(shape)); }
    const Span<T> &AsSpan()
    {
        if (Shape().size() != 1)
            throw Exception("a span is a tensor of one axis");
        span_ = { Data(), static_cast<size_t>(Shape()[0]) };
        return span_;
    }
    const T &AsScalar()
    {
        if (NumberOfElement() != 1)
            throw Exception("a scalar is a tensor of one element");
        return *Data();
    }

private:
    Span<T> span_;
};

/* Strings are copied, as ONNX Runtime does. */
template <> class Tensor<std::string> : public TensorBase {
public:
    Tensor(const kit_call *call, uint32_t index, bool is_input) : TensorBase(call, index, is_input)
    {
        for (int64_t i = 0; is_input && i < NumberOfElement(); i++)
            strings_.emplace_back(static_cast<const inlay::text *>(raw().data)[i].view());
    }
    const std::vector<std::string> &Data() const { return strings_; }
    const std::string &AsScalar() const
    {
        if (strings_.size() != 1)
            throw Exception("a scalar is a tensor of one element");
        return strings_[0];
    }
    void SetStringOutput(const std::vector<std::string> &strings, const std::vector<int64_t> &shape)
    {
        inlay::text *to = static_cast<inlay::text *>(allocate(shape));

        if (static_cast<int64_t>(strings.size()) != NumberOfElement())
            throw Exception("the number of strings differs from the shape");
        for (size_t i = 0; i < strings.size(); i++)
            inlay::call{ call_ }.store(to[i], strings[i]);
    }

private:
    std::vector<std::string> strings_;
};
template <> class Tensor<std::string_view> : public Tensor<std::string> {
public:
    Tensor(const kit_call *call, uint32_t index, bool is_input) : Tensor<std::string>(call, index, is_input)
    {
        views_.assign(Tensor<std::string>::Data().begin(), Tensor<std::string>::Data().end());
    }
    const std::vector<std::string_view> &Data() const { return views_; }
    std::string_view AsScalar() const { return Tensor<std::string>::AsScalar(); }

private:
    std::vector<std::string_view> views_;
};

/* The inputs or the outputs from some index on. */
class TensorArray {
public:
    TensorArray(const kit_call *call, uint32_t first, bool is_input) : call_(call), first_(first)
    {
        for (uint32_t i = first; is_input && i < call->in_count; i++)
            if (call->in[i].dtype == INLAY_STRING)
                tensors_.push_back(std::make_unique<Tensor<std::string>>(call, i, true));
            else
                tensors_.push_back(std::make_unique<TensorBase>(call, i, true));
    }
    size_t Size() const { return tensors_.size(); }
    const std::unique_ptr<TensorBase> &operator[](size_t i) const { return tensors_.at(i); }
    template <class T> T *AllocateOutput(size_t i, const std::vector<int64_t> &shape)
    {
        return add<Tensor<T>>(i).Allocate(shape);
    }
    Tensor<std::string> &AllocateStringTensor(size_t i) { return add<Tensor<std::string>>(i); }

private:
    const kit_call *call_;
    uint32_t first_;
    std::vector<std::unique_ptr<TensorBase>> tensors_;

    template <class T> T &add(size_t i)
    {
        auto tensor = std::make_unique<T>(call_, first_ + static_cast<uint32_t>(i), false);
        T &added = *tensor;

        tensors_.push_back(std::move(tensor));
        return added;
    }
};
using Variadic = TensorArray;

/* An operator. Created by CreateLiteCustomOp(); the file keeps it alive. */
struct OrtLiteCustomOp {
    struct parameter {
        bool is_output, is_optional, is_variadic;
        inlay_dtype dtype; /* unless it is variadic */
    };

    std::string name;
    int first_version = 1, last_version = MAX_CUSTOM_OP_END_VER;
    std::vector<parameter> parameters;
    std::function<std::shared_ptr<void>(const OrtKernelInfo &)> make;
    std::function<void(void *kernel, const kit_call *)> compute;

    std::string signature() const;
};

namespace detail {

template <class T> constexpr inlay_dtype dtype_of()
{
    if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, std::string_view>)
        return INLAY_STRING;
    else
        return inlay::detail::dtype_of<T>();
}

/* Where the next parameter finds its tensor. */
struct cursor {
    const kit_call *call;
    uint32_t in = 0, out = 0;
};

/* Holds what a parameter refers to during the call. */
template <class P, class = void> struct argument;

template <class T> struct argument<const Tensor<T> &> {
    static constexpr OrtLiteCustomOp::parameter is = { false, false, false, dtype_of<T>() };
    Tensor<T> held;
    explicit argument(cursor &c) : held(c.call, c.in++, true) {}
    const Tensor<T> &get() { return held; }
};
template <class T> struct argument<Tensor<T> &> {
    static constexpr OrtLiteCustomOp::parameter is = { true, false, false, dtype_of<T>() };
    Tensor<T> held;
    explicit argument(cursor &c) : held(c.call, c.out++, false) {}
    Tensor<T> &get() { return held; }
};
template <class T> struct argument<const Span<T> &> {
    static constexpr OrtLiteCustomOp::parameter is = { false, false, false, dtype_of<T>() };
    Tensor<T> held;
    explicit argument(cursor &c) : held(c.call, c.in++, true) {}
    const Span<T> &get() { return held.AsSpan(); }
};
template <> struct argument<const TensorArray &> {
    static constexpr OrtLiteCustomOp::parameter is = { false, false, true, INLAY_UNDEFINED };
    TensorArray held;
    explicit argument(cursor &c) : held(c.call, c.in, true) {}
    const TensorArray &get() { return held; }
};
template <> struct argument<TensorArray &> {
    static constexpr OrtLiteCustomOp::parameter is = { true, false, true, INLAY_UNDEFINED };
    TensorArray held;
    explicit argument(cursor &c) : held(c.call, c.out, false) {}
    TensorArray &get() { return held; }
};
/* A parameter that is a pointer is made in the same way as a reference. */
template <class T> struct argument<T *> : argument<T &> {
    using argument<T &>::argument;
    T *get() { return &argument<T &>::get(); }
};
/* One element. */
template <class T>
struct argument<T, std::enable_if_t<std::is_arithmetic_v<T> || std::is_same_v<T, Float16_t> ||
                                    std::is_same_v<T, BFloat16_t> || std::is_same_v<T, std::string_view>>> {
    static constexpr OrtLiteCustomOp::parameter is = { false, false, false, dtype_of<T>() };
    Tensor<T> held;
    explicit argument(cursor &c) : held(c.call, c.in++, true) {}
    T get() { return held.AsScalar(); }
};
template <> struct argument<const std::string &> {
    static constexpr OrtLiteCustomOp::parameter is = { false, false, false, INLAY_STRING };
    Tensor<std::string> held;
    explicit argument(cursor &c) : held(c.call, c.in++, true) {}
    const std::string &get() { return held.AsScalar(); }
};
template <class P> struct argument<std::optional<P>> {
    static constexpr OrtLiteCustomOp::parameter is = { argument<P>::is.is_output, true, false, argument<P>::is.dtype };
    std::optional<argument<P>> held;
    explicit argument(cursor &c)
    {
        if (is.is_output ? kit_has_output(c.call, c.out) : kit_has_input(c.call, c.in))
            held.emplace(c);
        else
            (is.is_output ? c.out : c.in)++;
    }
    std::optional<P> get() { return held ? std::optional<P>(held->get()) : std::nullopt; }
};

template <class Return, class... P, class F> void invoke(const kit_call *call, F function)
{
    cursor c = { call };
    std::tuple<argument<P>...> arguments{ argument<P>(c)... }; /* braces guarantee evaluation from left to right */

    std::apply(
        [&](auto &...each) {
            if constexpr (std::is_void_v<Return>)
                function(each.get()...);
            else if (const Status status = function(each.get()...); !status.IsOK())
                throw Exception(status.GetErrorMessage());
        },
        arguments);
}

template <class Return, class... P> OrtLiteCustomOp *create(const char *name, int first, int last)
{
    auto op = std::make_unique<OrtLiteCustomOp>();

    op->name = name;
    op->first_version = first;
    op->last_version = last;
    op->parameters = { argument<P>::is... };
    return op.release();
}

template <class S, class Return, class... P>
OrtLiteCustomOp *create_struct(Return (S::*compute)(P...), const char *name, int first, int last)
{
    OrtLiteCustomOp *op = create<Return, P...>(name, first, last);

    op->make = [](const OrtKernelInfo &info) -> std::shared_ptr<void> {
        static const OrtApi api;

        return std::make_shared<S>(&api, &info);
    };
    op->compute = [compute](void *kernel, const kit_call *call) {
        invoke<Return, P...>(call, [&](P... p) { return (static_cast<S *>(kernel)->*compute)(p...); });
    };
    return op;
}
template <class S, class Return, class... P>
OrtLiteCustomOp *create_struct(Return (S::*compute)(P...) const, const char *name, int first, int last)
{
    return create_struct(reinterpret_cast<Return (S::*)(P...)>(compute), name, first, last);
}
}

/* execution_provider: as ONNX Runtime's; the function is called with tensors in host memory. The caller owns the
 * result. */
template <class Return, class... P>
OrtLiteCustomOp *CreateLiteCustomOp(const char *name, const char *execution_provider, Return (*function)(P...),
                                    std::nullptr_t = nullptr, int first = 1, int last = MAX_CUSTOM_OP_END_VER)
{
    OrtLiteCustomOp *op = detail::create<Return, P...>(name, first, last);

    (void)execution_provider;
    op->compute = [function](void *, const kit_call *call) { detail::invoke<Return, P...>(call, function); };
    return op;
}
template <class S>
OrtLiteCustomOp *CreateLiteCustomOp(const char *name, const char *execution_provider, int first = 1,
                                    int last = MAX_CUSTOM_OP_END_VER)
{
    (void)execution_provider;
    return detail::create_struct<S>(&S::Compute, name, first, last);
}

/* "x0:A0, x1?:A1 -> y0:A2; A0=float, A1=int64, A2=float; ..." */
inline std::string OrtLiteCustomOp::signature() const
{
    static const char any[] = "float|double|float16|bfloat16|int8|int16|int32|int64|uint8|uint16|uint32|uint64|bool|"
                              "string";
    std::string text, types;
    bool has_output = false;

    for (size_t p = 0; p < parameters.size(); p++) {
        const parameter &is = parameters[p];
        const std::string number = std::to_string(p);

        text += is.is_output && !has_output ? " -> " : p > 0 ? ", " : "";
        has_output |= is.is_output;
        text += (is.is_output ? "y" : "x") + number;
        text += (is.is_variadic ? "%" : is.is_optional ? "?" : "") + (":A" + number);
        types += (p > 0 ? ", A" : "; A") + number + "=" + (is.is_variadic ? any : inlay_dtype_name(is.dtype));
    }
    return text + types + "; ...";
}
}

class CustomOpDomain {
public:
    explicit CustomOpDomain(const char *name) : name_(name) {}
    void Add(const Custom::OrtLiteCustomOp *op) { ops_.push_back(op); }
    const std::string &name() const { return name_; }
    const std::vector<const Custom::OrtLiteCustomOp *> &ops() const { return ops_; }

private:
    std::string name_;
    std::vector<const Custom::OrtLiteCustomOp *> ops_;
};
}

/* What RegisterCustomOps() fills in. */
struct OrtSessionOptions {
    std::vector<const Ort::CustomOpDomain *> domains;
};
namespace Ort {
struct UnownedSessionOptions {
    explicit UnownedSessionOptions(OrtSessionOptions *options) : options_(options) {}
    void Add(const CustomOpDomain &domain) { options_->domains.push_back(&domain); }

private:
    OrtSessionOptions *options_;
};
}

namespace inlay {
namespace detail {

/* An operator in the structs of the kit. */
struct lite_operator {
    const Ort::Custom::OrtLiteCustomOp *op;
    std::string domain, signature;
};
struct lite_plugin {
    std::vector<std::unique_ptr<lite_operator>> operators;
    std::vector<inlay_operator> described;
    std::vector<kit_kernel> kernels;
    kit_table table;
    const kit_table *tables[1];
    kit_provider provider;
    kit_plugin self;
    kit_exports exports;
};
struct lite_state {
    const lite_operator *op;
    std::shared_ptr<void> kernel;
};
inline lite_plugin *lite; /* never freed: code may run until the process has ended */

inline const lite_operator *find_lite(const kit_node *node)
{
    for (const auto &each : lite->operators)
        if (each->op->name == node->info->op_type.data && each->domain == node->info->domain.data &&
            each->op->first_version == static_cast<int>(node->info->since_version))
            return each.get();
    return nullptr;
}

inline inlay_status prepare_lite(const kit_node *node, void **out_state, inlay_diag *diag)
{
    return guarded(diag, node->info->op_type.data, [&] {
        auto state = std::make_unique<lite_state>();

        state->op = find_lite(node);
        if (state->op->op->make) {
            const OrtKernelInfo info = { node->info };

            state->kernel = state->op->op->make(info);
        }
        *out_state = state.release();
    });
}

inline void release_lite(void *state)
{
    delete static_cast<lite_state *>(state);
}

inline inlay_status shape_lite(const void *, kit_plan *plan, inlay_diag *)
{
    plan->allocates = UINT32_MAX;
    return INLAY_OK;
}

inline inlay_status run_lite(const kit_call *call)
{
    const lite_state &state = *static_cast<const lite_state *>(call->state);

    return guarded(call->diag, state.op->op->name.c_str(), [&] {
        state.op->op->compute(state.kernel.get(), call);
        for (uint32_t o = 0; o < call->out_count; o++)
            if (kit_has_output(call, o) && call->out[o].data == nullptr)
                throw Ort::Exception("the function does not allocate output " + std::to_string(o));
    });
}

inline void add_lite(lite_plugin &p, const std::string &domain, const Ort::Custom::OrtLiteCustomOp *op)
{
    p.operators.push_back(std::make_unique<lite_operator>(lite_operator{ op, domain, op->signature() }));
    const lite_operator &own = *p.operators.back();
    inlay_operator described = {};
    kit_kernel kernel = {};

    described.struct_size = sizeof described;
    described.domain = own.domain.c_str();
    described.op_type = op->name.c_str();
    described.signature = own.signature.c_str();
    described.since_version = static_cast<uint32_t>(op->first_version);
    p.described.push_back(described);
    kernel.domain = described.domain;
    kernel.op_type = described.op_type;
    kernel.since_min = kernel.since_max = described.since_version;
    kernel.prepare = prepare_lite;
    kernel.release = release_lite;
    kernel.shape = shape_lite;
    kernel.run = run_lite;
    p.kernels.push_back(kernel);
}

inline inlay_status open_lite(const char *name, const inlay_host *host, const inlay_plugin **out_plugin,
                              inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    if (lite == nullptr)
        status = guarded(diag, name, [&] {
            static const OrtApi api;
            static const OrtApiBase base = { [](uint32_t) { return &api; } };
            auto p = std::make_unique<lite_plugin>();
            OrtSessionOptions options;

            if (RegisterCustomOps(&options, &base) != nullptr)
                throw std::invalid_argument("RegisterCustomOps failed");
            for (const Ort::CustomOpDomain *domain : options.domains)
                for (const Ort::Custom::OrtLiteCustomOp *op : domain->ops())
                    add_lite(*p, domain->name(), op);
            p->table = { p->kernels.data(), static_cast<uint32_t>(p->kernels.size()) };
            p->tables[0] = &p->table;
            p->provider = {};
            p->provider.name = name;
            p->provider.description = "operators of a library for ONNX Runtime";
            p->provider.tables = p->tables;
            p->provider.table_count = 1;
            p->self = { name, INLAY_NOTE_VERSION, &p->provider, p->described.data(), p->table.count, 0 };
            lite = p.release();
        });
    return status == INLAY_OK ? kit_open(&lite->self, &lite->exports, host, out_plugin, diag) : status;
}
}
}

/* A plugin and its provider need a name of their own, [a-z0-9_]: set it with -DINLAY_LITE_NAME=\"mine\". */
#ifndef INLAY_LITE_NAME
#define INLAY_LITE_NAME "ort_lite"
#endif
INLAY_PLUGIN_NOTE("", "", "")
extern "C" inlay_status inlay_plugin_open(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag)
{
    return inlay::detail::open_lite(INLAY_LITE_NAME, host, out_plugin, diag);
}
#endif
