/* Operators with string tensors, variadic inputs and outputs, and outputs whose shapes depend on data. */
#include "inlay/operator.hpp"
#include <algorithm>

/* The texts of all inputs, element by element, with a word between them. */
static void join(const char *between, inlay::call run, inlay::tensors<const inlay::text> parts,
                 inlay::tensor<inlay::text> y)
{
    for (uint32_t p = 0; p < parts.count; p++)
        if (parts[p].count != y.count)
            throw std::invalid_argument("the parts differ in size");
    for (int64_t i = 0; i < y.count; i++) {
        std::string all;

        for (uint32_t p = 0; p < parts.count; p++)
            all.append(p > 0 ? between : "").append(parts[p][i].view());
        run.store(y[i], all);
    }
}

/* Splits at blanks: the words, and for each the index of its text. */
static void split(inlay::call run, inlay::tensor<const inlay::text> x, inlay::result<inlay::text> words,
                  inlay::result<int64_t> rows)
{
    std::vector<std::string_view> found;
    std::vector<int64_t> of;

    for (int64_t i = 0; i < x.count; i++) {
        const std::string_view text = x[i];

        for (size_t at = 0, end; at < text.size(); at = end + 1) {
            end = std::min(text.find(' ', at), text.size());
            if (end > at) {
                found.push_back(text.substr(at, end - at));
                of.push_back(i);
            }
        }
    }
    const inlay::tensor<inlay::text> y = words.allocate({ static_cast<int64_t>(found.size()) });
    for (size_t i = 0; i < found.size(); i++)
        run.store(y[static_cast<int64_t>(i)], found[i]);
    std::copy(of.begin(), of.end(), rows.allocate({ static_cast<int64_t>(of.size()) }).data);
}

/* Sums of all pairs: output i = input i + the next input. */
template <class T> static void neighbours(inlay::tensors<const T> x, inlay::tensors<T> y)
{
    if (x.count != y.count)
        throw std::invalid_argument("as many outputs as inputs");
    for (uint32_t o = 0; o < y.count; o++)
        if (y[o].count != x[0].count || x[o].count != x[0].count)
            throw std::invalid_argument("the inputs differ in size");
    for (uint32_t o = 0; o < y.count; o++)
        for (int64_t i = 0; i < y[o].count; i++)
            y[o][i] = x[o][i] + x[(o + 1) % x.count][i];
}

/* The elements above a bound. */
template <class T> static void above(inlay::tensor<const T> x, float bound, inlay::result<T> y)
{
    std::vector<T> found;

    for (int64_t i = 0; i < x.count; i++)
        if (x[i] > bound)
            found.push_back(x[i]);
    std::copy(found.begin(), found.end(), y.allocate({ static_cast<int64_t>(found.size()) }).data);
}

/* Forgets to allocate its output. */
static void forgets(inlay::tensor<const float>, inlay::result<float>) {}

using inlay::array;

INLAY_OPERATORS(
    "texts", "com.example.texts",
    inlay::op<join>("Join", "between='-', parts -> y")
        .with_example({ "two parts",
                        { array::of_texts({ 2 }, { "a", "b" }), array::of_texts({ 2 }, { "", "c" }) },
                        { array::of_texts({ 2 }, { "a-", "b-c" }) } }),
    inlay::op<split>("Split", "x -> words, rows")
        .with_example({ "words",
                        { array::of_texts({ 2 }, { "one two", " three " }) },
                        { array::of_texts({ 3 }, { "one", "two", "three" }), array::of<int64_t>({ 3 }, { 0, 0, 1 }) } })
        .with_example({ "no words",
                        { array::of_texts({ 1 }, { "" }) },
                        { array::of_texts({ 0 }, {}), array::of<int64_t>({ 0 }, {}) } }),
    inlay::op<neighbours<float>, neighbours<double>>("Neighbours", "x -> y")
        .with_example({ "two",
                        { array::of<float>({ 2 }, { 1, 5 }), array::of<float>({ 2 }, { 2, 3 }) },
                        { array::of<float>({ 2 }, { 3, 8 }), array::of<float>({ 2 }, { 3, 8 }) } }),
    inlay::op<above<float>, above<int32_t>>("Above", "x, bound=0 -> y")
        .with_example({ "some",
                        { array::of<float>({ 4 }, { 1, -1, 3, 0 }) },
                        { array::of<float>({ 2 }, { 1, 3 }) } }),
    inlay::op<forgets>("Forgets", "x -> y"))
