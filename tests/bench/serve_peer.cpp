// What a user would write: a server in C++ for one model, with a thread for each connection. It answers binary requests of
// the Open Inference Protocol, as serve_peer.js does: inputs of FP32 or INT64 in the model's order, one output of FP32.
//   g++ -O2 -std=c++17 serve_peer.cpp -I INCLUDE -ldl -pthread -o serve_peer     INCLUDE: ONNX Runtime's headers
//   serve_peer LIBONNXRUNTIME MODEL.onnx PORT
//   g++ -O2 -std=c++17 -DUSE_INLAY serve_peer.cpp -I sdk/include -L LIB -linlay -pthread -o serve_peer
//   serve_peer - MODEL.onnx PORT
// Each run has one thread; runs of different connections are concurrent.
#include <arpa/inet.h>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <netinet/tcp.h>
#include <string>
#include <strings.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

struct Input {
    std::string name;
    bool is_float; // otherwise INT64
    std::vector<int64_t> shape;
    void *data;
    size_t bytes;
};

[[noreturn]] static void die(const char *what)
{
    std::fprintf(stderr, "serve_peer: %s\n", what);
    std::exit(1);
}

#ifdef USE_INLAY
#include <inlay/inlay.h>
static inlay_session *session;
static void check(inlay_status status, const inlay_diag &diag)
{
    if (status != INLAY_OK)
        die(diag.text);
}
static void open_model(const char *, const char *model)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options = nullptr;
    check(inlay_options_create(&options, &diag), diag);
    check(inlay_options_set(options, "intra_threads", "1", &diag), diag);
    check(inlay_session_create(model, options, &session, &diag), diag);
}
struct Runner {
    inlay_context *context = nullptr;
    Runner()
    {
        inlay_diag diag = INLAY_DIAG_INIT;
        check(inlay_context_create(session, &context, &diag), diag);
    }
    ~Runner() { inlay_context_destroy(context); }
    template <class Reply> void run(const std::vector<Input> &inputs, Reply reply)
    {
        inlay_diag diag = INLAY_DIAG_INIT;
        for (size_t i = 0; i < inputs.size(); i++) {
            const Input &x = inputs[i];
            inlay_value *value = nullptr;
            check(inlay_value_borrow(x.is_float ? INLAY_FLOAT : INLAY_INT64, (uint32_t)x.shape.size(), x.shape.data(), x.data,
                                     x.bytes, &value, &diag), diag);
            check(inlay_context_set_input(context, (uint32_t)i, value, &diag), diag);
            inlay_value_unref(value);
        }
        check(inlay_context_run(context, nullptr, &diag), diag);
        inlay_value *y = inlay_context_output(context, 0);
        reply((const float *)inlay_value_data(y), (size_t)inlay_value_count(y),
              std::vector<int64_t>(inlay_value_dims(y), inlay_value_dims(y) + inlay_value_rank(y)));
    }
};
#else
#include <dlfcn.h>
#include <onnxruntime_c_api.h>
static const OrtApi *api;
static OrtSession *session;
static OrtMemoryInfo *memory;
static char *output;
static void check(OrtStatus *status)
{
    if (status != nullptr)
        die(api->GetErrorMessage(status));
}
static void open_model(const char *library, const char *model)
{
    void *handle = dlopen(library, RTLD_NOW);
    if (handle == nullptr)
        die(dlerror());
    api = ((const OrtApiBase *(*)())dlsym(handle, "OrtGetApiBase"))()->GetApi(16);
    OrtEnv *env;
    OrtSessionOptions *options;
    OrtAllocator *allocator;
    check(api->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "peer", &env));
    check(api->CreateSessionOptions(&options));
    check(api->SetIntraOpNumThreads(options, 1));
    check(api->SetSessionGraphOptimizationLevel(options, ORT_ENABLE_ALL));
    check(api->CreateSession(env, model, options, &session));
    check(api->GetAllocatorWithDefaultOptions(&allocator));
    check(api->SessionGetOutputName(session, 0, allocator, &output));
    check(api->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory));
}
struct Runner {
    template <class Reply> void run(const std::vector<Input> &inputs, Reply reply)
    {
        std::vector<OrtValue *> from(inputs.size());
        std::vector<const char *> names;
        OrtValue *to = nullptr;
        OrtTensorTypeAndShapeInfo *info;
        size_t rank, count;
        float *y;
        for (size_t i = 0; i < inputs.size(); i++) {
            const Input &x = inputs[i];
            names.push_back(x.name.c_str());
            check(api->CreateTensorWithDataAsOrtValue(
                memory, x.data, x.bytes, x.shape.data(), x.shape.size(),
                x.is_float ? ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT : ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, &from[i]));
        }
        check(api->Run(session, nullptr, names.data(), from.data(), from.size(), &output, 1, &to));
        check(api->GetTensorTypeAndShape(to, &info));
        check(api->GetDimensionsCount(info, &rank));
        check(api->GetTensorShapeElementCount(info, &count));
        std::vector<int64_t> dims(rank);
        check(api->GetDimensions(info, dims.data(), rank));
        check(api->GetTensorMutableData(to, (void **)&y));
        reply(y, count, dims);
        api->ReleaseTensorTypeAndShapeInfo(info);
        api->ReleaseValue(to);
        for (OrtValue *value : from)
            api->ReleaseValue(value);
    }
};
#endif

static size_t header_number(const std::string &head, const char *name) // 0: there is none
{
    const char *at = strcasestr(head.c_str(), name);
    return at != nullptr ? std::strtoull(at + std::strlen(name), nullptr, 10) : 0;
}

// Reads the inputs of a request in the form in which the benchmarks send it: name, shape, datatype, binary_data_size.
static std::vector<Input> read_inputs(const std::string &json, char *data)
{
    std::vector<Input> inputs;
    for (const char *at = json.c_str(); (at = std::strstr(at, "\"binary_data_size\":")) != nullptr; at++) {
        std::string before(json.c_str(), at);
        size_t name = before.rfind("\"name\":\"") + 8, shape = before.rfind("\"shape\":[") + 8;
        Input input = { before.substr(name, before.find('"', name) - name), before.find("FP32", shape) != std::string::npos,
                        {}, data, std::strtoull(at + 19, nullptr, 10) };
        for (const char *number = before.c_str() + shape; *number == '[' || *number == ',';)
            input.shape.push_back(std::strtoll(number + 1, (char **)&number, 10));
        data += input.bytes;
        inputs.push_back(input);
    }
    return inputs;
}

static void serve(int fd)
{
    Runner runner;
    std::string head, reply;
    std::vector<int64_t> aligned;
    std::vector<char> buffer(65536);
    for (size_t have = 0;;) {
        char *end = nullptr;
        while ((end = (char *)memmem(buffer.data(), have, "\r\n\r\n", 4)) == nullptr && have < buffer.size()) {
            ssize_t got = recv(fd, buffer.data() + have, buffer.size() - have, 0);
            if (got <= 0)
                return void(close(fd));
            have += (size_t)got;
        }
        if (end == nullptr)
            return void(close(fd));
        head.assign(buffer.data(), end + 2);
        size_t start = (size_t)(end - buffer.data()) + 4, body = header_number(head, "\nContent-Length:"),
               json = header_number(head, "\nInference-Header-Content-Length:");
        buffer.resize(std::max(buffer.size(), start + body));
        while (have < start + body) {
            ssize_t got = recv(fd, buffer.data() + have, start + body - have, 0);
            if (got <= 0)
                return void(close(fd));
            have += (size_t)got;
        }
        aligned.resize((body - json + 7) / 8);
        std::memcpy(aligned.data(), buffer.data() + start + json, body - json);
        std::vector<Input> inputs = read_inputs(std::string(buffer.data() + start, json), (char *)aligned.data());
        runner.run(inputs, [&](const float *y, size_t count, const std::vector<int64_t> &dims) {
            std::string sizes;
            for (int64_t dim : dims)
                sizes += (sizes.empty() ? "" : ",") + std::to_string(dim);
            std::string out = "{\"model_name\":\"m\",\"outputs\":[{\"name\":\"y\",\"datatype\":\"FP32\",\"shape\":[" + sizes +
                              "],\"parameters\":{\"binary_data_size\":" + std::to_string(count * 4) + "}}]}";
            reply = "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nInference-Header-Content-Length: " +
                    std::to_string(out.size()) + "\r\nContent-Length: " + std::to_string(out.size() + count * 4) + "\r\n\r\n" +
                    out;
            reply.append((const char *)y, count * 4);
        });
        for (size_t sent = 0; sent < reply.size();) {
            ssize_t count = send(fd, reply.data() + sent, reply.size() - sent, MSG_NOSIGNAL);
            if (count <= 0)
                return void(close(fd));
            sent += (size_t)count;
        }
        std::memmove(buffer.data(), buffer.data() + start + body, have - start - body);
        have -= start + body;
    }
}

int main(int argc, char **argv)
{
    if (argc != 4)
        die("usage: serve_peer LIBRARY MODEL.onnx PORT");
    open_model(argv[1], argv[2]);
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_port = htons((uint16_t)std::atoi(argv[3]));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (const sockaddr *)&at, sizeof at) != 0 || listen(listener, 1024) != 0)
        die("cannot listen");
    std::puts("listening");
    std::fflush(stdout);
    for (int fd; (fd = accept(listener, nullptr, nullptr)) >= 0;) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        std::thread(serve, fd).detach();
    }
}
