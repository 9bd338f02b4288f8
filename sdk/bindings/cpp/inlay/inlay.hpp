// inlay/inlay.hpp - runs ONNX models from C++17: wraps inlay.h in objects that free themselves, and throws errors.
//
//     inlay::Session session("model.onnx", inlay::Options().set("intra_threads", 2));
//     std::vector<float> pixels(3 * 224 * 224);
//     auto result = session.run({ { "input", inlay::Value::borrow(pixels, { 1, 3, 224, 224 }) } });
//     for (float score : result[0].data<float>()) ...
//
// Header-only; link with libinlay. Objects own their resources and can be moved. A Value is a counted reference, so
// copies of it are the same tensor. Any number of threads may use a Session, but only one at a time a Context. Failures
// throw inlay::Error with the contents of inlay_diag; the only other exception is std::bad_alloc.
#ifndef INLAY_INLAY_HPP
#define INLAY_INLAY_HPP
#include "inlay/inlay.h"
#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace inlay {

// ------------------------------------------------------------------ errors

// The error of a failed call: what() is the message with the place and the fix.
class Error : public std::runtime_error {
public:
    explicit Error(const inlay_diag &diag)
        : std::runtime_error(diag.text[0] != '\0' ? diag.text : inlay_status_text(diag.code)), code_(diag.code),
          error_class_(diag.error_class), node_(diag.node), tensor_(diag.tensor)
    {
    }
    inlay_status code() const noexcept { return code_; }
    std::uint32_t error_class() const noexcept { return error_class_; } // INLAY_CLASS_*
    const std::string &node() const noexcept { return node_; }
    const std::string &tensor() const noexcept { return tensor_; }

private:
    inlay_status code_;
    std::uint32_t error_class_;
    std::string node_, tensor_;
};

// An inlay_diag for one call. check() throws its error.
class Diag {
public:
    operator inlay_diag *() noexcept { return &diag_; }
    void check(inlay_status status)
    {
        if (status == INLAY_OK)
            return;
        diag_.code = status;
        throw Error(diag_);
    }

private:
    inlay_diag diag_ = INLAY_DIAG_INIT;
};

[[noreturn]] inline void fail(inlay_status code, const std::string &text)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)inlay_fail(&diag, code, "%s", text.c_str());
    throw Error(diag);
}

// ------------------------------------------------------------------ elements

// A view of consecutive elements that it does not own.
template <class T> class Span {
public:
    Span() = default;
    Span(T *data, std::size_t size) : data_(data), size_(size) {}
    T *data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }
    bool empty() const noexcept { return size_ == 0; }
    T *begin() const noexcept { return data_; }
    T *end() const noexcept { return data_ + size_; }
    T &operator[](std::size_t index) const noexcept { return data_[index]; }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

// The element type of a C++ type. 16-bit floats have no C++ type: pass the dtype explicitly.
template <class T> constexpr inlay_dtype dtype_of()
{
    using U = std::remove_cv_t<T>;
    if constexpr (std::is_same_v<U, float>)
        return INLAY_FLOAT;
    else if constexpr (std::is_same_v<U, double>)
        return INLAY_DOUBLE;
    else if constexpr (std::is_same_v<U, bool>)
        return INLAY_BOOL;
    else if constexpr (std::is_same_v<U, inlay_str>)
        return INLAY_STRING;
    else if constexpr (std::is_integral_v<U> && std::is_signed_v<U>)
        return sizeof(U) == 1 ? INLAY_INT8 : sizeof(U) == 2 ? INLAY_INT16 : sizeof(U) == 4 ? INLAY_INT32 : INLAY_INT64;
    else if constexpr (std::is_integral_v<U>)
        return sizeof(U) == 1   ? INLAY_UINT8
               : sizeof(U) == 2 ? INLAY_UINT16
               : sizeof(U) == 4 ? INLAY_UINT32
                                : INLAY_UINT64;
    else
        return INLAY_UNDEFINED;
}

using Shape = std::vector<std::int64_t>;

// ------------------------------------------------------------------ values

class Value {
public:
    Value() = default; // no value: an omitted optional input
    // Takes ownership of a reference.
    explicit Value(inlay_value *value) noexcept : value_(value) {}
    Value(const Value &other) noexcept : value_(inlay_value_ref(other.value_)) {}
    Value(Value &&other) noexcept : value_(std::exchange(other.value_, nullptr)) {}
    Value &operator=(Value other) noexcept
    {
        std::swap(value_, other.value_);
        return *this;
    }
    ~Value() { inlay_value_unref(value_); }

    // A tensor over memory of the caller, which must outlive the value.
    static Value borrow(inlay_dtype dtype, const Shape &shape, void *data, std::size_t bytes)
    {
        inlay_value *value = nullptr;
        Diag diag;

        diag.check(inlay_value_borrow(dtype, rank_of(shape), shape.data(), data, bytes, &value, diag));
        return Value(value);
    }
    template <class T> static Value borrow(T *data, std::size_t count, const Shape &shape)
    {
        static_assert(dtype_of<T>() != INLAY_UNDEFINED, "no element type for this C++ type; use borrow(dtype, ...)");
        return borrow(dtype_of<T>(), shape, const_cast<std::remove_const_t<T> *>(data), count * sizeof(T));
    }
    template <class T> static Value borrow(std::vector<T> &data, const Shape &shape)
    {
        return borrow(data.data(), data.size(), shape);
    }
    // Deleted, because the memory of a temporary would be freed before the run.
    template <class T> static Value borrow(std::vector<T> &&data, const Shape &shape) = delete;

    // A tensor with its own memory: zeroed, or a copy of data.
    static Value create(inlay_dtype dtype, const Shape &shape)
    {
        inlay_value *value = nullptr;
        Diag diag;

        diag.check(inlay_value_create(dtype, rank_of(shape), shape.data(), &value, diag));
        return Value(value);
    }
    template <class T> static Value copy(const std::vector<T> &data, const Shape &shape)
    {
        Value value = create(dtype_of<T>(), shape);
        Span<T> to = value.data<T>();

        if (to.size() != data.size())
            fail(INLAY_INVALID_ARGUMENT, "the shape has " + std::to_string(to.size()) + " elements, the data " +
                                             std::to_string(data.size()));
        for (std::size_t i = 0; i < data.size(); i++)
            to[i] = data[i];
        return value;
    }
    static Value copy(const std::vector<std::string> &texts, const Shape &shape)
    {
        std::vector<inlay_str> list;
        inlay_value *value = nullptr;
        std::int64_t count = 1;
        Diag diag;

        for (std::int64_t size : shape)
            if (__builtin_mul_overflow(count, size, &count))
                fail(INLAY_INVALID_ARGUMENT, "the shape has more elements than memory can hold");
        if (count != static_cast<std::int64_t>(texts.size()))
            fail(INLAY_INVALID_ARGUMENT, "the shape has " + std::to_string(count) + " elements, the data " +
                                             std::to_string(texts.size()));
        for (const std::string &text : texts)
            list.push_back({ text.data(), text.size() });
        diag.check(inlay_value_create_strings(rank_of(shape), shape.data(), list.data(), &value, diag));
        return Value(value);
    }
    // A sequence of values of one element type. An empty sequence requires dtype.
    static Value sequence(const std::vector<Value> &items, inlay_dtype dtype = INLAY_UNDEFINED)
    {
        std::vector<inlay_value *> list;
        inlay_value *value = nullptr;
        Diag diag;

        for (const Value &item : items)
            list.push_back(item.get());
        if (!items.empty() && dtype == INLAY_UNDEFINED)
            dtype = items[0].dtype();
        diag.check(inlay_value_create_list(INLAY_KIND_SEQUENCE, dtype, list.data(),
                                           static_cast<std::uint32_t>(list.size()), &value, diag));
        return Value(value);
    }

    explicit operator bool() const noexcept { return value_ != nullptr; }
    inlay_value *get() const noexcept { return value_; }
    std::uint32_t kind() const { return inlay_value_kind(there()); } // INLAY_KIND_*
    inlay_dtype dtype() const { return inlay_value_dtype(there()); }
    std::int64_t count() const { return inlay_value_count(there()); } // elements of a tensor, items of a list
    Shape shape() const
    {
        const std::int64_t *dims = inlay_value_dims(there());

        return Shape(dims, dims + inlay_value_rank(value_));
    }
    // The elements. T must be the type of dtype(), or have its size if C++ has no such type.
    template <class T> Span<T> data() const
    {
        if (kind() != INLAY_KIND_TENSOR || inlay_value_data(value_) == nullptr)
            fail(INLAY_INVALID_ARGUMENT, "the value is not a tensor in host memory");
        if (dtype_of<T>() != dtype() && (has_cpp_type(dtype()) || inlay_dtype_bits(dtype()) != 8 * sizeof(T)))
            fail(INLAY_INVALID_ARGUMENT, std::string("the elements are ") + inlay_dtype_name(dtype()) + ", not " +
                                             inlay_dtype_name(dtype_of<T>()));
        return Span<T>(static_cast<T *>(inlay_value_data(value_)), static_cast<std::size_t>(count()));
    }
    std::vector<std::string> strings() const
    {
        std::vector<std::string> out;

        for (const inlay_str &text : data<inlay_str>())
            out.emplace_back(text.data != nullptr ? text.data : "", static_cast<std::size_t>(text.bytes));
        return out;
    }
    Value item(std::uint32_t index) const
    {
        const inlay_value *value = index < count() ? inlay_value_item(there(), index) : nullptr;

        if (value == nullptr)
            fail(INLAY_INVALID_ARGUMENT, "there is no item " + std::to_string(index) + " in a value with " +
                                             std::to_string(count()) + " items");
        return Value(inlay_value_ref(const_cast<inlay_value *>(value)));
    }

private:
    static std::uint32_t rank_of(const Shape &shape) { return static_cast<std::uint32_t>(shape.size()); }
    static bool has_cpp_type(inlay_dtype dtype)
    {
        return dtype != INLAY_FLOAT16 && dtype != INLAY_BFLOAT16 && dtype != INLAY_COMPLEX64 && dtype <= INLAY_UINT64;
    }
    inlay_value *there() const
    {
        if (value_ == nullptr)
            fail(INLAY_INVALID_ARGUMENT, "there is no value");
        return value_;
    }
    inlay_value *value_ = nullptr;
};

// ------------------------------------------------------------------ options

using LogFn = std::function<void(std::uint32_t level, std::string_view line)>;
using ProgressFn = std::function<bool(double fraction, std::string_view what)>; // false cancels

class Options {
public:
    Options()
    {
        inlay_options *options = nullptr;
        Diag diag;

        diag.check(inlay_options_create(&options, diag));
        options_.reset(options);
    }
    Options &set(const std::string &name, const std::string &value)
    {
        Diag diag;

        diag.check(inlay_options_set(options_.get(), name.c_str(), value.c_str(), diag));
        return *this;
    }
    Options &set(const std::string &name, const char *value) { return set(name, std::string(value)); }
    template <class I, std::enable_if_t<std::is_integral_v<I>, int> = 0> Options &set(const std::string &name, I value)
    {
        Diag diag;

        diag.check(inlay_options_set_int(options_.get(), name.c_str(), static_cast<std::int64_t>(value), diag));
        return *this;
    }
    // Reads a file of settings; without a path the standard files.
    Options &load(const std::string &path = "")
    {
        Diag diag;

        diag.check(inlay_options_load(options_.get(), path.empty() ? nullptr : path.c_str(), diag));
        return *this;
    }
    Options &load_environment()
    {
        Diag diag;

        diag.check(inlay_options_load_environment(options_.get(), diag));
        return *this;
    }
    std::string get(const std::string &name) const
    {
        std::string text;
        std::size_t bytes = 0;
        Diag diag;

        diag.check(inlay_options_get(options_.get(), name.c_str(), nullptr, 0, &bytes, diag));
        text.resize(bytes);
        diag.check(inlay_options_get(options_.get(), name.c_str(), &text[0], bytes, nullptr, diag));
        text.pop_back(); // the NUL
        return text;
    }
    // Receives log lines from any thread as long as sessions created with these options exist.
    Options &on_log(LogFn log)
    {
        log_ = std::make_shared<LogFn>(std::move(log));
        inlay_options_set_log(
            options_.get(),
            [](void *user, std::uint32_t level, const char *text) { (*static_cast<LogFn *>(user))(level, text); },
            log_.get());
        return *this;
    }
    Options &on_progress(ProgressFn progress)
    {
        progress_ = std::make_shared<ProgressFn>(std::move(progress));
        inlay_options_set_progress(
            options_.get(),
            [](void *user, double fraction, const char *what) -> int {
                return (*static_cast<ProgressFn *>(user))(fraction, what) ? 0 : 1;
            },
            progress_.get());
        return *this;
    }
    const inlay_options *get() const noexcept { return options_.get(); }
    const std::shared_ptr<LogFn> &log() const noexcept { return log_; }

private:
    struct Destroy {
        void operator()(inlay_options *options) const noexcept { inlay_options_destroy(options); }
    };
    std::unique_ptr<inlay_options, Destroy> options_;
    std::shared_ptr<LogFn> log_;
    std::shared_ptr<ProgressFn> progress_;
};

// ------------------------------------------------------------------ information about a session

// An input or output. A dimension is a size, or -1 and a name in symbols.
struct Info {
    std::string name;
    std::uint32_t kind; // INLAY_KIND_*
    inlay_dtype dtype;
    std::optional<Shape> shape; // none: unknown rank
    std::vector<std::string> symbols;
    bool optional; // has a default
};
struct Provider {
    std::string name, plugin_path, plugin_version;
    std::optional<std::string> skipped; // why the session does not use it
};
struct Model {
    std::string producer_name, producer_version, domain, graph_name, doc;
    std::int64_t version, ir_version;
    std::vector<std::pair<std::string, std::string>> metadata;
};

// Stops runs from another thread.
class Cancel {
public:
    void set(bool on = true) noexcept { __atomic_store_n(&word_, on ? 1u : 0u, __ATOMIC_RELEASE); }
    const std::uint32_t *word() const noexcept { return &word_; }

private:
    std::uint32_t word_ = 0;
};

struct RunOptions {
    const Cancel *cancel = nullptr;
    std::chrono::nanoseconds timeout{ 0 }; // 0: none
    std::uint32_t max_threads = 0;         // at most intra_threads of the session; 0: intra_threads
    std::uint32_t priority = INLAY_PRIORITY_NORMAL; // NORMAL: that of option priority
    std::uint32_t power = INLAY_POWER_DEFAULT;      // DEFAULT: that of option power
    // when the result is needed (option ladder); the epoch: any time
    std::chrono::steady_clock::time_point deadline{};
};

using Feeds = std::vector<std::pair<std::string, Value>>;

namespace detail {
struct DestroySession {
    void operator()(inlay_session *session) const noexcept { inlay_session_destroy(session); }
};
struct DestroyContext {
    void operator()(inlay_context *context) const noexcept { inlay_context_destroy(context); }
};
using ContextPtr = std::unique_ptr<inlay_context, DestroyContext>;

// State shared by copies of a session and by its contexts. Members are ordered so that contexts are destroyed first.
struct Shared {
    std::shared_ptr<LogFn> log;
    std::vector<unsigned char> bytes;
    std::unique_ptr<inlay_session, DestroySession> session;
    std::mutex mutex;
    std::vector<ContextPtr> idle;
};
inline void append(void *user, const char *text, std::size_t bytes)
{
    static_cast<std::string *>(user)->append(text, bytes);
}
} // namespace detail

// ------------------------------------------------------------------ contexts

// Runs of one thread; inputs and outputs stay bound between runs.
class Context {
public:
    void set_input(std::uint32_t index, const Value &value)
    {
        Diag diag;

        diag.check(inlay_context_set_input(live(), index, value.get(), diag));
    }
    void set_input(const std::string &name, const Value &value) { set_input(find(name, true), value); }
    // Makes runs write the output to value if type and shape match.
    void set_output(std::uint32_t index, const Value &value)
    {
        Diag diag;

        diag.check(inlay_context_set_output(live(), index, value.get(), diag));
    }
    void set_output(const std::string &name, const Value &value) { set_output(find(name, false), value); }
    void run(const RunOptions &options = {})
    {
        inlay_run_options run_options = INLAY_RUN_OPTIONS_INIT;
        Diag diag;

        run_options.cancel = options.cancel != nullptr ? options.cancel->word() : nullptr;
        run_options.timeout_ns = static_cast<std::uint64_t>(options.timeout.count());
        run_options.max_threads = options.max_threads;
        run_options.priority = options.priority;
        run_options.power = options.power;
        run_options.deadline_ns = static_cast<std::uint64_t>(
            std::chrono::duration_cast<std::chrono::nanoseconds>(options.deadline.time_since_epoch()).count());
        diag.check(inlay_context_run(live(), &run_options, diag));
    }
    // Gives memory of runs back to the system, the outputs of the last run included, see inlay_context_trim().
    void trim()
    {
        Diag diag;

        diag.check(inlay_context_trim(live(), diag));
    }
    // An output of the last run. Later runs do not overwrite it as long as the Value exists.
    Value output(std::uint32_t index) const
    {
        inlay_value *value = inlay_context_output(live(), index);

        if (value == nullptr)
            fail(INLAY_INVALID_ARGUMENT, "output " + std::to_string(index) + " does not exist: no run has computed it");
        return Value(inlay_value_ref(value));
    }
    Value output(const std::string &name) const { return output(find(name, false)); }
    inlay_context *get() const noexcept { return context_.get(); }

private:
    friend class Session;
    Context(std::shared_ptr<detail::Shared> shared, detail::ContextPtr context)
        : shared_(std::move(shared)), context_(std::move(context))
    {
    }
    std::uint32_t find(const std::string &name, bool input) const
    {
        const inlay_session *session = (live(), shared_->session.get());
        std::uint32_t index = input ? inlay_session_find_input(session, name.c_str())
                                    : inlay_session_find_output(session, name.c_str());

        if (index == INLAY_NONE)
            fail(INLAY_INVALID_ARGUMENT,
                 std::string("the model has no ") + (input ? "input '" : "output '") + name + "'");
        return index;
    }
    inlay_context *live() const
    {
        if (context_ == nullptr)
            fail(INLAY_INVALID_ARGUMENT, "there is no context: it was moved to another variable");
        return context_.get();
    }
    std::shared_ptr<detail::Shared> shared_;
    detail::ContextPtr context_; // destroyed before shared_
};

// ------------------------------------------------------------------ sessions

class Session {
public:
    explicit Session(const std::string &path, const Options &options = Options())
    {
        make(options, [&](inlay_session **out, inlay_diag *diag) {
            return inlay_session_create(path.c_str(), options.get(), out, diag);
        });
    }
    // Loads a model from memory, which the session copies.
    static Session from_bytes(const void *data, std::size_t bytes, const Options &options = Options())
    {
        Session session;
        const auto *from = static_cast<const unsigned char *>(data);

        session.shared_->bytes.assign(from, from + bytes);
        session.make(options, [&](inlay_session **out, inlay_diag *diag) {
            return inlay_session_create_from_bytes(session.shared_->bytes.data(), bytes, options.get(), out, diag);
        });
        return session;
    }

    Context context() const
    {
        detail::ContextPtr context = new_context();

        return Context(shared_, std::move(context));
    }

    // Runs on any thread and returns all outputs in the model's order. Contexts are kept for later runs.
    std::vector<Value> run(const Feeds &feeds, const RunOptions &options = {}) const
    {
        detail::ContextPtr taken = take();
        Context context(shared_, std::move(taken));
        std::vector<Value> out;

        for (const auto &[name, value] : feeds)
            context.set_input(name, value);
        context.run(options);
        for (std::uint32_t i = 0; i < inlay_session_output_count(live()); i++)
            out.push_back(context.output(i));
        for (const auto &[name, value] : feeds)
            context.set_input(name, Value());
        std::lock_guard<std::mutex> hold(there().mutex);
        if (there().idle.size() < 64)
            there().idle.push_back(std::move(context.context_));
        return out;
    }

    std::vector<Info> inputs() const
    {
        return infos(inlay_session_input_count(live()), inlay_session_input);
    }
    std::vector<Info> outputs() const
    {
        return infos(inlay_session_output_count(live()), inlay_session_output);
    }
    Model model() const
    {
        inlay_model_info info = {};
        const char *key, *value;
        Model model;

        info.struct_size = sizeof info;
        Diag().check(inlay_session_model(live(), &info));
        model = { info.producer_name, info.producer_version, info.domain, info.graph_name,
                  info.doc, info.model_version, info.ir_version, {} };
        for (std::uint32_t i = 0; inlay_session_metadata(live(), i, &key, &value) == INLAY_OK; i++)
            model.metadata.emplace_back(key, value);
        return model;
    }
    // The providers in use, then the requested providers that are not available.
    std::vector<Provider> providers() const
    {
        inlay_session_provider_info info = {};
        std::vector<Provider> out;

        info.struct_size = sizeof info;
        for (std::uint32_t i = 0; inlay_session_provider(live(), i, &info) == INLAY_OK; i++)
            out.push_back({ info.name, info.plugin_path, info.plugin_version,
                            info.skipped != nullptr ? std::optional<std::string>(info.skipped) : std::nullopt });
        return out;
    }
    // Reports which provider runs each node, and why. format: "text" or "json".
    std::string explain(const std::string &format = "text") const
    {
        inlay_explain_options options = {};
        std::string out;
        Diag diag;

        options.struct_size = sizeof options;
        options.format = format.c_str();
        diag.check(inlay_session_explain(live(), &options, detail::append, &out, diag));
        return out;
    }
    // Replaces weights by their names in the file, see inlay_session_update(); any thread, also during runs.
    void update(const std::vector<std::pair<std::string, Value>> &weights) const
    {
        std::vector<const char *> names;
        std::vector<inlay_value *> values;
        Diag diag;

        for (const auto &weight : weights) {
            names.push_back(weight.first.c_str());
            values.push_back(weight.second.get());
        }
        diag.check(inlay_session_update(live(), static_cast<std::uint32_t>(names.size()), names.data(), values.data(),
                                        diag));
    }
    // Gives memory of runs back to the system, see inlay_session_trim(); any thread, also during runs.
    void trim() const
    {
        Diag diag;

        diag.check(inlay_session_trim(live(), diag));
    }
    // Requests to an open provider, see inlay_session_control(); any thread, also during runs.
    void set_option(const std::string &provider, const std::string &option, const std::string &value) const
    {
        control(INLAY_CONTROL_SET_OPTION, provider, option.c_str(), value.c_str());
    }
    // Sets the default value.
    void reset_option(const std::string &provider, const std::string &option) const
    {
        control(INLAY_CONTROL_SET_OPTION, provider, option.c_str());
    }
    // Releases unused memory of the provider, of which unused_bytes may stay; returns the bytes that were released.
    std::uint64_t trim(const std::string &provider, std::uint64_t unused_bytes = 0) const
    {
        return control(INLAY_CONTROL_TRIM, provider, nullptr, nullptr, unused_bytes);
    }
    // Waits for the runs in progress; later ones fail with INLAY_BUSY until resume().
    void suspend(const std::string &provider) const { control(INLAY_CONTROL_SUSPEND, provider); }
    void resume(const std::string &provider) const { control(INLAY_CONTROL_RESUME, provider); }
    inlay_session *get() const noexcept { return shared_ != nullptr ? shared_->session.get() : nullptr; }

private:
    Session() = default;
    std::uint64_t control(std::uint32_t action, const std::string &provider, const char *option = nullptr,
                          const char *value = nullptr, std::uint64_t bytes = 0) const
    {
        inlay_control_request request = {};
        Diag diag;

        request.struct_size = sizeof request;
        request.provider = provider.c_str();
        request.option = option;
        request.value = value;
        request.bytes = bytes;
        request.action = action;
        diag.check(inlay_session_control(live(), &request, diag));
        return request.freed_bytes;
    }
    template <class Make> void make(const Options &options, Make create)
    {
        inlay_session *session = nullptr;
        Diag diag;

        shared_->log = options.log();
        diag.check(create(&session, diag));
        shared_->session.reset(session);
    }
    detail::Shared &there() const
    {
        if (shared_ == nullptr)
            fail(INLAY_INVALID_ARGUMENT, "there is no session: it was moved to another variable");
        return *shared_;
    }
    inlay_session *live() const { return there().session.get(); }
    detail::ContextPtr new_context() const
    {
        inlay_context *context = nullptr;
        Diag diag;

        diag.check(inlay_context_create(live(), &context, diag));
        return detail::ContextPtr(context);
    }
    detail::ContextPtr take() const
    {
        {
            std::lock_guard<std::mutex> hold(there().mutex);

            if (!there().idle.empty()) {
                detail::ContextPtr context = std::move(there().idle.back());

                there().idle.pop_back();
                return context;
            }
        }
        return new_context();
    }
    template <class Ask> std::vector<Info> infos(std::uint32_t count, Ask ask) const
    {
        std::vector<Info> out;

        for (std::uint32_t i = 0; i < count; i++) {
            inlay_io_info info = {};
            Info result;

            info.struct_size = sizeof info;
            Diag().check(ask(live(), i, &info));
            result.name = info.name;
            result.kind = info.kind;
            result.dtype = info.dtype;
            result.optional = info.optional != 0;
            if (info.declared_rank != INLAY_RANK_UNKNOWN) {
                result.shape = Shape(info.declared_dims, info.declared_dims + info.declared_rank);
                result.symbols.assign(info.declared_dim_names, info.declared_dim_names + info.declared_rank);
            }
            out.push_back(std::move(result));
        }
        return out;
    }
    std::shared_ptr<detail::Shared> shared_ = std::make_shared<detail::Shared>();
};

} // namespace inlay
#endif
