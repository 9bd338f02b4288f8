/* Custom operators: what a kernel learns of its node, inputs and outputs, and the operators that it calls. */
#include "calls.h"
#include <onnxruntime_lite_custom_op.h>
#include <atomic>

static std::atomic<int> parts;

static void count_part(void *, size_t)
{
    parts++;
}

/* y = x * by + c, where c is a constant; computed by the operator Mul, called from the kernel. */
struct scale_kernel {
    explicit scale_kernel(const OrtKernelInfo *kernel_info);
    void Compute(OrtKernelContext *kernel_context);

    Ort::Op multiply{ nullptr };
    float by = 0;
    std::vector<float> added;
};

scale_kernel::scale_kernel(const OrtKernelInfo *kernel_info)
{
    Ort::ConstKernelInfo info(kernel_info);
    Ort::AllocatorWithDefaultOptions allocator;
    const char *constraint = "T";
    ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
    int is_constant = 0;

    DO(by = info.GetAttribute<float>("by"));
    CALL(info.GetAttribute<float>("missing"));
    CALL(info.GetAttribute<int64_t>("by"));
    CALL(info.GetAttribute<int64_t>("whole"));
    CALL(info.GetAttribute<std::string>("text"));
    CALL(info.GetAttributes<float>("floats"));
    CALL(info.GetAttributes<int64_t>("ints"));
    CALL(info.GetAttributes<std::string>("texts"));
    CALL(info.GetTensorAttribute("tensor", allocator).GetTensorData<float>()[1]);
    CALL(info.GetTensorAttribute("missing", allocator));
    CALL(info.GetInputCount());
    CALL(info.GetOutputCount());
    CALL(info.GetInputName(0));
    CALL(info.GetInputName(2));
    CALL(info.GetOutputName(0));
    CALL(info.GetInputTypeInfo(0).GetTensorTypeAndShapeInfo().GetElementType());
    CALL(info.GetOutputTypeInfo(0).GetTensorTypeAndShapeInfo().GetShape());
    CALL(info.GetTensorConstantInput(0, &is_constant) != nullptr);
    SHOW(is_constant);
    CALL(info.GetTensorConstantInput(1, &is_constant).GetTensorData<float>()[1]);
    SHOW(is_constant);
    CALL(info.GetNodeName());
    CALL(info.GetOperatorDomain());
    CALL(info.GetOperatorType());
    CALL(info.GetOperatorSinceVersion());
    Ort::KeyValuePairs entries = info.GetConfigEntries();
    CALL(entries.GetValue("calls.key"));
    CALL(info.GetLogger().LogMessage(ORT_LOGGING_LEVEL_VERBOSE, "file", 1, "function", "message"));
    CALL(info.Copy());
    CALL(info.GetEp() != nullptr);
    CALL(Ort::OpAttr("name", &by, 1, ORT_OP_ATTR_FLOAT).GetName());
    CALL(Ort::OpAttr("name", &by, 1, ORT_OP_ATTR_FLOAT).GetType());
    CALL(Ort::Op::Create(info, "NoSuchOperator", "", 14, &constraint, &type, 1, nullptr, 0, 2, 1) == nullptr);
    DO(multiply = Ort::Op::Create(info, "Mul", "", 14, &constraint, &type, 1, nullptr, 0, 2, 1));
    added = { 1, 2 };
}

void scale_kernel::Compute(OrtKernelContext *kernel_context)
{
    Ort::KernelContext context(kernel_context);
    std::vector<float> factors = { by, by };
    Ort::Value factor = tensor(factors, { 2 });
    std::vector<int64_t> shape;

    CALL(context.GetInputCount());
    CALL(context.GetOutputCount());
    CALL(context.GetInput(1).GetTensorData<float>()[0]);
    CALL(context.GetInput(2) == nullptr);
    CALL(context.GetGPUComputeStream());
    CALL(context.GetSyncStream());
    CALL(context.GetLogger().LogFormattedMessage(ORT_LOGGING_LEVEL_VERBOSE, "file", 1, "function", "message %d", 1));
    CALL(context.GetAllocator(*static_cast<const OrtMemoryInfo *>(cpu())).GetInfo().GetAllocatorName());
    DO(context.ParallelFor(count_part, 10, 0, nullptr));
    SHOW(parts.load());
    DO(shape = context.GetInput(0).GetTensorTypeAndShapeInfo().GetShape());
    SHOW(shape);
    Ort::UnownedValue y = context.GetOutput(0, shape);
    const OrtValue *operands[] = { static_cast<const OrtValue *>(context.GetInput(0)), factor };
    OrtValue *product = y;
    DO(multiply.Invoke(kernel_context, operands, 2, &product, 1));
    for (size_t i = 0; i < added.size(); i++)
        y.GetTensorMutableData<float>()[i] += added[i];
}

struct scale_op : Ort::CustomOpBase<scale_op, scale_kernel> {
    void *CreateKernel(const OrtApi &, const OrtKernelInfo *info) const
    {
        return new scale_kernel(info);
    }
    const char *GetName() const
    {
        return "Scale";
    }
    size_t GetInputTypeCount() const
    {
        return 2;
    }
    ONNXTensorElementDataType GetInputType(size_t) const
    {
        return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
    }
    size_t GetOutputTypeCount() const
    {
        return 1;
    }
    ONNXTensorElementDataType GetOutputType(size_t) const
    {
        return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
    }
    static Ort::Status InferOutputShape(Ort::ShapeInferContext &context);
};

/* Prints once: a library may infer shapes as often as it likes. */
Ort::Status scale_op::InferOutputShape(Ort::ShapeInferContext &context)
{
    static bool printed;

    if (!printed) {
        printed = true;
        CALL(context.GetInputCount());
        CALL(context.GetInputShape(0).front().AsInt());
        CALL(context.GetAttrFloat("by"));
        CALL(context.GetAttrInt("whole"));
        CALL(context.GetAttrString("text"));
        CALL(context.GetAttrFloats("floats"));
        CALL(context.GetAttrInts("ints"));
        CALL(context.GetAttrStrings("texts"));
        CALL(context.GetAttrInt("missing"));
    }
    return context.SetOutputShape(0, context.GetInputShape(0));
}

/* A kernel written as a function. */
static Ort::Status negate(const Ort::Custom::Tensor<float> &x, Ort::Custom::Tensor<float> &y)
{
    float *out = y.Allocate(x.Shape());

    for (int64_t i = 0; i < x.NumberOfElement(); i++)
        out[i] = -x.Data()[i];
    return Ort::Status(nullptr);
}

static void add_attribute(onnx_bytes *node, const char *name, int64_t type, const onnx_bytes &value)
{
    onnx_bytes attribute = value;

    onnx_text(&attribute, 1, name);
    onnx_number(&attribute, 20, type);
    onnx_message(node, 5, &attribute);
}

/* A node Scale with an attribute of each type, then Negate. */
static const onnx_bytes &scale_model()
{
    static const int64_t two[] = { 2 };
    static const float pair[] = { 0.25f, 0.5f };
    static onnx_bytes graph, file, node, by, whole, text, floats_value, ints, texts, in_tensor, tensor_value;
    const float half = 0.5f;

    if (file.count > 0)
        return file;
    onnx_names(&node, 1, "x,c");
    onnx_names(&node, 2, "t");
    onnx_text(&node, 3, "scale");
    onnx_text(&node, 4, "Scale");
    onnx_text(&node, 7, "calls");
    onnx_varint(&by, 2 << 3 | 5);
    onnx_put(&by, &half, sizeof half);
    onnx_number(&whole, 3, 7);
    onnx_text(&text, 4, "some text");
    onnx_blob(&floats_value, 7, pair, sizeof pair);
    onnx_number(&ints, 8, 3);
    onnx_number(&ints, 8, 4);
    onnx_text(&texts, 9, "one");
    onnx_text(&texts, 9, "two");
    onnx_tensor(&in_tensor, "", INLAY_FLOAT, 1, two, pair, sizeof pair);
    onnx_message(&tensor_value, 5, &in_tensor);
    add_attribute(&node, "by", 1, by);
    add_attribute(&node, "whole", 2, whole);
    add_attribute(&node, "text", 3, text);
    add_attribute(&node, "tensor", 4, tensor_value);
    add_attribute(&node, "floats", 6, floats_value);
    add_attribute(&node, "ints", 7, ints);
    add_attribute(&node, "texts", 8, texts);
    onnx_message(&graph, 1, &node);
    onnx_node(&graph, "Negate", "calls", "t", "y");
    onnx_input(&graph, "x", INLAY_FLOAT, 1, two);
    onnx_constant(&graph, "c", INLAY_FLOAT, 1, two, pair, sizeof pair);
    onnx_output(&graph, "y", INLAY_FLOAT, 1, two);
    if (onnx_file(&file, &graph, 17, "calls") != 0)
        std::abort();
    return file;
}

void kernels()
{
    static scale_op scale;
    std::unique_ptr<Ort::Custom::OrtLiteCustomOp> lite(
        Ort::Custom::CreateLiteCustomOp("Negate", "CPUExecutionProvider", negate));
    Ort::SessionOptions options;
    Ort::CustomOpDomain domain("calls");
    Ort::CustomOpConfigs configs;
    std::vector<float> data = { 2, 4 };
    Ort::Value x = tensor(data, { 2 });
    const char *inputs[] = { "x" }, *outputs[] = { "y" };

    DO(configs.AddConfig("Scale", "key", "value"));
    SHOW(configs.GetFlattenedConfigs().begin()->first);
    DO(domain.Add(&scale));
    DO(domain.Add(lite.get()));
    DO(options.Add(domain));
    DO(options.AddConfigEntry("calls.key", "an entry"));
    DO(options.SetIntraOpNumThreads(1));
    CALL(open(scale_model(), Ort::SessionOptions()));
    Ort::Session session = open(scale_model(), options);
    CALL(floats(session.Run(Ort::RunOptions(), inputs, &x, 1, outputs, 1)[0]));
}
