// inlay/inlay.hpp - running ONNX models from C++17: inlay.h with objects that free themselves and errors that are thrown.
//
//     inlay::Session session("model.onnx", inlay::Options().set("intra_threads", 2));
//     std::vector<float> pixels(3 * 224 * 224);
//     auto result = session.run({ { "input", inlay::Value::borrow(pixels, { 1, 3, 224, 224 }) } });
//     for (float score : result[0].data<float>()) ...
//
// Header-only; link with libinlay. Objects own what they name and can be moved. A Value is a counted reference, so that
// copies of it are the same tensor. A Session may be used by any number of threads, a Context by one at a time. Failures
// are inlay::Error, which says what inlay_diag says; nothing else throws but std::bad_alloc.
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

// What a failing call says: what() is the sentence with the place and the fix.
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

// A caller's inlay_diag that throws what it was told.
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

// Elements in a row that somebody else owns.
template <class T> class Span {
public:
    Span() = default;
    Span(T *data, std::size_t size) : data_(data), size_(size) {}
    T *data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }
    bool empty() const noexcept { return size_ == 0; }
    T *begin() const noexcept { return data_; }
    T *end() const noexcept { return data_ + size_; }
    T &operator[](std::size_t i) const noexcept { return data_[i]; }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

// The element type of a C++ type. 16-bit floats have no C++ type: say the dtype.
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
    // Takes a reference over.
    explicit Value(inlay_value *value) noexcept : value_(value) {}
    Value(const Value &other) noexcept : value_(inlay_value_ref(other.value_)) {}
    Value(Value &&other) noexcept : value_(std::exchange(other.value_, nullptr)) {}
    Value &operator=(Value other) noexcept
    {
        std::swap(value_, other.value_);
        return *this;
    }
    ~Value() { inlay_value_unref(value_); }

    // A tensor over the caller's memory, which must stay.
    static Value borrow(inlay_dtype dtype, const Shape &shape, void *data, std::size_t bytes)
    {
        inlay_value *v = nullptr;
        Diag diag;

        diag.check(inlay_value_borrow(dtype, rank_of(shape), shape.data(), data, bytes, &v, diag));
        return Value(v);
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
    // A temporary's memory would be gone before the run.
    template <class T> static Value borrow(std::vector<T> &&data, const Shape &shape) = delete;

    // A zeroed tensor of its own, or one that holds a copy.
    static Value create(inlay_dtype dtype, const Shape &shape)
    {
        inlay_value *v = nullptr;
        Diag diag;

        diag.check(inlay_value_create(dtype, rank_of(shape), shape.data(), &v, diag));
        return Value(v);
    }
    template <class T> static Value copy(const std::vector<T> &data, const Shape &shape)
    {
        Value v = create(dtype_of<T>(), shape);
        Span<T> to = v.data<T>();

        if (to.size() != data.size())
            fail(INLAY_INVALID_ARGUMENT, "the shape has " + std::to_string(to.size()) + " elements, the data " +
                                             std::to_string(data.size()));
        for (std::size_t i = 0; i < data.size(); i++)
            to[i] = data[i];
        return v;
    }
    static Value copy(const std::vector<std::string> &texts, const Shape &shape)
    {
        std::vector<inlay_str> list;
        inlay_value *v = nullptr;
        std::int64_t count = 1;
        Diag diag;

        for (std::int64_t d : shape)
            count *= d;
        if (count != static_cast<std::int64_t>(texts.size()))
            fail(INLAY_INVALID_ARGUMENT, "the shape has " + std::to_string(count) + " elements, the data " +
                                             std::to_string(texts.size()));
        for (const std::string &t : texts)
            list.push_back({ t.data(), t.size() });
        diag.check(inlay_value_create_strings(rank_of(shape), shape.data(), list.data(), &v, diag));
        return Value(v);
    }
    // A sequence of values of one element type, which is needed when it is empty.
    static Value sequence(const std::vector<Value> &items, inlay_dtype dtype = INLAY_UNDEFINED)
    {
        std::vector<inlay_value *> list;
        inlay_value *v = nullptr;
        Diag diag;

        for (const Value &item : items)
            list.push_back(item.get());
        if (!items.empty() && dtype == INLAY_UNDEFINED)
            dtype = items[0].dtype();
        diag.check(inlay_value_create_list(INLAY_KIND_SEQUENCE, dtype, list.data(),
                                           static_cast<std::uint32_t>(list.size()), &v, diag));
        return Value(v);
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
    // The elements; T must be what dtype() says, or have its size where C++ has no such type.
    template <class T> Span<T> data() const
    {
        if (kind() != INLAY_KIND_TENSOR || inlay_value_data(value_) == nullptr)
            fail(INLAY_INVALID_ARGUMENT, "the value is no tensor in host memory");
        if (dtype_of<T>() != dtype() && (known(dtype()) || inlay_dtype_bits(dtype()) != 8 * sizeof(T)))
            fail(INLAY_INVALID_ARGUMENT, std::string("the elements are ") + inlay_dtype_name(dtype()) + ", not " +
                                             inlay_dtype_name(dtype_of<T>()));
        return Span<T>(static_cast<T *>(inlay_value_data(value_)), static_cast<std::size_t>(count()));
    }
    std::vector<std::string> strings() const
    {
        std::vector<std::string> out;

        for (const inlay_str &s : data<inlay_str>())
            out.emplace_back(s.data != nullptr ? s.data : "", static_cast<std::size_t>(s.bytes));
        return out;
    }
    Value item(std::uint32_t index) const
    {
        const inlay_value *v = index < count() ? inlay_value_item(there(), index) : nullptr;

        if (v == nullptr)
            fail(INLAY_INVALID_ARGUMENT, "item " + std::to_string(index) + " of a value with " + std::to_string(count()));
        return Value(inlay_value_ref(const_cast<inlay_value *>(v)));
    }

private:
    static std::uint32_t rank_of(const Shape &shape) { return static_cast<std::uint32_t>(shape.size()); }
    static bool known(inlay_dtype dtype) // to C++
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
        inlay_options *o = nullptr;
        Diag diag;

        diag.check(inlay_options_create(&o, diag));
        options_.reset(o);
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
    // A file of settings; without a name the standard ones.
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
        char text[4096];
        Diag diag;

        diag.check(inlay_options_get(options_.get(), name.c_str(), text, sizeof text, diag));
        return text;
    }
    // Lines of the log, from any thread, for as long as sessions live that were made with these options.
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
        void operator()(inlay_options *o) const noexcept { inlay_options_destroy(o); }
    };
    std::unique_ptr<inlay_options, Destroy> options_;
    std::shared_ptr<LogFn> log_;
    std::shared_ptr<ProgressFn> progress_;
};

// ------------------------------------------------------------------ what a session tells

// An input or output: dims are sizes, or -1 and the symbol's name.
struct Info {
    std::string name;
    std::uint32_t kind; // INLAY_KIND_*
    inlay_dtype dtype;
    std::optional<Shape> shape; // none: the rank is not known
    std::vector<std::string> symbols;
    bool optional; // has a default
};
struct Provider {
    std::string name, plugin_path, plugin_version;
    std::optional<std::string> skipped; // why the session does without it
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
    std::uint32_t max_threads = 0;         // of the session's intra_threads; 0: all of them
};

using Feeds = std::vector<std::pair<std::string, Value>>;

namespace detail {
struct DestroySession {
    void operator()(inlay_session *s) const noexcept { inlay_session_destroy(s); }
};
struct DestroyContext {
    void operator()(inlay_context *c) const noexcept { inlay_context_destroy(c); }
};
using ContextPtr = std::unique_ptr<inlay_context, DestroyContext>;

// What a session's copies and contexts share; contexts go before the session.
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

// One thread's runs: inputs and outputs stay bound from run to run.
class Context {
public:
    void set_input(std::uint32_t index, const Value &value)
    {
        Diag diag;

        diag.check(inlay_context_set_input(live(), index, value.get(), diag));
    }
    void set_input(const std::string &name, const Value &value) { set_input(find(name, true), value); }
    // Has runs write the output into value, where it fits.
    void set_output(std::uint32_t index, const Value &value)
    {
        Diag diag;

        diag.check(inlay_context_set_output(live(), index, value.get(), diag));
    }
    void set_output(const std::string &name, const Value &value) { set_output(find(name, false), value); }
    void run(const RunOptions &options = {})
    {
        inlay_run_options o = INLAY_RUN_OPTIONS_INIT;
        Diag diag;

        o.cancel = options.cancel != nullptr ? options.cancel->word() : nullptr;
        o.timeout_ns = static_cast<std::uint64_t>(options.timeout.count());
        o.max_threads = options.max_threads;
        diag.check(inlay_context_run(live(), &o, diag));
    }
    // Of the last run; later runs leave it alone for as long as it is held.
    Value output(std::uint32_t index) const
    {
        inlay_value *v = inlay_context_output(live(), index);

        if (v == nullptr)
            fail(INLAY_INVALID_ARGUMENT, "output " + std::to_string(index) + " is not there: no run has made it");
        return Value(inlay_value_ref(v));
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
        const inlay_session *s = (live(), shared_->session.get());
        std::uint32_t i = input ? inlay_session_find_input(s, name.c_str()) : inlay_session_find_output(s, name.c_str());

        if (i == INLAY_NONE)
            fail(INLAY_INVALID_ARGUMENT, std::string("the model has no ") + (input ? "input '" : "output '") + name + "'");
        return i;
    }
    inlay_context *live() const
    {
        if (context_ == nullptr)
            fail(INLAY_INVALID_ARGUMENT, "there is no context: it was moved to another variable");
        return context_.get();
    }
    std::shared_ptr<detail::Shared> shared_;
    detail::ContextPtr context_; // goes first
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
    // From memory, which the session copies.
    static Session from_bytes(const void *data, std::size_t bytes, const Options &options = Options())
    {
        Session s;
        const auto *from = static_cast<const unsigned char *>(data);

        s.shared_->bytes.assign(from, from + bytes);
        s.make(options, [&](inlay_session **out, inlay_diag *diag) {
            return inlay_session_create_from_bytes(s.shared_->bytes.data(), bytes, options.get(), out, diag);
        });
        return s;
    }

    Context context() const
    {
        detail::ContextPtr c = new_context();

        return Context(shared_, std::move(c));
    }

    // All outputs, in the model's order. Any thread; contexts are kept for later runs.
    std::vector<Value> run(const Feeds &feeds, const RunOptions &options = {}) const
    {
        detail::ContextPtr taken = take();
        Context c(shared_, std::move(taken));
        std::vector<Value> out;

        for (const auto &[name, value] : feeds)
            c.set_input(name, value);
        c.run(options);
        for (std::uint32_t i = 0; i < inlay_session_output_count(live()); i++)
            out.push_back(c.output(i));
        for (const auto &[name, value] : feeds)
            c.set_input(name, Value());
        std::lock_guard<std::mutex> hold(there().mutex);
        if (there().idle.size() < 64)
            there().idle.push_back(std::move(c.context_));
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
        inlay_model_info i = {};
        const char *key, *value;
        Model m;

        i.struct_size = sizeof i;
        Diag().check(inlay_session_model(live(), &i));
        m = { i.producer_name, i.producer_version, i.domain, i.graph_name, i.doc, i.model_version, i.ir_version, {} };
        for (std::uint32_t k = 0; inlay_session_metadata(live(), k, &key, &value) == INLAY_OK; k++)
            m.metadata.emplace_back(key, value);
        return m;
    }
    // Those in use, then those that were asked for and could not be had.
    std::vector<Provider> providers() const
    {
        inlay_session_provider_info i = {};
        std::vector<Provider> out;

        i.struct_size = sizeof i;
        for (std::uint32_t k = 0; inlay_session_provider(live(), k, &i) == INLAY_OK; k++)
            out.push_back({ i.name, i.plugin_path, i.plugin_version,
                            i.skipped != nullptr ? std::optional<std::string>(i.skipped) : std::nullopt });
        return out;
    }
    // Who runs what, and why: "text" or "json".
    std::string explain(const std::string &format = "text") const
    {
        inlay_explain_options o = {};
        std::string out;
        Diag diag;

        o.struct_size = sizeof o;
        o.format = format.c_str();
        diag.check(inlay_session_explain(live(), &o, detail::append, &out, diag));
        return out;
    }
    inlay_session *get() const noexcept { return shared_ != nullptr ? shared_->session.get() : nullptr; }

private:
    Session() = default;
    template <class Make> void make(const Options &options, Make create)
    {
        inlay_session *s = nullptr;
        Diag diag;

        shared_->log = options.log();
        diag.check(create(&s, diag));
        shared_->session.reset(s);
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
        inlay_context *c = nullptr;
        Diag diag;

        diag.check(inlay_context_create(live(), &c, diag));
        return detail::ContextPtr(c);
    }
    detail::ContextPtr take() const
    {
        {
            std::lock_guard<std::mutex> hold(there().mutex);

            if (!there().idle.empty()) {
                detail::ContextPtr c = std::move(there().idle.back());

                there().idle.pop_back();
                return c;
            }
        }
        return new_context();
    }
    template <class Ask> std::vector<Info> infos(std::uint32_t count, Ask ask) const
    {
        std::vector<Info> out;

        for (std::uint32_t k = 0; k < count; k++) {
            inlay_io_info i = {};
            Info info;

            i.struct_size = sizeof i;
            Diag().check(ask(live(), k, &i));
            info.name = i.name;
            info.kind = i.kind;
            info.dtype = i.dtype;
            info.optional = i.optional != 0;
            if (i.rank != INLAY_RANK_UNKNOWN) {
                info.shape = Shape(i.dims, i.dims + i.rank);
                info.symbols.assign(i.dim_names, i.dim_names + i.rank);
            }
            out.push_back(std::move(info));
        }
        return out;
    }
    std::shared_ptr<detail::Shared> shared_ = std::make_shared<detail::Shared>();
};

} // namespace inlay
#endif
