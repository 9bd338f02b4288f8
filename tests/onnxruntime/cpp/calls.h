/* calls.h - prints the results of calls of ONNX Runtime's C++ headers: one line for each call, with its value, "ok", or
 * the code of the exception, whose message goes to stderr. Two libraries with the same behaviour print the same lines;
 * see cpp.sh. */
#ifndef CALLS_H
#define CALLS_H
#include <onnxruntime_cxx_api.h>
#include <cstdio>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>
#include "onnx_bytes.h"

void print_call(const char *text, const std::string &result);

template <class T> struct is_vector : std::false_type {
};
template <class T> struct is_vector<std::vector<T>> : std::true_type {
};

/* A value as text; "ok" for objects. */
template <class T> std::string shown(const T &value)
{
    std::ostringstream out;

    if constexpr (std::is_same_v<T, Ort::AllocatedStringPtr>) {
        out << (value ? value.get() : "(none)");
    } else if constexpr (std::is_same_v<T, Ort::Status>) {
        if (value.IsOK())
            out << "ok";
        else
            out << "status " << value.GetErrorCode();
    } else if constexpr (std::is_same_v<T, const char *> || std::is_same_v<T, char *>) {
        out << (value != nullptr ? value : "(none)");
    } else if constexpr (std::is_enum_v<T>) {
        out << static_cast<int>(value);
    } else if constexpr (std::is_pointer_v<T>) {
        out << (value != nullptr ? "not null" : "null");
    } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
        out << value;
    } else if constexpr (is_vector<T>::value) {
        out << value.size() << " [";
        for (const auto &element : value)
            out << " " << shown(element);
        out << " ]";
    } else {
        out << "ok";
    }
    return out.str();
}

template <class F> void call(const char *text, F function)
{
    try {
        if constexpr (std::is_void_v<decltype(function())>) {
            function();
            print_call(text, "ok");
        } else {
            print_call(text, shown(std::decay_t<decltype(function())>(function())));
        }
    } catch (const Ort::Exception &error) {
        std::fprintf(stderr, "%s: %s\n", text, error.what());
        print_call(text, "error " + std::to_string(error.GetOrtErrorCode()));
    }
}
/* The result of a call may be an object that cannot be copied: it is moved or discarded. */
#define CALL(...) call(#__VA_ARGS__, [&] { return (__VA_ARGS__); })
/* A call that returns a reference to its object, for chaining. */
#define DO(...) call(#__VA_ARGS__, [&] { (void)(__VA_ARGS__); })
/* A line that is no call. */
#define SHOW(...) print_call("  " #__VA_ARGS__, shown(__VA_ARGS__))

Ort::Env &environment();
const Ort::MemoryInfo &cpu();
/* The floats of a tensor, in order. */
std::vector<float> floats(const Ort::Value &value);
Ort::Value tensor(std::vector<float> &data, std::vector<int64_t> shape);
/* y = x + b, z = -y; x [n, 2], b [2] of ones is an initializer that may be overridden; with metadata. */
const onnx_bytes &linear_model();
Ort::Session open(const onnx_bytes &file, const Ort::SessionOptions &options);

void environments();
void memory();
void values();
void types();
void sparse_values();
void options();
void sessions();
void bindings();
void kernels();
void models();
#endif
