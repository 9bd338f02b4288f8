/* gguf_vision.c - the graph of a vision part: an image is decoded, resized and split into patches, a vision transformer
 * (CLIP, SigLIP) reads these, and a projector makes rows of the width of the language model: two matrix multiplications
 * (LLaVA), or means of squares of patches, a norm and one multiplication (Gemma 3).
 *
 * The preparation of images is that of llama.cpp: the image keeps its aspect ratio, is resized to the side of the
 * encoder, first its rows, then its columns, as Pillow does (bicubic for LLaVA, bilinear for Gemma 3, rounded to whole
 * values), and is centred on a colour. */
#include "formats/gguf_vision.h"
#include "formats/onnx_write.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_SIDE = 4096 };

struct projector {
    const char *name;
    float around[3];         /* the colour around images that are no squares, red, green and blue */
    bool gemma;              /* that of Gemma 3, which reads the last layer, not the one before it */
    const char *begin, *end; /* texts of the tokens before and after the rows; NULL: none */
};
static const struct projector projectors[] = {
    { "mlp", { 122, 116, 104 }, false, NULL, NULL },
    { "gemma3", { 0, 0, 0 }, true, "<start_of_image>", "<end_of_image>" },
};

struct vision {
    struct builder *b;
    const struct projector *projector;
    int64_t side, patch, grid; /* pixels of the image and of a patch; patches of a side */
    int64_t merged;            /* of Gemma 3: patches of the side of a square */
    const char *activation;
};

static void floats(struct builder *b, const char *name, const float *data, int64_t rows, int64_t columns)
{
    const int64_t dims[2] = { rows, columns };

    onnx_tensor(b->out, name, INLAY_FLOAT, rows == 1 ? dims + 1 : dims, rows == 1 ? 1 : 2, data,
                (size_t)(rows * columns) * sizeof *data);
}

static void whole(struct builder *b, const char *name, int64_t number)
{
    onnx_tensor(b->out, name, INLAY_INT64, NULL, 0, &number, sizeof number);
}

/* output = the input, [height, width, 3], resized along one axis to whole values from 0 to 255. sizes: those of the
 * output. */
static void resample(const struct vision *v, const char *name, const char *input, const char *sizes, const char *output)
{
    const onnx_attribute attributes[] = { { v->projector->gemma ? "mode=linear" : "mode=cubic", false, 0, 0 },
                                          { "cubic_coeff_a", true, 0, -0.5F },
                                          { "antialias", false, 1, 0 },
                                          { "exclude_outside", false, 1, 0 } };
    struct builder *b = v->b;
    char inputs[TEXT], exact[TEXT];

    (void)snprintf(inputs, sizeof inputs, "%s - - %s", input, sizes);
    (void)snprintf(exact, sizeof exact, "%s.exact", name);
    if (b->gguf->status == INLAY_OK)
        onnx_node(b->out, "Resize", inputs, exact, attributes, sizeof attributes / sizeof *attributes);
    gguf_builder_node(b, "Add", "%s.exact image.half -> %s.up", name, name);
    gguf_builder_node(b, "Floor", "%s.up -> %s.rounded", name, name);
    gguf_builder_node(b, "Clip", "%s.rounded image.darkest image.brightest -> %s", name, output);
}

/* image.resized: the pixels of the file, of whole values from 0 to 255, [height, width, 3] within the square. */
static void resize(const struct vision *v)
{
    struct builder *b = v->b;

    gguf_builder_scalar(b, "image.side", (double)v->side);
    gguf_builder_scalar(b, "image.half", 0.5);
    gguf_builder_scalar(b, "image.darkest", 0);
    gguf_builder_scalar(b, "image.brightest", 255);
    gguf_builder_list(b, "image.axes0", (int64_t[]){ 0 }, 1);
    gguf_builder_list(b, "image.axes1", (int64_t[]){ 1 }, 1);
    gguf_builder_list(b, "image.axes2", (int64_t[]){ 2 }, 1);
    gguf_builder_list(b, "image.colours", (int64_t[]){ 3 }, 1);
    gguf_builder_node(b, "ImageDecoder", "image -> image.decoded");
    gguf_builder_node(b, "Shape", "image.decoded -> image.shape");
    gguf_builder_node(b, "Slice", "image.shape image.axes0 image.axes2 -> image.size");
    gguf_builder_node_of(b, "Cast", "image.size", "image.size.float", "to", INLAY_FLOAT);
    gguf_builder_node(b, "Div", "image.side image.size.float -> image.scales");
    gguf_builder_node_of(b, "ReduceMin", "image.scales", "image.scale", "keepdims", 0);
    gguf_builder_node(b, "Mul", "image.size.float image.scale -> image.wanted");
    gguf_builder_node(b, "Ceil", "image.wanted -> image.whole");
    gguf_builder_node(b, "Min", "image.whole image.side -> image.fitted.float");
    gguf_builder_node_of(b, "Cast", "image.fitted.float", "image.fitted", "to", INLAY_INT64);
    gguf_builder_node(b, "Slice", "image.size image.axes0 image.axes1 -> image.height");
    gguf_builder_node(b, "Slice", "image.fitted image.axes0 image.axes1 -> image.fitted.height");
    gguf_builder_node(b, "Slice", "image.fitted image.axes1 image.axes2 -> image.fitted.width");
    gguf_builder_node_of(b, "Concat", "image.fitted.height image.fitted.width image.colours", "image.sizes", "axis", 0);
    gguf_builder_node_of(b, "Cast", "image.decoded", "image.pixels", "to", INLAY_FLOAT);
    gguf_builder_node_of(b, "Concat", "image.height image.fitted.width image.colours", "image.narrow.sizes", "axis", 0);
    resample(v, "image.row", "image.pixels", "image.narrow.sizes", "image.narrow");
    resample(v, "image.column", "image.narrow", "image.sizes", "image.resized");
}

/* Three numbers of an array, one for each colour. */
static void colours(struct builder *b, enum gguf_key key, const char *name, bool positive)
{
    const struct gguf_value *value = gguf_find(b->gguf, key);
    float numbers[3] = { 0 };

    if (value == NULL || value->count != 3) {
        gguf_fail_key(b->gguf, key, "lacks a number for each of the three colours in the key");
        return;
    }
    for (uint64_t i = 0; i < 3; i++) {
        numbers[i] = (float)gguf_item(value, i);
        if (!(numbers[i] >= (positive ? 1e-6F : -1e6F) && numbers[i] <= 1e6F))
            gguf_fail_key(b->gguf, key, "has a value that is out of range for the key");
    }
    floats(b, name, numbers, 1, 3);
}

/* image.normal: the square, [side, side, 3], in the numbers of the encoder. */
static void square(struct vision *v)
{
    struct builder *b = v->b;
    const int64_t used = v->grid * v->patch;

    colours(b, GGUF_IMAGE_MEAN, "image.mean", false);
    colours(b, GGUF_IMAGE_DEVIATION, "image.deviation", true);
    floats(b, "image.around", v->projector->around, 1, 3);
    whole(b, "image.side.whole", v->side);
    whole(b, "image.two", 2);
    gguf_builder_list(b, "image.none", (int64_t[]){ 0 }, 1);
    gguf_builder_node(b, "Sub", "image.resized image.around -> image.centred");
    gguf_builder_node(b, "Sub", "image.side.whole image.fitted -> image.left");
    gguf_builder_node(b, "Div", "image.left image.two -> image.before");
    gguf_builder_node(b, "Sub", "image.left image.before -> image.after");
    gguf_builder_node_of(b, "Concat", "image.before image.none image.after image.none", "image.pads", "axis", 0);
    gguf_builder_node(b, "Pad", "image.centred image.pads -> image.padded");
    gguf_builder_node(b, "Add", "image.padded image.around -> image.square");
    gguf_builder_node(b, "Div", "image.square image.brightest -> image.unit");
    gguf_builder_node(b, "Sub", "image.unit image.mean -> image.shifted");
    gguf_builder_node(b, "Div", "image.shifted image.deviation -> image.%s", used < v->side ? "normal.all" : "normal");
    if (used < v->side) { /* pixels beyond the last patch are not read */
        gguf_builder_list(b, "image.slice.from", (int64_t[]){ 0, 0 }, 2);
        gguf_builder_list(b, "image.slice.to", (int64_t[]){ used, used }, 2);
        gguf_builder_node(b, "Slice", "image.normal.all image.slice.from image.slice.to -> image.normal");
    }
}

/* output = input x the rows of a weight whose columns are all axes but the last one of the file. */
static void patch_product(struct vision *v, const char *input, const char *output)
{
    struct builder *b = v->b;
    struct gguf_tensor *tensor = gguf_tensor(b->gguf, "v.patch_embd.weight"), flat;
    const struct gguf_product product = { &flat, 0, b->width, "v.patch_embd.weight", NULL };

    if (tensor == NULL || tensor->rank != 4 || tensor->dims[0] != v->patch || tensor->dims[1] != v->patch ||
        tensor->dims[2] != 3 || tensor->dims[3] != b->width) {
        gguf_builder_refuse_tensor(b, "v.patch_embd.weight");
        return;
    }
    flat = *tensor;
    flat.rank = 2;
    flat.dims[0] = 3 * v->patch * v->patch;
    flat.dims[1] = b->width;
    if (gguf_type_of(tensor)->unpack != NULL)
        gguf_builder_refuse(b, INLAY_UNSUPPORTED, "has another type than F32, F16 and BF16 in", tensor->name);
    if (b->gguf->status == INLAY_OK)
        b->gguf->status = gguf_write_product(b->gguf, &product, input, output, b->out, b->gguf->diag);
}

/* patches: the rows of the patches, of the class if there is one, and the positions of all. Returns the number of
 * rows. */
static int64_t embed(struct vision *v)
{
    struct builder *b = v->b;
    const int64_t patches = v->grid * v->grid;
    const bool has_class = !v->projector->gemma && gguf_builder_has(b, "v.class_embd");
    struct gguf_tensor *positions = gguf_tensor(b->gguf, "v.position_embd.weight");
    const char *rows = "patch_rows";
    int64_t count = patches + has_class;

    gguf_builder_list(b, "patches.apart", (int64_t[]){ v->grid, v->patch, v->grid, v->patch, 3 }, 5);
    gguf_builder_list(b, "patches.joined", (int64_t[]){ 1, patches, 3 * v->patch * v->patch }, 3);
    gguf_builder_node(b, "Reshape", "image.normal patches.apart -> patches.cut");
    gguf_builder_node_of(b, "Einsum", "patches.cut", "patches.grid", "equation=yaxbc->yxcab", 0);
    gguf_builder_node(b, "Reshape", "patches.grid patches.joined -> patches.flat");
    patch_product(v, "patches.flat", "patch_rows");
    if (gguf_builder_has(b, "v.patch_embd.bias")) {
        gguf_builder_vector(b, "v.patch_embd.bias", b->width);
        gguf_builder_node(b, "Add", "patch_rows v.patch_embd.bias -> patch_rows.biased");
        rows = "patch_rows.biased";
    }
    if (has_class) {
        char inputs[TEXT];

        gguf_builder_list(b, "class.axes", (int64_t[]){ 0, 1 }, 2);
        gguf_builder_vector(b, "v.class_embd", b->width);
        gguf_builder_node(b, "Unsqueeze", "v.class_embd class.axes -> class.row");
        (void)snprintf(inputs, sizeof inputs, "%s class.row", rows);
        gguf_builder_node_of(b, "Concat", inputs, "class_and_patches", "axis", 1);
        rows = "class_and_patches";
    }
    if (positions == NULL || positions->rank != 2 || positions->dims[0] != b->width || positions->dims[1] < count)
        gguf_builder_refuse_tensor(b, "v.position_embd.weight");
    whole(b, "positions.first", 0);
    whole(b, "positions.step", 1);
    whole(b, "positions.count", count);
    gguf_builder_node(b, "Range", "positions.first positions.count positions.step -> positions");
    if (b->gguf->status == INLAY_OK)
        b->gguf->status = gguf_write_rows(b->gguf, positions, "positions", "position_rows", b->out, b->gguf->diag);
    gguf_builder_node(b, "Add", "%s position_rows -> placed", rows);
    return count;
}

static void activate(struct builder *b, const char *kind, const char *input, const char *output)
{
    if (strcmp(kind, "silu") == 0) {
        gguf_builder_node(b, "Sigmoid", "%s -> %s.sigmoid", input, input);
        gguf_builder_node(b, "Mul", "%s %s.sigmoid -> %s", input, input, output);
    } else if (strcmp(kind, "gelu") == 0) {
        gguf_builder_node(b, "com.microsoft.FastGelu", "%s -> %s", input, output);
    } else if (b->gguf->status == INLAY_OK) {
        onnx_node(b->out, "com.microsoft.QuickGelu", input, output, &(onnx_attribute){ "alpha", true, 0, 1.702F }, 1);
    }
}

/* output = the second product of the activated first one. Older files have their names exchanged. */
static void feed_forward(const struct vision *v, const char *layer, const char *input, const char *output)
{
    struct builder *b = v->b;
    char first[GGUF_NAME], second[GGUF_NAME], act[GGUF_NAME], weight[GGUF_NAME + 8];
    const struct gguf_tensor *down;

    (void)snprintf(first, sizeof first, "%sffn_up", layer);
    (void)snprintf(second, sizeof second, "%sffn_down", layer);
    (void)snprintf(act, sizeof act, "%sffn_act", layer);
    (void)snprintf(weight, sizeof weight, "%s.weight", second);
    down = gguf_tensor(b->gguf, weight);
    if (down != NULL && down->dims[0] == b->width && b->width != b->hidden) {
        (void)snprintf(first, sizeof first, "%sffn_down", layer);
        (void)snprintf(second, sizeof second, "%sffn_up", layer);
    }
    gguf_builder_linear(b, first, b->width, b->hidden, 0, b->hidden, input, first);
    activate(b, v->activation, first, act);
    gguf_builder_linear(b, second, b->hidden, b->width, 0, b->width, act, output);
}

static void write_layer(const struct vision *v, int64_t layer, const char *input, const char *output)
{
    static const char *const parts[] = { "attn_q", "attn_k", "attn_v" };
    struct builder *b = v->b;
    char prefix[32], name[GGUF_NAME], norm[GGUF_NAME], inputs[TEXT];

    (void)snprintf(prefix, sizeof prefix, "v.blk.%" PRId64 ".", layer);
    (void)snprintf(norm, sizeof norm, "%sln1", prefix);
    gguf_builder_layer_norm(b, norm, input, norm);
    for (int i = 0; i < 3; i++) {
        (void)snprintf(name, sizeof name, "%s%s", prefix, parts[i]);
        gguf_builder_linear(b, name, b->width, b->width, 0, b->width, norm, name);
    }
    gguf_builder_attention(b, prefix, NULL, input, "attn_out");
    (void)snprintf(inputs, sizeof inputs, "%sattn_out.sum", prefix);
    (void)snprintf(name, sizeof name, "%sln2", prefix);
    gguf_builder_layer_norm(b, name, inputs, name);
    (void)snprintf(norm, sizeof norm, "%sffn", prefix);
    feed_forward(v, prefix, name, norm);
    gguf_builder_node(b, "Add", "%s %s -> %s", inputs, norm, output);
}

/* LLaVA reads the layer before the last one, whose tensors files have nevertheless. */
static void leave_out(struct builder *b, int64_t layer)
{
    char prefix[32];
    const int bytes = snprintf(prefix, sizeof prefix, "v.blk.%" PRId64 ".", layer);

    bool found = false;

    for (uint64_t i = 0; i < b->gguf->tensor_count; i++) {
        const bool belongs = strncmp(b->gguf->tensors[i].name, prefix, (size_t)bytes) == 0;

        b->gguf->tensors[i].used |= belongs;
        found |= belongs;
    }
    if (!found)
        gguf_builder_refuse(b, INLAY_INVALID_MODEL, "lacks the tensors", prefix);
}

static void write_rows(struct builder *b, const char *input, int64_t width)
{
    char dims[TEXT];

    gguf_builder_list(b, "rows.shape", (int64_t[]){ -1, width }, 2);
    gguf_builder_node(b, "Reshape", "%s rows.shape -> image_rows", input);
    (void)snprintf(dims, sizeof dims, "image_tokens %" PRId64, width);
    onnx_value(b->out, ONNX_OUTPUT, "image_rows", INLAY_FLOAT, dims);
}

/* Gemma 3: the means of squares of patches, normalized, and their product. The file has the columns of its matrix as
 * rows. */
static void project_squares(const struct vision *v, const char *input)
{
    static const char product[] = "mm.input_projection.weight";
    struct builder *b = v->b;
    const struct gguf_tensor *matrix = gguf_tensor(b->gguf, product);
    const int64_t squares = v->grid / v->merged;

    if (matrix == NULL || matrix->rank != 2 || matrix->dims[1] != b->width || matrix->dims[0] > 1 << 24)
        gguf_builder_refuse_tensor(b, product);
    gguf_builder_list(b, "squares.apart", (int64_t[]){ squares, v->merged, squares, v->merged, b->width }, 5);
    gguf_builder_list(b, "squares.axes", (int64_t[]){ 1, 3 }, 2);
    gguf_builder_node(b, "Reshape", "%s squares.apart -> squares.patches", input);
    gguf_builder_node_of(b, "ReduceMean", "squares.patches squares.axes", "squares", "keepdims", 0);
    gguf_builder_rms_norm(b, "mm.soft_emb_norm.weight", b->width, "squares", "squares.normal");
    if (b->gguf->status != INLAY_OK)
        return;
    b->gguf->status = gguf_write_matrix(b->gguf, matrix, 0, b->width, product, b->out, b->gguf->diag);
    gguf_builder_node(b, "MatMul", "squares.normal %s -> squares.product", product);
    write_rows(b, "squares.product", matrix->dims[0]);
}

static void project(struct builder *b, const char *input)
{
    const struct gguf_tensor *first = gguf_tensor(b->gguf, "mm.0.weight"),
                             *second = gguf_tensor(b->gguf, "mm.2.weight");
    const int64_t hidden = first != NULL && first->rank == 2 ? first->dims[1] : 0;
    const int64_t width = second != NULL && second->rank == 2 ? second->dims[1] : hidden;

    if (hidden < 1 || hidden > 1 << 24)
        gguf_builder_refuse_tensor(b, "mm.0.weight");
    gguf_builder_linear(b, "mm.0", b->width, hidden, 0, hidden, input, "mm.0");
    activate(b, "gelu", "mm.0", "mm.act");
    if (second != NULL)
        gguf_builder_linear(b, "mm.2", hidden, width, 0, width, "mm.act", "mm.2");
    write_rows(b, second != NULL ? "mm.2" : "mm.act", width);
}

static void read_sizes(struct vision *v)
{
    struct builder *b = v->b;
    struct gguf *gguf = b->gguf;
    const struct gguf_text kind = gguf_string(gguf, GGUF_PROJECTOR), other = gguf_string(gguf, GGUF_VISION_PROJECTOR);
    const struct gguf_text projector = kind.data != NULL ? kind : other;
    const bool gelu = gguf_int(gguf, GGUF_GELU) != 0, silu = gguf_int(gguf, GGUF_SILU) != 0;

    if (gguf_int(gguf, GGUF_SOUND) != 0)
        gguf_fail_key(gguf, GGUF_SOUND, "encodes sound, which is not supported, by the key");
    if (gguf_int(gguf, GGUF_VISION) == 0)
        gguf_fail_key(gguf, GGUF_VISION, "has no vision part, by the key");
    for (size_t i = 0; i < sizeof projectors / sizeof *projectors; i++)
        if (gguf_text_is(projector, projectors[i].name))
            v->projector = &projectors[i];
    if (v->projector == NULL)
        gguf_fail_key(gguf, kind.data != NULL || other.data == NULL ? GGUF_PROJECTOR : GGUF_VISION_PROJECTOR,
                      "has another value than 'mlp' (LLaVA) and 'gemma3', which are supported, for the key");
    if (gguf_find(gguf, GGUF_IMAGE_SIZES) != NULL && gguf_find(gguf, GGUF_IMAGE_SIZES)->count > 0)
        gguf_fail_key(gguf, GGUF_IMAGE_SIZES, "divides images into tiles, which is not supported, by the key");
    if (gguf_find(gguf, GGUF_FEATURE_LAYERS) != NULL && gguf_find(gguf, GGUF_FEATURE_LAYERS)->count > 0)
        gguf_fail_key(gguf, GGUF_FEATURE_LAYERS, "states layers, which is not supported, by the key");
    if (gelu && silu)
        gguf_fail_key(gguf, GGUF_SILU, "has two activations, by the key");
    v->activation = gelu ? "gelu" : silu ? "silu" : "quick";
    v->side = gguf_builder_size(b, GGUF_IMAGE_SIDE, MAX_SIDE);
    v->patch = gguf_builder_size(b, GGUF_PATCH_SIDE, v->side);
    v->grid = v->patch > 0 ? v->side / v->patch : 0;
    if (v->projector != NULL && v->projector->gemma)
        v->merged = gguf_builder_size(b, GGUF_MERGED_PATCHES, MAX_SIDE);
    if (v->merged > 0 && v->grid % v->merged != 0)
        gguf_fail_key(gguf, GGUF_MERGED_PATCHES, "does not divide the patches of a side by the key");
    b->width = gguf_builder_size(b, GGUF_VISION_WIDTH, 1 << 20);
    b->hidden = gguf_builder_size(b, GGUF_VISION_HIDDEN, 1 << 24);
    b->heads = gguf_builder_size(b, GGUF_VISION_HEADS, MAX_HEADS);
    b->layers = gguf_builder_size(b, GGUF_VISION_LAYERS, MAX_LAYERS);
    b->epsilon = (float)gguf_float(gguf, GGUF_VISION_EPSILON);
    if (gguf->status == INLAY_OK && b->width % b->heads != 0)
        gguf_fail_key(gguf, GGUF_VISION_HEADS, "has heads that do not divide the width by the key");
    if (!(b->epsilon > 0))
        gguf_fail_key(gguf, GGUF_VISION_EPSILON, "has a value that is not positive for the key");
}

void gguf_write_vision(struct builder *b)
{
    struct vision v = { .b = b };
    char names[2][GGUF_NAME] = { "placed", "" };
    const char *last;
    int64_t count, layers;

    read_sizes(&v);
    if (b->gguf->status != INLAY_OK)
        return;
    layers = b->layers - !v.projector->gemma;
    onnx_value(b->out, ONNX_INPUT, "image", INLAY_UINT8, "file_bytes");
    resize(&v);
    square(&v);
    count = embed(&v);
    if (gguf_builder_has(b, "v.pre_ln.weight")) {
        gguf_builder_layer_norm(b, "v.pre_ln", "placed", "v.pre_ln");
        (void)snprintf(names[0], sizeof names[0], "%s", "v.pre_ln");
    }
    for (int64_t layer = 0; layer < layers && b->gguf->status == INLAY_OK; layer++) {
        (void)snprintf(names[(layer + 1) % 2], sizeof names[0], "layer.%" PRId64, layer);
        write_layer(&v, layer, names[layer % 2], names[(layer + 1) % 2]);
    }
    if (layers < b->layers)
        leave_out(b, layers);
    last = names[layers % 2];
    if (gguf_builder_has(b, "v.post_ln.weight")) {
        gguf_builder_layer_norm(b, "v.post_ln", last, "v.post_ln");
        last = "v.post_ln";
    }
    if (count > v.grid * v.grid) { /* the row of the class */
        gguf_builder_list(b, "class.end", &count, 1);
        gguf_builder_node(b, "Slice", "%s image.axes1 class.end image.axes1 -> encoded", last);
        last = "encoded";
    }
    if (v.projector->gemma)
        project_squares(&v, last);
    else
        project(b, last);
    b->image.begin = v.projector->begin;
    b->image.end = v.projector->end;
    b->image.whole = v.projector->gemma;
}
