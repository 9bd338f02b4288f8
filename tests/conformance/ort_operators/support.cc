/* Definitions that ONNX Runtime's tests need from elsewhere in it. */
#include "optester.h"
#include "core/common/status.cc"
#include "core/framework/tensor_shape.cc"
#include "test/common/random_generator.h"
#include "test/common/tensor_op_test_utils.h"
#include "test/contrib_ops/matmul_nbits_prepack_sharing_test_util.h"

std::unique_ptr<Ort::Env> ort_env = std::make_unique<Ort::Env>();

namespace onnxruntime
{
std::vector<std::string> GetStackTrace()
{
    return {};
}

void LogRuntimeError(uint32_t, const common::Status &, const char *, const char *, uint32_t)
{
}

#define SPECIAL_VALUES(type)                                                                                           \
    const type type::NaN(type::FromBits(type::kPositiveQNaNBits));                                                     \
    const type type::NegativeNaN(type::FromBits(type::kNegativeQNaNBits));                                             \
    const type type::Infinity(type::FromBits(type::kPositiveInfinityBits));                                            \
    const type type::NegativeInfinity(type::FromBits(type::kNegativeInfinityBits));                                    \
    const type type::MaxValue(type::FromBits(type::kMaxValueBits));                                                    \
    const type type::MinValue(type::FromBits(type::kMinValueBits));                                                    \
    const type type::Zero(type::FromBits(0));                                                                          \
    const type type::One(type::FromBits(type::kOneBits));                                                              \
    const type type::MinusOne(type::FromBits(type::kMinusOneBits));
SPECIAL_VALUES(MLFloat16)
SPECIAL_VALUES(BFloat16)

namespace test
{
RandomSeedType GetTestRandomSeed()
{
    return 1;
}
void CheckSharedPrepackedWeights(OpTester &tester, PrepackSharingMode, const std::vector<int64_t> &,
                                 std::vector<uint8_t> &)
{
    tester.Run();
}
FixedPatternValueGenerator::FixedPatternValueGenerator() : generator_{ 0 }, output_trace_{ __FILE__, __LINE__, "" }
{
}
} // namespace test
} // namespace onnxruntime
