// The library of custom operators that ONNX Runtime's Java tests load, by its own header for them: in domain
// test.customop, CustomOpOne adds two tensors of float, CustomOpTwo rounds one to int32.
#define ORT_API_MANUAL_INIT
#include "onnxruntime_lite_custom_op.h"
#include <cmath>
#include <memory>

using Ort::Custom::Tensor;

static void add(const Tensor<float> &first, const Tensor<float> &second, Tensor<float> &sum)
{
    float *to = sum.Allocate(first.Shape());

    for (int64_t i = 0; i < first.NumberOfElement(); i++)
        to[i] = first.Data()[i] + second.Data()[i];
}

static void round_to_int(const Tensor<float> &from, Tensor<int32_t> &rounded)
{
    int32_t *to = rounded.Allocate(from.Shape());

    for (int64_t i = 0; i < from.NumberOfElement(); i++)
        to[i] = static_cast<int32_t>(std::lround(from.Data()[i]));
}

extern "C" __attribute__((visibility("default"))) OrtStatus *RegisterCustomOps(OrtSessionOptions *options,
                                                                              const OrtApiBase *base)
{
    Ort::InitApi(base->GetApi(ORT_API_VERSION));
    static const std::unique_ptr<Ort::Custom::OrtLiteCustomOp> one(
        Ort::Custom::CreateLiteCustomOp("CustomOpOne", "CPUExecutionProvider", add));
    static const std::unique_ptr<Ort::Custom::OrtLiteCustomOp> two(
        Ort::Custom::CreateLiteCustomOp("CustomOpTwo", "CPUExecutionProvider", round_to_int));
    static Ort::CustomOpDomain domain("test.customop");
    static const bool added = (domain.Add(one.get()), domain.Add(two.get()), true);

    (void)added;
    Ort::UnownedSessionOptions(options).Add(domain);
    return nullptr;
}
