/* Custom operators for ONNX Runtime, which are a plugin of inlay, too: only the include differs. */
#define ORT_API_MANUAL_INIT /* as libraries that ONNX Runtime loads do */
#ifdef FOR_ONNXRUNTIME
#include "onnxruntime_lite_custom_op.h"
#else
#include "inlay/ort_lite.hpp"
#endif
#include <algorithm>
#include <memory>
#include <stdexcept>

using Ort::Custom::Tensor;

/* z = x + scale * y */
static void AddScaled(const Tensor<float> &x, const Tensor<float> &y, float scale, Tensor<float> &z)
{
    if (x.NumberOfElement() != y.NumberOfElement())
        throw std::runtime_error("x and y differ in size");
    float *out = z.Allocate(x.Shape());
    for (int64_t i = 0; i < x.NumberOfElement(); i++)
        out[i] = x.Data()[i] + scale * y.Data()[i];
}

/* The elements above the bound of the node; their number is known only in the run. */
struct Above {
    Above(const OrtApi *, const OrtKernelInfo *info) : bound(Ort::ConstKernelInfo(info).GetAttribute<float>("bound")) {}
    Ort::Status Compute(const Tensor<float> &x, std::optional<const Tensor<int64_t> *> most, Tensor<float> &y)
    {
        std::vector<float> found;
        const size_t limit = most.has_value() ? static_cast<size_t>(*(*most)->Data()) : SIZE_MAX;

        for (int64_t i = 0; i < x.NumberOfElement() && found.size() < limit; i++)
            if (x.Data()[i] > bound)
                found.push_back(x.Data()[i]);
        float *out = y.Allocate({ static_cast<int64_t>(found.size()) });
        std::copy(found.begin(), found.end(), out);
        return Ort::Status{ nullptr };
    }
    float bound;
};

/* Joins the words of a tensor, and of any further ones. */
static void Join(const Tensor<std::string> &words, const Ort::Custom::Variadic &others, Tensor<std::string> &all)
{
    std::string text;

    for (const std::string &word : words.Data())
        text += word;
    for (size_t i = 0; i < others.Size(); i++)
        text += "+" + std::to_string(others[i]->NumberOfElement());
    all.SetStringOutput({ text }, { 1 });
}

extern "C" ORT_EXPORT OrtStatus *ORT_API_CALL RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base)
{
    using Ort::Custom::OrtLiteCustomOp;
    static Ort::CustomOpDomain domain{ "com.example.lite" };
    static const std::unique_ptr<OrtLiteCustomOp> ops[] = {
        std::unique_ptr<OrtLiteCustomOp>{
            Ort::Custom::CreateLiteCustomOp("AddScaled", "CPUExecutionProvider", AddScaled) },
        std::unique_ptr<OrtLiteCustomOp>{ Ort::Custom::CreateLiteCustomOp<Above>("Above", "CPUExecutionProvider") },
        std::unique_ptr<OrtLiteCustomOp>{ Ort::Custom::CreateLiteCustomOp("Join", "CPUExecutionProvider", Join) },
    };

    Ort::InitApi(base->GetApi(ORT_API_VERSION));
    for (const auto &op : ops)
        domain.Add(op.get());
    Ort::UnownedSessionOptions{ options }.Add(domain);
    return nullptr;
}
