/* gguf_altup.c - Gemma 3n. Of four streams of hidden states a layer reads the first one. Small matrices predict the
 * streams before the layer and correct them after it, by what the layer has made of the first one (AltUp, "Alternating
 * Updates"). Each layer also has a vector of each token, by which it changes the other streams, and a product of two
 * small matrices, which is added to the result of its attention (LAuReL).
 *
 * Sizes that files state, and llama.cpp does not read, are constants here as there. */
#include "formats/gguf_altup.h"
#include "formats/onnx_write.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STREAMS = 4, VECTOR = 256 /* of a layer and token */, LAUREL = 64, SPARSE_LAYERS = 10 };

static void set_stream(struct builder *b, const char *name)
{
    (void)snprintf(b->stream, sizeof b->stream, "%s", name);
}

/* output = PREFIXNAME.weight x input, `columns` to `rows` elements. */
static void multiply(struct builder *b, const char *prefix, const char *name, int64_t columns, int64_t rows,
                     const char *input, const char *output)
{
    char full[GGUF_NAME];

    (void)snprintf(full, sizeof full, "%s%s", prefix, name);
    gguf_builder_linear(b, full, columns, rows, 0, rows, input, output);
}

static void normalize(struct builder *b, const char *prefix, const char *name, int64_t size, const char *input,
                      const char *output)
{
    char full[GGUF_NAME];

    (void)snprintf(full, sizeof full, "%s%s.weight", prefix, name);
    gguf_builder_rms_norm(b, full, size, input, output);
}

/* NAME.length: the root of the sum of the squares of its elements. */
static void measure(struct builder *b, const char *name)
{
    char inputs[TEXT], squares[TEXT];

    (void)snprintf(inputs, sizeof inputs, "%s altup.last", name);
    (void)snprintf(squares, sizeof squares, "%.200s.squares", name);
    gguf_builder_node_of(b, "ReduceSumSquare", inputs, squares, "keepdims", 1);
    gguf_builder_node(b, "Sqrt", "%s -> %s.length", squares, name);
}

/* Matrices of the three other streams; NULL after a failure. */
static const struct gguf_tensor *stack(struct builder *b, const char *name)
{
    const struct gguf_tensor *tensor = gguf_tensor(b->gguf, name);

    if (tensor == NULL || tensor->rank != 3 || tensor->dims[0] != b->width || tensor->dims[1] != b->width ||
        tensor->dims[2] != STREAMS - 1)
        gguf_builder_refuse_tensor(b, name);
    return b->gguf->status == INLAY_OK ? tensor : NULL;
}

/* layer.vectors [batch, length, layers, 256]: of a table of tokens, and a product of the embeddings. */
static void write_vectors(struct builder *b)
{
    struct gguf_tensor *table = gguf_tensor(b->gguf, "per_layer_token_embd.weight");
    const int64_t all = VECTOR * b->layers;

    if (table == NULL || table->rank != 2 || table->dims[0] != all)
        gguf_builder_refuse_tensor(b, "per_layer_token_embd.weight");
    if (b->gguf->status == INLAY_OK)
        b->gguf->status = gguf_write_rows(b->gguf, table, "input_ids", "vectors.rows", b->out, b->gguf->diag);
    gguf_builder_list(b, "vectors.apart", (int64_t[]){ 0, 0, b->layers, VECTOR }, 4);
    gguf_builder_scalar(b, "vectors.scale", sqrt(VECTOR));
    gguf_builder_scalar(b, "vectors.projected", 1 / sqrt((double)b->width));
    gguf_builder_program(b,
                         "Mul vectors.rows vectors.scale > vectors.large;"
                         "Reshape vectors.large vectors.apart > vectors.tokens;",
                         "");
    multiply(b, "", "per_layer_model_proj", b->width, all, b->stream, "vectors.product");
    gguf_builder_program(b,
                         "Mul vectors.product vectors.projected > vectors.small;"
                         "Reshape vectors.small vectors.apart > vectors.part;",
                         "");
    normalize(b, "", "per_layer_proj_norm", VECTOR, "vectors.part", "vectors.normal");
    gguf_builder_program(
        b, "Add vectors.tokens vectors.normal > vectors.sum;Mul vectors.sum altup.half_root > vectors;", "");
}

void gguf_begin_altup(struct builder *b)
{
    static const float others[STREAMS] = { 0, 1, 1, 1 };
    const struct gguf_tensor *matrices = stack(b, "altup_proj.weight");

    gguf_builder_program(b, "[-1] > altup.last;[2] > altup.axis;", "");
    gguf_builder_list(b, "altup.matrix", (int64_t[]){ 0, 0, STREAMS, STREAMS }, 4);
    gguf_builder_list(b, "altup.apart", (int64_t[]){ 0, 0, STREAMS - 1, b->width }, 4);
    gguf_builder_list(b, "altup.column", (int64_t[]){ 0, 0, STREAMS, 1 }, 4);
    onnx_tensor(b->out, "altup.first", INLAY_INT64, NULL, 0, &(int64_t){ 0 }, sizeof(int64_t));
    onnx_tensor(b->out, "altup.others", INLAY_FLOAT, (int64_t[]){ STREAMS, 1 }, 2, others, sizeof others);
    gguf_builder_program(b, "[0] > no_keys.none;1 > altup.one;", "");
    gguf_builder_scalar(b, "altup.share", 1.0 / (double)STREAMS);
    gguf_builder_scalar(b, "altup.half_root", sqrt(0.5));
    gguf_builder_scalar(b, "altup.width", 1.0 / (double)b->width);
    gguf_builder_scalar(b, "sparse.deviations", 1.6448533535003662);
    gguf_builder_scalar(b, "sparse.count", 1.0 / (double)(b->hidden - 1));
    write_vectors(b);
    measure(b, b->stream);
    if (matrices != NULL) {
        const struct gguf_product product = { matrices, 0, (STREAMS - 1) * b->width, "altup_proj.weight", NULL };

        b->gguf->status = gguf_write_product(b->gguf, &product, b->stream, "altup.product", b->out, b->gguf->diag);
    }
    gguf_builder_node(b, "Reshape", "altup.product altup.apart -> altup.raw");
    measure(b, "altup.raw");
    gguf_builder_node(b, "Unsqueeze", "%s.length altup.axis -> altup.length", b->stream);
    gguf_builder_program(b, "Mul altup.raw altup.length > altup.long;Div altup.long altup.raw.length > altup.more;",
                         "");
    gguf_builder_node(b, "Unsqueeze", "%s altup.axis -> altup.stream", b->stream);
    gguf_builder_node_of(b, "Concat", "altup.stream altup.more", "streams", "axis", 2);
}

/* The name of the streams after a layer; -1: before the first one. */
static void name_streams(int64_t layer, char out[GGUF_NAME])
{
    (void)snprintf(out, GGUF_NAME, layer < 0 ? "streams" : "blk.%" PRId64 ".streams", layer);
}

/* output [batch, length, 4] = tanh of the router's product of the normalized input. */
static void route(struct builder *b, const char *prefix, const char *input, const char *output)
{
    char text[TEXT], small[TEXT];

    (void)snprintf(text, sizeof text, "%s.normal", output);
    (void)snprintf(small, sizeof small, "%s.small", output);
    normalize(b, prefix, "altup_router_norm", b->width, input, text);
    gguf_builder_node(b, "Mul", "%s altup.width -> %s", text, small);
    (void)snprintf(text, sizeof text, "%s.product", output);
    multiply(b, prefix, "altup_router", b->width, STREAMS, small, text);
    gguf_builder_node(b, "Tanh", "%s -> %s", text, output);
}

/* output = the first stream. */
static void take_first(struct builder *b, const char *streams, const char *output)
{
    char inputs[TEXT];

    (void)snprintf(inputs, sizeof inputs, "%s altup.first", streams);
    gguf_builder_node_of(b, "Gather", inputs, output, "axis", 2);
}

void gguf_begin_altup_layer(struct builder *b, int64_t layer, const char *prefix)
{
    char streams[GGUF_NAME], name[GGUF_NAME], other[GGUF_NAME];

    name_streams(layer - 1, streams);
    b->sparse = layer < SPARSE_LAYERS;
    (void)snprintf(name, sizeof name, "%sold", prefix);
    (void)snprintf(other, sizeof other, "%sold.modes", prefix);
    take_first(b, streams, name);
    route(b, prefix, name, other);
    (void)snprintf(name, sizeof name, "%spredict", prefix);
    multiply(b, prefix, "altup_predict_coef", STREAMS, STREAMS * STREAMS, other, name);
    gguf_builder_node(b, "Reshape", "%s altup.matrix -> %s.matrix", name, name);
    gguf_builder_node(b, "MatMul", "%s.matrix %s -> %s.change", name, streams, name);
    gguf_builder_node(b, "Add", "%s.change %s -> %s.streams", name, streams, name);
    (void)snprintf(streams, sizeof streams, "%spredict.streams", prefix);
    (void)snprintf(other, sizeof other, "%sactive", prefix);
    take_first(b, streams, other);
    set_stream(b, other);
}

void gguf_write_laurel(struct builder *b, const char *prefix, const char *input)
{
    char left[GGUF_NAME], right[GGUF_NAME], normal[GGUF_NAME], sum[GGUF_NAME];

    (void)snprintf(left, sizeof left, "%slaurel.left", prefix);
    (void)snprintf(right, sizeof right, "%slaurel.right", prefix);
    (void)snprintf(normal, sizeof normal, "%slaurel.normal", prefix);
    (void)snprintf(sum, sizeof sum, "%slaurel.stream", prefix);
    multiply(b, prefix, "laurel_l", b->width, LAUREL, input, left);
    multiply(b, prefix, "laurel_r", LAUREL, b->width, left, right);
    normalize(b, prefix, "laurel_post_norm", b->width, right, normal);
    gguf_builder_node(b, "Add", "%s %s -> %slaurel", normal, input, prefix);
    gguf_builder_node(b, "Add", "%s %slaurel -> %s.sum", gguf_builder_stream(b, sum), prefix, sum);
    gguf_builder_node(b, "Mul", "%s.sum altup.half_root -> %s.scaled", sum, sum);
    (void)snprintf(sum, sizeof sum, "%slaurel.stream.scaled", prefix);
    set_stream(b, sum);
}

void gguf_end_altup_layer(struct builder *b, int64_t layer, const char *prefix)
{
    char made[GGUF_NAME], modes[GGUF_NAME], name[GGUF_NAME], other[TEXT];

    (void)snprintf(made, sizeof made, "%smade", prefix);
    (void)snprintf(modes, sizeof modes, "%smade.modes", prefix);
    (void)snprintf(name, sizeof name, "%scorrect", prefix);
    (void)gguf_builder_stream(b, made);
    route(b, prefix, b->stream, modes);
    multiply(b, prefix, "altup_correct_coef", STREAMS, STREAMS, modes, name);
    gguf_builder_program(b, "Add $ altup.one > $.factors;Reshape $.factors altup.column > $.column;", name);
    gguf_builder_node(b, "Sub", "%s %sactive -> %s.change", b->stream, prefix, name);
    gguf_builder_program(b, "Unsqueeze $.change altup.axis > $.row;Mul $.column $.row > $.changes;", name);
    gguf_builder_node(b, "Add", "%s.changes %spredict.streams -> %s.streams", name, prefix, name);

    /* the vector of the layer, which the first stream gates, is added to the other ones */
    (void)snprintf(other, sizeof other, "%scorrect.streams", prefix);
    (void)snprintf(made, sizeof made, "%scorrect.first", prefix);
    (void)snprintf(modes, sizeof modes, "%saltup_correct_scale.weight", prefix);
    take_first(b, other, made);
    gguf_builder_vector(b, modes, b->width);
    gguf_builder_node(b, "Mul", "%s %s -> %s.scaled", made, modes, made);
    (void)snprintf(made, sizeof made, "%scorrect.first.scaled", prefix);
    (void)snprintf(modes, sizeof modes, "%svector.gate", prefix);
    multiply(b, prefix, "inp_gate", b->width, VECTOR, made, modes);
    gguf_builder_node(b, "com.microsoft.FastGelu", "%s -> %s.act", modes, modes);
    (void)snprintf(name, sizeof name, "%svector.number", prefix);
    onnx_tensor(b->out, name, INLAY_INT64, NULL, 0, &layer, sizeof layer);
    (void)snprintf(other, sizeof other, "vectors %s", name);
    (void)snprintf(made, sizeof made, "%svector", prefix);
    gguf_builder_node_of(b, "Gather", other, made, "axis", 2);
    gguf_builder_node(b, "Mul", "%s %s.act -> %s.gated", made, modes, made);
    (void)snprintf(modes, sizeof modes, "%svector.gated", prefix);
    (void)snprintf(name, sizeof name, "%svector.product", prefix);
    multiply(b, prefix, "proj", VECTOR, b->width, modes, name);
    (void)snprintf(modes, sizeof modes, "%svector.normal", prefix);
    normalize(b, prefix, "post_norm", b->width, name, modes);
    gguf_builder_program(b, "Unsqueeze $ altup.axis > $.row;Mul $.row altup.others > $.rows;", modes);
    name_streams(layer, name);
    gguf_builder_node(b, "Add", "%scorrect.streams %s.rows -> %s", prefix, modes, name);
}

void gguf_end_altup(struct builder *b)
{
    const struct gguf_tensor *matrices = stack(b, "altup_unembd_proj.weight");
    char streams[GGUF_NAME], inputs[TEXT], name[GGUF_NAME], weights[GGUF_NAME], sum[GGUF_NAME] = "stream.0";

    name_streams(b->layers - 1, streams);
    take_first(b, streams, sum);
    measure(b, sum);
    for (int64_t i = 1; i < STREAMS && b->gguf->status == INLAY_OK; i++) {
        const struct gguf_product product = { matrices, (i - 1) * b->width, b->width, weights, NULL };

        (void)snprintf(name, sizeof name, "stream.%" PRId64, i);
        (void)snprintf(weights, sizeof weights, "altup_unembd_proj.%" PRId64 ".weight", i);
        (void)snprintf(inputs, sizeof inputs, "%s %s.number", streams, name);
        onnx_tensor(b->out, strchr(inputs, ' ') + 1, INLAY_INT64, NULL, 0, &i, sizeof i);
        gguf_builder_node_of(b, "Gather", inputs, name, "axis", 2);
        (void)snprintf(inputs, sizeof inputs, "%s.raw", name);
        b->gguf->status = gguf_write_product(b->gguf, &product, name, inputs, b->out, b->gguf->diag);
        measure(b, inputs);
        gguf_builder_program(b, "Mul $.raw stream.0.length > $.long;Div $.long $.raw.length > $.back;", name);
        gguf_builder_node(b, "Add", "%s %s.back -> %s.sum", sum, name, name);
        (void)snprintf(sum, sizeof sum, "stream.%" PRId64 ".sum", i);
    }
    gguf_builder_node(b, "Mul", "%s altup.share -> stream.mean", sum);
    set_stream(b, "stream.mean");
}
