/* A stand-in for the classes that ONNX Runtime's operator tests use. Each run of a test writes a test case of ONNX
 * instead: $OUT/KIND/TOLERANCE/NAME with model.onnx and test_data_set_0. KIND is "cases", "must_fail" or "unverified"
 * (the test checks its outputs itself); TOLERANCE is ATOL_RTOL, those of the test or ONNX Runtime's defaults. */
#ifndef OPTESTER_H
#define OPTESTER_H
#include <algorithm>
#include <array>
#include <cassert>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>
#include <gsl/gsl>
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "core/common/common.h"
#include "core/common/float16.h"
#include "core/common/float8.h"
#include "core/common/narrow.h"
#include "core/common/optional.h"
#include "core/common/span_utils.h"
#include "core/framework/float4.h"
#include "core/framework/int2.h"
#include "core/framework/int4.h"
#include "core/framework/tensor_shape.h"
#include "core/graph/constants.h"
#include "core/session/onnxruntime_run_options_config_keys.h"
#include "core/session/onnxruntime_session_options_config_keys.h"

#define ONNX_NAMESPACE onnx
#define ASSERT_STATUS_OK(status) ASSERT_TRUE((status).IsOK())
#define EXPECT_STATUS_OK(status) EXPECT_TRUE((status).IsOK())
#define ORT_TSTR(text) text

namespace onnx
{
enum TensorProto_DataType {
    TensorProto_DataType_UNDEFINED,
    TensorProto_DataType_FLOAT,
    TensorProto_DataType_UINT8,
    TensorProto_DataType_INT8,
    TensorProto_DataType_UINT16,
    TensorProto_DataType_INT16,
    TensorProto_DataType_INT32,
    TensorProto_DataType_INT64,
    TensorProto_DataType_STRING,
    TensorProto_DataType_BOOL,
    TensorProto_DataType_FLOAT16,
    TensorProto_DataType_DOUBLE,
    TensorProto_DataType_UINT32,
    TensorProto_DataType_UINT64,
    TensorProto_DataType_BFLOAT16 = 16,
    TensorProto_DataType_FLOAT8E4M3FN,
    TensorProto_DataType_FLOAT8E4M3FNUZ,
    TensorProto_DataType_FLOAT8E5M2,
    TensorProto_DataType_FLOAT8E5M2FNUZ,
    TensorProto_DataType_UINT4,
    TensorProto_DataType_INT4,
    TensorProto_DataType_FLOAT4E2M1,
    TensorProto_DataType_FLOAT8E8M0,
    TensorProto_DataType_UINT2,
    TensorProto_DataType_INT2
};

struct TensorProto {
    using DataType = TensorProto_DataType;
    static constexpr DataType FLOAT = TensorProto_DataType_FLOAT, UINT8 = TensorProto_DataType_UINT8,
                              INT8 = TensorProto_DataType_INT8, UINT16 = TensorProto_DataType_UINT16,
                              INT16 = TensorProto_DataType_INT16, INT32 = TensorProto_DataType_INT32,
                              INT64 = TensorProto_DataType_INT64, STRING = TensorProto_DataType_STRING,
                              BOOL = TensorProto_DataType_BOOL, FLOAT16 = TensorProto_DataType_FLOAT16,
                              DOUBLE = TensorProto_DataType_DOUBLE, UINT32 = TensorProto_DataType_UINT32,
                              UINT64 = TensorProto_DataType_UINT64, BFLOAT16 = TensorProto_DataType_BFLOAT16,
                              FLOAT8E4M3FN = TensorProto_DataType_FLOAT8E4M3FN,
                              FLOAT8E4M3FNUZ = TensorProto_DataType_FLOAT8E4M3FNUZ,
                              FLOAT8E5M2 = TensorProto_DataType_FLOAT8E5M2,
                              FLOAT8E5M2FNUZ = TensorProto_DataType_FLOAT8E5M2FNUZ, UINT4 = TensorProto_DataType_UINT4,
                              INT4 = TensorProto_DataType_INT4, FLOAT4E2M1 = TensorProto_DataType_FLOAT4E2M1,
                              UINT2 = TensorProto_DataType_UINT2, INT2 = TensorProto_DataType_INT2;

    /* An attribute. */
    std::string name;
    int type = 0;
    std::vector<int64_t> dims;
    std::map<int, std::string> packed; /* bytes of a field of numbers */
    std::vector<std::string> texts;

    void set_name(const std::string &text)
    {
        name = text;
    }
    void set_data_type(int code)
    {
        type = code;
    }
    void add_dims(int64_t dim)
    {
        dims.push_back(dim);
    }
    template <class T> void add_fixed(int field, T value)
    {
        packed[field].append(reinterpret_cast<char *>(&value), sizeof value);
    }
    void add_varint(int field, uint64_t value)
    {
        for (; value >= 128; value >>= 7)
            packed[field] += char(value | 128);
        packed[field] += char(value);
    }
    void add_float_data(float value)
    {
        add_fixed(4, value);
    }
    void add_int32_data(int32_t value)
    {
        add_varint(5, uint64_t(int64_t(value)));
    }
    void add_string_data(const std::string &value)
    {
        texts.push_back(value);
    }
    void add_int64_data(int64_t value)
    {
        add_varint(7, uint64_t(value));
    }
    void add_double_data(double value)
    {
        add_fixed(10, value);
    }
    template <class Function> struct Repeated {
        Function Add;
        Repeated *operator->()
        {
            return this;
        }
    };
    auto mutable_dims()
    {
        return Repeated([this](int64_t value) { add_dims(value); });
    }
    auto mutable_float_data()
    {
        return Repeated([this](float value) { add_float_data(value); });
    }
    auto mutable_int32_data()
    {
        return Repeated([this](int32_t value) { add_int32_data(value); });
    }
    auto mutable_int64_data()
    {
        return Repeated([this](int64_t value) { add_int64_data(value); });
    }
    auto mutable_uint64_data()
    {
        return Repeated([this](uint64_t value) { add_varint(11, value); });
    }
    auto mutable_double_data()
    {
        return Repeated([this](double value) { add_double_data(value); });
    }
};
} // namespace onnx

/* The parts of Boost's lists of types that tests use. */
namespace boost::mp11
{
template <class... T> struct mp_list {
};
template <class... T> using mp_any = std::bool_constant<(T::value || ...)>;
template <class List, class T> struct mp_contains;
template <template <class...> class List, class... Have, class T>
struct mp_contains<List<Have...>, T> : std::bool_constant<(std::is_same_v<Have, T> || ...)> {
};
template <class... T> mp_list<T...> mp_join(mp_list<T...>);
template <class... T, class... U, class... Rest> auto mp_join(mp_list<T...>, mp_list<U...>, Rest... rest)
{
    return mp_join(mp_list<T..., U...>{}, rest...);
}
template <template <class...> class F, class... T, class... U> auto mp_pairs(mp_list<T...>, mp_list<U...> second)
{
    auto with = [](auto one, mp_list<U...>) { return mp_list<F<decltype(one), U>...>{}; };
    return mp_join(mp_list<>{}, with(T{}, second)...);
}
template <template <class...> class F, class A, class B> using mp_product = decltype(mp_pairs<F>(A{}, B{}));
template <class... T, class Function> void mp_visit(mp_list<T...>, Function &&function)
{
    (function(T{}), ...);
}
template <class List, class Function> void mp_for_each(Function &&function)
{
    mp_visit(List{}, function);
}
} // namespace boost::mp11

namespace onnxruntime
{
using std::string;
using PathString = std::string;
template <class... T> struct TypeList {
};

/* An output that a test reads is all zeros: its comparison fails, its case is written. */
struct Tensor {
    TensorShape Shape() const
    {
        return TensorShape({ 1 });
    }
    template <class T> const T *Data() const
    {
        static std::vector<uint64_t> zeros(1 << 21);
        return reinterpret_cast<const T *>(zeros.data());
    }
};
struct OrtValue {
    bool IsTensor() const
    {
        return true;
    }
    template <class T> T Get() const
    {
        return T();
    }
};

namespace math
{
inline bool is_a_ge_zero_and_a_lt_b(int64_t a, int64_t b)
{
    return a >= 0 && a < b;
}
} // namespace math

namespace concurrency
{
struct ThreadPool {
};
} // namespace concurrency

struct Environment {
    concurrency::ThreadPool *GetIntraOpThreadPool() const
    {
        return nullptr;
    }
};

template <class T> struct SafeInt {
    T value;
    template <class From> SafeInt(From from) : value(T(from))
    {
    }
    operator T() const
    {
        return value;
    }
    template <class Factor> SafeInt &operator*=(Factor factor)
    {
        value *= T(factor);
        return *this;
    }
};

struct KernelCreateInfo;
/* Tests ask whether a provider has a kernel. */
struct KernelRegistry {
    using TypeConstraintMap = std::map<std::string, std::string>;
    template <class... Arguments> common::Status TryFindKernel(Arguments &&...)
    {
        return common::Status::OK();
    }
};

struct LoggingManager {
    int DefaultLogger() const
    {
        return 0;
    }
};
inline LoggingManager DefaultLoggingManager()
{
    return {};
}

struct IExecutionProvider {
    std::string type;
    const std::string &Type() const
    {
        return type;
    }
    std::shared_ptr<KernelRegistry> GetKernelRegistry() const
    {
        return std::make_shared<KernelRegistry>();
    }
};

struct ConfigOptions {
    std::unordered_map<std::string, std::string> configurations;
    template <class Key, class Value> common::Status AddConfigEntry(Key &&, Value &&)
    {
        return common::Status::OK();
    }
};

enum class TransformerLevel : int { Default, Level1, Level2, Level3, MaxLevel };
enum class ExecutionMode { ORT_SEQUENTIAL, ORT_PARALLEL };

struct OrtThreadPoolParams {
    int thread_pool_size = 0;
};

struct SessionOptions {
    ConfigOptions config_options;
    TransformerLevel graph_optimization_level{};
    ExecutionMode execution_mode{};
    OrtThreadPoolParams intra_op_param;
    bool use_per_session_threads = true, use_deterministic_compute = false, enable_mem_pattern = true;
    bool enable_cpu_mem_arena = true;
    int session_log_verbosity_level = 0;
    std::string session_logid;
};

struct RunOptions {
    ConfigOptions config_options;
    std::string run_tag;
};

struct NodeArg;
struct Node {
    void SetExecutionProviderType(const std::string &)
    {
    }
};

struct Graph {
    struct ResolveOptions {
        bool override_types = false;
    };
    std::vector<Node> Nodes()
    {
        return {};
    }
};

using ProviderOptions = std::unordered_map<std::string, std::string>;

template <class T> struct is_quant_type : std::bool_constant<std::is_same_v<T, int8_t> || std::is_same_v<T, uint8_t>> {
};
template <class T, bool reduced = false, bool symmetric = false>
void GetQuantizationParameter(const float *data, int64_t count, float &scale, T &zero_point, concurrency::ThreadPool *)
{
    float low = std::min(0.0f, *std::min_element(data, data + count));
    float high = std::max(0.0f, *std::max_element(data, data + count));
    float first = reduced && std::is_signed_v<T> ? -64 : float(std::numeric_limits<T>::min());
    float last = reduced && std::is_signed_v<T> ? 64 : float(std::numeric_limits<T>::max());
    zero_point = 0;
    if (symmetric && std::is_signed_v<T>) {
        scale = std::max(high, -low) > 0 ? std::max(high, -low) / last : 1;
        return;
    }
    scale = high == low ? 1 : (high - low) / (last - first);
    zero_point = T(std::nearbyint(std::clamp(first - low / scale, first, last)));
}

namespace test
{
static const char *const kOpTesterRunOptionsConfigTestTunableOp = "op_tester.is_tunable_op_under_test";

template <class T> struct ElementType {
};
#define ELEMENT_TYPE(type, number, atol, rtol)                                                                         \
    template <> struct ElementType<type> {                                                                             \
        static constexpr int code = number;                                                                            \
        static constexpr double absolute = atol, relative = rtol;                                                      \
    };
ELEMENT_TYPE(float, 1, 1e-5, 1e-4)
ELEMENT_TYPE(uint8_t, 2, 0, 0)
ELEMENT_TYPE(int8_t, 3, 0, 0)
ELEMENT_TYPE(uint16_t, 4, 0, 0)
ELEMENT_TYPE(int16_t, 5, 0, 0)
ELEMENT_TYPE(int32_t, 6, 0, 0)
ELEMENT_TYPE(int64_t, 7, 0, 0)
ELEMENT_TYPE(long long, 7, 0, 0)
ELEMENT_TYPE(std::string, 8, 0, 0)
ELEMENT_TYPE(bool, 9, 0, 0)
ELEMENT_TYPE(MLFloat16, 10, 2.5e-3, 1e-3)
ELEMENT_TYPE(double, 11, 1e-5, 1e-5)
ELEMENT_TYPE(uint32_t, 12, 0, 0)
ELEMENT_TYPE(uint64_t, 13, 0, 0)
ELEMENT_TYPE(BFloat16, 16, 0.02, 0.01)
ELEMENT_TYPE(Float8E4M3FN, 17, 0, 0)
ELEMENT_TYPE(Float8E4M3FNUZ, 18, 0, 0)
ELEMENT_TYPE(Float8E5M2, 19, 0, 0)
ELEMENT_TYPE(Float8E5M2FNUZ, 20, 0, 0)
ELEMENT_TYPE(UInt4x2, 21, 0, 0)
ELEMENT_TYPE(Int4x2, 22, 0, 0)
ELEMENT_TYPE(Float4E2M1x2, 23, 0, 0)
ELEMENT_TYPE(UInt2x4, 25, 0, 0)
ELEMENT_TYPE(Int2x4, 26, 0, 0)
#undef ELEMENT_TYPE
} // namespace test

namespace utils
{
template <class T> constexpr onnx::TensorProto_DataType ToTensorProtoElementType()
{
    return onnx::TensorProto_DataType(test::ElementType<T>::code);
}
inline void SetRawDataInTensorProto(onnx::TensorProto &tensor, const void *data, size_t bytes)
{
    tensor.packed[9].assign(static_cast<const char *>(data), bytes);
}
} // namespace utils

namespace test
{
/* Fields of a protobuf message. */
struct Message {
    std::string bytes;

    void varint(uint64_t x)
    {
        for (; x >= 128; x >>= 7)
            bytes += char(x | 128);
        bytes += char(x);
    }
    void integer(int field, int64_t x)
    {
        varint(uint64_t(field) << 3);
        varint(uint64_t(x));
    }
    void text(int field, std::string_view x)
    {
        varint(uint64_t(field) << 3 | 2);
        varint(x.size());
        bytes += x;
    }
    void real(int field, float x)
    {
        varint(uint64_t(field) << 3 | 5);
        bytes.append(reinterpret_cast<char *>(&x), sizeof x);
    }
};

/* An input or output; without a name, one that is left out. */
struct Value {
    std::string name;
    int code = 0;
    std::vector<int64_t> dims;
    std::string raw;
    std::vector<std::string> texts;
    std::vector<Value> elements; /* of a sequence */
    std::vector<std::string> params;
    bool sequence = false, initializer = false;
    double absolute = 0, relative = 0;

    std::string tensor() const
    {
        Message made;
        for (int64_t dim : dims)
            made.integer(1, dim);
        made.integer(2, code);
        for (const std::string &one : texts)
            made.text(6, one);
        made.text(8, name);
        if (code != 8)
            made.text(9, raw);
        return made.bytes;
    }
    std::string data() const
    {
        Message made;
        if (!sequence)
            return tensor();
        made.text(1, name);
        made.integer(2, 1);
        for (const Value &element : elements)
            made.text(3, element.tensor());
        return made.bytes;
    }
    std::string info(bool shaped) const
    {
        Message tensor_type, shape, type, made;
        tensor_type.integer(1, code);
        for (size_t k = 0; k < dims.size(); k++) {
            Message dim;
            if (k < params.size() && !params[k].empty())
                dim.text(2, params[k]);
            else
                dim.integer(1, dims[k]);
            shape.text(1, dim.bytes);
        }
        if (shaped && !sequence)
            tensor_type.text(2, shape.bytes);
        type.text(1, tensor_type.bytes);
        if (sequence) {
            Message sequence_type;
            sequence_type.text(1, type.bytes);
            type.bytes.clear();
            type.text(4, sequence_type.bytes);
        }
        made.text(1, name);
        made.text(2, type.bytes);
        return made.bytes;
    }
};

template <typename T> struct SeqTensors {
    struct Tensor {
        std::vector<int64_t> shape;
        std::vector<T> data;
    };
    std::vector<Tensor> tensors;

    void AddTensor(const std::vector<int64_t> &shape, const std::vector<T> &data)
    {
        tensors.push_back({ shape, data });
    }
};

class BaseTester
{
  public:
    enum class ExpectResult { kExpectSuccess, kExpectFailure };
    using DimsVariant = std::vector<int64_t>;
    using CustomOutputVerifierFn = std::function<void(const std::vector<OrtValue> &, const std::string &)>;
    using Dims = std::initializer_list<int64_t>;
    using Params = const std::vector<std::string> *;
    using Providers = std::vector<std::unique_ptr<IExecutionProvider>>;
    using Names = std::unordered_set<std::string>;

    BaseTester(std::string_view op, int opset, std::string_view domain, bool verify)
        : op_(op), domain_(domain), opset_(opset < 0 ? 24 : opset), verify_(verify)
    {
    }
    virtual ~BaseTester() = default;

#define ADD_INPUT(DIMS)                                                                                                \
    template <class T>                                                                                                 \
    void AddInput(const char *name, DIMS dims, std::initializer_list<T> x, bool init = false, Params params = nullptr) \
    {                                                                                                                  \
        add(inputs_, name, dims, x.begin(), x.size(), 0, 0, init, params);                                             \
    }                                                                                                                  \
    template <class T>                                                                                                 \
    void AddInput(const char *name, DIMS dims, const std::vector<T> &x, bool init = false, Params params = nullptr)    \
    {                                                                                                                  \
        add(inputs_, name, dims, x.data(), x.size(), 0, 0, init, params);                                              \
    }                                                                                                                  \
    template <class T>                                                                                                 \
    void AddInput(const char *name, DIMS dims, const T *x, size_t n, bool init = false, Params params = nullptr)       \
    {                                                                                                                  \
        add(inputs_, name, dims, x, n, 0, 0, init, params);                                                            \
    }
    ADD_INPUT(Dims)
    ADD_INPUT(const DimsVariant &)
#undef ADD_INPUT
    template <class T>
    void AddInput(const char *name, Dims dims, gsl::span<const T> x, bool init = false, Params params = nullptr)
    {
        add(inputs_, name, dims, x.data(), x.size(), 0, 0, init, params);
    }

#define ADD_OUTPUT(DIMS)                                                                                               \
    template <class T>                                                                                                 \
    void AddOutput(const char *name, DIMS dims, std::initializer_list<T> x, bool sorted = false, float relative = 0,   \
                   float absolute = 0)                                                                                 \
    {                                                                                                                  \
        add(outputs_, name, dims, x.begin(), x.size(), relative, absolute);                                            \
        verify_ = verify_ && !sorted;                                                                                  \
    }                                                                                                                  \
    template <class T>                                                                                                 \
    void AddOutput(const char *name, DIMS dims, const std::vector<T> &x, bool sorted = false, float relative = 0,      \
                   float absolute = 0)                                                                                 \
    {                                                                                                                  \
        add(outputs_, name, dims, x.data(), x.size(), relative, absolute);                                             \
        verify_ = verify_ && !sorted;                                                                                  \
    }                                                                                                                  \
    template <class T>                                                                                                 \
    void AddOutput(const char *name, DIMS dims, const T *x, size_t n, bool sorted = false, float relative = 0,         \
                   float absolute = 0)                                                                                 \
    {                                                                                                                  \
        add(outputs_, name, dims, x, n, relative, absolute);                                                           \
        verify_ = verify_ && !sorted;                                                                                  \
    }
    ADD_OUTPUT(Dims)
    ADD_OUTPUT(const DimsVariant &)
#undef ADD_OUTPUT

    template <class T> void AddSeqInput(const char *name, const SeqTensors<T> &sequence)
    {
        add_sequence(inputs_, name, sequence, 0, 0);
    }
    template <class T>
    void AddSeqOutput(const char *name, const SeqTensors<T> &sequence, float relative = 0, float absolute = 0)
    {
        add_sequence(outputs_, name, sequence, relative, absolute);
    }
    template <class T> void AddOptionalInputEdge()
    {
        inputs_.emplace_back();
    }
    template <class T> void AddOptionalOutputEdge()
    {
        outputs_.emplace_back();
    }
    void AddReferenceOutputs(const std::string &, float = 0, std::unique_ptr<IExecutionProvider> = nullptr)
    {
        dropped_ = true; /* the outputs are those of a model file */
    }

    std::vector<OrtValue> GetFetches() const
    {
        fetched_in_ = ::testing::UnitTest::GetInstance()->current_test_info();
        return std::vector<OrtValue>(outputs_.size());
    }
    int GetNumberOfNodesAfterRun() const
    {
        return -1;
    }

    void SetOutputAbsErr(const char *name, float x)
    {
        for (Value &output : outputs_)
            output.absolute = output.name == name ? x : output.absolute;
    }
    void SetOutputRelErr(const char *name, float x)
    {
        for (Value &output : outputs_)
            output.relative = output.name == name ? x : output.relative;
    }
    void SetOutputTolerance(float absolute, float relative = -1)
    {
        for (Value &output : outputs_) {
            output.absolute = absolute >= 0 ? absolute : output.absolute;
            output.relative = relative >= 0 ? relative : output.relative;
        }
    }
    void SetNumRunCalls(int)
    {
    }
    void SetDeterminism(bool)
    {
    }
    void EnableSharingOfPrePackedWeightsAcrossSessions()
    {
    }
    void SetAllowUnreleasedOnnxOpset()
    {
    }
    void SetCustomOutputVerifier(const CustomOutputVerifierFn &verifier)
    {
        verify_ = verify_ && verifier == nullptr;
    }

    BaseTester &Config(const SessionOptions &)
    {
        return *this;
    }
    BaseTester &Config(ExpectResult expected, const std::string & = "")
    {
        expected_ = expected;
        return *this;
    }
    BaseTester &Config(const RunOptions *)
    {
        return *this;
    }
    BaseTester &Config(const Graph::ResolveOptions &)
    {
        return *this;
    }
    BaseTester &ConfigExcludeEps(const Names &excluded)
    {
        excluded_ = excluded;
        return *this;
    }
    BaseTester &ConfigEps(Providers &&providers)
    {
        cpu_ = has_cpu(providers);
        return *this;
    }
    BaseTester &ConfigEp(std::unique_ptr<IExecutionProvider> &&provider)
    {
        cpu_ = provider != nullptr && provider->type == kCpuExecutionProvider;
        return *this;
    }
    void RunWithConfig(size_t * = nullptr, size_t * = nullptr)
    {
        write();
    }
    void Run(ExpectResult expected = ExpectResult::kExpectSuccess, const std::string & = "", const Names &excluded = {},
             const RunOptions * = nullptr, Providers *providers = nullptr,
             ExecutionMode = ExecutionMode::ORT_SEQUENTIAL, const Graph::ResolveOptions & = {})
    {
        expected_ = expected;
        excluded_ = excluded;
        cpu_ = providers == nullptr || has_cpu(*providers);
        write();
    }
    void Run(SessionOptions, ExpectResult expected = ExpectResult::kExpectSuccess, const std::string &text = "",
             const Names &excluded = {}, const RunOptions *options = nullptr, Providers *providers = nullptr,
             const Graph::ResolveOptions & = {}, size_t * = nullptr, size_t * = nullptr)
    {
        Run(expected, text, excluded, options, providers);
    }

  protected:
    bool shaped_ = true;
    int symbolic_ = -1;
    std::map<std::string, std::string> attributes_; /* a name that is set again replaces the attribute */

  private:
    std::string op_, domain_;
    int opset_;
    bool verify_, dropped_ = false, cpu_ = true;
    ExpectResult expected_ = ExpectResult::kExpectSuccess;
    Names excluded_;
    std::vector<Value> inputs_, outputs_;
    /* The test that reads outputs: it may expect them from a later run, which is then unverified. */
    inline static const ::testing::TestInfo *fetched_in_ = nullptr;

    static bool has_cpu(const Providers &providers)
    {
        return std::any_of(providers.begin(), providers.end(),
                           [](auto &one) { return one != nullptr && one->type == kCpuExecutionProvider; });
    }

    template <class T>
    void add(std::vector<Value> &to, const char *name, const std::vector<int64_t> &dims, const T *x, size_t count,
             double relative, double absolute, bool initializer = false, Params params = nullptr)
    {
        Value made;
        made.name = name;
        made.code = ElementType<T>::code;
        made.dims = dims;
        made.initializer = initializer;
        made.relative = relative != 0 ? relative : ElementType<T>::relative;
        made.absolute = absolute != 0 ? absolute : ElementType<T>::absolute;
        if (params != nullptr)
            made.params = *params;
        if constexpr (std::is_same_v<T, std::string>)
            made.texts.assign(x, x + count);
        else
            made.raw.assign(reinterpret_cast<const char *>(x), count * sizeof(T));
        to.push_back(std::move(made));
    }

    template <class T>
    void add_sequence(std::vector<Value> &to, const char *name, const SeqTensors<T> &sequence, double relative,
                      double absolute)
    {
        std::vector<Value> elements;
        for (auto &one : sequence.tensors) {
            std::unique_ptr<T[]> data(new T[one.data.size() + 1]); /* bits of std::vector<bool> are no array */
            std::copy(one.data.begin(), one.data.end(), data.get());
            add(elements, "", one.shape, data.get(), one.data.size(), relative, absolute);
        }
        add<T>(to, name, {}, nullptr, 0, relative, absolute);
        to.back().sequence = true;
        to.back().elements = std::move(elements);
    }

    void write();
};

inline void write_file(const std::filesystem::path &path, const std::string &bytes)
{
    std::ofstream(path, std::ios::binary) << bytes;
}

/* "ATOL_RTOL" of the most tolerant output. */
inline std::string tolerance_of(const std::vector<Value> &outputs)
{
    double absolute = 0, relative = 0;
    char text[64];
    for (const Value &output : outputs) {
        absolute = std::max(absolute, output.absolute);
        relative = std::max(relative, output.relative);
    }
    snprintf(text, sizeof text, "%g_%g", absolute, relative);
    return text;
}

inline void BaseTester::write()
{
    static std::map<std::string, int> runs;
    if (dropped_ || !cpu_ || excluded_.count(kCpuExecutionProvider) != 0)
        return;
    const ::testing::TestInfo *test = ::testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string(test->test_suite_name()) + "." + test->name();
    std::replace_if(
        name.begin(), name.end(), [](char c) { return c == '/' || c == ' '; }, '_');
    name += "_" + std::to_string(runs[name]++);

    const char *kind = expected_ == ExpectResult::kExpectFailure ? "must_fail"
                       : verify_ && test != fetched_in_          ? "cases"
                                                                 : "unverified";
    std::filesystem::path folder = std::filesystem::path(getenv("OUT")) / kind / tolerance_of(outputs_) / name;
    std::filesystem::create_directories(folder / "test_data_set_0");
    Message node, graph, model, opset;
    int newest = 0, count = 0;
    for (Value &input : inputs_) {
        node.text(1, input.name);
        newest = std::max(newest, input.code);
    }
    for (Value &output : outputs_) {
        node.text(2, output.name);
        newest = std::max(newest, output.code);
    }
    node.text(3, "node");
    node.text(4, op_);
    for (const auto &[attribute, bytes] : attributes_)
        node.text(5, bytes);
    node.text(7, domain_);
    graph.text(1, node.bytes);
    graph.text(2, "g");
    for (Value &input : inputs_) {
        if (input.name.empty())
            continue;
        if (input.initializer) {
            graph.text(5, input.tensor());
            continue;
        }
        if (symbolic_ >= 0 && size_t(symbolic_) < input.dims.size()) {
            input.params.assign(input.dims.size(), "");
            input.params[size_t(symbolic_)] = "symbolic";
        }
        graph.text(11, input.info(shaped_));
        write_file(folder / "test_data_set_0" / ("input_" + std::to_string(count++) + ".pb"), input.data());
    }
    count = 0;
    for (Value &output : outputs_) {
        if (output.name.empty())
            continue;
        graph.text(12, output.info(shaped_ && symbolic_ < 0));
        write_file(folder / "test_data_set_0" / ("output_" + std::to_string(count++) + ".pb"), output.data());
    }
    model.integer(1, newest > 23 ? 13 : 10);
    model.text(2, "optester");
    model.text(7, graph.bytes);
    opset.text(1, domain_);
    opset.integer(2, opset_);
    model.text(8, opset.bytes);
    if (!domain_.empty()) {
        opset.bytes.clear();
        opset.integer(2, 21);
        model.text(8, opset.bytes);
    }
    write_file(folder / "model.onnx", model.bytes);
}

class OpTester : public BaseTester
{
  public:
    explicit OpTester(std::string_view op, int opset = 7, std::string_view domain = kOnnxDomain, bool verify = true)
        : BaseTester(op, opset, domain, verify)
    {
    }
    OpTester &AddShapeToTensorData(bool enable = true, int symbolic = -1)
    {
        shaped_ = enable;
        symbolic_ = symbolic;
        return *this;
    }
    template <class T> void AddAttribute(std::string name, T value)
    {
        Message made;
        made.text(1, name);
        if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
            made.integer(20, 2);
            made.integer(3, int64_t(value));
        } else if constexpr (std::is_floating_point_v<T>) {
            made.integer(20, 1);
            made.real(2, float(value));
        } else if constexpr (std::is_convertible_v<T, std::string>) {
            made.integer(20, 3);
            made.text(4, std::string(value));
        } else if constexpr (std::is_same_v<T, onnx::TensorProto>) {
            Message tensor;
            for (int64_t dim : value.dims)
                tensor.integer(1, dim);
            tensor.integer(2, value.type);
            for (const auto &[field, bytes] : value.packed)
                tensor.text(field, bytes);
            for (const std::string &text : value.texts)
                tensor.text(6, text);
            tensor.text(8, value.name);
            made.integer(20, 4);
            made.text(5, tensor.bytes);
        } else {
            using Element = std::remove_cvref_t<decltype(*value.begin())>;
            made.integer(20, std::is_integral_v<Element> ? 7 : std::is_floating_point_v<Element> ? 6 : 8);
            for (auto &one : value) {
                if constexpr (std::is_integral_v<Element>)
                    made.integer(8, int64_t(one));
                else if constexpr (std::is_floating_point_v<Element>)
                    made.real(7, float(one));
                else
                    made.text(9, std::string(one));
            }
        }
        attributes_[name] = made.bytes;
    }
    virtual void AddNodes(Graph &, std::vector<NodeArg *> &, std::vector<NodeArg *> &,
                          std::vector<std::function<void(Node &)>> &)
    {
    }
};

/* Tests of whole model files are not written. */
class ModelTester : public BaseTester
{
  public:
    ModelTester(std::string_view name, const PathString &, int opset = -1) : BaseTester(name, opset, "", true)
    {
        AddReferenceOutputs("");
    }
};

inline std::unique_ptr<IExecutionProvider> DefaultCpuExecutionProvider(bool = true)
{
    return std::make_unique<IExecutionProvider>(IExecutionProvider{ kCpuExecutionProvider });
}
#define NO_PROVIDER(name)                                                                                              \
    template <class... Arguments> std::unique_ptr<IExecutionProvider> name(Arguments &&...)                            \
    {                                                                                                                  \
        return nullptr;                                                                                                \
    }
NO_PROVIDER(DefaultCudaExecutionProvider)
NO_PROVIDER(DefaultCudaNHWCExecutionProvider)
NO_PROVIDER(CudaExecutionProviderWithOptions)
NO_PROVIDER(DefaultDnnlExecutionProvider)
NO_PROVIDER(DnnlExecutionProviderWithOptions)
NO_PROVIDER(DefaultTensorrtExecutionProvider)
NO_PROVIDER(DefaultNvTensorRTRTXExecutionProvider)
NO_PROVIDER(DefaultMIGraphXExecutionProvider)
NO_PROVIDER(DefaultOpenVINOExecutionProvider)
NO_PROVIDER(OpenVINOExecutionProviderWithOptions)
NO_PROVIDER(DefaultNnapiExecutionProvider)
NO_PROVIDER(DefaultVSINPUExecutionProvider)
NO_PROVIDER(DefaultRknpuExecutionProvider)
NO_PROVIDER(DefaultAclExecutionProvider)
NO_PROVIDER(DefaultCoreMLExecutionProvider)
NO_PROVIDER(DefaultSnpeExecutionProvider)
NO_PROVIDER(DefaultQnnExecutionProvider)
NO_PROVIDER(QnnExecutionProviderWithOptions)
NO_PROVIDER(DefaultXnnpackExecutionProvider)
NO_PROVIDER(DefaultWebGpuExecutionProvider)
NO_PROVIDER(WebGpuExecutionProviderWithOptions)
NO_PROVIDER(DefaultCannExecutionProvider)
NO_PROVIDER(DefaultDmlExecutionProvider)
NO_PROVIDER(DefaultRocmExecutionProvider)
#undef NO_PROVIDER

inline int GetCudaArchitecture()
{
    return 0;
}
inline bool HasCudaEnvironment(int)
{
    return false;
}
inline bool NeedSkipIfCudaArchLowerThan(int)
{
    return false;
}
inline bool NeedSkipIfCudaArchGreaterEqualThan(int)
{
    return false;
}
inline bool CudaHasBF16Support()
{
    return false;
}
inline bool DnnlHasBF16Support()
{
    return false;
}

inline const std::unordered_set<std::string> ExcludeTrtOnA100()
{
    return {};
}
inline const std::unordered_set<std::string> &ExcludeTrtOnA100(std::unordered_set<std::string> &excluded)
{
    return excluded;
}

using EnvVarMap = std::map<std::string, std::optional<std::string>>;
struct ScopedEnvironmentVariables {
    ScopedEnvironmentVariables(const EnvVarMap &)
    {
    }
};

inline void ConvertFloatToMLFloat16(const float *from, MLFloat16 *to, size_t count)
{
    std::transform(from, from + count, to, [](float x) { return MLFloat16(x); });
}
inline void ConvertMLFloat16ToFloat(const MLFloat16 *from, float *to, size_t count)
{
    std::transform(from, from + count, to, [](MLFloat16 x) { return x.ToFloat(); });
}
inline void ConvertFloatToUint8_t(const float *from, uint8_t *to, size_t count)
{
    std::transform(from, from + count, to, [](float x) { return uint8_t(x); });
}
inline void ConvertFloatToInt8_t(const float *from, int8_t *to, size_t count)
{
    std::transform(from, from + count, to, [](float x) { return int8_t(x); });
}
inline std::vector<MLFloat16> FloatsToMLFloat16s(const std::vector<float> &from)
{
    std::vector<MLFloat16> to(from.size());
    ConvertFloatToMLFloat16(from.data(), to.data(), to.size());
    return to;
}
inline std::vector<BFloat16> FloatsToBFloat16s(const std::vector<float> &from)
{
    return std::vector<BFloat16>(from.begin(), from.end());
}
inline std::vector<BFloat16> MakeBFloat16(const std::initializer_list<float> &from)
{
    return std::vector<BFloat16>(from.begin(), from.end());
}
} // namespace test
} // namespace onnxruntime

struct OrtEnv {
    onnxruntime::Environment environment;
    onnxruntime::Environment &GetEnvironment()
    {
        return environment;
    }
};
namespace Ort
{
struct Env {
    OrtEnv env;
    OrtEnv &operator*()
    {
        return env;
    }
};
} // namespace Ort

/* MLAS's functions that tests make weights with. Blocks are along the rows of a column; a column is contiguous. */
using MLAS_THREADPOOL = onnxruntime::concurrency::ThreadPool;
enum MLAS_QNBIT_GEMM_COMPUTE_TYPE {
    SQNBIT_CompFp32,
    HQNBIT_CompFp16,
    BHQNBIT_CompBf16,
    SQNBIT_CompInt8,
    HQNBIT_CompInt8
};

template <class T> void MlasQuantizeLinear(const float *from, T *to, size_t count, float scale, T zero_point)
{
    for (size_t i = 0; i < count; i++) {
        float x = std::nearbyint(from[i] / scale) + float(zero_point);
        to[i] = T(std::clamp(x, float(std::numeric_limits<T>::min()), float(std::numeric_limits<T>::max())));
    }
}

template <int bits> struct BlockwiseSizes {
    int blocks, block_bytes, zero_point_bytes; /* of a column */
    BlockwiseSizes(int block_size, int rows)
        : blocks((rows + block_size - 1) / block_size), block_bytes(block_size * bits / 8),
          zero_point_bytes((blocks * bits + 7) / 8)
    {
    }
};
template <int bits>
void MlasBlockwiseQuantizedBufferSizes(int block_size, bool, int rows, int columns, size_t &data_bytes, size_t &scales,
                                       size_t *zero_point_bytes)
{
    BlockwiseSizes<bits> sizes(block_size, rows);
    data_bytes = size_t(columns) * size_t(sizes.blocks * sizes.block_bytes);
    scales = size_t(columns) * size_t(sizes.blocks);
    if (zero_point_bytes != nullptr)
        *zero_point_bytes = size_t(columns) * size_t(sizes.zero_point_bytes);
}
template <class T, int bits>
void MlasBlockwiseQuantizedShape(int block_size, bool, int rows, int columns, int &data_rows, int &data_columns)
{
    BlockwiseSizes<bits> sizes(block_size, rows);
    data_rows = sizes.blocks * sizes.block_bytes;
    data_columns = columns;
}
template <class T, int bits>
void MlasQuantizeBlockwise(uint8_t *to, T *scales, uint8_t *zero_points, const T *from, int block_size, bool, int rows,
                           int columns, int leading_dimension, MLAS_THREADPOOL *)
{
    BlockwiseSizes<bits> sizes(block_size, rows);
    const int top = (1 << bits) - 1;
    for (int n = 0; n < columns; n++) {
        uint8_t *zeros = zero_points == nullptr ? nullptr : zero_points + n * sizes.zero_point_bytes;
        if (zeros != nullptr)
            std::fill(zeros, zeros + sizes.zero_point_bytes, uint8_t(0));
        for (int b = 0; b < sizes.blocks; b++) {
            int first = b * block_size, last = std::min(rows, first + block_size);
            float low = 0, high = 0, scale, zero = float(1 << (bits - 1));
            for (int k = first; k < last; k++) {
                low = std::min(low, float(from[k * leading_dimension + n]));
                high = std::max(high, float(from[k * leading_dimension + n]));
            }
            scale = zeros != nullptr ? (high - low) / float(top) : std::max(-low, high) / (zero - (bits > 1));
            if (zeros != nullptr)
                zero = scale == 0 ? 0 : std::clamp(std::nearbyint(-low / scale), 0.0f, float(top));
            scales[n * sizes.blocks + b] = T(scale);
            if (zeros != nullptr)
                zeros[b * bits / 8] |= uint8_t(int(zero) << (b * bits % 8));
            uint8_t *block = to + (n * sizes.blocks + b) * sizes.block_bytes;
            std::fill(block, block + sizes.block_bytes, uint8_t(0));
            for (int k = 0; k < block_size; k++) {
                float x = first + k < last ? float(from[(first + k) * leading_dimension + n]) : 0;
                float quantized = std::clamp(scale == 0 ? zero : std::nearbyint(x / scale) + zero, 0.0f, float(top));
                block[k * bits / 8] |= uint8_t(int(quantized) << (k * bits % 8));
            }
        }
    }
}
template <class T, int bits>
void MlasDequantizeBlockwise(T *to, const uint8_t *from, const T *scales, const uint8_t *zero_points, int block_size,
                             bool, int rows, int columns, MLAS_THREADPOOL *)
{
    BlockwiseSizes<bits> sizes(block_size, rows);
    const int top = (1 << bits) - 1;
    for (int n = 0; n < columns; n++) {
        for (int k = 0; k < rows; k++) {
            int b = k / block_size, i = k % block_size, zero = 1 << (bits - 1);
            if (zero_points != nullptr)
                zero = zero_points[n * sizes.zero_point_bytes + b * bits / 8] >> (b * bits % 8) & top;
            int x = from[(n * sizes.blocks + b) * sizes.block_bytes + i * bits / 8] >> (i * bits % 8) & top;
            to[n * rows + k] = T(float(x - zero) * float(scales[n * sizes.blocks + b]));
        }
    }
}
template <class... Arguments> bool MlasQNBitGemmScalesPacked(Arguments &&...)
{
    return false;
}
template <class... Arguments> bool MlasIsQNBitGemmAvailable(Arguments &&...)
{
    return false;
}
template <class... Arguments> bool MlasIsLutGemmAvailable(Arguments &&...)
{
    return false;
}
inline bool MlasFp16AccelerationSupported()
{
    return true;
}
#endif
