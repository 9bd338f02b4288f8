// The C++ header with small models of ONNX: values, sessions, contexts, errors, threads.
#include "inlay/inlay.hpp"
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>

#define CASE(path) ONNX_TEST_DATA "/" path "/model.onnx"
#define CHECK(condition)                                                                \
    do {                                                                                \
        if (!(condition)) {                                                             \
            (void)std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            std::exit(1);                                                               \
        }                                                                               \
    } while (0)

// Returns the error that f throws; the test fails if it throws none.
template <class F> static inlay::Error error_of(F f)
{
    try {
        f();
    } catch (const inlay::Error &e) {
        return e;
    }
    (void)std::fprintf(stderr, "nothing was thrown\n");
    std::exit(1);
}

static bool has(const std::string &text, const char *part)
{
    return text.find(part) != std::string::npos;
}

static void test_values()
{
    std::vector<float> data = { 1, 2, 3, 4, 5, 6 };
    inlay::Value v = inlay::Value::borrow(data, { 2, 3 }), same = v, moved;

    CHECK(v.dtype() == INLAY_FLOAT && v.count() == 6 && v.shape() == (inlay::Shape{ 2, 3 }));
    CHECK(v.data<float>().data() == data.data());
    CHECK(same.get() == v.get());
    moved = std::move(same);
    CHECK(!same && moved.data<float>()[5] == 6);
    CHECK(has(error_of([&] { v.data<double>(); }).what(), "the elements are float, not double"));
    CHECK(has(error_of([&] { inlay::Value::borrow(data, { 7 }); }).what(), "this shape needs 28"));
    CHECK(has(error_of([&] { inlay::Value::copy(std::vector<int>{ 1 }, { 2 }); }).what(), "has 2 elements"));
    CHECK(has(error_of([] { inlay::Value().dtype(); }).what(), "there is no value"));

    CHECK(has(error_of([&] { inlay::Value::copy(std::vector<std::string>{}, { INT64_MAX, 4 }); }).what(),
              "more elements than memory"));
    inlay::Value texts = inlay::Value::copy({ std::string("a"), std::string("bc") }, { 2 });
    CHECK(texts.strings() == (std::vector<std::string>{ "a", "bc" }));
    inlay::Value list = inlay::Value::sequence({ v, moved });
    CHECK(list.kind() == INLAY_KIND_SEQUENCE && list.count() == 2 && list.item(1).get() == v.get());
    CHECK(error_of([&] { list.item(2); }).code() == INLAY_INVALID_ARGUMENT);

    inlay::Value half = inlay::Value::create(INLAY_FLOAT16, { 3 });
    CHECK(half.data<std::uint16_t>().size() == 3); // has no C++ type
    CHECK(inlay::Value::create(INLAY_UINT8, { 0 }).data<std::uint8_t>().empty());
}

static void check_add(const inlay::Session &session)
{
    std::vector<float> x(60), y(60, 0.5f);

    for (std::size_t i = 0; i < x.size(); i++)
        x[i] = static_cast<float>(i);
    auto out = session.run({ { "x", inlay::Value::borrow(x, { 3, 4, 5 }) }, { "y", inlay::Value::borrow(y, { 3, 4, 5 }) } });
    CHECK(out.size() == 1 && out[0].shape() == (inlay::Shape{ 3, 4, 5 }));
    inlay::Span<float> sum = out[0].data<float>();
    for (std::size_t i = 0; i < sum.size(); i++)
        CHECK(sum[i] == x[i] + 0.5f);
}

static void test_sessions()
{
    inlay::Session session(CASE("node/test_add"), inlay::Options().set("providers", "reference"));
    std::ifstream file(CASE("node/test_add"), std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());

    check_add(session);
    check_add(inlay::Session::from_bytes(bytes.data(), bytes.size()));
    CHECK(session.inputs().size() == 2 && session.inputs()[0].name == "x");
    CHECK(session.inputs()[0].shape == (inlay::Shape{ 3, 4, 5 }) && session.inputs()[0].dtype == INLAY_FLOAT);
    CHECK(session.outputs()[0].name == "sum" && !session.outputs()[0].optional);
    CHECK(session.providers()[0].name == "reference" && !session.providers()[0].skipped);
    CHECK(session.model().producer_name == "backend-test");
    CHECK(has(session.explain(), "Add") && session.explain("json")[0] == '{');
    session.update({});
    CHECK(has(error_of([&] { session.update({ { "weight", inlay::Value::create(INLAY_FLOAT, { 2 }) } }); }).what(),
              "no initializer 'weight'"));
}

static void test_contexts()
{
    inlay::Session session(CASE("node/test_add"));
    std::vector<float> x(60, 1), y(60, 2), z(60);
    inlay::Context c = session.context();

    c.set_input("x", inlay::Value::borrow(x, { 3, 4, 5 }));
    c.set_input(1, inlay::Value::borrow(y, { 3, 4, 5 }));
    c.set_output("sum", inlay::Value::borrow(z, { 3, 4, 5 }));
    c.run();
    CHECK(z[59] == 3);
    c.set_output(0, inlay::Value());
    c.run();
    inlay::Value kept = c.output("sum");
    x.assign(60, 10);
    c.run();
    CHECK(kept.data<float>()[0] == 3 && c.output(0).data<float>()[0] == 12);
}

static void test_errors()
{
    inlay::Session session(CASE("node/test_add"));
    std::vector<float> x(60), small(3);
    inlay::Value whole = inlay::Value::borrow(x, { 3, 4, 5 });
    inlay::Cancel cancel;

    CHECK(error_of([] { inlay::Session("/nowhere.onnx"); }).code() == INLAY_NOT_FOUND);
    CHECK(error_of([] { inlay::Session::from_bytes("no model", 8); }).code() == INLAY_INVALID_MODEL);
    CHECK(has(error_of([] { inlay::Options().set("presicion", "f32"); }).what(), "precision"));
    CHECK(has(error_of([&] { session.run({ { "nope", whole } }); }).what(), "no input 'nope'"));
    CHECK(has(error_of([&] { session.run({ { "x", whole } }); }).what(), "'y' is not bound"));
    inlay::Error shape = error_of([&] { session.run({ { "x", inlay::Value::borrow(small, { 3 }) } }); });
    CHECK(shape.code() == INLAY_SHAPE_MISMATCH && shape.tensor() == "x" && shape.error_class() == INLAY_CLASS_SHAPE);
    cancel.set();
    CHECK(error_of([&] { session.run({ { "x", whole }, { "y", whole } }, { &cancel, {} }); }).code() == INLAY_CANCELLED);
    check_add(session);

    std::vector<std::int32_t> ints(60);
    shape = error_of([&] { session.run({ { "x", inlay::Value::borrow(ints, { 3, 4, 5 }) }, { "y", whole } }); });
    CHECK(shape.code() == INLAY_SHAPE_MISMATCH && has(shape.what(), "the model expects float"));
    inlay::Context context = session.context(), other = std::move(context);
    CHECK(has(error_of([&] { context.run(); }).what(), "there is no context"));
    CHECK(has(error_of([&] { context.set_input("x", whole); }).what(), "there is no context"));
    inlay::Session moved = std::move(session);
    CHECK(has(error_of([&] { session.run({ { "x", whole }, { "y", whole } }); }).what(), "there is no session"));
    CHECK(has(error_of([&] { session.inputs(); }).what(), "there is no session"));
    CHECK(has(error_of([&] { session.explain(); }).what(), "there is no session"));
    CHECK(has(error_of([&] { session.context(); }).what(), "there is no session") && session.get() == nullptr);
    check_add(moved);
}

static void test_callbacks()
{
    int steps = 0;
    auto count = [&](double, std::string_view) { return ++steps > 0; };
    auto refuse = [](double, std::string_view) { return false; };

    inlay::Session session(CASE("node/test_add"), inlay::Options().on_progress(count).on_log([](auto, auto) {}));
    CHECK(steps > 0);
    CHECK(error_of([&] { inlay::Session(CASE("node/test_add"), inlay::Options().on_progress(refuse)); }).code() ==
          INLAY_CANCELLED);
}

static void test_threads()
{
    inlay::Session session(CASE("node/test_add"));
    std::vector<std::thread> threads;

    for (int t = 0; t < 4; t++)
        threads.emplace_back([copy = session] {
            for (int i = 0; i < 25; i++)
                check_add(copy);
        });
    for (std::thread &t : threads)
        t.join();
}

// The provider returns the number of threads that it may use.
static void test_threads_of_a_run()
{
    inlay::Session session(CASE("node/test_relu"), inlay::Options()
                                                       .set("providers", "counting")
                                                       .set("plugin_dirs", COUNTING_DIR)
                                                       .set("intra_threads", "2"));
    float all = 0; // the process may have fewer CPUs than the machine
    std::vector<float> x(60);

    for (std::uint32_t threads : { 0, 1, 9 }) {
        inlay::RunOptions options;

        options.max_threads = threads;
        auto out = session.run({ { "x", inlay::Value::borrow(x, { 3, 4, 5 }) } }, options);
        all = threads == 0 ? out[0].data<float>()[59] : all;
        CHECK(all == 1 || all == 2);
        CHECK(out[0].data<float>()[59] == (threads == 1 ? 1 : all));
    }
}

// The fake device with option echo: every result is 100 * delay_us + 10 * priority + power.
static void test_devices()
{
    const auto options = [] {
        inlay::Options made;

        made.set("plugin_dirs", FAKE_DIR).set("providers", "fake,reference").set("policy", "priority");
        made.set("fake.echo", "true");
        return made;
    };
    const inlay::Session session(CASE("node/test_relu"), options());
    const inlay::Session hinted(CASE("node/test_relu"),
                                options().set("priority", "high").set("power", "performance"));
    std::vector<float> x(60);
    const auto result = [&x](const inlay::Session &of, const inlay::RunOptions &how) {
        return of.run({ { "x", inlay::Value::borrow(x, { 3, 4, 5 }) } }, how)[0].data<float>()[59];
    };
    inlay::RunOptions high, low;

    high.priority = INLAY_PRIORITY_HIGH;
    high.power = INLAY_POWER_EFFICIENCY;
    low.priority = INLAY_PRIORITY_LOW;
    CHECK(result(session, {}) == 0 && result(session, high) == 21);
    CHECK(result(hinted, {}) == 22 && result(hinted, low) == 12);
    session.set_option("fake", "delay_us", "3");
    CHECK(result(session, {}) == 300);
    session.reset_option("fake", "delay_us");
    CHECK(result(session, {}) == 0);
    CHECK(session.trim("fake", 4096) == 2048 && session.trim("fake") == 0);
    session.trim();
    session.suspend("fake");
    CHECK(error_of([&] { result(session, {}); }).code() == INLAY_BUSY);
    session.resume("fake");
    CHECK(result(session, {}) == 0);
    CHECK(error_of([&] { session.suspend("reference"); }).code() == INLAY_UNSUPPORTED);
}

int main()
{
    test_values();
    test_sessions();
    test_contexts();
    test_errors();
    test_callbacks();
    test_threads();
    test_threads_of_a_run();
    test_devices();
    return 0;
}
