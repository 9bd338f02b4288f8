/* gguf_vision.c - the graph of a vision part: an image is decoded, resized and split into patches, a vision transformer
 * (CLIP, SigLIP) reads these, and a projector makes rows of the width of the language model: two matrix multiplications
 * (LLaVA), means of squares of patches, a norm and one multiplication (Gemma 3), or one or two multiplications of
 * squares of patches (Idefics3, InternVL: gguf_vision_tiles.c). Images of any size: gguf_vision_grid.c.
 *
 * The preparation of images is that of llama.cpp: the image keeps its aspect ratio, is resized to the side of the
 * encoder, or to sides that suit it, first its rows, then its columns, as Pillow does (bilinear for Gemma 3, bicubic
 * for the others, rounded to whole values), and is centred on a colour. */
#include "formats/gguf_vision.h"
#include "formats/onnx_write.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_SIDE = 4096, MAX_TILED_SIDE = 1 << 14, MOST_TILES = 256 };

#define PROJECTOR_EPSILON 1e-5F /* of InternVL's norm; the encoder's key does not apply to it */
#define QWEN "<|vision_start|>", "<|vision_end|>"

static const struct projector projectors[] = {
    { .name = "mlp", .kind = PROJECTOR_PRODUCTS, .around = { 122, 116, 104 } },
    { "gemma3", "<start_of_image>", "<end_of_image>", PROJECTOR_MEANS, .most_rows = 0 },
    { .name = "idefics3", .kind = PROJECTOR_TILES }, /* each tile has texts, which the caller adds */
    { "internvl", "<img>", "</img>", PROJECTOR_SIZES, .most_rows = 0 },
    { "qwen2vl_merger", QWEN, PROJECTOR_GRID, .most_rows = 4096 },
    { "qwen2.5vl_merger", QWEN, PROJECTOR_WINDOWS, .most_rows = 4096, .rms = true },
    { "qwen3vl_merger", QWEN, PROJECTOR_STACK, .most_rows = 4096 },
    { .name = "pixtral", .end = "[IMG_END]", .kind = PROJECTOR_LINES, .most_rows = 1024, .rms = true },
};

enum { PROJECTORS = sizeof projectors / sizeof *projectors };

static bool has_tiles(const struct vision *v)
{
    return v->projector->kind == PROJECTOR_TILES || v->projector->kind == PROJECTOR_SIZES;
}

static void floats(struct builder *b, const char *name, const float *data, int64_t rows, int64_t columns)
{
    const int64_t dims[2] = { rows, columns };

    onnx_tensor(b->out, name, INLAY_FLOAT, rows == 1 ? dims + 1 : dims, rows == 1 ? 1 : 2, data,
                (size_t)(rows * columns) * sizeof *data);
}

/* image.resized: the pixels of the file, of whole values from 0 to 255, [height, width, 3] within image.target, the
 * height and width that the encoder reads. */
static void resize(const struct vision *v)
{
    struct builder *b = v->b;

    gguf_builder_program(b,
                         "0.5 > $.half;0 > $.darkest;255 > $.brightest;[0] > $.axes0;[1] > $.axes1;"
                         "[2] > $.axes2;[3] > $.colours;(2) > $.two;[0] > $.none;"
                         "ImageDecoder image > $.decoded;Shape $.decoded > $.shape;"
                         "Slice $.shape $.axes0 $.axes2 > $.size;Cast $.size > $.size.float to=1;"
                         "Cast $.decoded > $.pixels to=1;",
                         "image");
    if (v->projector->kind == PROJECTOR_TILES) {
        gguf_resize_to_tiles(v);
        return;
    }
    if (gguf_is_grid(v))
        gguf_write_grid_target(v);
    else if (v->projector->kind == PROJECTOR_SIZES)
        gguf_write_best_size(v);
    else
        floats(b, "image.target", (float[]){ (float)v->side, (float)v->side }, 1, 2);
    gguf_builder_program(b,
                         "Div $.target $.size.float > $.scales;ReduceMin $.scales > $.scale keepdims=0;"
                         "Mul $.size.float $.scale > $.wanted;Ceil $.wanted > $.whole;"
                         "Min $.whole $.target > $.fitted.float;Cast $.fitted.float > $.fitted to=7;"
                         "Slice $.size $.axes0 $.axes1 > $.height;"
                         "Slice $.fitted $.axes1 $.axes2 > $.fitted.width;"
                         "Concat $.fitted $.colours > $.sizes axis=0;"
                         "Concat $.height $.fitted.width $.colours > $.narrow.sizes axis=0;",
                         "image");
    gguf_resample(v, "image.pixels", "image.narrow.sizes", "image.narrow");
    gguf_resample(v, "image.narrow", "image.sizes", "image.resized");
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

/* output = the resized image, surrounded by a colour. */
static void surround(const struct vision *v, const char *output)
{
    struct builder *b = v->b;

    floats(b, "image.around", v->projector->around, 1, 3);
    gguf_builder_program(b,
                         "Sub image.resized image.around > image.centred;Cast image.target > image.target.whole to=7;"
                         "Sub image.target.whole image.fitted > image.left;Div image.left image.two > image.before;"
                         "Sub image.left image.before > image.after;"
                         "Concat image.before image.none image.after image.none > image.pads axis=0;"
                         "Pad image.centred image.pads > image.padded;Add image.padded image.around > $;",
                         output);
}

/* image.normal: what the encoder reads, [height, width, 3], or of each tile, in its numbers. */
static void square(const struct vision *v)
{
    struct builder *b = v->b;
    const bool sizes = v->projector->kind == PROJECTOR_SIZES, tiles = has_tiles(v);
    const int64_t used = gguf_is_grid(v) || tiles ? v->side : v->grid * v->patch;

    colours(b, GGUF_IMAGE_MEAN, "image.mean", false);
    colours(b, GGUF_IMAGE_DEVIATION, "image.deviation", true);
    if (sizes || !tiles)
        surround(v, sizes ? "image.surrounded" : "image.square");
    if (tiles)
        gguf_write_tiles(v);
    gguf_builder_program(b,
                         "Div image.square image.brightest > image.unit;Sub image.unit image.mean > image.shifted;"
                         "Div image.shifted image.deviation > image.$;",
                         used < v->side ? "normal.all" : "normal");
    if (used < v->side) { /* pixels beyond the last patch are not read */
        gguf_builder_numbers(b, "[0,0] > image.slice.from;[#,#] > image.slice.to;", (const int64_t[]){ used, used });
        gguf_builder_node(b, "Slice", "image.normal.all image.slice.from image.slice.to -> image.normal");
    }
}

/* patches: the rows of the patches, of the class if there is one, and the positions of all. Returns the number of
 * rows. */
static int64_t embed(struct vision *v)
{
    struct builder *b = v->b;
    const int64_t patches = v->grid * v->grid;
    const bool sizes = v->projector->kind == PROJECTOR_SIZES;
    const bool has_class = sizes || (v->projector->kind == PROJECTOR_PRODUCTS && gguf_builder_has(b, "v.class_embd"));
    struct gguf_tensor *positions = gguf_tensor(b->gguf, "v.position_embd.weight");
    const char *rows = "patch_rows";
    int64_t count = patches + has_class;

    gguf_builder_numbers(
        b, "[-1,#,#,#,#,3] > patches.apart;[-1,#,#] > patches.joined;(#) > positions.count;",
        (const int64_t[]){ v->grid, v->patch, v->grid, v->patch, patches, 3 * v->patch * v->patch, count });
    gguf_builder_program(b,
                         "Reshape $ patches.apart > patches.cut;"
                         "Einsum patches.cut > patches.grid equation=nyaxbc->nyxcab;"
                         "Reshape patches.grid patches.joined > patches.flat;",
                         "image.normal");
    gguf_write_patches(v, "v.patch_embd.weight", "patches.flat", "patch_rows");
    if (gguf_builder_has(b, "v.patch_embd.bias")) {
        gguf_builder_vector(b, "v.patch_embd.bias", b->width);
        gguf_builder_node(b, "Add", "patch_rows v.patch_embd.bias -> patch_rows.biased");
        rows = "patch_rows.biased";
    }
    if (has_class) {
        char inputs[TEXT];

        gguf_builder_vector(b, "v.class_embd", b->width);
        gguf_builder_program(b, "[0,1] > class.axes;Unsqueeze v.class_embd class.axes > class.row;", "");
        if (sizes) /* of each tile */
            gguf_builder_program(
                b,
                "[1] > class.one;Shape $ > class.shape;Slice class.shape image.axes0 image.axes1 > class.tiles;"
                "Concat class.tiles class.one class.one > class.sides axis=0;"
                "Expand class.row class.sides > class.rows;",
                rows);
        (void)snprintf(inputs, sizeof inputs, "%s class.row%s", rows, sizes ? "s" : "");
        gguf_builder_node_of(b, "Concat", inputs, "class_and_patches", "axis", 1);
        rows = "class_and_patches";
    }
    if (positions == NULL || positions->rank != 2 || positions->dims[0] != b->width || positions->dims[1] < count)
        gguf_builder_refuse_tensor(b, "v.position_embd.weight");
    gguf_builder_program(b,
                         "(0) > positions.first;(1) > positions.step;"
                         "Range positions.first positions.count positions.step > positions;",
                         "");
    if (b->gguf->status == INLAY_OK)
        b->gguf->status = gguf_write_rows(b->gguf, positions, "positions", "position_rows", b->out, b->gguf->diag);
    gguf_builder_node(b, "Add", "%s position_rows -> placed", rows);
    return count;
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
    gguf_builder_numbers(b, "[#,#,#,#,#] > squares.apart;[1,3] > squares.axes;",
                         (const int64_t[]){ squares, v->merged, squares, v->merged, b->width });
    gguf_builder_program(b,
                         "Reshape $ squares.apart > squares.patches;"
                         "ReduceMean squares.patches squares.axes > squares keepdims=0;",
                         input);
    gguf_builder_rms_norm(b, "mm.soft_emb_norm.weight", b->width, "squares", "squares.normal");
    if (b->gguf->status != INLAY_OK)
        return;
    b->gguf->status = gguf_write_matrix(b->gguf, matrix, 0, b->width, product, b->out, b->gguf->diag);
    gguf_builder_node(b, "MatMul", "squares.normal %s -> squares.product", product);
    gguf_write_image_rows(b, "squares.product", matrix->dims[0]);
}

/* Idefics3 and InternVL: squares of patches as one row each, and their product or products. */
static void project_tiles(const struct vision *v, const char *input)
{
    static const char product[] = "mm.model.fc", norm[] = "mm.model.mlp.0";
    struct builder *b = v->b;
    const int64_t squares = v->grid / v->merged, columns = v->merged * v->merged * b->width;
    const struct gguf_tensor *matrix;
    int64_t width;

    gguf_builder_numbers(
        b, "[-1,#,#,#,#,#] > squares.apart;[-1,#,#] > squares.joined;",
        (const int64_t[]){ squares, v->merged, squares, v->merged, b->width, squares * squares, columns });
    gguf_builder_program(b,
                         "Reshape $ squares.apart > squares.cut;Einsum squares.cut > squares.near "
                         "equation=nyaxbc->nyxabc;Reshape squares.near squares.joined > squares;",
                         input);
    if (v->projector->kind == PROJECTOR_SIZES) {
        b->epsilon = PROJECTOR_EPSILON;
        gguf_builder_layer_norm(b, norm, columns, "squares", norm);
        width = gguf_write_vision_products(v, "mm.model.mlp.1", "mm.model.mlp.3", columns, norm, product);
    } else {
        matrix = gguf_tensor(b->gguf, "mm.model.fc.weight");
        width = matrix != NULL && matrix->rank == 2 ? matrix->dims[1] : 0;
        if (width < 1 || width > 1 << 24)
            gguf_builder_refuse_tensor(b, "mm.model.fc.weight");
        gguf_builder_linear(b, product, columns, width, 0, width, "squares", product);
    }
    gguf_write_image_rows(b, product, width);
    if (v->projector->kind == PROJECTOR_TILES)
        onnx_value(b->out, ONNX_OUTPUT, "image_tiles", INLAY_INT64, "2");
}

/* The names of the projectors are those of the table. */
static void refuse_projector(struct gguf *gguf, enum gguf_key key)
{
    struct strbuf text = { 0 };

    strbuf_format(&text, gguf_find(gguf, key) != NULL ? "has another value than " : "lacks one of the values ");
    for (size_t i = 0; i < PROJECTORS; i++)
        strbuf_format(&text, "%s'%s'", i == 0 ? "" : i + 1 < PROJECTORS ? ", " : " and ", projectors[i].name);
    strbuf_format(&text, ", which are supported, for the key");
    gguf_fail_key(gguf, key, text.data != NULL ? text.data : "has a value that is not supported for the key");
    strbuf_deinit(&text);
}

static void read_tiles(struct vision *v)
{
    struct builder *b = v->b;

    if (gguf_find(b->gguf, GGUF_MERGED_PATCHES) == NULL)
        gguf_fail_key(b->gguf, GGUF_MERGED_PATCHES, "lacks the key");
    if (v->patch > 0 && v->side % v->patch != 0)
        gguf_fail_key(b->gguf, GGUF_PATCH_SIDE, "does not divide the side of a tile by the key");
    if (v->projector->kind == PROJECTOR_TILES) {
        v->longest = gguf_builder_size(b, GGUF_TILED_SIDE, MAX_TILED_SIDE);
        return;
    }
    v->most = gguf_builder_size(b, GGUF_MOST_TILES, MOST_TILES);
    v->fewest = gguf_builder_size(b, GGUF_FEWEST_TILES, v->most);
    if (v->fewest * v->fewest > v->most) /* both sides have as many */
        gguf_fail_key(b->gguf, GGUF_FEWEST_TILES, "has more tiles for each side than an image may have, by the key");
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
    for (size_t i = 0; i < PROJECTORS; i++)
        if (gguf_text_is(projector, projectors[i].name))
            v->projector = &projectors[i];
    if (v->projector == NULL) {
        refuse_projector(gguf, kind.data != NULL || other.data == NULL ? GGUF_PROJECTOR : GGUF_VISION_PROJECTOR);
        return;
    }
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
    if (has_tiles(v))
        read_tiles(v);
    if (v->projector->kind != PROJECTOR_TILES && gguf_int_or(gguf, GGUF_TILED_SIDE, 0) != 0)
        gguf_fail_key(gguf, GGUF_TILED_SIDE, "divides images into tiles, which is not supported, by the key");
    if (v->projector->kind == PROJECTOR_MEANS || has_tiles(v))
        v->merged = gguf_builder_size(b, GGUF_MERGED_PATCHES, MAX_SIDE);
    if (v->merged > 0 && v->grid % v->merged != 0)
        gguf_fail_key(gguf, GGUF_MERGED_PATCHES, "does not divide the patches of a side by the key");
    b->width = gguf_builder_size(b, GGUF_VISION_WIDTH, 1 << 20);
    b->hidden = gguf_builder_size(b, GGUF_VISION_HIDDEN, 1 << 24);
    b->heads = gguf_builder_size(b, GGUF_VISION_HEADS, MAX_HEADS);
    b->layers = gguf_builder_size(b, GGUF_VISION_LAYERS, MAX_LAYERS);
    b->epsilon = (float)gguf_float(gguf, GGUF_VISION_EPSILON);
    if (gguf->status == INLAY_OK && gguf_is_grid(v))
        gguf_read_grid(v);
    else if (gguf_int(gguf, GGUF_WINDOW_PATTERN) != 0)
        gguf_fail_key(gguf, GGUF_WINDOW_PATTERN, "has windows, which are not supported for its projector, by the key");
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
    layers = b->layers - (v.projector->kind == PROJECTOR_PRODUCTS);
    b->image.begin = v.projector->begin;
    b->image.end = v.projector->end;
    b->image.whole = v.projector->kind == PROJECTOR_MEANS;
    onnx_value(b->out, ONNX_INPUT, "image", INLAY_UINT8, "file_bytes");
    resize(&v);
    square(&v);
    if (gguf_is_grid(&v)) {
        gguf_write_grid(&v);
        return;
    }
    count = embed(&v);
    if (gguf_builder_has(b, "v.pre_ln.weight")) {
        gguf_builder_layer_norm(b, "v.pre_ln", b->width, "placed", "v.pre_ln");
        (void)snprintf(names[0], sizeof names[0], "%s", "v.pre_ln");
    }
    for (int64_t layer = 0; layer < layers && b->gguf->status == INLAY_OK; layer++) {
        (void)snprintf(names[(layer + 1) % 2], sizeof names[0], "layer.%" PRId64, layer);
        gguf_write_vision_layer(&v, layer, NULL, names[layer % 2], names[(layer + 1) % 2]);
    }
    if (layers < b->layers)
        leave_out(b, layers);
    last = names[layers % 2];
    if (gguf_builder_has(b, "v.post_ln.weight")) {
        gguf_builder_layer_norm(b, "v.post_ln", b->width, last, "v.post_ln");
        last = "v.post_ln";
    }
    if (count > v.grid * v.grid) { /* llama.cpp reads the rows from the second one on for LLaVA, without the class for
                                    * InternVL; the class is the last one */
        const int64_t first = v.projector->kind == PROJECTOR_PRODUCTS, end = v.grid * v.grid + first;

        gguf_builder_numbers(b, "[#] > class.first;[#] > class.end;", (const int64_t[]){ first, end });
        gguf_builder_node(b, "Slice", "%s class.first class.end image.axes1 -> encoded", last);
        last = "encoded";
    }
    if (v.projector->kind == PROJECTOR_MEANS)
        project_squares(&v, last);
    else if (has_tiles(&v))
        project_tiles(&v, last);
    else
        gguf_write_image_rows(b, "rows", gguf_write_vision_products(&v, "mm.0", "mm.2", b->width, last, "rows"));
}
