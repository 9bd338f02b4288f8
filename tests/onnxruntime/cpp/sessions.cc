/* Options, sessions, runs and bindings. */
#include "calls.h"
#include <condition_variable>
#include <cstdio>
#include <mutex>

static const char *const inputs[] = { "x" };
static const char *const outputs[] = { "y", "z" };

void options()
{
    Ort::SessionOptions options;
    Ort::SessionOptions cloned(nullptr);
    OrtCUDAProviderOptions cuda{};
    OrtROCMProviderOptions rocm{};
    OrtMIGraphXProviderOptions migraphx{};
    OrtOpenVINOProviderOptions openvino{};
    OrtTensorRTProviderOptions tensorrt{};

    DO(options.SetIntraOpNumThreads(1));
    DO(options.SetInterOpNumThreads(1));
    DO(options.SetGraphOptimizationLevel(ORT_ENABLE_ALL));
    DO(options.SetGraphOptimizationLevel(static_cast<GraphOptimizationLevel>(50)));
    DO(options.SetDeterministicCompute(true));
    DO(options.EnableCpuMemArena());
    DO(options.DisableCpuMemArena());
    DO(options.EnableMemPattern());
    CALL(options.GetMemPatternEnabled());
    DO(options.DisableMemPattern());
    CALL(options.GetMemPatternEnabled());
    DO(options.SetExecutionMode(ORT_PARALLEL));
    CALL(options.GetExecutionMode());
    DO(options.SetExecutionMode(ORT_SEQUENTIAL));
    DO(options.SetLoadCancellationFlag(false));
    DO(options.SetLogId("calls"));
    DO(options.SetLogSeverityLevel(4));
    DO(options.EnableProfiling("profile"));
    DO(options.DisableProfiling());
    DO(options.SetOptimizedModelFilePath(""));
    DO(options.EnableOrtCustomOps());
    DO(options.AddConfigEntry("session.set_denormal_as_zero", "1"));
    DO(options.AddConfigEntry("session.set_denormal_as_zero", "0"));
    DO(options.AddConfigEntry("", "1"));
    CALL(options.GetConfigEntry("session.set_denormal_as_zero"));
    CALL(options.GetConfigEntry("no.such.key"));
    CALL(options.HasConfigEntry("no.such.key"));
    CALL(options.GetConfigEntryOrDefault("no.such.key", "default"));
    DO(options.AddFreeDimensionOverrideByName("n", 4));
    DO(options.AddFreeDimensionOverride("DATA_BATCH", 1));
    DO(cloned = options.Clone());
    CALL(cloned.GetConst().GetConfigEntry("session.set_denormal_as_zero"));
    DO(options.SetCustomThreadCreationOptions(nullptr));
    DO(options.SetEpSelectionPolicy(OrtExecutionProviderDevicePolicy_PREFER_CPU));
    DO(options.RegisterCustomOpsLibrary("/nonexistent.so"));
    DO(options.RegisterCustomOpsUsingFunction("no_such_function"));
    DO(options.AppendExecutionProvider_V2(environment(), { environment().GetEpDevices().front() },
                                          std::unordered_map<std::string, std::string>{}));
    DO(options.AppendExecutionProvider_V2(environment(), {}, std::unordered_map<std::string, std::string>{}));
    DO(options.AppendExecutionProvider("NoProvider"));
    DO(options.AppendExecutionProvider("QNN"));
    DO(options.AppendExecutionProvider_OpenVINO_V2());
    DO(options.AppendExecutionProvider_OpenVINO(openvino));
    DO(options.AppendExecutionProvider_VitisAI());
    DO(options.AppendExecutionProvider_CUDA(cuda));
    DO(options.AppendExecutionProvider_ROCM(rocm));
    DO(options.AppendExecutionProvider_MIGraphX(migraphx));
    DO(options.AppendExecutionProvider_TensorRT(tensorrt));
    CALL(open(linear_model(), options).GetInputTypeInfo(0).GetTensorTypeAndShapeInfo().GetShape());
    DO(cloned.DisablePerSessionThreads());
    CALL(open(linear_model(), cloned));
}

/* ------------------------------------------------------------------ what a session tells */

static void information(Ort::Session &session)
{
    Ort::AllocatorWithDefaultOptions allocator;
    Ort::ModelMetadata metadata = session.GetModelMetadata();
    Ort::TypeInfo x_type = session.GetInputTypeInfo(0);

    CALL(session.GetInputCount());
    CALL(session.GetOutputCount());
    CALL(session.GetOverridableInitializerCount());
    CALL(session.GetInputNames());
    CALL(session.GetOutputNames());
    CALL(session.GetOverridableInitializerNames());
    CALL(session.GetInputNameAllocated(0, allocator));
    CALL(session.GetInputNameAllocated(1, allocator));
    CALL(session.GetOutputNameAllocated(1, allocator));
    CALL(session.GetOverridableInitializerNameAllocated(0, allocator));
    CALL(session.GetInputTypeInfo(0).GetTensorTypeAndShapeInfo().GetShape());
    CALL(x_type.GetTensorTypeAndShapeInfo().GetSymbolicDimensions());
    CALL(session.GetInputTypeInfo(1));
    CALL(session.GetOutputTypeInfo(1).GetONNXType());
    CALL(session.GetOverridableInitializerTypeInfo(0).GetTensorTypeAndShapeInfo().GetShape());
    CALL(session.GetMemoryInfoForInputs().front().GetAllocatorName());
    CALL(session.GetMemoryInfoForOutputs().size());
    CALL(session.GetEpDeviceForInputs().front().EpName());
    CALL(session.GetEpDeviceForOutputs().size());
    CALL(session.GetProfilingStartTimeNs() > 0);
    CALL(session.GetOpset(""));
    CALL(session.GetOpset("no.such.domain"));
    CALL(session.GetInputs().front().GetName());
    CALL(session.GetOutputs().back().TypeInfo().GetONNXType());
    CALL(session.GetEpGraphAssignmentInfo());
    CALL(session.GetConst().GetInputCount());
    CALL(metadata.GetProducerNameAllocated(allocator));
    CALL(metadata.GetGraphNameAllocated(allocator));
    CALL(metadata.GetDomainAllocated(allocator));
    CALL(metadata.GetDescriptionAllocated(allocator));
    CALL(metadata.GetGraphDescriptionAllocated(allocator));
    CALL(metadata.GetCustomMetadataMapKeysAllocated(allocator));
    CALL(metadata.LookupCustomMetadataMapAllocated("author", allocator));
    CALL(metadata.LookupCustomMetadataMapAllocated("reader", allocator));
    CALL(metadata.GetVersion());
    CALL(Ort::Allocator(session, cpu()).GetInfo().GetAllocatorName());
}

/* ------------------------------------------------------------------ runs */

struct finished {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    std::string result;
};

static void finish(void *user, OrtValue **results, size_t count, OrtStatusPtr status)
{
    finished *state = static_cast<finished *>(user);
    std::lock_guard<std::mutex> lock(state->mutex);

    Ort::Status outcome(status);

    if (!outcome.IsOK())
        std::fprintf(stderr, "RunAsync: %s\n", outcome.GetErrorMessage().c_str());
    state->result = shown(outcome) + ", " + std::to_string(count) + " results";
    (void)results;
    state->done = true;
    state->changed.notify_one();
}

static void runs(Ort::Session &session)
{
    Ort::RunOptions run_options;
    std::vector<float> data = { 1, 2 }, wide = { 1, 2, 3 }, target(2);
    std::vector<Ort::Value> results;
    Ort::Value x = tensor(data, { 1, 2 }), wrong = tensor(wide, { 1, 3 }), y = tensor(target, { 1, 2 });
    const char *const unknown[] = { "unknown" };
    std::vector<int64_t> whole = { 1, 2 };
    const int64_t shape[] = { 1, 2 };
    Ort::Value integers = Ort::Value::CreateTensor<int64_t>(cpu(), whole.data(), 2, shape, 2);

    DO(run_options.SetRunLogVerbosityLevel(1));
    CALL(run_options.GetRunLogVerbosityLevel());
    DO(run_options.SetRunLogSeverityLevel(4));
    CALL(run_options.GetRunLogSeverityLevel());
    DO(run_options.SetRunTag("tag"));
    CALL(run_options.GetRunTag());
    DO(run_options.AddConfigEntry("key", "value"));
    CALL(run_options.GetConfigEntry("key"));
    CALL(run_options.GetConfigEntry("no.such.key"));
    DO(run_options.SetSyncStream(nullptr));
    DO(results = session.Run(run_options, inputs, &x, 1, outputs, 2));
    SHOW(floats(results[0]));
    SHOW(floats(results[1]));
    DO(session.Run(run_options, inputs, &x, 1, outputs, &y, 1));
    SHOW(target);
    CALL(session.Run(run_options, inputs, &wrong, 1, outputs, 2));
    CALL(session.Run(run_options, inputs, &integers, 1, outputs, 2));
    CALL(session.Run(run_options, unknown, &x, 1, outputs, 2));
    CALL(session.Run(run_options, inputs, &x, 1, unknown, 1));
    CALL(session.Run(run_options, inputs, &x, 0, outputs, 1));
    CALL(session.Run(run_options, inputs, &x, 1, outputs, 0));
    DO(run_options.SetTerminate());
    CALL(session.Run(run_options, inputs, &x, 1, outputs, 2));
    DO(run_options.UnsetTerminate());
    CALL(session.Run(run_options, inputs, &x, 1, outputs, 2));
    DO(session.SetEpDynamicOptions(nullptr, nullptr, 0));
    DO(session.ReleaseCapturedGraph(0));

    finished state;
    Ort::Value asynchronous[1] = { Ort::Value(nullptr) };
    DO(session.RunAsync(run_options, inputs, &x, 1, outputs, asynchronous, 1, finish, &state));
    std::unique_lock<std::mutex> lock(state.mutex);
    state.changed.wait(lock, [&] { return state.done; });
    SHOW(state.result);
    if (asynchronous[0] != nullptr)
        SHOW(floats(asynchronous[0]));
}

/* Initializers of a program instead of those in the model. */
static void initializers()
{
    std::vector<float> ten = { 10, 10 }, data = { 1, 2 }, three = { 1, 2, 3 };
    Ort::Value b = tensor(ten, { 2 }), x = tensor(data, { 1, 2 }), wrong = tensor(three, { 3 });
    Ort::SessionOptions replaced, twice, unknown, external, shared;
    std::vector<Ort::Value> values;
    Ort::PrepackedWeightsContainer container;

    DO(replaced.AddInitializer("b", b));
    CALL(floats(open(linear_model(), replaced).Run(Ort::RunOptions(), inputs, &x, 1, outputs, 1)[0]));
    DO(twice.AddInitializer("b", b));
    DO(twice.AddInitializer("b", b));
    DO(unknown.AddInitializer("unknown", b));
    CALL(open(linear_model(), unknown));
    values.push_back(tensor(ten, { 2 }));
    DO(external.AddExternalInitializers({ "b" }, values));
    DO(external.AddExternalInitializers({ "b" }, values));
    CALL(Ort::Session(environment(), linear_model().data, linear_model().count, shared, container).GetInputCount());
    CALL(Ort::Session(environment(), linear_model().data, linear_model().count, shared, container).GetInputCount());
}

/* Weights of a file that is in memory. */
static void files_in_memory()
{
    static const int64_t two[] = { 2 };
    static char weights[] = { 0, 0, 0x20, 0x41, 0, 0, 0, 0x41 }; /* 10 and 8 */
    static onnx_bytes graph, tensor_proto, location, file;
    std::vector<float> data = { 1, 2 };
    Ort::Value x = tensor(data, { 2 });
    Ort::SessionOptions options;

    onnx_node(&graph, "Add", "", "x,b", "y");
    onnx_input(&graph, "x", INLAY_FLOAT, 1, two);
    onnx_output(&graph, "y", INLAY_FLOAT, 1, two);
    onnx_number(&tensor_proto, 1, 2);
    onnx_number(&tensor_proto, 2, INLAY_FLOAT);
    onnx_text(&tensor_proto, 8, "b");
    onnx_text(&location, 1, "location");
    onnx_text(&location, 2, "weights.bin");
    onnx_message(&tensor_proto, 13, &location);
    onnx_number(&tensor_proto, 14, 1);
    onnx_message(&graph, 5, &tensor_proto);
    if (onnx_file(&file, &graph, 17, nullptr) != 0)
        std::abort();
    CALL(open(file, options));
    DO(options.AddExternalInitializersFromFilesInMemory({ "weights.bin" }, { weights }, { sizeof weights }));
    CALL(floats(open(file, options).Run(Ort::RunOptions(), inputs, &x, 1, outputs, 1)[0]));
}

static void profiles()
{
    Ort::AllocatorWithDefaultOptions allocator;
    std::vector<float> data = { 1, 2 };
    Ort::Value x = tensor(data, { 1, 2 });
    Ort::SessionOptions options;
    Ort::RunOptions run_options;

    DO(options.EnableProfiling("session_profile"));
    Ort::Session session = open(linear_model(), options);
    CALL(session.Run(run_options, inputs, &x, 1, outputs, 2));
    CALL(std::string(session.EndProfilingAllocated(allocator).get()).rfind("session_profile", 0));
    DO(run_options.EnableProfiling("run_profile"));
    CALL(session.Run(run_options, inputs, &x, 1, outputs, 2));
    DO(run_options.DisableProfiling());
}

void sessions()
{
    Ort::SessionOptions options;
    onnx_bytes damaged = linear_model();

    CALL(Ort::Session(environment(), "/nonexistent.onnx", options));
    CALL(Ort::Session(environment(), nullptr, 0, options));
    damaged.count /= 2;
    CALL(open(damaged, options));
    options.SetIntraOpNumThreads(2);
    Ort::Session session = open(linear_model(), options);
    information(session);
    runs(session);
    initializers();
    files_in_memory();
    profiles();
    std::FILE *file = std::fopen("linear.onnx", "wb");
    std::fwrite(linear_model().data, 1, linear_model().count, file);
    std::fclose(file);
    CALL(Ort::Session(environment(), "linear.onnx", options).GetInputCount());
    DO(options.SetOptimizedModelFilePath("optimised.onnx"));
    CALL(Ort::Session(environment(), "linear.onnx", options).GetInputCount());
    CALL(Ort::Session(environment(), "optimised.onnx", Ort::SessionOptions()).GetInputCount());
    DO(options.AddConfigEntry("session.save_model_format", "ORT"));
    DO(options.SetOptimizedModelFilePath("optimised.ort"));
    DO(options.SetLoadCancellationFlag(true));
    CALL(Ort::Session(environment(), "linear.onnx", options));
    CALL(Ort::GetCompatibilityInfoFromModelAllocated("linear.onnx", "CPUExecutionProvider",
                                                     Ort::AllocatorWithDefaultOptions()));
    CALL(Ort::GetCompatibilityInfoFromModelBytesAllocated(linear_model().data, linear_model().count,
                                                          "CPUExecutionProvider", Ort::AllocatorWithDefaultOptions()));
}

/* ------------------------------------------------------------------ bindings */

void bindings()
{
    Ort::Session session = open(linear_model(), Ort::SessionOptions());
    Ort::AllocatorWithDefaultOptions allocator;
    Ort::IoBinding binding(session), wrong_names(session);
    std::vector<float> data = { 1, 2 }, target(2), wide = { 1, 2, 3 };
    Ort::Value x = tensor(data, { 1, 2 }), y = tensor(target, { 1, 2 }), wrong = tensor(wide, { 1, 3 });

    DO(session.Run(Ort::RunOptions(), binding));
    DO(binding.BindInput("x", x));
    DO(wrong_names.BindInput("unknown", x));
    DO(wrong_names.BindOutput("unknown", cpu()));
    DO(binding.BindInput("x", wrong));
    DO(session.Run(Ort::RunOptions(), binding));
    DO(binding.BindInput("x", x));
    DO(binding.BindOutput("y", y));
    DO(binding.BindOutput("z", cpu()));
    DO(binding.SynchronizeInputs());
    DO(session.Run(Ort::RunOptions(), binding));
    DO(binding.SynchronizeOutputs());
    SHOW(target);
    CALL(binding.GetOutputNames());
    CALL(binding.GetOutputNames(allocator));
    CALL(binding.GetOutputValues().size());
    CALL(floats(binding.GetOutputValues(allocator)[1]));
    CALL(binding.GetConst().GetOutputNames());
    data[0] = 5;
    DO(session.Run(Ort::RunOptions(), binding));
    SHOW(target);
    DO(binding.ClearBoundOutputs());
    CALL(binding.GetOutputNames());
    DO(binding.ClearBoundInputs());
    DO(session.Run(Ort::RunOptions(), binding));
}
