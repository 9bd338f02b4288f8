/* Models that a program builds, extends and compiles; LoRA adapters. */
#include "calls.h"
#include <cstring>

static const char *const inputs[] = { "x" };

static Ort::ValueInfo port(const char *name, const std::vector<int64_t> &shape)
{
    Ort::TensorTypeAndShapeInfo info(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, shape);

    return Ort::ValueInfo(name, Ort::TypeInfo::CreateTensorInfo(info.GetConst()).GetConst());
}

static Ort::Value ones(size_t count)
{
    Ort::AllocatorWithDefaultOptions allocator;
    const int64_t dims[] = { static_cast<int64_t>(count) };
    Ort::Value value = Ort::Value::CreateTensor<float>(allocator, dims, 1);

    std::fill_n(value.GetTensorMutableData<float>(), count, 1.0f);
    return value;
}

/* out = LeakyRelu(in + c), c [2] of ones */
static Ort::Model built(const char *in, const char *out)
{
    Ort::Graph graph;
    Ort::Model model({ { "", 18 } });
    std::vector<Ort::ValueInfo> ports_in, ports_out;
    std::vector<Ort::OpAttr> attributes;
    const float alpha = 0.5f;
    Ort::Value initializer = ones(2);

    ports_in.push_back(port(in, { -1, 2 }));
    ports_out.push_back(port(out, { -1, 2 }));
    DO(graph.SetInputs(ports_in));
    DO(graph.SetOutputs(ports_out));
    DO(graph.AddInitializer("c", initializer, false));
    attributes.emplace_back("alpha", &alpha, 1, ORT_OP_ATTR_FLOAT);
    Ort::Node add("Add", "", "add", { in, "c" }, { "sum" });
    Ort::Node leaky("LeakyRelu", "", "leaky", { "sum" }, { out }, attributes);
    CALL(add.GetName());
    CALL(add.GetOperatorType());
    CALL(add.GetDomain());
    CALL(add.GetSinceVersion());
    CALL(add.GetInputs().size());
    CALL(leaky.GetAttributes().size());
    CALL(leaky.GetEpName());
    CALL(leaky.GetId());
    DO(graph.AddNode(add));
    DO(graph.AddNode(leaky));
    CALL(graph.GetName());
    CALL(graph.GetNodes().size());
    CALL(graph.GetInputs().size());
    CALL(graph.GetInitializers().size());
    CALL(graph.GetOnnxIRVersion());
    CALL(graph.GetOperatorSets().size());
    CALL(graph.GetModelPath());
    CALL(graph.GetModelMetadata());
    CALL(graph.GetParentNode() == nullptr);
    DO(model.AddGraph(graph));
    return model;
}

static void building()
{
    Ort::Model model = built("x", "y");
    Ort::ValueInfo info = port("name", { 1 });
    std::vector<float> data = { 1, -3 };
    Ort::Value x = tensor(data, { 1, 2 });
    const char *outputs[] = { "y" };

    CALL(info.GetName());
    CALL(info.TypeInfo().GetTensorTypeAndShapeInfo().GetShape());
    CALL(info.IsGraphOutput());
    CALL(info.IsRequiredGraphInput());
    CALL(info.IsConstantInitializer());
    CALL(info.GetConsumers());
    CALL(info.GetProducerNode().index);
    Ort::Session session(environment(), model, Ort::SessionOptions());
    CALL(floats(session.Run(Ort::RunOptions(), inputs, &x, 1, outputs, 1)[0]));
}

/* A node behind the outputs of a model that is there. */
static void extending()
{
    Ort::SessionOptions options;
    Ort::Session session =
        Ort::Session::CreateModelEditorSession(environment(), linear_model().data, linear_model().count, options);
    Ort::Graph graph;
    Ort::Model model({ { "", 17 } });
    std::vector<Ort::ValueInfo> outputs;
    std::vector<float> data = { 1, -3 };
    Ort::Value x = tensor(data, { 1, 2 });
    const char *names[] = { "positive" };

    CALL(session.GetOpset(""));
    CALL(session.Run(Ort::RunOptions(), inputs, &x, 1, names, 1));
    outputs.push_back(port("positive", { -1, 2 }));
    DO(graph.SetOutputs(outputs));
    Ort::Node abs("Abs", "", "abs", { "z" }, { "positive" });
    DO(graph.AddNode(abs));
    DO(model.AddGraph(graph));
    DO(session.FinalizeModelEditorSession(model, options));
    CALL(session.GetOutputNames());
    CALL(floats(session.Run(Ort::RunOptions(), inputs, &x, 1, names, 1)[0]));
}

/* ------------------------------------------------------------------ compiled models */

static OrtStatus *ORT_API_CALL count_bytes(void *state, const void *, size_t bytes)
{
    *static_cast<size_t *>(state) += bytes;
    return nullptr;
}

static OrtStatus *ORT_API_CALL keep_inside(void *, const char *, const OrtValue *, const OrtExternalInitializerInfo *,
                                           OrtExternalInitializerInfo **out)
{
    *out = nullptr;
    return nullptr;
}

static void compiling()
{
    Ort::AllocatorWithDefaultOptions allocator;
    Ort::SessionOptions session_options;
    Ort::ModelCompilationOptions options(environment(), session_options);
    Ort::ModelCompilationOptions constant(environment(), session_options.GetConst());
    void *buffer = nullptr;
    size_t bytes = 0, written = 0;
    std::vector<float> data = { 1, -3 };
    Ort::Value x = tensor(data, { 1, 2 });
    const char *outputs[] = { "y" };

    CALL(Ort::CompileModel(environment(), options));
    DO(options.SetInputModelFromBuffer(linear_model().data, linear_model().count));
    DO(options.SetEpContextEmbedMode(false));
    DO(options.SetFlags(0));
    DO(options.SetGraphOptimizationLevel(ORT_ENABLE_BASIC));
    DO(options.SetEpContextBinaryInformation("./", "model"));
    DO(options.SetOutputModelBuffer(allocator, &buffer, &bytes));
    CALL(Ort::CompileModel(environment(), options));
    if (buffer != nullptr) {
        Ort::Session session(environment(), buffer, bytes, Ort::SessionOptions());
        CALL(floats(session.Run(Ort::RunOptions(), inputs, &x, 1, outputs, 1)[0]));
        allocator.Free(buffer);
    }
    DO(constant.SetInputModelPath("linear.onnx"));
    DO(constant.SetOutputModelGetInitializerLocationFunc(keep_inside, nullptr));
    DO(constant.SetOutputModelWriteFunc(count_bytes, &written));
    CALL(Ort::CompileModel(environment(), constant));
    SHOW(written > 0);
    Ort::ModelCompilationOptions to_file(environment(), session_options);
    DO(to_file.SetInputModelPath("linear.onnx"));
    DO(to_file.SetOutputModelPath("compiled.onnx"));
    DO(to_file.SetOutputModelExternalInitializersFile("compiled.bin", 0));
    CALL(Ort::CompileModel(environment(), to_file));
    CALL(Ort::Session(environment(), "compiled.onnx", Ort::SessionOptions()).GetInputCount());
    Ort::ModelCompilationOptions from_model(environment(), session_options);
    Ort::Model model = built("x", "y");
    written = 0;
    DO(from_model.SetInputModel(model));
    DO(from_model.SetOutputModelWriteFunc(count_bytes, &written));
    CALL(Ort::CompileModel(environment(), from_model));
    SHOW(written > 0);
    DO(from_model.SetWeightlessEnabled(true));
    DO(options.SetInputModelPath(""));
}

static void adapters()
{
    const char damaged[] = "no adapter";
    Ort::RunOptions run_options;

    CALL(Ort::LoraAdapter::CreateLoraAdapter("/nonexistent.onnx_adapter", nullptr));
    CALL(Ort::LoraAdapter::CreateLoraAdapterFromArray(damaged, sizeof damaged, nullptr));
}

void models()
{
    building();
    extending();
    compiling();
    adapters();
}
