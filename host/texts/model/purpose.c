#include "texts/model/purpose.h"
#include "base/path.h"
#include "texts/draft/onnx_file.h"
#include <stdio.h>
#include <string.h>

enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1, TENSOR_SHAPE = 2, SHAPE_DIM = 1, DIM_VALUE = 1 };

uint32_t text_model_purposes(const text_model *text)
{
    return text == NULL ? 0 : text->decode.logits != INLAY_NONE ? TEXT_GENERATES : TEXT_EMBEDS;
}

static bool begins_with(wire_span text, const char *begin)
{
    return text.count >= strlen(begin) && memcmp(text.at, begin, strlen(begin)) == 0;
}

/* Whether every input is one of tokens or a state, or has a value in the file; *out_has_states: whether some are. */
static bool inputs_are_known(wire_span graph, bool *out_has_states)
{
    static const char *const names[] = { "input_ids", "attention_mask", "position_ids", "token_type_ids" };
    wire_span rest = graph, weight;
    bool has_ids = false;
    wire_field item;

    *out_has_states = false;
    while (wire_next(&rest, &item)) {
        const wire_span name = onnx_text(item.data, VALUE_NAME, 0);
        bool known = false;

        if (item.number != GRAPH_INPUT)
            continue;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            known |= wire_is(name, names[i]);
        has_ids |= wire_is(name, names[0]);
        if (begins_with(name, "past"))
            *out_has_states = known = true;
        if (!known && !onnx_named(graph, GRAPH_INITIALIZER, TENSOR_NAME, name, &weight))
            return false;
    }
    return has_ids;
}

/* Whether an output is a number for each text: its last axis has one element. */
static bool is_score(wire_span output)
{
    const wire_span shape = onnx_text(onnx_text(onnx_text(output, VALUE_TYPE, 0), TYPE_TENSOR, 0), TENSOR_SHAPE, 0);
    wire_field size, ignored;

    return onnx_field(onnx_text(shape, SHAPE_DIM, 1), DIM_VALUE, 0, &size) && size.value == 1 &&
           !onnx_field(shape, SHAPE_DIM, 2, &ignored);
}

static uint32_t purposes_of_graph(wire_span graph)
{
    static const char *const vectors[] = { "sentence_embedding", "last_hidden_state", "token_embeddings" };
    wire_span rest = graph;
    uint32_t purposes = 0;
    bool has_states;
    wire_field item;

    if (!inputs_are_known(graph, &has_states))
        return 0;
    while (wire_next(&rest, &item)) {
        const wire_span name = item.number == GRAPH_OUTPUT ? onnx_text(item.data, VALUE_NAME, 0) : (wire_span){ 0 };

        if (wire_is(name, "logits") && (has_states || is_score(item.data)))
            purposes |= has_states ? TEXT_GENERATES : TEXT_EMBEDS;
        for (size_t i = 0; i < sizeof vectors / sizeof *vectors && !has_states; i++)
            purposes |= wire_is(name, vectors[i]) ? TEXT_EMBEDS : 0;
    }
    return purposes;
}

/* The types of values of GGUF with a length, and the bytes of the others. */
enum { GGUF_TEXT = 8, GGUF_LIST = 9, GGUF_TYPES = 13 };
static const uint8_t gguf_bytes[GGUF_TYPES] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };

static bool take(FILE *file, size_t bytes, uint64_t *out)
{
    *out = 0;
    return fread(out, 1, bytes, file) == bytes;
}

/* Reads a text, whose end is left out if it is long. */
static bool take_text(FILE *file, char out[64])
{
    uint64_t bytes, kept;

    if (!take(file, 8, &bytes))
        return false;
    kept = bytes < 63 ? bytes : 63;
    out[kept] = '\0';
    if (fread(out, 1, kept, file) != kept)
        return false;
    while (kept < bytes) {
        char skipped[512];
        const uint64_t next = bytes - kept < sizeof skipped ? bytes - kept : sizeof skipped;

        if (fread(skipped, 1, next, file) != next)
            return false;
        kept += next;
    }
    return true;
}

/* Reads a value of a key: a text, or a number, whose elements do not matter in a list. */
static bool take_value(FILE *file, char text[64], uint64_t *out_number)
{
    uint64_t type, count = 1;
    bool good;

    text[0] = '\0';
    *out_number = 0;
    good = take(file, 4, &type);
    if (good && type == GGUF_LIST)
        good = take(file, 4, &type) && take(file, 8, &count);
    if (!good || type >= GGUF_TYPES || type == GGUF_LIST)
        return false;
    for (uint64_t i = 0; good && i < count; i++)
        good = type == GGUF_TEXT ? take_text(file, text) : take(file, gguf_bytes[type], out_number);
    return good;
}

static uint32_t purposes_of_keys(FILE *file)
{
    uint64_t magic, version, tensors, keys, number;
    bool pools = false, has_tokenizer = false;
    char key[64], text[64];

    if (!take(file, 4, &magic) || magic != 0x46554747 || !take(file, 4, &version) || !take(file, 8, &tensors) ||
        !take(file, 8, &keys))
        return 0;
    for (uint64_t i = 0; i < keys; i++) {
        if (!take_text(file, key) || !take_value(file, text, &number))
            return 0;
        if (strcmp(key, "tokenizer.ggml.model") == 0)
            has_tokenizer = strcmp(text, "none") != 0 && strcmp(text, "no_vocab") != 0;
        pools |= name_ends_in(key, ".pooling_type") && number != 0;
        pools |= name_ends_in(key, ".attention.causal") && number == 0;
    }
    return !has_tokenizer ? 0 : pools ? TEXT_EMBEDS : TEXT_GENERATES;
}

uint32_t text_file_purposes(const char *path)
{
    uint32_t purposes = TEXT_GENERATES | TEXT_EMBEDS;
    onnx_file model;

    if (!text_model_is_likely(path))
        return 0;
    if (name_ends_in(path, ".gguf")) {
        FILE *file = fopen(path, "rb");

        purposes = file != NULL ? purposes_of_keys(file) : 0;
        if (file != NULL)
            (void)fclose(file);
        return purposes;
    }
    if (onnx_file_open(path, &model))
        purposes = purposes_of_graph(model.graph);
    if (model.watch != NULL && mapped_file_check(model.watch, NULL) != INLAY_OK)
        purposes = 0;
    onnx_file_close(&model);
    return purposes;
}
