/* C++ operators that use the whole of operator.hpp, for test_cpp_more.c. */
#define INLAY_NOTE_VERSION "2.5.1"
#define INLAY_OPERATORS_DESCRIPTION "more operators"
#include "inlay/operator.hpp"
#include <atomic>

/* An optional output, lists, half precision. */
template <class T>
static void gate(inlay::tensor<const T> x, inlay::list<int64_t> which, inlay::list<float> scales,
                 inlay::list<const char *> modes, inlay::tensor<T> y, inlay::optional<bool> mask)
{
    for (int64_t i = 0; i < y.count; i++) {
        const bool open = x[i] > 0;
        float value = x[i];

        for (uint32_t k = 0; k < which.count; k++)
            if (which[k] == i)
                value *= scales[k];
        for (const char *mode : modes)
            value += std::strcmp(mode, "plus, one") == 0 ? 1.f : 0.f;
        y[i] = static_cast<T>(value);
        if (mask)
            mask[i] = open;
    }
}

/* A table that is prepared once for each node, from a constant that is then dropped. */
struct table {
    std::vector<float> squares;
    int64_t factor;
    int preparations;
};
static std::atomic<int> preparations;
static std::unique_ptr<table> prepare_table(const inlay::node &node)
{
    auto made = std::make_unique<table>();

    if (const auto weights = node.constant<float>(1)) {
        for (int64_t i = 0; i < weights.count; i++)
            made->squares.push_back(weights[i] * weights[i]);
        node.drop(1);
    }
    made->factor = node.integer("factor");
    if (made->factor == 13)
        throw std::invalid_argument("a factor of 13 is not wanted");
    made->preparations = ++preparations;
    return made;
}
static void lookup(inlay::state<table> table, inlay::tensor<const float> index, inlay::tensor<const float> weights,
                   int64_t, inlay::tensor<float> y)
{
    if (weights.data != nullptr)
        throw std::invalid_argument("the weights are no constant");
    for (int64_t i = 0; i < y.count; i++)
        y[i] = table->squares[static_cast<size_t>(index[i]) % table->squares.size()] * static_cast<float>(table->factor);
    if (y.count > 2)
        y[2] = static_cast<float>(table->preparations);
}

/* A shape of known, symbolic and computed sizes, and an attribute with a long name and text. */
static void rows(inlay::tensor<const float> x, const char *text, inlay::tensor<float> y, inlay::tensor<float> z)
{
    for (int64_t i = 0; i < y.count; i++)
        y[i] = static_cast<float>(std::strlen(text));
    for (int64_t i = 0; i < z.count; i++)
        z[i] = x[0];
}
static void rows_shape(inlay::shapes &s)
{
    s.set(0, s.in[0].dims[0], s.in[0].dims[1] * 2,
          std::strlen(s.text("a_name_of_more_than_sixty_four_bytes_that_must_"
                             "not_be_cut_because_nodes_have_it")));
    s.set(1, s.in[0].count());
}

/* A value of an unknown size: nothing is known before the run. */
static void first(inlay::tensor<const float> x, inlay::tensor<float> y)
{
    for (int64_t i = 0; i < y.count; i++)
        y[i] = x[i];
}
static void first_shape(inlay::shapes &s)
{
    s.set(0, s.in[0].dims[0] > 2 ? inlay::dim(2) : s.in[0].dims[0]);
}

template <class T> static void copy(inlay::tensor<const T> x, inlay::tensor<T> y)
{
    std::memcpy(y.data, x.data, static_cast<size_t>(x.count) * sizeof(T));
}

#define LONG "12345678901234567890123456789012345678901234567890123456789012345678901234567890"

INLAY_OPERATORS(
    "cpp_more", "com.example.more",
    inlay::op<gate<float>, gate<inlay::float16>, gate<inlay::bfloat16>>(
        "Gate", "x, which=[0, 2], scales=[2, 0.5], modes=['plus, one', '->'] -> y, mask")
        .with_example({ "defaults",
                        { inlay::array::of<float>({ 3 }, { 1, -2, 4 }) },
                        { inlay::array::of<float>({ 3 }, { 3, -1, 3 }),
                          inlay::array::of<bool>({ 3 }, { true, false, true }) } })
        .with_example({ "without mask",
                        { inlay::array::of<float>({ 1 }, { 1 }) },
                        { inlay::array::of<float>({ 1 }, { 10 }) },
                        { { "scales", std::vector<float>{ 10, 1 } },
                          { "modes", std::vector<std::string>{ "none" } } } }),
    inlay::op<lookup>("Lookup", "index, weights, factor=1 -> y")
        .with_state<prepare_table>()
        .with_poll(20)
        .with_cost([](const inlay::shapes &s, inlay_cost &cost) {
            cost.ns = 7e6 * static_cast<double>(s.in[0].dims[0]) * static_cast<double>(s.integer("factor"));
        }),
    inlay::op<rows>("Rows",
                    "x, a_name_of_more_than_sixty_four_bytes_that_must_not_be_cut_because_nodes_have_it='" LONG LONG
                    "' -> y, z")
        .with_shape(rows_shape)
        .with_doc("Rows."),
    inlay::op<first>("First", "x -> y").with_shape(first_shape), inlay::op<copy<float>>("Copy", "x -> y"),
    inlay::op<copy<inlay::float16>>("Copy", "x -> y").with_version(3))
