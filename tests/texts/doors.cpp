// Continues a prompt by inlay/text.hpp: doors_cpp MODEL PROMPT SEED
#include <inlay/text.hpp>
#include <cstdlib>
#include <iostream>

int main(int argc, char **argv)
try {
    if (argc != 4)
        return EXIT_FAILURE;
    inlay::TextModel model(argv[1], inlay::Options().load_environment());
    inlay::Sampling how;
    std::string pieces;

    how.temperature = 0.7F;
    how.top_p = 0.9F;
    how.seed = std::strtoull(argv[3], nullptr, 10);
    how.max_tokens = 60;
    for (const std::string &piece : model.generate(argv[2], how))
        pieces += piece;
    if (model.generate(model.tokenize(argv[2]), how).text() != pieces || // the tokens of the prompt
        model.detokenize(model.tokenize("hello")) != "hello" || model.info().embeds != 0)
        return EXIT_FAILURE;
    std::cout << pieces << '\n';
    try {
        (void)model.embed("a");
        return EXIT_FAILURE;
    } catch (const inlay::Error &error) {
        return error.code() == INLAY_UNSUPPORTED ? EXIT_SUCCESS : EXIT_FAILURE;
    }
} catch (const inlay::Error &error) {
    std::cerr << error.what() << '\n';
    return EXIT_FAILURE;
}
