/* Environments, memory, and what the other files share. */
#include "calls.h"

static int printed;

void print_call(const char *text, const std::string &result)
{
    std::printf("%s: %s\n", text, result.c_str());
    printed++;
}

Ort::Env &environment()
{
    static Ort::Env env(ORT_LOGGING_LEVEL_FATAL, "calls");

    return env;
}

const Ort::MemoryInfo &cpu()
{
    static Ort::MemoryInfo info = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);

    return info;
}

std::vector<float> floats(const Ort::Value &value)
{
    const float *data = value.GetTensorData<float>();

    return std::vector<float>(data, data + value.GetTensorTypeAndShapeInfo().GetElementCount());
}

Ort::Value tensor(std::vector<float> &data, std::vector<int64_t> shape)
{
    return Ort::Value::CreateTensor<float>(cpu(), data.data(), data.size(), shape.data(), shape.size());
}

const onnx_bytes &linear_model()
{
    static const int64_t rows[] = { -1, 2 }, two[] = { 2 };
    static const float ones[] = { 1, 1 };
    static onnx_bytes graph, file, entry;

    if (file.count > 0)
        return file;
    onnx_node(&graph, "Add", "", "x,b", "y");
    onnx_node(&graph, "Neg", "", "y", "z");
    onnx_input(&graph, "x", INLAY_FLOAT, 2, rows);
    onnx_input(&graph, "b", INLAY_FLOAT, 1, two);
    onnx_constant(&graph, "b", INLAY_FLOAT, 1, two, ones, sizeof ones);
    onnx_output(&graph, "y", INLAY_FLOAT, 2, rows);
    onnx_output(&graph, "z", INLAY_FLOAT, 2, rows);
    if (onnx_file(&file, &graph, 17, nullptr) != 0)
        std::abort();
    onnx_text(&file, 2, "a maker");
    onnx_text(&file, 4, "com.example");
    onnx_number(&file, 5, 42);
    onnx_text(&file, 6, "adds");
    onnx_text(&entry, 1, "author");
    onnx_text(&entry, 2, "an author");
    onnx_message(&file, 14, &entry);
    return file;
}

Ort::Session open(const onnx_bytes &file, const Ort::SessionOptions &options)
{
    return Ort::Session(environment(), file.data, file.count, options);
}

/* ------------------------------------------------------------------ environments and devices */

static void ORT_API_CALL log_nothing(void *, OrtLoggingLevel, const char *, const char *, const char *, const char *)
{
}

static OrtCustomThreadHandle start_no_thread(void *, OrtThreadWorkerFn, void *)
{
    return nullptr;
}

static void join_no_thread(OrtCustomThreadHandle)
{
}

void environments()
{
    Ort::ThreadingOptions threads;
    OrtEnvCreationOptions creation{};

    DO(threads.SetGlobalIntraOpNumThreads(1));
    DO(threads.SetGlobalInterOpNumThreads(1));
    DO(threads.SetGlobalSpinControl(0));
    DO(threads.SetGlobalDenormalAsZero());
    DO(threads.SetGlobalCustomCreateThreadFn(start_no_thread));
    DO(threads.SetGlobalCustomThreadCreationOptions(nullptr));
    DO(threads.SetGlobalCustomJoinThreadFn(join_no_thread));
    DO(environment());
    CALL(Ort::Env(ORT_LOGGING_LEVEL_FATAL, "calls", log_nothing, nullptr));
    creation.version = ORT_API_VERSION;
    creation.logging_severity_level = ORT_LOGGING_LEVEL_FATAL;
    creation.log_id = "calls";
    CALL(Ort::Env(&creation));
    DO(environment().EnableTelemetryEvents());
    DO(environment().DisableTelemetryEvents());
    DO(environment().UpdateEnvWithCustomLogLevel(ORT_LOGGING_LEVEL_FATAL));
    CALL(Ort::GetVersionString());
    CALL(!Ort::GetBuildInfoString().empty());
    CALL(Ort::GetAvailableProviders().back());
    CALL(Ort::Status("reason", ORT_FAIL));
    CALL(Ort::Status("reason", ORT_INVALID_GRAPH).GetErrorMessage());
    CALL(environment().GetNumHardwareDevices() > 0);
    CALL(environment().GetHardwareDevices().front().Type());
    CALL(environment().GetHardwareDevices().front().Vendor() != nullptr);
    CALL(environment().GetHardwareDevices().front().DeviceId());
    DO(environment().GetHardwareDevices().front().Metadata().GetKeyValuePairs());
    std::vector<Ort::ConstEpDevice> devices = environment().GetEpDevices();
    SHOW(devices.size());
    CALL(devices[0].EpName());
    CALL(devices[0].EpVendor());
    CALL(devices[0].EpMetadata().GetValue("version"));
    CALL(devices[0].EpOptions().GetKeyValuePairs().size());
    CALL(devices[0].Device().Type());
    CALL(devices[0].GetMemoryInfo(OrtDeviceMemoryType_DEFAULT) == nullptr);
    CALL(devices[0].CreateSyncStream());
    Ort::DeviceEpIncompatibilityDetails details =
        environment().GetHardwareDeviceEpIncompatibilityDetails("CPUExecutionProvider", devices[0].Device());
    CALL(details.GetReasonsBitmask());
    CALL(details.GetErrorCode());
    CALL(environment().GetHardwareDeviceEpIncompatibilityDetails("NoProvider", devices[0].Device()).GetNotes());
    CALL(Ort::GetModelCompatibilityForEpDevices({ devices[0] }, "information"));
    DO(environment().RegisterExecutionProviderLibrary("none", "/nonexistent.so"));
    DO(environment().UnregisterExecutionProviderLibrary("none"));
}

/* ------------------------------------------------------------------ memory */

void memory()
{
    Ort::AllocatorWithDefaultOptions allocator;
    Ort::MemoryInfo device("Cpu", OrtDeviceAllocator, 0, OrtMemTypeDefault);
    Ort::KeyValuePairs pairs(std::unordered_map<std::string, std::string>{ { "a", "1" } });

    CALL(cpu().GetAllocatorName());
    CALL(cpu().GetAllocatorType());
    CALL(cpu().GetDeviceId());
    CALL(cpu().GetDeviceType());
    CALL(cpu().GetMemoryType());
    CALL(cpu().GetDeviceMemoryType());
    CALL(cpu().GetVendorId());
    CALL(cpu() == device);
    CALL(cpu() == cpu().GetConst());
    CALL(Ort::MemoryInfo("Cpu", OrtMemoryInfoDeviceType_CPU, 0, 0, OrtDeviceMemoryType_DEFAULT, 0, OrtDeviceAllocator));
    CALL(Ort::MemoryInfo("Nowhere", OrtDeviceAllocator, 0, OrtMemTypeDefault));
    CALL(allocator.GetInfo().GetAllocatorName());
    CALL(allocator.GetAllocation(100).size());
    DO(allocator.Free(allocator.Alloc(10)));
    DO(allocator.Free(allocator.Reserve(10)));
    CALL(allocator.GetStats());
    DO(allocator.Shrink());
    DO(pairs.Add("b", "2"));
    DO(pairs.Remove("a"));
    CALL(pairs.GetValue("a"));
    CALL(pairs.GetConst().GetValue("b"));
    CALL(pairs.GetKeyValuePairs().size());
    CALL(Ort::ArenaCfg(0, -1, -1, -1));
    CALL(Ort::ArenaCfg({ { "max_mem", 0 }, { "arena_extend_strategy", 1 } }));
    CALL(Ort::ArenaCfg({ { "no_such_key", 1 } }));
    Ort::ArenaCfg arena(0, -1, -1, -1);
    DO(environment().CreateAndRegisterAllocator(device, arena));
    DO(environment().CreateAndRegisterAllocator(device, arena));
    CALL(environment().GetSharedAllocator(device) == nullptr);
    DO(environment().UnregisterAllocator(device));
    DO(environment().CreateAndRegisterAllocatorV2("CPUExecutionProvider", device, {}, arena));
    DO(environment().UnregisterAllocator(device));
    DO(environment().RegisterAllocator(allocator));
    DO(environment().UnregisterAllocator(cpu()));
    Ort::ConstEpDevice ep_device = environment().GetEpDevices().front();
    CALL(environment().CreateSharedAllocator(ep_device, OrtDeviceMemoryType_DEFAULT, OrtDeviceAllocator, nullptr));
    DO(environment().ReleaseSharedAllocator(ep_device, OrtDeviceMemoryType_DEFAULT));
    CALL(Ort::ExternalInitializerInfo("weights.bin", 64, 256).GetFilePath());
    CALL(Ort::ExternalInitializerInfo("weights.bin", 64, 256).GetFileOffset());
    CALL(Ort::ExternalInitializerInfo("weights.bin", 64, 256).GetByteSize());
    CALL(Ort::PrepackedWeightsContainer());
    CALL(Ort::TensorRTProviderOptions());
    CALL(Ort::CUDAProviderOptions());
}

int main()
{
    std::setvbuf(stdout, nullptr, _IOLBF, 0); /* keeps the output before a crash */
    environments();
    memory();
    values();
    types();
    sparse_values();
    options();
    sessions();
    bindings();
    kernels();
    models();
    std::printf("%d lines\n", printed);
    return 0;
}
